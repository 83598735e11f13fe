"""Which model, and which provider reaches it (TEMPORARY by the lead; the provider developer's version replaces it)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from daemon.provider.base import Provider

_KNOWN = {
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "OLLAMA_HOST",
}


@dataclass(frozen=True, slots=True)
class Choice:
    model: str
    demo: bool = False
    notice: str = ""


def is_provider_variable(name: str) -> bool:
    return name in _KNOWN or name.endswith(("_API_KEY", "_API_BASE"))


def parse_model(model: str) -> tuple[str, str]:
    provider, slash, name = model.partition("/")
    if not (provider and slash and name):
        raise ValueError(f"{model!r} is not of the form provider/model.")
    return provider, name


async def default_model(
    env: Mapping[str, str], configured: str | None, ollama_probe: Callable[[str], Awaitable[str | None]] | None = None
) -> Choice:
    if configured:
        return Choice(configured, configured.startswith("demo/"))
    if env.get("ANTHROPIC_API_KEY") or env.get("ANTHROPIC_AUTH_TOKEN"):
        return Choice("anthropic/claude-sonnet-5-5")
    if env.get("OPENAI_API_KEY"):
        return Choice("openai/gpt-6-sol")
    return Choice("demo/demo", True, "No key found: the demo model answers.")


@lru_cache(maxsize=32)
def _provider(kind: str, detail: str) -> Provider:
    if kind == "anthropic":
        from daemon.provider.anthropic import AnthropicProvider

        return AnthropicProvider()
    if kind == "scripted":
        from daemon.provider.scripted import ScriptedProvider

        return ScriptedProvider(Path(detail))
    from daemon.provider.litellm import LiteLLMProvider

    return LiteLLMProvider(kind if kind in ("openai", "ollama") else "")


def provider_for(model: str) -> tuple[Provider, str]:
    kind, name = parse_model(model)
    if kind == "demo":
        from daemon.demo import script_path

        return _provider("scripted", str(script_path())), name
    if kind == "scripted":
        return _provider("scripted", "/" + name.lstrip("/")), name
    if kind in ("anthropic", "openai", "ollama"):
        return _provider(kind, ""), name
    return _provider("other", ""), model
