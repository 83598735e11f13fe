"""Context windows of models, as reported by their servers: when queried, and when a prompt was too long.

A local server loads a model with whatever window it was started with, which no table knows. Results are kept for the
daemon's lifetime.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from daemon.provider.anthropic_sign_in import DEFAULT_BASE_URL
from daemon.provider.editor_models import EDITORS
from daemon.provider.litellm import ollama_url
from daemon.provider.pricing import OLLAMA_WINDOW, model_info
from daemon.provider.side_questions import NotAnsweredError, json_from
from daemon.provider.vscode import FAMILY as VSCODE
from tools.json_access import array, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

_ASK_TIMEOUT_S = 5.0
_FIELDS = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio
    "context_length",  # OpenRouter, Together
    "context_window",  # Groq
    "max_context_length",  # Mistral
    "max_input_tokens",  # Anthropic
    "inputTokenLimit",  # Gemini
)
_LEAST = 256


class _Server(Struct, frozen=True):
    """Where a model is. Hashed with the model's name; keys are not part of it."""

    model: str
    base_url: str


class Windows(Struct):
    """The known context windows of servers."""

    _told: dict[_Server, int] = field(default_factory=dict[_Server, int])
    """Windows that servers reported when queried."""
    _limits: dict[_Server, int] = field(default_factory=dict[_Server, int])
    """Limits from errors about prompts that were too long. These are certain."""
    _asking: dict[_Server, asyncio.Task[None]] = field(default_factory=dict["_Server", "asyncio.Task[None]"])

    def window(self, model: str, env: Mapping[str, str], configured: int | None = None) -> int:
        """Return the tokens that ``provider/model`` takes. ``configured``: the user's setting, which goes before all
        but what the server said when a prompt was too long."""
        server = _server(model, env)
        window = configured or self._told.get(server) or model_info(model).context_window
        return min(window, self._limits.get(server, window))

    def window_is_assumed(self, model: str, env: Mapping[str, str], configured: int | None = None) -> bool:
        """Return whether ``window`` is only a guess: neither the user, nor the server, nor a table has told it."""
        server = _server(model, env)
        told = configured or server in self._told or server in self._limits
        return not told and model_info(model).window_assumed

    def learn(self, model: str, env: Mapping[str, str], limit: int) -> None:
        """A prompt was too long, and the server said how many tokens it takes."""
        self._limits[_server(model, env)] = limit

    def ask_window(self, model: str, env: Mapping[str, str]) -> None:
        """Ask the server in the background until it has answered. Only servers named by the environment are asked."""
        server = _server(model, env)
        known = self._asking.get(server)
        if known is not None and server.base_url == VSCODE and known.done() and server not in self._told:
            known = None  # there was no window then
        if known is not None or not server.base_url or server.base_url == DEFAULT_BASE_URL:
            return
        self._asking[server] = asyncio.create_task(self._ask(server, dict(env)))

    async def aclose(self) -> None:
        """Ask no more."""
        asking = [task for task in self._asking.values() if not task.done()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, server: _Server, env: Mapping[str, str]) -> None:
        try:
            async with asyncio.timeout(_ASK_TIMEOUT_S):
                found = await asked(server.model, server.base_url, env)
        except (NotAnsweredError, TimeoutError) as error:
            log.debug("the window of %s is not known: %s", server.model, error)
            status = error.status if isinstance(error, NotAnsweredError) else None
            if status is None or status >= 500:  # it is not up yet, so it is asked again with the next turn
                del self._asking[server]
            return
        if found is not None:
            self._told[server] = found


def _server(model: str, env: Mapping[str, str]) -> _Server:
    if model.startswith(f"{VSCODE}/"):
        return _Server(model, VSCODE)  # whichever window answers
    return _Server(model, base_url_of(model, env))


def base_url_of(model: str, env: Mapping[str, str]) -> str:
    """Return the server of a model that the environment names; empty when it is the provider's own."""
    family = model.partition("/")[0]
    if family == "ollama":
        return ollama_url(env)
    stem = family.upper().replace("-", "_")
    names = [f"{stem}_BASE_URL"] if family in ("anthropic", "openai") else []
    names.append(f"{stem}_API_BASE")
    url = next((found for name in names if (found := env.get(name, "").strip())), "")
    return url.rstrip("/") if url.startswith(("http://", "https://")) else ""


async def asked(model: str, base_url: str, env: Mapping[str, str]) -> int | None:
    """Query one server; None when its answer does not have it. Raises NotAnsweredError."""
    family, _, name = model.partition("/")
    if family == VSCODE:
        editor = EDITORS.editor(env)
        offered = await editor.models() if editor is not None else ()
        return next((one.window or None for one in offered if one.name == name), None)
    if family == "ollama":
        return shown_window(await json_from(f"{base_url}/api/show", body={"model": name}))
    path = "/v1/models" if family == "anthropic" else "/models"
    return listed_window(await json_from(f"{base_url}{path}", headers=headers_of(family, env)), name)


def headers_of(family: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that authorise a request for a list of models."""
    key = env.get(f"{family.upper().replace('-', '_')}_API_KEY", "").strip()
    if family == "anthropic":
        token = env.get("ANTHROPIC_AUTH_TOKEN", "").strip()
        headers = {"x-api-key": key} if key else {"Authorization": f"Bearer {token}"} if token else {}
        return {**headers, "anthropic-version": "2023-06-01"}
    return {"Authorization": f"Bearer {key}"} if key else {}


def listed_window(answer: object, name: str) -> int | None:
    """Return the window of a model in the answer of ``/v1/models``; of the only model there is, whatever its name."""
    entries = [mapping(entry) for entry in array(mapping(answer).get("data"))]
    only = entries[0] if len(entries) == 1 else {}
    return window_in(next((one for one in entries if one.get("id") == name), only))


def window_in(entry: dict[str, Any]) -> int | None:
    """Return the window in a model's entry of a list of models; None when it has none."""
    meta, top = mapping(entry.get("meta")), mapping(entry.get("top_provider"))
    candidates = [meta.get("n_ctx"), top.get("context_length"), *(entry.get(key) for key in _FIELDS)]
    # llama.cpp's training size is only an upper bound, but better than the guess for unknown models.
    return next(filter(None, map(_count, (*candidates, meta.get("n_ctx_train")))), None)


def shown_window(answer: object) -> int | None:
    """Return the window of the model in the answer of Ollama's ``/api/show``: it is loaded with no more than we ask
    for."""
    info = mapping(mapping(answer).get("model_info"))
    lengths = (_count(value) for key, value in info.items() if key.endswith(".context_length"))
    found = next(filter(None, lengths), None)
    return None if found is None else min(found, OLLAMA_WINDOW)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST else None
