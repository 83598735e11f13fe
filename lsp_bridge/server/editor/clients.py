"""The attached editors that can be asked something beyond what LSP has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lsp_bridge.server.documents.open_documents import path_of
from lsp_bridge.server.editor_server import answer_or_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence


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
            return f"{uri.rstrip('/')}/{quote(path.relative_to(folder).as_posix())}"
    return path.as_uri()


@dataclass(slots=True, eq=False)
class EditorPeer:
    """One attached editor that answers ``goalwright/editor/diagnostics``."""

    name: str
    """For people and the model, e.g. ``VS Code``."""
    send: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
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


@dataclass(slots=True)
class EditorPeers:
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
