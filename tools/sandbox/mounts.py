"""Find files and folders to hide from a sandbox, or to protect from change there, before a command. Blocking.

Names that make other programs run something are those that the rules protect, too; rules (with that protection) decide
about every file for reading.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections import OrderedDict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tools.files.protected_names import SECRET_FOLDERS, SECRET_NAMES, is_protected_name
from tools.files.regular_files import TRACES
from tools.process.environment import words
from tools.sandbox.git_files import (
    KEPT_OF_GIT,
    MADE_OF_GIT,
    STOPPED,
    WORKTREES,
    is_bare,
    named_in_settings,
    would_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable


_HOME_SECRETS = frozenset(
    {
        *SECRET_FOLDERS,
        *(name for name in SECRET_NAMES if "*" not in name),
        *words(
            ".docker .config/hub .my.cnf .terraform.d .config/op .mozilla .config/google-chrome .config/chromium "
            ".config/Code .goalwright .bash_history .zsh_history .python_history .psql_history .mysql_history "
            ".sqlite_history .node_repl_history .local/share/containers .env .claude.json .claude/.credentials.json "
            ".codex/auth.json .gemini .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties "
            ".gem/credentials .config/rclone .config/anthropic .config/openai"
        ),
    }
)
_SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers.d")
_NEW = ".new-file-of-a-command"
"""Stands for any new file of a folder when rules are asked."""
MAX_ENTRIES = 1_000_000
MAX_S = 20.0
"""CPU time: a machine that is busy with other things must not switch the sandbox off."""
MAX_MOUNTS = 400
MAX_ALL_MOUNTS = 600
"""Those that folders need on the way to kept files included: the time to make mounts grows with their square."""
_MAX_LINKED = 20_000
"""Files of hidden and kept folders that are looked at for other names."""
_MAX_LINKS = 40
"""The kernel follows no more of them on one path."""
_PAUSE_AFTER = 500
_PAUSE_S = 0.0001
"""After a folder of so many entries other threads get their turn."""


class TooMuchToLookAtError(Exception):
    """Not everything could be looked at or mounted, so nothing can be promised."""


_RACY_NS = 100_000_000
"""A folder that changed so shortly before it was looked at may change again without another time stamp."""
_CACHES = 4
"""Workspaces, with the rules for them, that are remembered."""


class KnownEntries(Struct):
    """Entries that make other programs run something and existed before a command, see ``quarantine``."""

    things: dict[str, str] = field(default_factory=dict[str, str])
    """Name in the workspace to identity."""
    bare: set[str] = field(default_factory=set[str])
    """Identities of folders that are repositories without being called ``.git``."""
    closed: set[str] = field(default_factory=set[str])
    """Identities of folders that nothing can be changed in."""
    named: list[str] = field(default_factory=list[str])
    """Names in the workspace that settings of git lead to; they need not exist."""
    stopped: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Commands that git would run when a stopped operation goes on, by the identity of the operation's folder."""
    folders: dict[str, FolderEntries] = field(default_factory=dict[str, "FolderEntries"])
    """Findings in each folder of the workspace, by name."""


class WorkspaceSurvey(Struct):
    """All absolute."""

    hidden: list[Path] = field(default_factory=list[Path])
    kept: list[Path] = field(default_factory=list[Path])
    pinned: list[Path] = field(default_factory=list[Path])
    """May be changed inside, but not renamed."""
    movable: bool = False
    """Folders that lead to kept files can be renamed: there are too many to pin them."""
    read_only: bool = False
    """Nothing of the workspace may be changed."""
    known: KnownEntries = field(default_factory=KnownEntries)


Links = tuple[int, int, int]
"""Inode and time of change of a file with several names; a new name changes the time."""


