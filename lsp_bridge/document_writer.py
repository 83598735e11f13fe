"""Changes a document where the person sees it: as a versioned edit of the editor, and then saved there.

``workspace/applyEdit`` is LSP's own, so the editor's undo works; for saving LSP has nothing, so the editor is asked
with ``goalwright/editor/save``. An editor that cannot do both is not asked, and the file stays as it is.
"""

from __future__ import annotations

import asyncio
import bisect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from tools.base import ToolError
from tools.diff import hunk_spans

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer
    from pygls.workspace import TextDocument

EDITOR_SAVE = "goalwright/editor/save"
"""Request of the daemon to the editor: ``{"uri": …}`` → ``{"saved": bool}``."""
TIMEOUT_S = 20.0
"""An editor that formats on save may take a while."""
_LINE_END = re.compile(r"\r\n|\n|\r")


class DocumentWriter:
    """Writes into the documents of one connection."""

    def __init__(self, server: LanguageServer, can_save: Callable[[], bool]) -> None:
        self._server = server
        self._can_save = can_save

    async def write(self, document: TextDocument, before: str, after: str) -> None:
        """Turn ``before``, the text of ``document``, into ``after`` and save it.

        Raises ToolError: then the document is as it was, or, when only the saving failed, has been put back.
        """
        capabilities = self._server.client_capabilities.workspace
        if capabilities is None or not capabilities.apply_edit or not self._can_save():
            raise ToolError(_CANNOT.format(name=document.filename))
        await self._apply(document, before, after)
        try:
            saved = await asyncio.wait_for(self._save(document.uri), TIMEOUT_S)
        except Exception as error:  # an editor that does not know the request, or is gone: all the same
            saved, why = False, f": {error}"
        else:
            why = ""
        if not saved:
            await self._apply(document, after, before)
            raise ToolError(
                f"The editor could not save {document.filename}{why}. Its text is as it was; nothing was written. "
                "Ask the person to save it, then read it again."
            )

    async def _apply(self, document: TextDocument, before: str, after: str) -> None:
        encoding = self._server.server_capabilities.position_encoding or types.PositionEncodingKind.Utf16
        edits = await asyncio.to_thread(text_edits, before, after, encoding)
        version = document.version
        if document.source != before:
            raise ToolError(_MOVED.format(name=document.filename))
        params = types.ApplyWorkspaceEditParams(
            edit=types.WorkspaceEdit(
                document_changes=[
                    types.TextDocumentEdit(
                        types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=version),
                        edits,
                    )
                ]
            ),
            label="Goalwright",
        )
        try:
            answer = await asyncio.wait_for(self._server.workspace_apply_edit_async(params), TIMEOUT_S)
        except Exception as error:  # a JSON-RPC error, a closed connection or no answer: nothing was applied
            raise ToolError(f"{_MOVED.format(name=document.filename)} ({error})") from error
        if not answer.applied:
            raise ToolError(_MOVED.format(name=document.filename))

    async def _save(self, uri: str) -> bool:
        answer: Any = await self._server.protocol.send_request_async(EDITOR_SAVE, {"uri": uri})
        return isinstance(answer, dict) and answer.get("saved") is True  # pyright: ignore[reportUnknownMemberType]  # JSON of a client


_CANNOT = (
    "{name} has unsaved changes in an editor that cannot be changed from here. Nothing was changed: ask the person "
    "to save or discard them, then read the file again."
)
_MOVED = (
    "{name} has unsaved changes in the editor, which did not take the edit: perhaps its text changed. Nothing was "
    "written: read it again and redo the change."
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
