"""Which environment variables choose and open model providers. Light, because every client imports it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_KNOWN = frozenset(
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "OLLAMA_HOST",
    ]
)
_FAMILY = re.compile(r"[A-Z][A-Z0-9_]*_API_(KEY|BASE)")


def is_provider_variable(name: str) -> bool:
    """Whether a client may hand this environment variable to the daemon for its model calls."""
    return name in _KNOWN or _FAMILY.fullmatch(name) is not None


def provider_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that choose and open model providers, as users of their SDKs know them."""
    return {name: value for name, value in environ.items() if is_provider_variable(name)}


def without_provider_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The other variables: what a daemon is started with.

    The environment of a process can be read by all other processes of its user (``/proc/<pid>/environ``), the
    commands of a model among them. Clients hand their keys over in ``initialize`` instead.
    """
    return {name: value for name, value in environ.items() if not is_provider_variable(name)}