class FolderEntries(Struct):
    """The relevant entries of one folder under the current rules, as names."""

    stamp: tuple[int, int, int] | None
    """Stamp of the folder when its entries were listed; None: it may have changed since without another stamp."""
    folders: list[str] = field(default_factory=list[str])
    """Folders to look into."""
    repositories: list[str] = field(default_factory=list[str])
    """Entries called ``.git``."""
    bare: bool = False
    hidden: list[str] = field(default_factory=list[str])
    closed: list[str] = field(default_factory=list[str])
    """Those of the hidden entries that are folders."""
    kept: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])
    """Symbolic links with a protected name."""
    things: dict[str, str] = field(default_factory=dict[str, str])
    """Identities of the folder's entries by name."""
    several: list[tuple[str, Links]] = field(default_factory=list[tuple[str, "Links"]])
    """Files that have other names, too."""
    secret: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Inodes of hidden files."""
    guarded: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Inodes of files that are kept."""

    def pack(self) -> None:
        """Share what is empty, since most folders have nothing of it and there may be many. Nothing is added later."""
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            setattr(self, name, next((empty for empty in _EMPTY if value == empty), value))


_EMPTY: tuple[object, ...] = (list[str](), dict[str, str](), set[str]())


class _Cache(Struct):
    """A workspace as it was found under one set of rules."""

    folders: dict[str, FolderEntries] = field(default_factory=dict[str, FolderEntries])
    links: set[Links] = field(default_factory=set[Links])
    """Hidden and kept files of which all names have been searched for."""


_caches: OrderedDict[tuple[str, bool, Hashable], _Cache] = OrderedDict()
_lock = threading.Lock()


def _cached(workspace: Path, writable: bool, key: Hashable) -> _Cache:
    if key is None:
        return _Cache()
    with _lock:
        name = (str(workspace), writable, key)
        _caches[name] = cache = _caches.pop(name, _Cache())
        while len(_caches) > _CACHES:
            _caches.popitem(last=False)
        return cache


