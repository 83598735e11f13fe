"""Convert a server's locations for the tools: real paths, character columns, and the text of the line.

All functions here read files, so they block: call them in a thread.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_bridge.language_client.text.positions import PositionEncoding, TextIndex, load
from tools.language_ports import CodePlace, CodeSymbol
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lsp_bridge.language_client.navigation.wire_locations import WirePlace, WireRange, WireSymbol

_MAX_FILES_READ = 200
"""Most files of one answer whose lines are shown; a reader needs no more."""
_MAX_TEXT = 400


def real_paths(files: Iterable[str]) -> dict[str, Path]:
    """Return the real path of each file that a server named: that is what rules judge. Unusable names are left out."""
    found: dict[str, Path] = {}
    for file in files:
        if file in found:
            continue
        try:
            found[file] = Path(os.path.realpath(file))
        except (OSError, ValueError):
            continue
    return found


class Texts:
    """The lines of files: ``known`` texts (of an editor or the server) before those on disk."""

    def __init__(self, known: Mapping[Path, str], encoding: PositionEncoding) -> None:
        self._known = known
        self._encoding: PositionEncoding = encoding
        self._indexes: dict[Path, TextIndex | None] = {}

    def place(self, path: Path, span: WireRange) -> CodePlace | None:
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


def code_places(items: Sequence[WirePlace], real: Mapping[str, Path], texts: Texts) -> list[CodePlace]:
    """Places of an answer, each once, in the server's order."""
    found: dict[CodePlace, None] = {}
    for item in items:
        path = real.get(item.file)
        place = None if path is None else texts.place(path, item.range)
        if place is not None:
            found[place] = None
    return list(found)


def code_symbols(
    items: Sequence[WireSymbol], real: Mapping[str, Path], texts: Texts, asked: Path | None = None
) -> list[CodeSymbol]:
    """Symbols of an answer, each once; those without a file are of ``asked``."""
    found: dict[CodeSymbol, None] = {}
    for item in items:
        path = real.get(item.file) if item.file else asked
        place = None if path is None else texts.place(path, item.range)
        if place is not None:
            found[CodeSymbol(item.name, item.kind, place, item.container)] = None
    return list(found)
