"""A Navigation port that answers what a test put in, and records what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.language_ports import (
    CodePlace,
    CodeSymbol,
    DefinitionKind,
    Places,
    Position,
    RenamedText,
    Symbols,
    ToolError,
)


@dataclass
class FakeNavigation:
    """``fail`` is raised by everything; ``defined`` says where a position's definition is."""

    fail: ToolError | None = None
    asked: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    """Operation, line, column."""
    queries: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Searches so far, and near which file."""
    places: Sequence[CodePlace] = ()
    defined: Callable[[Position], Sequence[CodePlace]] | None = None
    symbols: Sequence[CodeSymbol] = ()
    outlined: Sequence[CodeSymbol] | None = None
    """None: the server cannot list the symbols of a file."""
    said: str = ""
    renamed: tuple[RenamedText, ...] = ()
    silent: tuple[str, ...] = ()

    def _note(self, operation: str, at: Position) -> None:
        self.asked.append((operation, at.line, at.column))
        if self.fail is not None:
            raise self.fail

    async def definition(self, at: Position, kind: DefinitionKind = "definition") -> Places:
        self._note(kind, at)
        items = self.places if self.defined is None else self.defined(at)
        return Places(tuple(items), ("fake",), self.silent)

    async def references(self, at: Position) -> Places:
        self._note("references", at)
        return Places(tuple(self.places), ("fake",), self.silent)

    async def outline(self, path: Path) -> Symbols:
        if self.fail is not None:
            raise self.fail
        if self.outlined is None:
            raise ToolError("fake does not support listing the symbols of a file.")
        return Symbols(tuple(self.outlined), ("fake",), self.silent)

    async def find(self, query: str, near: Path) -> Symbols:
        self.queries.append((query, near.name))
        if self.fail is not None:
            raise self.fail
        return Symbols(tuple(self.symbols), ("fake",), self.silent)

    async def hover(self, at: Position) -> str:
        self._note("hover", at)
        return self.said

    async def rename(self, at: Position, new_name: str) -> tuple[RenamedText, ...]:
        self._note(f"rename {new_name}", at)
        return self.renamed


def place(path: Path, line: int, column: int, text: str = "") -> CodePlace:
    """A place of one character."""
    return CodePlace(path, line, column, line, column + 1, text)


def symbol(path: Path, name: str, kind: str, line: int, column: int, container: str = "") -> CodeSymbol:
    """A symbol at such a place."""
    return CodeSymbol(name, kind, place(path, line, column), container)
