"""Changes a document where the person sees it: as a versioned edit of the editor, and then saved there.

``workspace/applyEdit`` is LSP's own, so the editor's undo works; for saving LSP has nothing, so the editor is asked
with ``goalwright/editor/save``. An editor that cannot do both is not asked, and the file stays as it is.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types

from tools.base import ToolError
from tools.diff import hunk_spans
from tools.open_files import EditorGone

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

    from lsp_bridge.documents import OpenDocument

_log = logging.getLogger(__name__)

EDITOR_SAVE = "goalwright/editor/save"
"""Request of the daemon to the editor: ``{"uri": …}`` → ``{"saved": bool}``."""
TIMEOUT_S = 20.0
"""An editor that formats on save may take a while."""
_NOTICE_S = 2.0
"""How long an editor that has applied an edit may take to tell of the document's change."""
_LINE_END = re.compile(r"\r\n|\n|\r")


AnswerT = TypeVar("AnswerT")


class _Left(Exception):
    """The editor went away while it was asked."""


class DocumentWriter:
    """Writes into the documents of one connection."""

    def __init__(
        self, server: LanguageServer, can_save: Callable[[], bool], gone: Callable[[], bool]
    ) -> None:
        """``gone``: whether the connection has ended."""
        self._server = server
        self._can_save = can_save
        self._gone = gone
        self._late: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Future[Any]] = set()

    def leave(self) -> None:
        """The connection has ended: nobody answers any more."""
        for waiting in list(self._asked):
            waiting.cancel()

    @property
    def can_write(self) -> bool:
        """The editor takes edits, and can save."""
        found = self._workspace()
        return found is not None and bool(found.apply_edit) and self._can_save()

    @property
    def can_move(self) -> bool:
        """The editor can rename files."""
        found = self._workspace()
        edits = None if found is None else found.workspace_edit
        operations = (edits.resource_operations if edits is not None else None) or ()
        return self.can_write and types.ResourceOperationKind.Rename in operations

    async def write(self, document: OpenDocument, before: str, after: str) -> None:
        """Turn ``before``, the text of ``document``, into ``after`` and save it.

        Raises EditorGone when the editor was not asked for anything, ToolError when it did not do it: then the
        document is as it was, or, when only the saving failed, has been put back.
        """
        if not self.can_write:
            raise ToolError(CANNOT.format(name=document.name))
        await self._apply(document, before, after)
        try:
            saved = await self._answer(asyncio.ensure_future(self._save(document.uri)))
        except TimeoutError:
            saved, why = False, f": it did not answer within {TIMEOUT_S:g} seconds"
        except _Left:
            saved, why = False, ""
        except Exception as error:  # an editor that does not know the request, or is gone: all the same
            saved, why = False, f": {error}"
        else:
            why = ""
        if saved:
            return
        if self._gone():
            raise ToolError(_WENT.format(name=document.name))
        await self._apply(document, after, before)
        raise ToolError(
            f"The editor could not save {document.name}{why}. Its text is as it was; nothing was written. "
            "Ask the person to save it, then read it again."
        )

    async def move(self, document: OpenDocument, source: Path, target: Path) -> None:
        """Rename the file of ``document`` on disk and in the editor. Raises like ``write``."""
        if not self.can_move:
            raise ToolError(CANNOT.format(name=document.name))
        # As the person opened it: perhaps through a link.
        old = document.uri if document.path == source else source.as_uri()
        rename = types.RenameFile(old, target.as_uri(), options=types.RenameFileOptions(overwrite=False))
        await self._ask([rename], document, lambda: self.move(document, target, source))

    async def _apply(self, document: OpenDocument, before: str, after: str) -> None:
        encoding = self._server.server_capabilities.position_encoding or types.PositionEncodingKind.Utf16
        edits = await asyncio.to_thread(text_edits, before, after, encoding)
        version = document.version
        if not document.known or document.text != before:
            raise ToolError(_MOVED.format(name=document.name))
        identifier = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=version)
        await self._ask(
            [types.TextDocumentEdit(identifier, edits)],
            document,
            lambda: self._apply(document, after, before),
        )
        # The editor tells the change itself, before or after its answer: who writes next must know the new version.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NOTICE_S):
                while document.version == version and not self._gone():
                    await document.next_change()

    async def _ask(
        self,
        changes: list[types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile],
        document: OpenDocument,
        undo: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        if self._gone():
            raise EditorGone(_WENT.format(name=document.name))
        params = types.ApplyWorkspaceEditParams(
            edit=types.WorkspaceEdit(document_changes=changes), label="Goalwright"
        )
        asked = asyncio.ensure_future(self._server.workspace_apply_edit_async(params))
        try:
            answer = await self._answer(asked)
        except TimeoutError as error:
            asked.add_done_callback(lambda done: self._came_late(done, undo))
            raise ToolError(_SILENT.format(name=document.name, seconds=TIMEOUT_S)) from error
        except _Left:
            raise ToolError(_WENT.format(name=document.name)) from None
        except asyncio.CancelledError:
            asked.add_done_callback(lambda done: self._came_late(done, undo))
            raise
        except Exception as error:  # a JSON-RPC error or a closed connection
            if self._gone():
                raise ToolError(_WENT.format(name=document.name)) from error
            raise ToolError(f"{_MOVED.format(name=document.name)} ({error})") from error
        if not answer.applied:
            reason = f" ({answer.failure_reason})" if answer.failure_reason else ""
            raise ToolError(_MOVED.format(name=document.name) + reason)

    async def _answer(self, asked: asyncio.Future[AnswerT]) -> AnswerT:
        """Raises TimeoutError, which leaves the request under way, and _Left."""
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        done, _ = await asyncio.wait([asked], timeout=TIMEOUT_S)
        if not done:
            raise TimeoutError
        if asked.cancelled():
            # Also by pygls, which gives up its requests when the client shuts down.
            raise _Left
        return asked.result()

    def _came_late(
        self,
        done: asyncio.Future[types.ApplyWorkspaceEditResult],
        undo: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """The model was told that nothing was changed: so it must not be."""
        if done.cancelled() or done.exception() is not None or not done.result().applied:
            return

        async def take_back() -> None:
            try:
                await undo()
            except ToolError as error:
                _log.warning("an edit that the editor applied late could not be taken back: %s", error)

        task = asyncio.ensure_future(take_back())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _save(self, uri: str) -> bool:
        answer: Any = await self._server.protocol.send_request_async(EDITOR_SAVE, {"uri": uri})
        return isinstance(answer, dict) and answer.get("saved") is True  # pyright: ignore[reportUnknownMemberType]  # JSON of a client

    def _workspace(self) -> types.WorkspaceClientCapabilities | None:
        return self._server.client_capabilities.workspace


CANNOT = (
    "{name} has unsaved changes in an editor that cannot be changed from here. Nothing was changed: ask the person "
    "to save or discard them, then read the file again."
)
_MOVED = (
    "{name} is open in the editor, which did not take the edit: perhaps its text changed. Nothing was written: read "
    "it again and redo the change."
)
_SILENT = (
    "{name} is open in the editor, which did not answer within {seconds:g} seconds. The file on disk is as it was. If "
    "the editor is stuck, ask the person to close {name} there; then read it again and redo the change."
)
_WENT = (
    "The editor that has {name} open went away. The file on disk is as it was, as far as is known: read it again and "
    "redo the change."
)


def text_edits(
    before: str, after: str, encoding: types.PositionEncodingKind | str
) -> list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit]:
    """The edits, hunk by hunk, that turn one text into the other; columns in units of the negotiated encoding."""
    starts = [0, *(found.end() for found in _LINE_END.finditer(before))]
    return [
        types.TextEdit(
            types.Range(_position(before, starts, start, encoding), _position(before, starts, end, encoding)),
            after[first:last],
        )
        for start, end, first, last in hunk_spans(before, after)
    ]


def _position(
    text: str, starts: Sequence[int], offset: int, encoding: types.PositionEncodingKind | str
) -> types.Position:
    line = bisect.bisect_right(starts, offset) - 1
    before = text[starts[line] : offset]
    if encoding == types.PositionEncodingKind.Utf32:
        return types.Position(line, len(before))
    if encoding == types.PositionEncodingKind.Utf8:
        return types.Position(line, len(before.encode("utf-8", "surrogatepass")))
    return types.Position(line, len(before.encode("utf-16-le", "surrogatepass")) // 2)
