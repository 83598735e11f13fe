"""Describe servers' answers about code for the model: filtered by the rules for reading, and bounded.

A place in a file that must not be read is left out; where the user would have to be asked, the place is shown without
its text. All functions here may look at files (for their other names), so they block.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tools.access import Action
from tools.diff.unified_diff import shown_name
from tools.paths import may_read, rule_target
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.language_ports import CodePlace, CodeSymbol
    from tools.tool import ToolContext

_MAX_TEXT = 200
_FUNCTIONS = frozenset({"function", "method", "constructor"})
_LOCALS = frozenset({"variable", "constant"})


class Readable(Struct):
    """The decisions of the rules about the files of an answer, one for each file."""

    ctx: ToolContext
    free: Path | None = None
    """A file that the user has just allowed."""
    _known: dict[Path, Action] = field(default_factory=dict[Path, Action])

    def of(self, path: Path) -> Action:
        if path == self.free:
            return "allow"
        if path not in self._known:
            self._known[path] = may_read(path, self.ctx)
        return self._known[path]


class Listed(Struct, frozen=True):
    """Lines for the model, how many there would be, and how many are not for it."""

    lines: list[str]
    total: int
    hidden: int


def list_places(items: Sequence[CodePlace], readable: Readable, limit: int) -> Listed:
    """List ``path:line:column text``, file by file: the file of the query first, then the workspace's, then others."""
    root = readable.ctx.workspace
    seen = [item for item in items if readable.of(item.path) != "deny"]
    lines: list[str] = []
    for item in sorted(seen, key=lambda item: _rank(item, readable, root))[:limit]:
        text = (
            head(item.text, _MAX_TEXT) if readable.of(item.path) == "allow" else "(reading it needs approval)"
        )
        lines.append(f"{_where(item, root)} {text}".rstrip())
    return Listed(lines, len(seen), len(items) - len(seen))


def list_symbols(items: Sequence[CodeSymbol], readable: Readable, limit: int) -> Listed:
    """``path:line:column kind name``, file by file, in the servers' order."""
    root = readable.ctx.workspace
    seen = [item for item in items if _name_may_be_told(item.place.path, readable)]
    files = {path: number for number, path in enumerate(dict.fromkeys(item.place.path for item in seen))}
    ordered = sorted(
        seen, key=lambda item: (not item.place.path.is_relative_to(root), files[item.place.path])
    )
    lines = [f"{_where(item.place, root)} {_named(item)}" for item in ordered[:limit]]
    return Listed(lines, len(seen), len(items) - len(seen))


def list_outline(items: Sequence[CodeSymbol], limit: int) -> Listed:
    """List ``line:column kind name`` of a file's definitions. Symbols that are local to a function are left out."""
    functions = {_full(item) for item in items if item.kind in _FUNCTIONS}
    told = [item for item in items if not (item.kind in _LOCALS and item.container in functions)]
    lines = [f"{item.place.line}:{item.place.column} {_named(item)}" for item in told[:limit]]
    return Listed(lines, len(told), 0)


def notes(listed: Listed, silent: Sequence[str], what: str) -> list[str]:
    """Return notes on missing parts of an answer, and why they are missing."""
    told: list[str] = []
    if listed.total > len(listed.lines):
        told.append(f"({listed.total} {what}; the first {len(listed.lines)} are shown.)")
    if listed.hidden:
        told.append(f"({listed.hidden} more are in files that must not be read.)")
    if silent:
        told.append(f"(May be incomplete: {', '.join(silent)} did not report everything in time.)")
    return told


def _rank(item: CodePlace, readable: Readable, root: Path) -> tuple[bool, bool, str, int, int]:
    inside = item.path.is_relative_to(root)
    return item.path != readable.free, not inside, item.path.as_posix(), item.line, item.column


def _name_may_be_told(path: Path, readable: Readable) -> bool:
    action = readable.of(path)
    # A name is part of the file's content; libraries contain nothing of the user's.
    return action == "allow" or (action == "ask" and not path.is_relative_to(readable.ctx.workspace))


def _where(place: CodePlace, root: Path) -> str:
    return f"{shown_name(rule_target(place.path, root))}:{place.line}:{place.column}"


def _full(item: CodeSymbol) -> str:
    return f"{item.container}.{item.name}" if item.container else item.name


def _named(item: CodeSymbol) -> str:
    return f"{item.kind} {_full(item)}"
