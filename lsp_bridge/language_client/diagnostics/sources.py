"""The interface between the diagnostics service and a source of problems: the daemon's language servers, or the
editors.

A source answers one question: the diagnostics of a file for one text, and whether they are fresh. They are *fresh* when
they are about exactly this text, and final. The service decides which of them are new, and who receives them when.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from lsp_bridge.language_client.diagnostics.verdict import Raw
    from tools.language_ports import CurrentProblems, Severity

Read = Callable[[Path], Awaitable[str | None]]
"""Returns the text of a file as the user sees it; None: it cannot be shown."""
Texts = Mapping[Path, str | None]
"""Texts of files, as ``Read`` gives them."""


class OtherFile(Struct, frozen=True):
    """A file that the change did not touch, and about which something was said after it."""

    path: Path
    text: str
    before: Raw
    raw: Raw


class FreshDiagnostics(Struct):
    """The answers of one observer about a change until its deadline."""

    fresh: dict[Path, tuple[str, Raw]] = field(default_factory=dict[Path, "tuple[str, Raw]"])
    """The fresh answers, each with the text that it is about."""
    known: dict[Path, Raw | None] = field(default_factory=dict[Path, "Raw | None"])
    """Diagnostics of the texts of the baseline; None: there were none."""
    missing: Collection[Path] = ()
    """Files that it covers and has no fresh answer about."""
    complete: bool = True
    asked: bool = True
    """False: there was nothing that it could have answered, so its silence means nothing."""


class Change(Struct, frozen=True):
    """The change that a source watches. Moments are numbered."""

    began: int
    older: Callable[[Hashable, Path, bool], str | None]
    """Returns the text before an earlier change of a file that an observer has not answered about, if there is no
    answer about that text either. With True, always: the observer does not know the file, because it was started again,
    and the later text may be what ended it."""
    sent: Callable[[Hashable, Collection[Path], Mapping[Path, Raw]], int]
    """Somebody is shown the new texts of these files now, and this is all that it has said until now. Returns the
    moment."""


class Observer(ABC):
    """One server or one editor, while it is asked about one change."""

    follows = False
    """It keeps reporting on a change without being asked, and can be asked about older texts."""

    def __init__(self, name: str, key: Hashable) -> None:
        """``name`` is for people, ``key`` the same for all changes."""
        self.name = name
        self.key = key
        self.baseline: dict[Path, str | None] = {}
        """The files that it was given, with the texts that its baseline is about."""
        self.since = 0
        """The moment after which other changes may be the cause of reports; 0: it did not receive the new texts."""

    @property
    @abstractmethod
    def gone(self) -> bool:
        """Nothing more comes from it."""

    @abstractmethod
    async def ask(self, after: Texts, started: float) -> FreshDiagnostics:
        """Show the texts after the change, and wait for fresh answers: one deadline, counted from ``started``."""

    @abstractmethod
    async def others(self, said: Mapping[Path, Raw] | None = None) -> list[OtherFile]:
        """Return its reports about files that the change did not touch, by now or in ``said``."""

    @abstractmethod
    async def again(self, texts: Mapping[Path, str]) -> Mapping[Path, Raw]:
        """Return the fresh answers about these texts that there are by now. Waits for none."""

    def said(self, path: Path) -> tuple[str | None, Raw]:
        """Return the newest text of ``path`` that it knows, and its last report, fresh or not. Only if it
        ``follows``."""
        return None, ()

    async def look_back(self, texts: Texts) -> Mapping[Path, Raw]:
        """Ask about older texts, then send the current ones. Only if it ``follows``; nothing waits for it."""
        return {}


class SourceWatch(ABC):
    """One source, while a change is under way."""

    @abstractmethod
    async def extend(self, texts: Texts) -> Collection[Path]:
        """Take the baseline of more files. Returns those that it covers. Waits for no server."""

    @abstractmethod
    async def observers(self, after: Texts) -> tuple[Sequence[Observer], Sequence[str]]:
        """Return the observers to ask about the change, and the names of those that should answer but are
        unavailable."""

    def end(self) -> None:  # noqa: B027 - most have nothing to do
        """The change is over."""


class Source(ABC):
    """A source of problems."""

    read: Read

    @abstractmethod
    def begin(self, change: Change) -> SourceWatch:
        """Watch a change that is about to be written."""

    @abstractmethod
    async def warm(self, path: Path) -> bool:
        """Prepare for questions about ``path``. Returns whether it covers such files."""

    @abstractmethod
    async def changed(self, path: Path, *, buffer: bool = False) -> None:
        """``path`` has another text on disk, or (``buffer``) in an editor."""

    @abstractmethod
    async def current(self, paths: Sequence[Path], least: Severity) -> CurrentProblems:
        """Return all current problems; ``unwatched`` are the files that it does not cover."""

    @abstractmethod
    async def close(self) -> None:
        """End everything that it has started."""
