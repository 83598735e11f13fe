"""The files of an editor with its unsaved text: read from it, and written through it.

The protocol has no news of open documents, so the daemon asks for a file before it reads or changes it. What differs
from the disk is reported to the daemon as an open document of LSP, so that one implementation knows unsaved text.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from acp.exceptions import RequestError
from pydantic import ValidationError

from lsp_bridge.cli.client import ConnectionLostError
from lsp_bridge.protocol.editor import EDITOR_OPEN, EDITOR_SAVE
from lsp_bridge.server.documents.open_text import OpenText, PartChange
from tools.json_access import integer, mapping, mappings, string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable

    from acp.interfaces import Client as Editor

    from lsp_bridge.cli.client import Client

log = logging.getLogger(__name__)

_APPLY = "workspace/applyEdit"
ANSWER_S = 15.0
"""Seconds for the editor to read a file. The daemon gives up after 20."""
MAX_BYTES = 16 * 1024 * 1024
"""A longer file counts as it is on disk."""


class EditorFiles:
    """The documents of one folder. ``session_id`` names a session that is open there, for reading and writing in its
    name; empty when there is none. ``tell``: takes a text for the user."""

    def __init__(
        self, editor: Editor, workspace: Path, session_id: Callable[[], str], tell: Callable[[str], None]
    ) -> None:
        self._editor = editor
        self._session_id = session_id
        self._workspace = workspace
        self._client: Client | None = None
        self._open: dict[str, tuple[int, str]] = {}
        """Version and text of the documents that were reported, by URI."""
        self._tell_user = tell
        self._is_silent = False
        """The editor has not answered in this turn."""

    def attached(self, client: Client) -> None:
        """Report to this connection from now on."""
        self._client = client
        self._open.clear()

    def ask_again(self) -> None:
        """Ask the editor again, because a turn begins: it may answer now."""
        self._is_silent = False

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a request of the daemon; None when the method is another one."""
        if method == EDITOR_OPEN:
            await self._report(string(params.get("uri")))
            return {}
        if method == EDITOR_SAVE:
            return {"saved": True}  # writing a text saves it
        if method == _APPLY:
            return await self._apply(mapping(params.get("edit")))
        return None

    async def _report(self, uri: str) -> None:
        text = await self._unsaved(uri)
        known = self._open.get(uri)
        if self._is_silent:
            return  # unsaved text that it has told before is not given up
        if text is None:
            if known is not None:
                del self._open[uri]
                await self._tell("textDocument/didClose", {"textDocument": {"uri": uri}})
        elif known is None:
            self._open[uri] = 1, text
            document = {"uri": uri, "languageId": "plaintext", "version": 1, "text": text}
            await self._tell("textDocument/didOpen", {"textDocument": document})
        elif known[1] != text:
            await self._changed(uri, known[0] + 1, text)

    async def _unsaved(self, uri: str) -> str | None:
        """Return the text of a file in the editor; None when it is that on disk, or the editor does not tell."""
        session_id, place = self._session_id(), self._place(uri)
        if self._is_silent or not session_id or not place:
            return None
        on_disk = await asyncio.to_thread(_text, _path(uri))
        if on_disk is None:
            return None
        try:
            async with asyncio.timeout(ANSWER_S):
                text = (await self._editor.read_text_file(session_id, place)).content
        except TimeoutError:
            if not self._is_silent:
                self._is_silent = True
                words = t(
                    "The editor does not answer when it is asked for a file. For the rest of this turn, files "
                    "count as they are on disk."
                )
                self._tell_user(words)
            return None
        except (RequestError, ConnectionError, ValidationError) as error:
            log.info("the editor did not read %s: %s", place, error)
            return None
        return None if _lines(text) == _lines(on_disk) else text

    def _place(self, uri: str) -> str:
        """Return the path as the editor names it, whose folder may be a link; empty outside the folder."""
        path, folder = _path(uri), self._workspace.resolve()
        return str(self._workspace / path.relative_to(folder)) if path.is_relative_to(folder) else ""

    async def _apply(self, edit: dict[str, Any]) -> dict[str, Any]:
        changes = mappings(edit.get("documentChanges"))
        document = mapping(changes[0].get("textDocument")) if len(changes) == 1 else {}
        uri = string(document.get("uri"))
        known = self._open.get(uri)
        if known is None or known[0] != integer(document.get("version")):
            return {"applied": False, "failureReason": "the document has changed"}
        version, before = known
        if await self._unsaved(uri) != before:
            await self._report(uri)
            return {"applied": False, "failureReason": "the document has changed"}
        after = edited(before, mappings(changes[0].get("edits")))
        try:
            await self._editor.write_text_file(self._session_id(), self._place(uri), after)
        except (RequestError, ConnectionError, ValidationError) as error:
            return {"applied": False, "failureReason": str(error)}
        await self._changed(uri, version + 1, after)
        await self._tell("textDocument/didSave", {"textDocument": {"uri": uri}})
        return {"applied": True}

    async def _changed(self, uri: str, version: int, text: str) -> None:
        self._open[uri] = version, text
        document = {"uri": uri, "version": version}
        await self._tell(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]}
        )

    async def _tell(self, method: str, params: dict[str, Any]) -> None:
        if self._client is not None:
            try:
                await self._client.notify(method, params)
            except ConnectionLostError as error:
                log.info("the daemon is gone: %s", error)


def edited(text: str, edits: list[dict[str, Any]]) -> str:
    """Return the text after edits of LSP, whose columns count UTF-16 units. Edits do not overlap."""
    places = [mapping(edit.get("range")) for edit in edits]
    spans = [(_position(place.get("start")), _position(place.get("end"))) for place in places]
    changes = [
        PartChange(*span, string(edit.get("newText"))) for span, edit in zip(spans, edits, strict=True)
    ]
    return OpenText(text).changed(sorted(changes, reverse=True, key=lambda one: one[:2])).text


def _position(place: object) -> tuple[int, int]:
    return integer(mapping(place).get("line")), integer(mapping(place).get("character"))


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def _text(path: Path) -> str | None:
    """Return the text of a file; None when it is none that an editor could have changed."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


def _lines(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
