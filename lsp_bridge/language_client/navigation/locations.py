"""Read servers' answers about code for the tools: places with real paths, character columns and the text of the line.

Nothing is trusted: values that do not follow the protocol are left out, and sizes are limited. Paths are looked up and
files are read, so ``places``, ``symbols`` and ``Texts`` block: use them in a thread.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from msgspec import Struct

from lsp_bridge.language_client.text.positions import (
    PositionEncoding,
    TextIndex,
    WireRange,
    file_of,
    load,
    real_path,
    wire_range,
)
from tools.json_access import array, mapping
from tools.language_ports import CodePlace, CodeSymbol
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MAX_PLACES = 5_000
"""Most places in one answer; a longer one needs a narrower question."""
_MAX_DEPTH = 40
_MAX_NAME = 200
_MAX_HOVER = 8_000
_MAX_FILES_READ = 200
"""Most files of one answer whose lines are shown; a reader needs no more."""
_MAX_TEXT = 400

# LSP 3.17, SymbolKind: numbers start at 1.
_KINDS = (
    "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null",
    "enum member", "struct", "event", "operator", "type parameter",
)  # fmt: skip


class WirePlace(Struct, frozen=True):
    """A range of a file, lines and units as the server counts them (from 0); of a symbol, that of its name."""

    path: Path
    """The real path, which rules judge."""
    range: WireRange
    name: str = ""
    """The symbol's, with its kind and the name of what it is in."""
    kind: str = ""
    container: str = ""


def places(result: object) -> list[WirePlace]:
    """Return the places of an answer: Location, a list of them, or of LocationLinks."""
    items = array(result) or [result]
    found: dict[WirePlace, None] = {}
    real = functools.cache(real_path)
    for item in items[:MAX_PLACES]:
        fields = mapping(item)
        link = fields.get("targetUri")
        path = real(file_of(fields.get("uri") if link is None else link))
        span = wire_range(fields.get("range") if link is None else fields.get("targetSelectionRange"))
        if link is not None and span is None:
            span = wire_range(fields.get("targetRange"))
        if path is not None and span is not None:
            found[WirePlace(path, span)] = None
    return list(found)


def symbols(result: object, asked: Path | None) -> list[WirePlace]:
    """Symbols of a file (nested or flat) or of the workspace, in the server's order. ``asked``: the file of those that
    name none."""
    found: list[WirePlace] = []
    real = functools.cache(real_path)
    stack = [(item, "", 0) for item in reversed(array(result)[:MAX_PLACES])]
    while stack and len(found) < MAX_PLACES:
        item, container, depth = stack.pop()
        fields = mapping(item)
        name = _line(fields.get("name"))
        if not name:
            continue
        path, span = asked, wire_range(fields.get("selectionRange")) or wire_range(fields.get("range"))
        if location := mapping(fields.get("location")):
            # A WorkspaceSymbol may lack a range; then the file is the location.
            path = real(file_of(location.get("uri")))
            span = wire_range(location.get("range")) or ((0, 0), (0, 0))
        if path is not None and span is not None:
            inside = container or _line(fields.get("containerName"))
            found.append(WirePlace(path, span, name, _kind(fields.get("kind")), inside))
        if depth < _MAX_DEPTH:
            inner = f"{container}.{name}" if container else name
            children = array(fields.get("children"))[: MAX_PLACES - len(found)]
            stack += [(child, inner, depth + 1) for child in reversed(children)]
    return found


def hover_text(result: object) -> str:
    """Markdown of a Hover: MarkupContent, MarkedString, or a list of those."""
    contents = mapping(result).get("contents")
    parts = array(contents) or [contents]
    text = "\n\n".join(filter(None, (_marked(part) for part in parts[:100]))).strip()
    return text if len(text) <= _MAX_HOVER else f"{head(text, _MAX_HOVER)}\n… (cut)"


class Texts:
    """The lines of files: ``known`` texts (of an editor or the server) before those on disk."""

    def __init__(self, known: Mapping[Path, str], encoding: PositionEncoding) -> None:
        self._known = known
        self._encoding: PositionEncoding = encoding
        self._indexes: dict[Path, TextIndex | None] = {}

    def code_places(self, items: Sequence[WirePlace]) -> tuple[CodePlace, ...]:
        """Return the places, each once, in the server's order."""
        found = (self._place(item.path, item.range) for item in items)
        return tuple(dict.fromkeys(place for place in found if place is not None))

    def code_symbols(self, items: Sequence[WirePlace]) -> tuple[CodeSymbol, ...]:
        """Return the symbols, each once, in the server's order."""
        found = ((item, self._place(item.path, item.range)) for item in items)
        symbols = (
            CodeSymbol(item.name, item.kind, at, item.container) for item, at in found if at is not None
        )
        return tuple(dict.fromkeys(symbols))

    def _place(self, path: Path, span: WireRange) -> CodePlace | None:
        """Return a range as a place; None when the file is known and has no such line."""
        index = self._index(path)
        (first, start), (last, end) = span
        if index is None:
            return CodePlace(path, first + 1, start + 1, last + 1, end + 1)
        if first >= index.count:
            return None
        line = index.line(first)
        return CodePlace(
            path,
            first + 1,
            index.column(first, start, self._encoding) + 1,
            last + 1,
            index.column(last, end, self._encoding) + 1,
            head(line.strip(), _MAX_TEXT),
        )

    def _index(self, path: Path) -> TextIndex | None:
        if path not in self._indexes:
            text = self._known.get(path)
            if text is None and len(self._indexes) < _MAX_FILES_READ:
                text = load(path)
            self._indexes[path] = None if text is None else TextIndex(text)
        return self._indexes[path]


def _marked(part: object) -> str:
    if isinstance(part, str):
        return part.strip()
    fields = mapping(part)
    value, language = fields.get("value"), fields.get("language")
    if not isinstance(value, str):
        return ""
    return f"```{language}\n{value.strip()}\n```" if isinstance(language, str) else value.strip()


def _kind(value: object) -> str:
    return _KINDS[value - 1] if type(value) is int and 1 <= value <= len(_KINDS) else "symbol"


def _line(value: object) -> str:
    return head(" ".join(head(value, _MAX_NAME * 2).split()), _MAX_NAME) if isinstance(value, str) else ""
