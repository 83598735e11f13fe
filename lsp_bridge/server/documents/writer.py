"""Change a document in the user's editor: as a versioned edit, followed by a save.

``workspace/applyEdit`` is part of LSP, so the editor's undo works; LSP has no request to save, so the editor is asked
with ``goalwright/editor/save``. An editor that does not support both is not asked, and the file stays unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lsprotocol import types

from lsp_bridge.language_client.text.positions import PositionEncoding, TextIndex, chosen
from lsp_bridge.protocol.editor import EDITOR_OPEN, EDITOR_SAVE
from lsp_bridge.server.editor_server import EditorLeftError, answer_or_end
from tools.diff.merge import MergeConflictError, merge_texts
from tools.diff.unified_diff import hunk_spans
from tools.ports import AppliedEdit, EditorGoneError, EditRejectedError, NotSavedError
from tools.process.background import Background
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from lsp_bridge.protocol.sessions import InitializationOptions
    from lsp_bridge.server.documents.open_documents import OpenDocument
    from lsp_bridge.server.editor_server import EditorServer


_log = logging.getLogger(__name__)

TIMEOUT_S = 20.0
"""An editor that formats on save may take a while."""
_EDIT_S = 5.0
"""Seconds for an edit of a buffer whose file the daemon writes itself: a stuck editor must not delay that for long."""
_NOTICE_S = 2.0
"""Seconds that an editor may take to report the change of a document after applying an edit."""
_LATE_S = 600.0
"""Seconds for which an abandoned save may still arrive."""
_TRIES = 5
"""Attempts to undo an edit while the user keeps typing."""


class _EditorReply(NamedTuple):
    """The editor's answer to a request; ``done`` is None when the answer makes no sense."""

    done: bool | None
    reason: str = ""


