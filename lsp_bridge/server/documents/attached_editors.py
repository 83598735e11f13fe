"""The open files of all attached editors as one: the port ``Editors`` of the tools.

The editor with the unsaved text wins. If one file has two unsaved texts (two windows, or one window with two names for
it), the user must choose, even between equal ones: the unchanged one would stay unsaved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from lsp_bridge.server.documents.writer import CANNOT
from tools.ports import AppliedEdit, EditorGoneError, EditRejectedError, OpenFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lsp_bridge.server.documents.open_documents import OpenDocument, OpenDocuments
    from lsp_bridge.server.documents.writer import DocumentWriter


class _Editor(Struct, frozen=True):
    documents: OpenDocuments
    writer: DocumentWriter
    """Changes, saves and renames them."""


class AttachedEditors(Struct):
    """The open files of all attached editors as one ``Editors`` port."""

    _editors: list[_Editor] = field(default_factory=list[_Editor])

    def add(self, documents: OpenDocuments, writer: DocumentWriter) -> None:
        """An editor is attached."""
        self._editors.append(_Editor(documents, writer))

    def remove(self, documents: OpenDocuments) -> None:
        """Remove an editor that has gone, with its unsaved changes."""
        self._editors = [editor for editor in self._editors if editor.documents is not documents]

    def unsaved(self, path: Path) -> str | None:
        texts = (editor.documents.unsaved(path) for editor in self._editors)
        return next((text for text in texts if text is not None), None)

    def unsaved_paths(self) -> Sequence[Path]:
        paths = (path for editor in self._editors for path in editor.documents.unsaved_paths())
        return list(dict.fromkeys(paths))

    async def settle(self, path: Path | None = None) -> None:
        for editor in list(self._editors):
            if path is not None:
                await editor.writer.report(path)
            await editor.documents.settle(path)

    def opened(self, path: Path) -> OpenFile | None:
        if any(editor.documents.is_notebook(path) for editor in self._editors):
            return OpenFile("", unsaved=False, writable=False, refusal=_NOTEBOOK.format(name=path.name))
        found = list(self._at(path))
        if not found:
            return None
        lost = next((document for _, document in found if not document.known), None)
        if lost is not None:
            refusal = _LOST.format(name=path.name, why=lost.why_lost)
            return OpenFile("", unsaved=True, writable=False, refusal=refusal)
        unsaved = [(editor, document) for editor, document in found if not document.is_saved()]
        if len(unsaved) > 1:
            refusal = _TWICE.format(name=path.name)
            return OpenFile(unsaved[0][1].text, unsaved=True, writable=False, refusal=refusal)
        if unsaved and not any(editor.writer.can_write for editor, _ in unsaved):
            refusal = CANNOT.format(name=path.name)
            return OpenFile(unsaved[0][1].text, unsaved=True, writable=False, refusal=refusal)
        editor, document = (unsaved or sorted(found, key=_willing))[0]
        # Another document of the same editor would keep the old name when this one is renamed.
        alone = len(found) == 1
        return OpenFile(
            document.text,
            bool(unsaved),
            editor.writer.can_write,
            editor.writer.can_move and alone and not unsaved,
            editable=editor.writer.can_edit and not editor.writer.can_write,
        )

    async def apply(self, path: Path, before: str, after: str) -> AppliedEdit:
        found = list(self._at(path))
        if not found:
            raise EditorGoneError(f"{path.name} is not open in an editor any more.")
        unsaved = [one for one in found if not one[1].is_saved()]
        # Unsaved documents must not be skipped.
        for editor, document in unsaved or sorted(found, key=_willing):
            if len(unsaved) < 2 and document.known and document.text == before:
                return await editor.writer.apply(document, before, after)
        raise EditRejectedError(
            f"{path.name} changed in the editor in the meantime.",
            "Nothing was written: read it again and redo the change.",
        )

    async def move(self, source: Path, target: Path) -> None:
        for editor, document in self._at(source):
            if editor.writer.can_move:
                await editor.writer.move(document, source, target)
                return
        raise EditorGoneError(f"{source.name} is not open in an editor any more.")

    def _at(self, path: Path) -> Iterator[tuple[_Editor, OpenDocument]]:
        for editor in self._editors:
            for document in editor.documents.at(path):
                yield editor, document


def _willing(found: tuple[_Editor, OpenDocument]) -> int:
    """Return an editor that can save comes first, then one that can at least change its text."""
    writer = found[0].writer
    return 0 if writer.can_write else 1 if writer.can_edit else 2


_NOTEBOOK = (
    "{name} is open as a notebook in the editor, which would overwrite a change of the file, or ask the "
    "user which version to keep. Nothing was changed: tell the user what to change in which cell, or ask "
    "them to close the notebook; then read the file (its raw JSON) again and change it."
)
_LOST = (
    "{name} is open in an editor whose content is unknown: {why}. Nothing was changed: ask the user to "
    "save and close {name}, then read it again."
)
_TWICE = (
    "{name} has unsaved changes in two places: two windows, or two names in one window. Nothing was "
    "changed: ask the user to save one and discard the other, then read it again."
)
