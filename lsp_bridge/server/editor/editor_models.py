"""An attached editor whose extensions offer language models: a ``ModelEditor`` of ``daemon.provider``."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING, Any

from daemon.provider.editor_models import EditorModel
from daemon.provider.side_questions import NotAnsweredError
from lsp_bridge.server.editor.clients import EditorPeer, PeerGoneError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

_MODELS_S = 5.0
"""Seconds for the list: VS Code may first start the extensions that have the models."""
_MOST_MODELS = 500
_LONGEST = 200
_LEAST_WINDOW = 256
"""A smaller window than this is an extension's mistake."""


class EditorWithModels:
    """One connection."""

    def __init__(
        self, send: Callable[[str, Mapping[str, Any]], Awaitable[Any]], write: Callable[[bytes], None]
    ) -> None:
        """``send`` sends a request and waits for its unvalidated result; ``write`` sends an encoded message."""
        self.id = secrets.token_hex(8)
        self._send = send
        self._write = write

    async def models(self) -> tuple[EditorModel, ...]:
        """Return the models that it offers now. Raises NotAnsweredError."""
        from pydantic import ValidationError

        from lsp_bridge.protocol.editor import EDITOR_MODELS, EditorModelsResult

        try:
            answer = await EditorPeer("the editor", self._send).ask(EDITOR_MODELS, {}, _MODELS_S)
            listed = EditorModelsResult.model_validate(answer).models
        except PeerGoneError as error:
            raise NotAnsweredError("the editor did not list its models") from error
        except ValidationError as error:
            raise NotAnsweredError("the editor's list of models is not valid") from error
        found: dict[str, EditorModel] = {}
        for one in listed[:_MOST_MODELS]:
            name = f"{one.vendor}/{one.id}"
            if one.vendor and one.id and len(name) <= _LONGEST and name.isprintable():
                label = "".join(filter(str.isprintable, one.name))[:_LONGEST]
                window = one.max_input_tokens if one.max_input_tokens >= _LEAST_WINDOW else 0
                found.setdefault(name, EditorModel(name, label, window, one.tools is not False))
        return tuple(found.values())

    async def ask(
        self, chat_id: str, model: str, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
    ) -> None:
        """Have a model answer."""
        # A conversation may have megabytes.
        self._write(await asyncio.to_thread(_chat, chat_id, model, messages, tools))

    def cancel(self, chat_id: str) -> None:
        """Nothing more of this answer is wanted."""
        self._write(_message("goalwright/editor/chatCancel", _dumped({"chatId": chat_id})))


def _chat(
    chat_id: str, model: str, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
) -> bytes:
    """Return the encoded notification. Messages are encoded one by one: meanwhile the event loop gets its turns."""
    names = _dumped({"chatId": chat_id, "model": model})[:-1]
    params = b'%s,"messages":%s,"tools":%s}' % (names, _list(messages), _list(tools))
    return _message("goalwright/editor/chat", params)


def _list(items: Iterable[dict[str, Any]]) -> bytes:
    return b"[%s]" % b",".join([_dumped(item) for item in items])


def _message(method: str, params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","method":"%s","params":%s}' % (method.encode(), params)


def _dumped(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
