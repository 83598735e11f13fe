"""The ports between tools and language servers (those of the daemon, or the editor's), and their data.

Lines and columns count from 1, columns in characters (not in LSP's UTF-16 units). Texts are those that the user sees:
an editor's unsaved buffer hides the file on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from tools.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Severity = Literal["error", "warning", "information", "hint"]
Verdict = Literal["clean", "problems", "no_fresh_answer", "no_server", "later"]
DefinitionKind = Literal["definition", "declaration", "type_definition", "implementation"]

NO_SERVER = (
    "No language server is available for {name}. `goalwright doctor` shows the user which one to install. "
    "Use grep and read instead."
)


class Problem(Struct, frozen=True):
    """One diagnostic."""

    path: Path
    line: int
    column: int
    severity: Severity
    message: str
    source: str = ""
    code: str = ""


class DiagnosticsReport(Struct, frozen=True):
    """The diagnostics about a change: only problems that are *new* against the baseline.

    ``no_fresh_answer`` (a server did not answer in time) is never the same as ``clean``; ``no_server`` means that no
    language server covers these files; ``later``: more writes of the same step follow, and are reported together with
    this one.
    """

    verdict: Verdict
    problems: tuple[Problem, ...] = ()
    servers: tuple[str, ...] = ()
    """Names of those that answered about the new content."""
    silent: tuple[str, ...] = ()
    """Names of those that did not answer in time; their reports come late. Independent of the verdict."""
    left_out: int = 0
    """New errors that are not among ``problems``, because they are too many."""
    hidden: int = 0
    """Number of new problems that are not shown, because their files may not be read."""


class CurrentProblems(Struct, frozen=True):
    """All problems that there are now, new or old, errors first in each file."""

    problems: tuple[Problem, ...]
    servers: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    """Names of servers that gave no answer about the current text."""
    unwatched: tuple[Path, ...] = ()
    """Files that no server covers."""
    left_out: int = 0
    """Files of a folder that were not looked at, because there are too many."""


class DiagnosticsRun(Protocol):
    """One change under observation, started before it is written."""

    async def report(self) -> DiagnosticsReport:
        """Call after the write. Waits for answers newer than the write, with a deadline; never raises."""
        ...

    async def extend(self, paths: Sequence[Path]) -> None:
        """More files are about to be written as part of this change: call while their old content is on disk.

        Files that it has already are left alone: they are judged from their first content to their last.
        """
        ...

    def written(self) -> None:
        """The change is written: its verdict is owed, even when a cancellation keeps ``report`` from being called."""
        ...

    def drop(self) -> None:
        """Nothing was written, and no report will be asked for."""
        ...


class Diagnostics(Protocol):
    """The language servers' eyes."""

    def warm(self, path: Path) -> None:
        """Somebody works on ``path``: start its servers in the background and open the file there."""
        ...

    async def begin(self, paths: Sequence[Path]) -> DiagnosticsRun:
        """Capture the baseline of ``paths``. Called before the write, while the old content is on disk."""
        ...

    async def changed(self, path: Path) -> None:
        """Record that ``path`` was changed on disk other than by a writing tool (bash, the user)."""
        ...

    def buffer_changed(self, path: Path) -> None:
        """An editor's text of ``path`` changed, or is no longer open: language servers are to see it. Never raises."""
        ...

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        """Return late diagnostics of changes of ``paths`` that got no fresh answer in time; None: still nothing.

        Waits for no server. Nothing is reported twice.
        """
        ...

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        """Return the current problems in these files, at least as severe as ``least``; one deadline for all.

        Never raises, and waits no longer than the deadline of a change.
        """
        ...


class Position(Struct, frozen=True):
    """A place in a file, as a model names it."""

    path: Path
    """Absolute, symlinks resolved."""
    line: int
    column: int


class CodePlace(Struct, frozen=True):
    """A range of a file, and the text of its first line."""

    path: Path
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""


class CodeSymbol(Struct, frozen=True):
    """Something with a name: a class, a function, a variable …"""

    name: str
    kind: str
    """In words, e.g. ``function``."""
    place: CodePlace
    container: str = ""
    """Name of the enclosing symbol, e.g. the class of a method; empty at the top level."""


class Places(Struct, frozen=True):
    """Where something is. ``silent``: servers that did not answer in time, so there may be more."""

    items: tuple[CodePlace, ...]
    servers: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


class Symbols(Struct, frozen=True):
    """The definitions found. ``silent`` as in Places."""

    items: tuple[CodeSymbol, ...]
    servers: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


class RenamedText(Struct, frozen=True):
    """The effect of a rename on one file: its current text, as the server knows it, and the new one."""

    path: Path
    before: str
    after: str
    moved_from: Path | None = None
    """Where the file was, when the rename moves it to ``path``."""


class Navigation(Protocol):
    """Definitions, uses and documentation of code. All raise ToolError with a message for the model without an
    answer."""

    async def definition(self, at: Position, kind: DefinitionKind = "definition") -> Places:
        """Return where the thing at a position is defined."""
        ...

    async def references(self, at: Position) -> Places:
        """Return where the thing at a position is used, its definition included."""
        ...

    async def outline(self, path: Path) -> Symbols:
        """Return the definitions of a file, in order."""
        ...

    async def find(self, query: str, near: Path) -> Symbols:
        """Return symbols of the workspace whose name matches ``query``; ``near`` names a file of the intended
        language."""
        ...

    async def hover(self, at: Position) -> str:
        """Return type and documentation of the symbol at a position, as Markdown; empty when there is none."""
        ...

    async def rename(self, at: Position, new_name: str) -> tuple[RenamedText, ...]:
        """Return the changes of renaming the symbol at a position. Writes nothing."""
        ...


class NoNavigation:
    """Implements Navigation where there are no language servers."""

    async def definition(self, at: Position, kind: DefinitionKind = "definition") -> Places:
        raise _none(at.path)

    async def references(self, at: Position) -> Places:
        raise _none(at.path)

    async def outline(self, path: Path) -> Symbols:
        raise _none(path)

    async def find(self, query: str, near: Path) -> Symbols:
        raise _none(near)

    async def hover(self, at: Position) -> str:
        raise _none(at.path)

    async def rename(self, at: Position, new_name: str) -> tuple[RenamedText, ...]:
        raise _none(at.path)


def _none(path: Path) -> ToolError:
    return ToolError(NO_SERVER.format(name=path.name))
