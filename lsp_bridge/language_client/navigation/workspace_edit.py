"""Check a server's ``WorkspaceEdit`` and apply it to texts. Pure; all of it or nothing.

An edit that is not understood, contradictory or too large is rejected as a whole: half a rename breaks the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from lsp_bridge.language_client.text.positions import (
    PositionEncoding,
    TextIndex,
    WireRange,
    file_of,
    wire_range,
)
from tools.json_access import array, mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_FILES = 500
MAX_EDITS = 20_000
MAX_CHARACTERS = 20_000_000


class BadEditError(Exception):
    """Raised when the edit cannot be applied; the text says why."""


class WireEdit(Struct, frozen=True):
    """One piece of text to replace."""

    range: WireRange
    text: str


class FileEdits(Struct):
    """The changes of one file."""

    edits: list[WireEdit] = field(default_factory=list[WireEdit])
    version: int | None = None
    """Version of the document that the edits are about, where the server sends it."""
    moved_to: str = ""


def read_edit(result: object) -> dict[str, FileEdits]:
    """Edits and moves by file (absolute paths). Raises BadEditError."""
    wire = mapping(result)
    files: dict[str, FileEdits] = {}
    if wire.get("documentChanges") is not None:
        for change in array(wire["documentChanges"])[: MAX_EDITS + 1]:
            _read_change(mapping(change), files)
    else:
        for uri, edits in mapping(wire.get("changes")).items():
            _read_edits(uri, edits, None, files)
    files = {file: made for file, made in files.items() if made.edits or made.moved_to}
    if len(files) > MAX_FILES or sum(len(made.edits) for made in files.values()) > MAX_EDITS:
        raise BadEditError(f"it changes more than {MAX_FILES} files or {MAX_EDITS} places")
    return files


def _read_change(change: Mapping[str, Any], files: dict[str, FileEdits]) -> None:
    kind = change.get("kind")
    if kind is None:
        document = mapping(change.get("textDocument"))
        version = document.get("version")
        number = version if type(version) is int else None
        _read_edits(document.get("uri"), change.get("edits"), number, files)
    elif kind == "rename":
        old, new = file_of(change.get("oldUri")), file_of(change.get("newUri"))
        if old is None or new is None or old == new:
            raise BadEditError("it moves something that is no file")
        if files.setdefault(old, FileEdits()).moved_to:
            raise BadEditError("it moves a file twice")
        files[old].moved_to = new
    else:
        raise BadEditError(f"it would {kind} files" if kind in ("create", "delete") else "it is malformed")


def _read_edits(uri: object, edits: object, version: int | None, files: dict[str, FileEdits]) -> None:
    file, listed = file_of(uri), array(edits)
    if file is None or (not listed and edits != []):
        raise BadEditError("it changes something that is no file" if file is None else "it is malformed")
    origin = next((old for old, made in files.items() if made.moved_to == file), None)
    if origin is not None and files[origin].edits:
        raise BadEditError("it changes a file before and after moving it")
    if origin is None and file in files and files[file].moved_to:
        raise BadEditError("it changes a file that it has moved away")
    made = files.setdefault(origin or file, FileEdits())
    if made.version is not None and version is not None and made.version != version:
        raise BadEditError("it is about two versions of a file")
    made.version = version if made.version is None else made.version
    for edit in listed[: MAX_EDITS + 1]:
        fields = mapping(edit)
        span, text = wire_range(fields.get("range")), fields.get("newText")
        if span is None or not isinstance(text, str):
            raise BadEditError("one of its edits is malformed")
        made.edits.append(WireEdit(span, text))


def apply_edits(text: str, edits: Sequence[WireEdit], encoding: PositionEncoding) -> str:
    """Return ``text`` after all edits, each of which refers to the original ``text``. Raises BadEditError."""
    index = TextIndex(text)
    spans: list[tuple[int, int, str]] = []
    for edit in edits:
        start, end = (index.offset(line, units, encoding) for line, units in edit.range)
        if start is None or end is None:
            raise BadEditError("it changes lines that the file does not have")
        spans.append((start, end, edit.text))
    # The sort is stable: insertions at one place keep their order (LSP, TextEdit[]).
    spans.sort(key=lambda span: span[:2])
    pieces: list[str] = []
    at = 0
    for number, (start, end, new) in enumerate(spans):
        if start < end and number and spans[number - 1] == (start, end, new):
            continue  # sent twice, e.g. by a server that has the file in two projects
        if start < at:
            raise BadEditError("its edits overlap")
        pieces += text[at:start], new
        at = end
    pieces.append(text[at:])
    if sum(map(len, pieces)) > MAX_CHARACTERS:
        raise BadEditError("it would make a file too large")
    return "".join(pieces)


def check_moves(files: Mapping[str, FileEdits], exists: Callable[[str], bool]) -> None:
    """Raises BadEditError when a file would be moved onto another one."""
    targets = [made.moved_to for made in files.values() if made.moved_to]
    if len(set(targets)) != len(targets):
        raise BadEditError("it moves two files to one place")
    for target in targets:
        if exists(target):
            raise BadEditError(f"it moves a file to {target}, where something is already")