def stamp_of(path: Path | str) -> tuple[int, int, int] | None:
    """Return a stamp that changes with the entries of a folder; None where it cannot be read."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return (info.st_dev, info.st_ino, info.st_ctime_ns) if stat.S_ISDIR(info.st_mode) else None


def survey(
    workspace: Path,
    decide: Callable[[str, str], str],
    *,
    writable: bool,
    key: Hashable = None,
    kept: Iterable[Path] = (),
    max_entries: int = MAX_ENTRIES,
) -> WorkspaceSurvey:
    """Look at all files of the workspace; again only at folders that changed. Raises TooMuchToLookAtError.

    ``key`` is equal as long as ``decide`` decides the same; None: nothing is remembered. ``kept``: see
    ``SandboxPolicy``.
    """
    if decide("read", _NEW) != "allow":
        raise TooMuchToLookAtError("the rules do not allow to read the workspace as a whole")
    cache = _cached(workspace, writable, key)
    look = _Look(workspace, decide, writable)
    found, links = _surveyed(workspace, look, cache.folders, max_entries)
    if not links <= cache.links and cache.folders:
        # The older names of a file may be in folders that have not changed.
        found, links = _surveyed(workspace, look, {}, max_entries)
    with _lock:
        cache.folders, cache.links = found.known.folders, links
    for path in kept:
        _led_to(path, workspace, found)
    found.read_only = writable and decide("edit", _NEW) == "deny"
    mounts = len(found.hidden) + len(found.kept) + len(found.pinned)
    if mounts > MAX_MOUNTS:
        raise TooMuchToLookAtError("the rules hide or keep too many single files of the workspace")
    leading = _leading_to(found.kept, workspace).difference(found.pinned)
    found.movable = mounts + len(leading) > MAX_ALL_MOUNTS
    if not found.movable:
        found.pinned += sorted(leading)
    return found


def _surveyed(
    workspace: Path, look: _Look, before: dict[str, FolderEntries], max_entries: int
) -> tuple[WorkspaceSurvey, set[Links]]:
    """Look at all folders that are not in ``before`` as they are. Raises TooMuchToLookAtError."""
    found = WorkspaceSurvey()
    root, deadline, left = os.fspath(workspace), time.thread_time() + MAX_S, max_entries
    waiting, folders = [""], found.known.folders
    while waiting:
        name = waiting.pop()
        path = f"{root}/{name}" if name else root
        stamp, folder = stamp_of(path), before.get(name)
        if folder is None or folder.stamp is None or folder.stamp != stamp:
            try:
                folder, count = look.folder(name, stamp)
            except PermissionError:
                # A folder that cannot be listed now could be opened from inside.
                if not name:
                    raise TooMuchToLookAtError("the workspace cannot be read") from None
                found.hidden.append(workspace / name)
                found.known.closed.add(identity(path))
                continue
            except OSError:
                continue
            left -= count
            if left < 0 or time.thread_time() > deadline:
                raise TooMuchToLookAtError("the workspace has too many files to look at before each command")
            if count > _PAUSE_AFTER:
                time.sleep(_PAUSE_S)
        folders[name] = folder
        waiting += [f"{name}/{one}" if name else one for one in folder.folders]
    return found, _put_together(workspace, found)


def _leading_to(paths: Iterable[Path], workspace: Path) -> set[Path]:
    """Return the folders on the way to these, where they could be renamed.

    A command that renames one while the mounts of another command are made would lead these elsewhere.
    """
    kept, depth = set(paths), len(workspace.parts)
    found: set[Path] = set()
    for path in kept:
        above = path.parents[: len(path.parts) - depth - 1]
        inner = next((at for at in reversed(range(len(above))) if above[at] in kept), -1)
        found.update(above[inner + 1 :])
    return found


def _put_together(workspace: Path, found: WorkspaceSurvey) -> set[Links]:
    """Return the hidden and kept files with several names, without those in hidden folders."""
    known, secret, guarded = found.known, set[tuple[int, int]](), set[tuple[int, int]]()
    repositories: dict[Path, Path] = {}
    for name, folder in known.folders.items():
        path = workspace / name
        below = f"{name}/" if name else ""
        known.things |= {below + one: it for one, it in folder.things.items()}
        secret |= folder.secret
        guarded |= folder.guarded
        if not (folder.hidden or folder.kept or folder.links or folder.repositories or folder.bare):
            continue
        if folder.bare:
            known.bare.add(identity(path))
            _git(name, workspace, found)
            repositories[path] = path
        found.hidden += [path / one for one in folder.hidden]
        known.closed |= {it for one in folder.closed if (it := identity_if_there(path / one))}
        found.kept += [path / one for one in folder.kept]
        for one in folder.links:
            _led_to(path / one, workspace, found)
        for one in folder.repositories:
            _git(below + one, workspace, found)
        # Submodules and other working trees have a file of that name.
        repositories |= {path / one: path for one in (*folder.repositories, *folder.kept) if one == ".git"}
    for git_dir, top in (repositories | _around(workspace)).items():
        _led_to_by_settings(git_dir, top, workspace, found)
    # Another name of a file leads to the same content.
    several = [
        (workspace / name / one, link) for name, at in known.folders.items() for one, link in at.several
    ]
    hidden = _linked(path for path in found.hidden if path.is_dir()) if several else set[Links]()
    # The folders of git are not among those that are looked at.
    kept = _linked(path for path in found.kept if several or path.parent in repositories)
    secret |= {link[:2] for link in hidden}
    guarded |= {link[:2] for link in kept}
    found.hidden += [path for path, link in several if link[:2] in secret]
    found.kept += [path for path, link in several if link[:2] in guarded and link[:2] not in secret]
    found.hidden, found.kept = list(dict.fromkeys(found.hidden)), list(dict.fromkeys(found.kept))
    # Kept names that are protected only together with the folder before them (``.github/workflows``).
    paired = [one for one in found.kept if one.parent.parent == workspace and not is_protected_name(one.name)]
    for path in [*found.hidden, *(one for one in paired if one.parent.name != ".git")]:
        # Renaming a folder would move its hidden files to a name that no rule covers.
        found.pinned += [one for one in path.parents if workspace in one.parents]
    found.pinned = list(dict.fromkeys(found.pinned))
    return kept | {link for _, link in several if link[:2] in secret or link[:2] in guarded}


def _linked(paths: Iterable[Path]) -> set[Links]:
    """Return the files with several names among these files and below these folders."""
    found: set[Links] = set()
    left = _MAX_LINKED
    for path in paths:
        waiting = [path]
        while waiting and left > 0:
            one = waiting.pop()
            left -= 1
            with contextlib.suppress(OSError):
                info = os.lstat(one)
                if stat.S_ISDIR(info.st_mode):
                    waiting += () if _is_object_store(one) else one.iterdir()
                elif info.st_nlink > 1:
                    found.add((info.st_dev, info.st_ino, info.st_ctime_ns))
    return found


def _is_object_store(path: Path) -> bool:
    """Return whether a folder is git's store of a submodule: large, and nothing in it makes git run something."""
    return path.name == "objects" and os.path.lexists(path.with_name("HEAD"))