class DocumentWriter:
    """Writes into the documents of one connection."""

    def __init__(self, server: EditorServer, options: Callable[[], InitializationOptions]) -> None:
        """``options``: what the client can do."""
        self._server = server
        self._options = options
        self._late = Background("undoing an edit")

    @property
    def gone(self) -> bool:
        """Whether the connection has ended."""
        return self._server.is_gone

    @property
    def can_edit(self) -> bool:
        """Whether the editor takes edits of a version.

        One that knows no versions would put an edit wherever it fits no more, if the user types meanwhile. Neovim
        does not announce them, but the operations on files, which come in the same form only.
        """
        found = self._workspace()
        edits = None if found is None else found.workspace_edit
        if found is None or edits is None or not found.apply_edit:
            return False
        return bool(edits.document_changes or edits.resource_operations)

    @property
    def can_write(self) -> bool:
        """Whether the editor takes edits of a version, and can save."""
        return self.can_edit and self._options().can_save

    @property
    def _patience_s(self) -> float:
        return TIMEOUT_S if self._options().can_save else _EDIT_S

    @property
    def can_move(self) -> bool:
        """The editor can rename files."""
        found = self._workspace()
        edits = None if found is None else found.workspace_edit
        operations = (edits.resource_operations if edits is not None else None) or ()
        return self.can_write and types.ResourceOperationKind.Rename in operations

    async def report(self, path: Path) -> None:
        """Have an editor that reports no open documents by itself report this one. Without an answer, the file on disk
        counts."""
        if not self._options().opens_on_request or self.gone:
            return
        try:
            await self._server.ask(EDITOR_OPEN, {"uri": path.as_uri()}, self._patience_s)
        except (TimeoutError, EditorLeftError):
            pass
        except Exception as error:  # an editor may not know the request
            _log.warning("the editor did not report %s: %s", path.name, error)

    async def apply(self, document: OpenDocument, before: str, after: str) -> AppliedEdit:
        """Turn ``before``, the text of ``document``, into ``after``; nothing is saved.

        Raises EditorGoneError when the editor was not asked for anything, ToolError when it did not do it: then the
        document is unchanged.
        """
        if not self.can_write and not (self.can_edit and document.is_saved()):
            raise EditRejectedError(_NO_WAY.format(name=document.name), _ASK_PERSON)
        await self.edit(document, before, after)
        answered = asyncio.Event()  # set when the editor answers to a save that took too long
        return AppliedEdit(
            lambda: self.save(document, lambda _: answered.set()),
            lambda: _saved_late(document, answered),
            lambda: take_back(self, document, before, after),
        )

    async def move(self, document: OpenDocument, source: Path, target: Path) -> None:
        """Rename the file of ``document`` on disk and in the editor. Raises like ``apply``."""
        if not self.can_move:
            raise EditRejectedError(_NO_WAY.format(name=document.name), _ASK_PERSON)
        # Use the name under which the user opened it, perhaps through a link.
        old = document.uri if document.path == source else source.as_uri()
        rename = types.RenameFile(old, target.as_uri(), options=types.RenameFileOptions(overwrite=False))
        said = await self._ask([rename], document, lambda: self.move(document, target, source))
        if not said.done:
            raise _moved(document, said.reason)

    async def edit(self, document: OpenDocument, before: str, after: str) -> None:
        encoding = chosen(self._server.server_capabilities.position_encoding)
        edits = await asyncio.to_thread(text_edits, before, after, encoding)
        version = document.version
        if not document.known or document.text != before:
            raise _moved(document)

        async def reported() -> bool:
            """Wait for the editor's own report of the change, which comes before or after its answer."""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NOTICE_S):
                    while not document.closed and not self.gone:
                        if _reported(document, version, before, after):
                            return True
                        await document.changing.heard(float("inf"))
            return _reported(document, version, before, after)

        async def undo() -> bool:
            await reported()
            return await take_back(self, document, before, after)

        identifier = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=version)
        said = await self._ask([types.TextDocumentEdit(identifier, edits)], document, undo)
        if said.done is False and document.text != after:
            raise _moved(document, said.reason)
        # The report counts for more than the answer, and the next write needs the new version.
        if await reported():
            return
        if self.gone:
            raise _went(document)
        raise _moved(document, said.reason)

    async def save(self, document: OpenDocument, late: Callable[[object], None]) -> None:
        """Save a document. Raises NotSavedError; ``late`` is called when the answer comes after that."""
        if self.gone:
            raise NotSavedError(_WENT.format(name=document.name))
        name, why = document.name, ""
        try:
            answer: object = await self._server.ask(
                EDITOR_SAVE, {"uri": document.uri}, self._patience_s, late=late
            )
        except TimeoutError:
            why = f"The editor could not save {name}: it did not answer within {TIMEOUT_S:g} seconds."
            raise NotSavedError(why, pending=True) from None
        except EditorLeftError:
            raise NotSavedError(_WENT.format(name=name)) from None
        except Exception as error:  # an editor may not know the request, or be gone
            answer, why = None, f": {error}"
        if isinstance(answer, dict) and cast("dict[str, object]", answer).get("saved") is True:
            return
        if self.gone:
            raise NotSavedError(_WENT.format(name=name))
        raise NotSavedError(f"The editor could not save {name}{why}.")

    async def _ask(
        self,
        changes: list[types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile],
        document: OpenDocument,
        undo: Callable[[], Coroutine[Any, Any, object]],
    ) -> _EditorReply:
        """Raises EditorGoneError, and ToolError when there is no answer."""
        if self.gone:
            raise EditorGoneError(_WENT.format(name=document.name))
        params = types.ApplyWorkspaceEditParams(
            edit=types.WorkspaceEdit(document_changes=changes), label="Goalwright"
        )
        try:
            answer: object = await self._server.ask(
                types.WORKSPACE_APPLY_EDIT,
                params,
                self._patience_s,
                late=lambda done: self._came_late(done, undo),
            )
        except TimeoutError:
            rest = (
                "The file on disk is unchanged. If the editor is stuck, ask the user to close "
                f"{document.name} "
            )
            rest += "there; then read it again and redo the change."
            raise EditRejectedError(
                _SILENT.format(name=document.name, seconds=self._patience_s), rest
            ) from None
        except EditorLeftError:
            raise _went(document) from None
        except Exception as error:  # a JSON-RPC error, an answer that does not fit, a closed connection
            if self.gone:
                raise _went(document) from error
            return _EditorReply(None, f" ({error})")
        if not isinstance(answer, types.ApplyWorkspaceEditResult):
            return _EditorReply(None, " (its answer was not valid)")
        return _EditorReply(answer.applied, f" ({answer.failure_reason})" if answer.failure_reason else "")

    def _came_late(
        self,
        done: asyncio.Future[types.ApplyWorkspaceEditResult],
        undo: Callable[[], Coroutine[Any, Any, object]],
    ) -> None:
        """Undo an edit that was applied late: the model was informed that nothing was changed."""
        if done.cancelled() or done.exception() is not None or not done.result().applied:
            return

        async def back() -> None:
            try:
                if await undo() is not False:
                    return
                _log.warning("an edit that the editor applied late could not be undone: the user typed there")
            except ToolError as error:
                _log.warning("an edit that the editor applied late could not be undone: %s", error)

        self._late.start(back())

    def _workspace(self) -> types.WorkspaceClientCapabilities | None:
        return self._server.client_capabilities.workspace


