"""The attached editors that can be asked something beyond what LSP has."""

from __future__ import annotations

import asyncio
import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct, field
from pydantic import ValidationError

from daemon.provider.editor_models import EditorModel, ModelEditor
from daemon.provider.side_questions import NotAnsweredError
from lsp_bridge.protocol.editor import EDITOR_MODELS, EditorModelsResult
from lsp_bridge.server.documents.open_documents import path_of
from lsp_bridge.server.editor_server import answer_or_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    Send = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


_MODELS_S = 5.0
"""Seconds for the list: VS Code may first start the extensions that have the models."""
_MOST_MODELS = 500
_LONGEST = 200
_LEAST_WINDOW = 256
"""A smaller window than this is an extension's mistake."""


class PeerGoneError(Exception):
    """The editor has hung up, or did not answer in time."""


def uri_in(opened: Sequence[str], folders: Sequence[str], path: Path) -> str:
    """Return the URI of ``path`` as the editor writes it: that of the open document, else one below the ``folders`` of
    its workspace, which may be symlinks to our paths."""
    for uri in opened:
        return uri
    for uri in folders:
        folder = path_of(uri)
        if folder is not None and folder in path.parents:
            return f"{uri.rstrip('/')}/{quote(os.fsencode(path.relative_to(folder).as_posix()))}"
    return path.as_uri()


class EditorPeer(Struct, eq=False):
    """One attached editor that answers ``goalwright/editor/diagnostics``."""

    name: str
    """For people and the model, e.g. ``VS Code``."""
    send: Send
    """Sends a request and waits for its unvalidated result; raises the errors of the connection."""
    uri_of: Callable[[Path], str] = Path.as_uri
    """How this editor writes the address of a file: it may have the workspace open by a symlink."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        """Return the result, unchecked. Raises PeerGoneError after ``timeout_s`` seconds, or when the editor leaves or
        refuses."""
        if self.gone.is_set():
            raise PeerGoneError(f"{self.name} has gone")
        answer = asyncio.ensure_future(self.send(method, params))
        # The answer may still arrive, or fail, when nothing waits for it any more.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        await answer_or_end(answer, self.gone, timeout_s)
        if not answer.done():
            raise PeerGoneError(f"{self.name} did not answer")
        if (error := answer.exception()) is not None:
            raise PeerGoneError(f"{self.name} refused: {error}")
        return answer.result()


class EditorPeers(Struct):
    """All of them, in the order in which they came."""

    peers: list[EditorPeer] = field(default_factory=list[EditorPeer])
    changes: int = 0
    """Rises when an editor comes or goes: cached facts about the others are then invalid."""

    def add(self, peer: EditorPeer) -> None:
        """Add an editor that can be asked."""
        self.peers.append(peer)
        self.changes += 1

    def remove(self, peer: EditorPeer) -> None:
        """Remove an editor; waits for it end."""
        peer.gone.set()
        if peer in self.peers:
            self.peers.remove(peer)
            self.changes += 1


def editor_with_models(send: Send, write: Callable[[bytes], None]) -> ModelEditor:
    """Return an attached editor whose extensions offer language models.

    ``send`` sends a request and waits for its unvalidated result; ``write`` sends an encoded message.
    """

    async def ask(
        chat_id: str, model: str, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
    ) -> None:
        # A conversation may have megabytes.
        write(await asyncio.to_thread(_chat, chat_id, model, messages, tools))

    def cancel(chat_id: str) -> None:
        write(_message("goalwright/editor/chatCancel", _dumped({"chatId": chat_id})))

    return ModelEditor(partial(_models, send), ask, cancel)


async def _models(send: Send) -> tuple[EditorModel, ...]:
    """Return the models that an editor offers now. Raises NotAnsweredError."""
    try:
        answer = await EditorPeer("the editor", send).ask(EDITOR_MODELS, {}, _MODELS_S)
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
