"""Working copies: the workspace at one moment, for one branch to change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path


class Base(Struct, frozen=True):
    """From what branches start. Plain data: another machine with the same commit could build the same tree."""

    commit: str | None
    """The commit that HEAD named; None without a repository or a first commit."""
    tree: str | None
    """Git's hash of the working tree with everything uncommitted and untracked; None without the git program."""
    patch: bytes | None
    """From ``commit`` (or nothing) to ``tree``, as ``git diff --binary --full-index`` writes it; empty when clean.

    None: larger than ``MOST_PATCH``. Copies here do not need it.
    """
    stays: str = ""
    """Why no other machine can build the same files from commit and patch; empty when one can."""


class BranchChange(Struct, frozen=True):
    """One file that differs from the base."""

    name: str
    """Relative to the workspace, with ``/``."""
    before: bytes | None
    """None: there was no such file. Of a symbolic link: where it points."""
    after: bytes | None
    before_mode: int | None = None
    """As git has them: ``0o100644``, ``0o100755``, ``0o120000`` (a symbolic link)."""
    after_mode: int | None = None

    @property
    def kind(self) -> Literal["create", "update", "delete"]:
        """How the branch changed the file."""
        if self.before is None:
            return "create"
        return "delete" if self.after is None else "update"


class CopyError(Exception):
    """Raised when no copy can be made or read; the message says what to do."""


@dataclass(eq=False)
class WorkingCopy(ABC):
    """The files of one branch."""

    root: Path
    """The copy's counterpart of the workspace folder, absolute and resolved; outside the workspace."""
    environment: dict[str, str]
    """Variables that commands in the copy need on top, so that they use its files and not the workspace's."""
    links: Sequence[Path]
    """Links in the copy that lead to folders of the workspace itself (``.venv``): used there, never changed."""
    private: Path
    """A folder of this copy alone, outside of ``root`` and there already; it goes when the copy is closed."""

    @abstractmethod
    async def outcome(self) -> tuple[Sequence[BranchChange], bytes]:
        """Return what differs from the base, without ignored files, sorted by name; and a binary git patch of the same,
        relative to the top of the repository. Raises CopyError."""

    @abstractmethod
    async def close(self) -> None:
        """Remove the files and everything that belongs to them. Never raises; twice is as good as once."""


class OrphanedCopy(Struct, frozen=True):
    """A copy that a crash left."""

    session_id: str
    """Id of the branch that it belonged to."""
    root: Path
    """See ``WorkingCopy``."""
    changes: tuple[BranchChange, ...]
    patch: bytes


Keep = Callable[[OrphanedCopy], None]
"""Stores what a crash left. Blocking; raises anything when it could not."""


class WorkingCopies(ABC):
    """Makes copies of one workspace."""

    @abstractmethod
    async def base(self) -> Base:
        """Return the current workspace as a base; branches of one exploration share it. Raises CopyError.

        It takes space until ``done`` is called. Canceled or failed, it leaves nothing.
        """

    @abstractmethod
    async def open(self, session_id: str, base: Base) -> WorkingCopy:
        """Open a copy for the branch ``session_id``. Canceled or failed, it leaves nothing. Raises CopyError.

        It is of ``base``, whatever happened to the workspace since, also when all other copies of it are closed.
        """

    @abstractmethod
    async def done(self, base: Base) -> None:
        """No more copies of ``base`` will be opened; those that are open stay. Never raises; may be called twice."""

    @abstractmethod
    async def recover(self, keep: Keep) -> None:
        """Remove copies that a crash left, each after ``keep`` has stored its work. Never raises.

        A copy that could not be read or stored stays for the next time, but only a few times (``copy_folders.TRIES``).
        """


MOST_FILES = 200_000
"""Most files to copy: more take too long, and usually mean that something should be ignored and is not."""
MOST_BYTES = 10 << 30
"""The most bytes of all files of a copy, and of all uncommitted files, which are stored again for comparing."""
MOST_PATCH = 64 << 20
"""Bytes of the files in ``Base.patch``, before and after: it is kept in memory while its branches work."""
MOST_CHANGED = 512 << 20
"""Bytes of the files that a branch changed, before and after: they are in memory while they are stored."""
HEAVY = (
    *(".trace", "node_modules", ".venv", "venv", "__pycache__", "target", "dist"),
    *(".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".gradle", ".next", ".cache"),
)
"""Folders to leave out where no repository lists the ignored ones."""
