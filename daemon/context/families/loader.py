"""Find the family of a model by its name, and load the prompt of that family."""

from __future__ import annotations

import functools
import importlib.resources
import re
from typing import Literal, get_args

Family = Literal["claude", "gpt", "gemini", "deepseek", "qwen", "other"]
FAMILIES: tuple[Family, ...] = get_args(Family)
SMALL_BILLIONS = 40.0
"""Parameters up to which a model needs the advice for small ones."""

_START = r"(?<![a-z0-9])"
_NAMES: tuple[tuple[Family, re.Pattern[str]], ...] = (
    ("claude", re.compile("claude")),
    ("gpt", re.compile(rf"{_START}(chat)?gpt|{_START}codex|{_START}o[1-9](?![a-z0-9])|davinci")),
    ("gemini", re.compile("gemini")),
    ("deepseek", re.compile("deepseek")),
    ("qwen", re.compile(rf"qwen|{_START}qwq|{_START}qvq")),
    ("other", re.compile(
        rf"gemma|llama|[a-z]tral(?![a-z])|glm|kimi|minimax|grok|command-r|granite|nemotron|jamba|falcon|olmo|hermes"
        rf"|{_START}(nova|yi|phi|seed|ernie|hunyuan)(?![a-z])"
    )),
)  # fmt: skip
_PROVIDERS: dict[str, Family] = {
    # Only for providers with which a custom name (a deployment, an alias) can only mean such a model.
    "anthropic": "claude",
    "azure": "gpt",
    "chatgpt": "gpt",
    "gemini": "gemini",
    "deepseek": "deepseek",
    "dashscope": "qwen",
}
_SCRIPTS = ("demo", "scripted")
_LOCAL = frozenset({"ollama", "ollama_chat", "lm_studio", "llamafile", "llamacpp", "docker_model_runner"})
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])")


def family_of(model: str) -> Family:
    """Return the family of ``provider/model``, also behind routers such as ``openrouter/anthropic/claude-…``.

    The name itself decides, its last segment first; then the provider. Unknown ones are ``other``.
    """
    segments = model.strip().lower().split("/")
    if segments[0] in _SCRIPTS:
        return "other"
    for segment in reversed(segments[1:] or segments):
        if (family := _named(segment)) is not None:
            return family
    return _PROVIDERS.get(segments[0], "other")


def is_small(model: str) -> bool:
    """Return whether the model has few parameters: by the size in its name, else whether it runs on the user's
    machine."""
    provider, _, name = model.strip().lower().partition("/")
    sizes = [int(count or 1) * float(size) for count, size in _SIZE.findall(name)]
    if sizes:
        return max(sizes) <= SMALL_BILLIONS
    return provider in _LOCAL and not name.endswith("cloud")


def provider_prompt(model: str) -> str:
    """Return the provider layer for ``provider/model``."""
    text = shipped_text(f"families/{family_of(model)}")
    return f"{text}\n{shipped_text('families/small')}" if is_small(model) else text


@functools.cache
def shipped_text(name: str) -> str:
    """Return a text of this package by its path in it, without the ending."""
    return importlib.resources.files("daemon.context").joinpath(f"{name}.md").read_text("utf-8").strip()


def _named(segment: str) -> Family | None:
    """Return the family whose name comes first: a distillate is named after its teacher, then after its base."""
    found: Family | None = None
    first = len(segment)
    for family, pattern in _NAMES:
        if (hit := pattern.search(segment)) is not None and hit.start() < first:
            found, first = family, hit.start()
    return found
