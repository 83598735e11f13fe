"""Choose the model, and the provider that reaches it. Imports no SDK."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from daemon import demo
from daemon.provider.anthropic import AnthropicProvider
from daemon.provider.anthropic_sign_in import Credential
from daemon.provider.errors import shown_url
from daemon.provider.litellm import LiteLLMProvider, ollama_url
from daemon.provider.model_calls import Provider, ProviderError
from daemon.provider.side_questions import NotAnsweredError, json_from
from daemon.provider.variables import CLAUDE_KEYS, OPENAI_KEY
from daemon.provider.variables import is_provider_variable as is_provider_variable
from daemon.provider.vscode import FAMILY as VSCODE
from daemon.provider.vscode import VSCodeProvider
from tools.localization import noted, t

ANTHROPIC_DEFAULT = "anthropic/claude-sonnet-5-5"
OPENAI_DEFAULT = "openai/gpt-6.1-sol"
DEMO = "demo/demo"

HOW_TO_CONNECT = noted(
    "To use a real model, run the command Goalwright: Connect a Model… in VS Code, or set ANTHROPIC_API_KEY "
    "or OPENAI_API_KEY (or start Ollama) and reload."
)
ANOTHER_MODEL = noted(
    "To use another one, choose it in the settings, or set ANTHROPIC_API_KEY or OPENAI_API_KEY and reload."
)
_PROBE_TIMEOUT_S = 0.3
_CODERS = re.compile(r"coder|code|devstral|gpt-oss|qwen3|llama3\.[1-9]|mistral", re.IGNORECASE)
_NO_CHAT = re.compile(r"embed|bge-|minilm|rerank|ocr", re.IGNORECASE)


class ModelChoice(Struct, frozen=True):
    """A model for a new session. ``notice``: a message for the user about it, or empty."""

    model: str
    demo: bool = False
    notice: str = ""


OllamaProbe = Callable[[Mapping[str, str]], Awaitable[list[str] | None]]
"""Names of the models that Ollama has, or None when it does not answer."""


def parse_model(model: str) -> tuple[str, str]:
    """Provider and rest of ``provider/model``. Raises ValueError when it is not of that form."""
    provider, slash, name = model.strip().partition("/")
    if not (provider and slash and name):
        raise ValueError(
            t(
                "Unknown model {model!r}. Use provider/model, for example {anthropic_default}.",
                model=model,
                anthropic_default=ANTHROPIC_DEFAULT,
            )
        )
    return provider, name


async def default_model(
    env: Mapping[str, str], configured: str | None = None, ollama_probe: OllamaProbe | None = None
) -> ModelChoice:
    """Return the model of a new session: the configured one, else one that the environment gives access to, else the
    demo."""
    if configured:
        return ModelChoice(configured, configured.startswith("demo/"))
    if any(env.get(name) for name in CLAUDE_KEYS):
        return ModelChoice(ANTHROPIC_DEFAULT)
    if env.get(OPENAI_KEY):
        return ModelChoice(OPENAI_DEFAULT)
    found = await (ollama_probe or ollama_models)(env)
    name = best_local_model(found or [])
    if name is not None:
        return ModelChoice(
            f"ollama/{name}",
            False,
            t(
                "Using the local model {name} of Ollama. {another_model}",
                name=name,
                another_model=t(ANOTHER_MODEL),
            ),
        )
    how = t(HOW_TO_CONNECT)
    if url := env.get("OPENAI_BASE_URL", "").strip() or env.get("OPENAI_API_BASE", "").strip():
        how = t(
            "A server is set ({url}), but no model. Choose one with `--model openai/NAME`, or in the "
            "settings.",
            url=shown_url(url),
        )
    notice = t("This is the built-in demo: a script, not a real model. {how}", how=how)
    if found is not None:
        notice += t(" Ollama is running but has no model yet. Get one with `ollama pull qwen3-coder`.")
    return ModelChoice(DEMO, True, notice)


def best_local_model(names: list[str]) -> str | None:
    """Return the first model that is known to write code and call tools, else the first that can chat."""
    able = [name for name in names if not _NO_CHAT.search(name)]
    return next((name for name in able if _CODERS.search(name)), able[0] if able else None)


async def ollama_models(env: Mapping[str, str]) -> list[str] | None:
    """Ask Ollama which models it has. None when nothing answers within 0.3 seconds."""
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            body = await json_from(f"{ollama_url(env)}/api/tags")
        listed = cast("list[dict[str, Any]]", body["models"])
        return [str(model["name"]) for model in listed]
    except (NotAnsweredError, KeyError, TypeError, TimeoutError):
        return None  # nothing there, or not Ollama


_made: dict[str, Provider] = {}


def provider_for(model: str) -> tuple[Provider, str]:
    """Return the provider of ``provider/model``, and the name it knows the model by. Raises ProviderError.

    Providers are made once in a process, so that their connections are used again.
    """
    try:
        family, name = parse_model(model)
    except ValueError as error:
        raise ProviderError("bad_request", str(error)) from error
    match family:
        case "anthropic":
            return _once(family, AnthropicProvider), name
        case "openai" | "ollama" | "custom":
            return _once(family, lambda: LiteLLMProvider(family)), name
        case _ if family == VSCODE:
            return _once(family, VSCodeProvider), name
        case "demo":
            return _once(family, lambda: _scripted(demo.script_path())), name
        case "scripted":
            # "scripted//tmp/x.json" and "scripted/C:/x.json" are as good as "scripted/tmp/x.json".
            path = Path(name) if Path(name).is_absolute() else Path("/", name)
            return _once(f"scripted/{path}", lambda: _scripted(path)), name
        case _:
            return _once("litellm", LiteLLMProvider), model.strip()


def _scripted(path: Path) -> Provider:
    from daemon.provider.scripted import ScriptedProvider  # its models are for demos, and 4 ms of a start

    return ScriptedProvider(path)


def access_problem(model: str, env: Mapping[str, str]) -> str:
    """Return why no call of ``provider/model`` can be made, e.g. that there is no key; empty: it can."""
    try:
        provider, name = provider_for(model)
        if isinstance(provider, AnthropicProvider):
            Credential.of(env)
        elif isinstance(provider, LiteLLMProvider):
            provider.check(name, env)
    except ProviderError as error:
        return str(error)
    return ""


async def aclose() -> None:
    """Close all connections."""
    providers = list(_made.values())
    _made.clear()
    for provider in providers:
        if isinstance(provider, AnthropicProvider):
            await provider.aclose()


def _once(key: str, make: Callable[[], Provider]) -> Provider:
    if key not in _made:
        _made[key] = make()
    return _made[key]
