"""The files that define agents, skills, commands and tools: which of them may be read. All functions block.

The files become part of prompts. A workspace's file must therefore be inside the workspace, wherever links lead: a
repository may contain ``review.md -> ../../.env``, and users do not look for that before they trust it. The user's own
may be links, as dotfiles are often kept elsewhere, but not to secrets.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from msgspec import Struct

from daemon.agents.front_matter import OwnFileError
from daemon.permission.matching import fold
from daemon.permission.protected import OWN_STATE, protected
from daemon.runtime import user_home
from tools.files.regular_files import read_regular
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from daemon.model.permissions import Trust

MAX_FILE = 256 * 1024
"""Bytes of one file."""
MOST_FILES = 200
"""Files that are read of one folder."""
Kind = Literal["skills", "commands"]
Source = Literal["workspace", "user"]
_IN_WORKSPACE: dict[Kind, tuple[str, ...]] = {
    "skills": (".goalwright", ".claude", ".agents"),
    "commands": (".goalwright", ".claude"),
}
"""The nearest first."""

T = TypeVar("T")
Stamp = tuple[object, ...]
"""Another one means that a file, or what a link leads to, is another one."""


class Place(Struct, frozen=True):
    """A folder for files of one kind, which may not exist. ``root``: of the workspace, resolved; None: the user's."""

    folder: Path
    source: Source
    root: Path | None = None
    flat: bool = False
    """The files must be directly in the folder, wherever links lead."""


def places(kind: Kind, workspace: Path, user_folder: Path, trust: Trust) -> list[Place]:
    """Return the folders that count, the nearest first. ``workspace``: resolved; ``user_folder``: the state folder.

    Folders of the workspace count only when it is trusted. ``.claude`` of the user is in the home folder.
    """
    own = [user_folder / kind, user_home(user_folder) / ".claude" / kind]
    found = [Place(folder, "user") for folder in own]
    if trust != "trusted":
        return found
    theirs = [folder for folder in workspace_folders(kind, workspace) if folder not in own]
    return [*(Place(folder, "workspace", workspace) for folder in theirs), *found]


def workspace_folders(kind: Kind, workspace: Path) -> list[Path]:
    """Return where a workspace may have such files, the nearest first."""
    return [workspace / name / kind for name in _IN_WORKSPACE[kind]]


def read_own(path: Path, place: Place) -> str:
    """Return the text of a file. Raises OwnFileError, and FileNotFoundError when there is none."""
    try:
        real = path.resolve(strict=True)
        if place.flat and real.parent != place.folder.resolve():
            raise OwnFileError(
                t("it is a symbolic link that leads out of the agents folder: put the file itself there")
            )
        if place.root is not None and not real.is_relative_to(place.root):
            raise OwnFileError(t("it is a link that leads out of the workspace: put the file itself there"))
        if kinds := _secrets(real, place):
            raise OwnFileError(
                t("it is a link to a protected file ({kinds}): put a regular file there", kinds=kinds)
            )
        return read_regular(real, MAX_FILE).decode("utf-8-sig")
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, in Python below 3.13
        reason = error.strerror if isinstance(error, OSError) else None
        raise OwnFileError(t("it cannot be read: {strerror}", strerror=reason or error)) from error
    except UnicodeDecodeError as error:
        raise OwnFileError(t("it is not UTF-8 text: save it as UTF-8")) from error


def _secrets(real: Path, place: Place) -> str:
    """Return the kinds of protection of a file, as text for the user; empty when there are none."""
    root = "" if place.root is None else place.root.as_posix()
    name = real.as_posix().removeprefix(f"{root}/") if root else real.as_posix()
    kinds = protected("read", name, fold(name), root)
    # Agents, skills and commands are in our own state folder: here, or where users keep the dotfiles linked from here.
    ours = (
        real.is_relative_to(place.folder.resolve()) or f"/.goalwright/{place.folder.name}/" in real.as_posix()
    )
    return ", ".join(t(kind.what) for kind in kinds if not (ours and kind.what == OWN_STATE))


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a file; None when there is no entry of this name. A dangling link is an entry."""
    try:
        link = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return ("unreadable", error.errno)
    try:
        file = path.stat()
    except OSError as error:
        return ("nowhere", error.errno, link.st_mtime_ns)
    # Replacing a parent folder by a link changes neither the time nor the size of the file.
    return (file.st_mtime_ns, file.st_size, file.st_ino, file.st_dev, link.st_ino, os.path.realpath(path))


class ParsedFiles(Generic[T]):
    """Files of one kind, each parsed once while it stays the same. Usable from any thread."""

    def __init__(self, parse: Callable[[Path, str, Place], T]) -> None:
        """``parse``: gets path, text and folder. Raises OwnFileError."""
        self._parse = parse
        self._known: dict[Path, tuple[Stamp, T | None, str]] = {}
        """The content of each file, or why it is skipped."""
        self._lock = threading.Lock()

    def get(self, path: Path, place: Place, problems: list[str]) -> T | None:
        """Return what is in a file; None when there is none, or it is skipped: ``problems`` gets why, for the user."""
        stamp = stamp_of(path)
        if stamp is None:
            return None
        with self._lock:
            known = self._known.get(path)
            if known is None or known[0] != stamp:
                try:
                    known = stamp, self._parse(path, read_own(path, place), place), ""
                except FileNotFoundError:
                    return None
                except OwnFileError as error:
                    known = stamp, None, f"{path}: {error}"
                self._known[path] = known
        problems += filter(None, [known[2]])
        return known[1]