class _Look:
    """Looks at the entries of single folders."""

    def __init__(self, workspace: Path, decide: Callable[[str, str], str], writable: bool) -> None:
        self._workspace = workspace
        self._decide = decide
        self._writable = writable

    def folder(self, name: str, stamp: tuple[int, int, int] | None) -> tuple[FolderEntries, int]:
        """Return one folder, and how many entries it has. Raises OSError."""
        with os.scandir(self._workspace / name) as entries:
            listed = list(entries)
        racy = stamp is None or time.time_ns() - stamp[2] < _RACY_NS
        found = FolderEntries(None if racy else stamp, bare=is_bare({entry.name for entry in listed}))
        guards = self._guards(name)
        for entry in listed:
            path = f"{name}/{entry.name}" if name else entry.name
            if is_protected_name(path):
                found.things[entry.name] = identity(entry.path)
            if entry.is_symlink():  # its target is what counts
                if is_protected_name(path):
                    found.links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                self._inner(found, entry, path)
            else:
                self._file(found, entry, path, guards)
        found.pack()
        return found, len(listed)

    def _guards(self, name: str) -> bool:
        """Return whether everything below a folder is kept."""
        above = [name, *(parent.as_posix() for parent in PurePosixPath(name).parents)] if name else []
        return any(map(is_protected_name, above)) or (
            self._writable and self._decide("edit", f"{name}/{_NEW}".lstrip("/")) == "deny"
        )

    def _inner(self, found: FolderEntries, entry: os.DirEntry[str], path: str) -> None:
        if path == TRACES or self._decide("read", f"{path}/{_NEW}") != "allow":
            # Traces have the contents of files that rules name elsewhere, and the daemon writes them meanwhile.
            found.hidden.append(entry.name)
            found.closed.append(entry.name)
            return
        if entry.name == ".git":
            found.repositories.append(entry.name)
            return
        if is_protected_name(path) or self._decide("edit", f"{path}/{_NEW}") == "deny":
            found.kept.append(entry.name)
        found.folders.append(entry.name)

    def _file(self, found: FolderEntries, entry: os.DirEntry[str], path: str, guards: bool) -> None:
        info = entry.stat(follow_symlinks=False)
        inode = (info.st_dev, info.st_ino)
        if info.st_nlink > 1:
            found.several.append((entry.name, (*inode, info.st_ctime_ns)))
        if stat.S_ISSOCK(info.st_mode) or self._decide("read", path) != "allow":
            found.hidden.append(entry.name)
            found.secret.add(inode)
            return
        if info.st_nlink > 1 and guards:
            found.guarded.add(inode)
        if is_protected_name(path):
            found.kept.append(entry.name)
            found.guarded.add(inode)
        elif self._writable and self._decide("edit", path) == "deny":
            found.kept.append(entry.name)
            found.guarded.add(inode)
            found.things[entry.name] = identity(entry.path)


def identity(path: Path | str) -> str:
    """Return an identity of a file or folder; for a link, it includes the target. Raises OSError."""
    info = os.lstat(path)
    kind = stat.S_IFMT(info.st_mode)
    link = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""  # noqa: PTH115
    return f"{info.st_dev}:{info.st_ino}:{kind:o}:{link}"


def identity_if_there(path: Path) -> str:
    try:
        return identity(path)
    except OSError:
        return ""