async def _saved_late(document: OpenDocument, answered: asyncio.Event) -> None:
    saved = asyncio.ensure_future(document.saving.heard(float("inf")))
    try:
        # Wait no longer for a silent editor than a user would.
        await answer_or_end(saved, answered, _LATE_S)
    finally:
        saved.cancel()


async def take_back(writer: DocumentWriter, document: OpenDocument, before: str, after: str) -> bool:
    """Undo an edit in the current text. False when it no longer fits there, so that the edit stays."""
    for _ in range(_TRIES):
        if document.closed or writer.gone:
            return True
        text = document.text
        if not document.known:
            return False
        try:
            wanted = await asyncio.to_thread(merge_texts, after, text, before)
        except MergeConflictError:
            return False
        if wanted == text:
            return True
        with contextlib.suppress(ToolError):
            await writer.edit(document, text, wanted)
            return True
        if document.text == text:
            return False  # the user typed nothing meanwhile: the editor refuses
    return False


def _reported(document: OpenDocument, version: int, before: str, after: str) -> bool:
    """Return whether the editor has reported an edit of ``version``."""
    return document.text == after or (document.version != version and _stands(document, before, after))


def _stands(document: OpenDocument, before: str, after: str) -> bool:
    """Return whether an edit is in the text, in which more may have been typed."""
    text = document.text
    try:
        return merge_texts(after, text, before) != text
    except MergeConflictError:
        pass
    try:
        merge_texts(before, text, after)
    except MergeConflictError:
        return True  # unknown; the text on disk after the save shows it
    return False


def _moved(document: OpenDocument, reason: str = "") -> EditRejectedError:
    why = (
        f"{document.name} is open in the editor, which rejected the edit; its text may have changed{reason}."
    )
    return EditRejectedError(why, "Nothing was written: read it again and redo the change.")


def _went(document: OpenDocument) -> EditRejectedError:
    rest = "As far as is known, the file on disk is unchanged: read it again and redo the change."
    return EditRejectedError(_WENT.format(name=document.name), rest)


_NO_WAY = "{name} has unsaved changes in an editor that cannot be changed from here."
_ASK_PERSON = "Nothing was changed: ask the user to save or discard them, then read the file again."
CANNOT = f"{_NO_WAY} {_ASK_PERSON}"
_SILENT = "{name} is open in the editor, which did not answer within {seconds:g} seconds."
_WENT = "The editor that has {name} open was closed."


def text_edits(
    before: str, after: str, encoding: PositionEncoding
) -> list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit]:
    """Return the edits, hunk by hunk, that turn one text into the other; columns in units of the negotiated
    encoding."""
    index = TextIndex(before)

    def at(offset: int) -> types.Position:
        return types.Position(*index.position(offset, encoding))

    return [
        types.TextEdit(types.Range(at(start), at(end)), after[first:last])
        for start, end, first, last in hunk_spans(before, after)
    ]
