"""Find files that lost their protection because others replaced them while a command ran. Blocking.

The kernel removes a mount with the entry that it is on, in all namespaces, and nothing can be mounted in that moment.
So an editor that saves by renaming, or ``git config``, opens the new file to the command. No file is restored, because
its change may be the user's own: it is only reported.
"""

from __future__ import annotations

import contextlib
import stat
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tools.files.regular_files import read_regular, sha256, write_private
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_CONTENT = 64 * 1024
"""Bytes of a kept file whose content is remembered."""
MAX_NAMED = 20


class Mounted(Struct, frozen=True):
    """A file or folder with a mount of its own, as it was before a command."""

    path: Path
    identity: str
    hidden: bool
    """The command cannot read it; otherwise it cannot change it."""
    digest: str = ""
    """Hash of the content of a kept file; empty for folders and large files."""
    content: bytes | None = None
    """Content of a kept file; None also where it is not remembered."""


class HiddenFiles:
    """The hidden files of a command that changes nothing, and so needs no other care."""

    def __init__(self, hidden: Iterable[Path], workspace: Path, copies: Path) -> None:
        self._before = mounted((), hidden)
        self._workspace = workspace
        self._copies = copies

    def leave(self) -> list[str]:
        """Return sentences as ``replaced`` does; none the second time."""
        before, self._before = self._before, []
        return replaced(before, self._workspace, self._copies)


def mounted(kept: Iterable[Path], hidden: Iterable[Path]) -> list[Mounted]:
    """Return these files and folders as they are; those in kept or hidden folders have the protection of these."""
    found: list[Mounted] = []
    for paths, is_hidden in ((set(kept), False), (set(hidden), True)):
        # Comparing strings is much faster than comparing paths.
        names = {str(path) for path in paths}
        for path in paths:
            if names.isdisjoint(map(str, path.parents)) and (it := _identity(path)):
                content = None if is_hidden else _content(path)
                digest = "" if content is None else sha256(content)
                found.append(Mounted(path, it, is_hidden, digest, content))
    return found


def replaced(
    before: Iterable[Mounted], workspace: Path, copies: Path, *, until: float | None = None
) -> list[str]:
    """Return sentences about files that were replaced, except by their own content. Never raises.

    ``copies``: private folder for the earlier content. ``until``: files that changed later are left out, in seconds
    since the epoch.
    """
    changed: list[str] = []
    shown: list[str] = []
    for one in before:
        now = _identity(one.path)
        if now in ("", one.identity) or (until is not None and _changed_after(one.path, until)):
            continue
        name = _name(one.path, workspace)
        if one.hidden:
            shown.append(name)
        elif not one.digest or (content := _content(one.path)) is None or sha256(content) != one.digest:
            changed.append(name + _earlier(one, copies))
    found: list[str] = []
    if changed:
        found.append(
            t(
                "Another program replaced protected files while a command in the sandbox ran, which ended their "
                "protection, so the command could have changed them, too: {names}. Make sure that their content "
                "is as you want it before git or another program uses them.",
                names=_listed(changed),
            )
        )
    if shown:
        found.append(
            t(
                "Another program replaced hidden files while a command in the sandbox ran, so the command could "
                "have read the new ones: {names}. Renew secrets in them if it could have passed them on.",
                names=_listed(shown),
            )
        )
    return found


def as_json(before: Iterable[Mounted]) -> list[list[object]]:
    """Return what a later process needs; contents are not stored."""
    return [[str(one.path), one.identity, one.hidden, one.digest] for one in before]


def from_json(raw: Any) -> list[Mounted]:
    """Raises ValueError and TypeError."""
    return [Mounted(Path(path), str(it), bool(hidden), str(digest)) for path, it, hidden, digest in raw]


def _identity(path: Path) -> str:
    """Return what distinguishes a file from a later one, also with the same number; empty where there is none."""
    from tools.sandbox.landlock_rules import birth

    try:
        info = path.lstat()
    except OSError:
        return ""
    if stat.S_ISSOCK(info.st_mode):
        return ""  # a program that listens replaces it at each start, and it has no content
    born = 0
    with contextlib.suppress(OSError, AttributeError):  # an old C library
        born = birth(str(path))
    return f"{info.st_dev}:{info.st_ino}:{stat.S_IFMT(info.st_mode):o}:{born}"


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path, _MAX_CONTENT)
    except OSError:
        return None


def _changed_after(path: Path, when: float) -> bool:
    try:
        return path.lstat().st_ctime > when
    except OSError:
        return True


def _earlier(one: Mounted, copies: Path) -> str:
    """Return where the earlier content is now."""
    if one.content is None:
        return ""
    copy = copies / f"{uuid.uuid4().hex[:8]}-{one.path.name.lstrip('.')}"
    try:
        write_private(copy, one.content)
    except OSError:
        return ""
    return t(" (before: {path})", path=copy.as_posix())


def _name(path: Path, workspace: Path) -> str:
    return (path.relative_to(workspace) if path.is_relative_to(workspace) else path).as_posix()


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    listed = ", ".join(sorted(names)[:MAX_NAMED])
    return t("{names} and {more} more", names=listed, more=more) if more > 0 else listed
