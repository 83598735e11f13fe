"""What the diagnostics service asks of a source of problems: the daemon's language servers, or the attached editors.

A source answers one question: the diagnostics of a file for one text, and whether they are fresh. They are *fresh* when
they are about exactly this text, and final. What is new in them, and who is told it when, is the service's affair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsp_bridge.language_client.diagnostics.verdict import Raw
    from tools.language import CurrentProblems, Severity

Read = Callable[[Path], Awaitable[str | None]]
"""The text of a file as the user sees it; None: there is none that could be shown."""
Texts = Mapping[Path, str | None]
"""Texts of files, as ``Read`` gives them."""


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that the change did not touch, and about which something was said after it."""

    path: Path
    text: str
    before: Raw
    raw: Raw


@dataclass(slots=True)
class Heard:
    """What one observer said about a change until its deadline."""

    fresh: dict[Path, tuple[str, Raw]] = field(default_factory=dict[Path, "tuple[str, Raw]"])
    """The fresh answers, each with the text that it is about."""
    known: dict[Path, Raw | None] = field(default_factory=dict[Path, "Raw | None"])
    """What was said about the texts of the baseline; None: nothing."""
    missing: Collection[Path] = ()
    """Files that it looks after and has no fresh answer about."""
    complete: bool = True
    asked: bool = True
    """False: there was nothing that it could have answered, so its silence means nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a source must know of the change that it watches. Moments are numbered."""

    began: int
    older: Callable[[Hashable, Path], str | None]
    """The text before an earlier change of a file that somebody has not answered about, nor about that text."""
    sent: Callable[[Hashable, Collection[Path], Mapping[Path, Raw]], int]
    """Somebody is shown the new texts of these files now, and this is all that it has said until now. Returns the
    moment."""


class Observer(ABC):
    """One server or one editor, while it is asked about one change."""

    follows = False
    """It goes on talking about a change without being asked, and can be asked about older texts."""

    def __init__(self, name: str, key: Hashable) -> None:
        """``name`` is for people, ``key`` the same for all changes."""
        self.name = name
        self.key = key
        self.baseline: dict[Path, str | None] = {}
        """The files that it was given, with the texts that its baseline is about."""
        self.since = 0
        """The moment after which others' changes are not this one's doing; 0: it was not shown the new texts."""

    @property
    @abstractmethod
    def gone(self) -> bool:
        """Nothing more comes from it."""

    @abstractmethod
    async def ask(self, after: Texts, started: float) -> Heard:
        """Show the texts after the change, and wait for fresh answers: one deadline, counted from ``started``."""

    @abstractmethod
    async def others(self, said: Mapping[Path, Raw] | None = None) -> list[OtherFile]:
        """What it said about files that the change did not touch, by now or in ``said``."""

    @abstractmethod
    async def again(self, texts: Mapping[Path, str]) -> Mapping[Path, Raw]:
        """The fresh answers about these texts that there are by now. Waits for none."""

    def said(self, path: Path) -> tuple[str | None, Raw]:
        """The newest text of ``path`` that it knows, and what it said last, fresh or not. If it ``follows``."""
        return None, ()

    async def look_back(self, texts: Texts) -> Mapping[Path, Raw]:
        """Ask about older texts, then show those of now. If it ``follows``; nobody waits for it."""
        return {}


class Watch(ABC):
    """One source, while a change is under way."""

    @abstractmethod
    async def extend(self, texts: Texts) -> Collection[Path]:
        """Take the baseline of more files. Returns those that it looks after. Waits for no server."""

    @abstractmethod
    async def observers(self, after: Texts) -> tuple[Sequence[Observer], Sequence[str]]:
        """Who is to be asked about the change, and the names of those who cannot be asked now, but should be."""

    def end(self) -> None:  # noqa: B027 - most have nothing to do
        """The change is over."""


class Source(ABC):
    """Who sees problems."""

    read: Read

    @abstractmethod
    def begin(self, change: Change) -> Watch:
        """Watch a change that is about to be written."""

    @abstractmethod
    async def warm(self, path: Path) -> bool:
        """Prepare for questions about ``path``. Whether it looks after such files."""

    @abstractmethod
    async def changed(self, path: Path, *, buffer: bool = False) -> None:
        """``path`` has another text on disk, or (``buffer``) in an editor."""

    @abstractmethod
    async def current(self, paths: Sequence[Path], least: Severity) -> CurrentProblems:
        """All problems there are now; ``unwatched`` are the files that it does not look after."""

    @abstractmethod
    async def close(self) -> None:
        """End everything that it has started."""