def _git(name: str, workspace: Path, found: WorkspaceSurvey) -> None:
    """Commits must be possible, other settings and hooks not. ``name``: of the repository's folder."""
    path = workspace / name
    if name:
        found.pinned.append(path)
    for inner in STOPPED:
        if (it := identity_if_there(path / inner)) and (lines := would_run(path / inner)):
            found.known.stopped[it] = lines
    for inner in (*KEPT_OF_GIT, WORKTREES):
        part = path / inner
        # Without HEAD it is no repository, and nothing should be created in it.
        if inner in MADE_OF_GIT and not os.path.lexists(part) and os.path.lexists(path / "HEAD"):
            with contextlib.suppress(OSError):  # a disk that is read-only for us is so in the sandbox
                part.mkdir()
        if not os.path.lexists(part):
            continue
        found.known.things[f"{name}/{inner}" if name else inner] = identity(part)
        if part.is_symlink():
            _led_to(part, workspace, found)
        else:
            found.kept.append(part)


def _led_to(link: Path, workspace: Path, found: WorkspaceSurvey) -> None:
    """Keep what a path leads to where it could be changed. It need not exist, and several links may lead there."""
    real = Path(os.path.realpath(link))
    for path in (*_links_on(link), real):
        if path != workspace and path.is_relative_to(workspace):
            name = path.relative_to(workspace).as_posix()
            found.known.named.append(name)
            if it := identity_if_there(path):
                found.known.things[name] = it
    if real != workspace and real.is_relative_to(workspace) and real.exists():
        found.kept.append(real)


def _links_on(path: Path) -> list[Path]:
    """Return the links that an absolute path leads over, each in a folder without links."""
    found: list[Path] = []
    folder, left = Path(path.anchor), list(reversed(path.parts[1:]))
    while left and len(found) < _MAX_LINKS:
        part = left.pop()
        here = folder.parent if part == ".." else folder / part
        if not here.is_symlink():
            folder = here
            continue
        found.append(here)
        target = here.readlink()
        folder = Path(target.anchor or folder)
        left += reversed(target.parts[1:] if target.anchor else target.parts)
    return found


def _around(workspace: Path) -> dict[Path, Path]:
    """Return the repository that the workspace is a part of, with its working tree."""
    above = [up for up in workspace.parents if os.path.lexists(up / ".git")]
    return {above[0] / ".git": above[0]} if above else {}


def _led_to_by_settings(git_dir: Path, top: Path, workspace: Path, found: WorkspaceSurvey) -> None:
    """Keep what settings of git name. Raises TooMuchToLookAtError when they cannot be known."""
    try:
        named = list(named_in_settings(git_dir, top))
    except TimeoutError as error:
        raise TooMuchToLookAtError(str(error)) from error
    places: dict[Path, None] = {}
    for path in named:
        links = (parent for parent in path.parents if parent.is_symlink())
        places |= dict.fromkeys((path, Path(os.path.realpath(path)), *links))
    for path in places:
        if path == workspace or not path.is_relative_to(workspace):
            continue
        name = path.relative_to(workspace).as_posix()
        found.known.named.append(name)
        if not (it := identity_if_there(path)):
            continue
        found.known.things[name] = it
        if not path.is_symlink() and path == Path(os.path.realpath(path)):
            found.kept.append(path)
            # Its folder could be renamed and replaced by another one.
            found.pinned += [parent for parent in path.parents if workspace in parent.parents]


def home_secrets() -> list[Path]:
    """Return private paths in the user's folder and in the system."""
    home, root = Path.home(), Path("/root")
    found = [home / name for name in sorted(_HOME_SECRETS)]
    # Where root's folder contains programs on PATH (pyenv), hide only its secrets.
    if home == root or any(
        Path(one).is_relative_to(root) for one in os.environ.get("PATH", "").split(os.pathsep)
    ):
        return [*found, *(root / name for name in sorted(_HOME_SECRETS)), *map(Path, _SYSTEM_SECRETS)]
    return [*found, *map(Path, _SYSTEM_SECRETS), root]


def sockets() -> list[Path]:
    """Unix sockets that programs listen at now: behind one may be docker, or an agent with keys."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines()[1:]
    except OSError:
        return []
    names = {fields[7] for line in lines if len(fields := line.split(" ", 7)) == 8}
    return [Path(name) for name in sorted(names) if name.startswith("/")]
