"""The workspace's files at the last check: their stat, and where their content is stored.

Built once, in a thread, before the first command runs; afterwards only changed paths are checked again, so the cost
grows with the changes. When the operating system lost events, all files are checked, which is just as correct but
slower. Everything here except ``TreeEvents`` is used by one thread at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.files.baseline import MAX_FILE, Baseline
from daemon.files.cooperative import cooperatively
from daemon.files.git import Git
from daemon.files.state import FileDelta, FileState
from tools.files.regular_files import open_regular
from tools.search.ripgrep import EXCLUDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.files.index_file import IndexLine
    from daemon.files.tree_events import TreeEvents

log = logging.getLogger(__name__)

MAX_FILES = 300_000
"""A workspace with more files is not watched at all."""
BARRIER_S = 2.0
_EXCLUDED = frozenset((*EXCLUDED, ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache"))
_UNVERSIONED = frozenset(("dist", "build", "target", ".cache", ".gradle", ".next"))
"""Folders to skip where no git repository lists the ignored files."""
_BINARY = (
    *(".png", ".jpg", ".jpeg", ".gif", ".ico", ".pdf"),
    *(".zip", ".gz", ".whl", ".so", ".pyc", ".db", ".sqlite"),
)


class TooManyFilesError(Exception):
    """There are too many files."""


class _Folder(Struct):
    files: dict[str, FileState] = field(default_factory=dict[str, FileState])
    folders: set[str] = field(default_factory=set[str])
    others: set[str] = field(default_factory=set[str])
    """Links, pipes and the like: what takes their place is no new file."""


class Tree:
    """The workspace's files at the last check. All methods are blocking."""

    def __init__(
        self, workspace: Path, events: TreeEvents, baseline: Baseline, *, origin: Path | None = None
    ) -> None:
        """``origin``: see ``Git.of``."""
        self._origin = origin
        self._workspace = workspace.as_posix()
        self._events = events
        self._baseline = baseline
        self._git: Git | None = None
        self._ignored: set[str] = set()
        self._doubtful: set[str] = set()
        """Once ignored and no longer: whether they are new is not known."""
        self._folders: dict[str, _Folder] = {}
        self._count = 0
        self._uncovered: deque[str] = deque()
        self._index: dict[str, IndexLine] | None = None
        self._index_stamp: tuple[int, int, int] | None = None
        self._garbage: list[str] = []

    def build(self) -> None:
        """Look at all files, and watch them from now on. Raises TooManyFilesError."""
        workspace = Path(self._workspace)
        self._git = Git.of(workspace, self._origin)
        self._ignored = self._git.ignored() if self._git is not None else set()
        self._baseline.open()
        self._events.begin()
        for _ in self._scan(self._workspace):
            pass
        for folder, content in self._folders.items():
            self._uncovered.extend(f"{folder}/{name}" for name in content.files)
        # Text files come first, because users miss those most.
        last = [path for path in self._uncovered if path.endswith(_BINARY)]
        if last:
            first = [path for path in self._uncovered if not path.endswith(_BINARY)]
            self._uncovered = deque((*first, *last))

    def collect(self) -> list[FileDelta]:
        """Return the changes since the last call."""
        paths, whole = self._events.take(BARRIER_S)
        if not whole:
            paths = {self._workspace}
        if not whole or any(os.path.basename(path) == ".gitignore" for path in paths):  # noqa: PTH119
            self._reread_ignored()
        # Deleted paths come first, because a moved folder is then watched under its new name.
        there = sorted(
            (path for path in paths if self._matters(path)), key=lambda path: (_exists(path), path)
        )
        if not there:
            return []
        there = self._without_ignored(there)
        found: dict[str, FileDelta] = {}
        for path in there:
            for delta in self._look(path):
                first = found.get(delta.path)
                found[delta.path] = delta if first is None else first.then(delta)
        changed = [delta for delta in found.values() if delta.old != delta.new]
        for delta in changed:
            if delta.new is not None:
                self._uncovered.append(delta.path)
            if delta.old is not None and delta.old.source[:1] == b"b":
                self._garbage.append(delta.old.source[1:].decode())
        return changed

    def cover(self, seconds: float) -> bool:
        """Make sure, for so long, that contents can be had again; returns whether there is more to do."""
        until = time.monotonic() + seconds
        for path in cooperatively(_drained(self._uncovered)):
            self._cover(path)
            if time.monotonic() > until:
                return True
        self._index = None
        return False

    def collect_garbage(self) -> None:
        """Remove copies of changed files. Call it when the old contents are no longer needed."""
        for digest in self._garbage:
            self._baseline.release(digest)
        self._garbage.clear()

    def contents(self, states: dict[str, FileState]) -> dict[str, bytes]:
        """Return the content of files while they were in these states, where it can be had."""
        oids = {path: state.source[1:] for path, state in states.items() if state.source[:1] == b"g"}
        blobs = self._git.blobs(list(set(oids.values()))) if oids and self._git is not None else {}
        found: dict[str, bytes] = {}
        for path, state in states.items():
            data = blobs.get(oids[path]) if path in oids else None
            if state.source[:1] == b"b":
                data = self._baseline.get(state.source[1:].decode())
            if data is not None and len(data) == state.size:
                found[path] = data
        return found

    def lacks(self, path: str) -> bool:
        """Return whether a file would be looked at here if it were there, and is not."""
        return self._matters(path) and not self._is_known(path) and not _exists(path)

    def save(self) -> None:
        """Store the list of copies for the next daemon."""
        copies = {
            f"{folder}/{name}": (state.stamp, state.source[1:].decode())
            for folder, content in self._folders.items()
            for name, state in content.files.items()
            if state.source[:1] == b"b"
        }
        self._baseline.save(copies)

    # -- reading the disk --

    def _matters(self, path: str) -> bool:
        if path in self._ignored:
            return False
        if path == self._workspace:
            return True
        folder, _, name = path.rpartition("/")
        return folder in self._folders and not self._skips(name)

    def _skips(self, name: str) -> bool:
        return name in _EXCLUDED or (self._git is None and name in _UNVERSIONED)

    def _without_ignored(self, paths: list[str]) -> list[str]:
        """Ask git about new names: it may ignore them, or something in new folders."""
        if self._git is None:
            return paths
        new = [path for path in paths if not self._is_known(path) and path != self._workspace]
        ignored = self._git.are_ignored(new)
        folders = [path for path in paths if path not in self._folders and os.path.isdir(path)]  # noqa: PTH112
        self._ignored |= ignored | self._git.ignored_in(folders)
        return [path for path in paths if path not in ignored]

    def _is_known(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        content = self._folders.get(folder)
        return content is not None and (name in content.files or name in content.folders)

    def _reread_ignored(self) -> None:
        if self._git is not None:
            before, self._ignored = self._ignored, self._git.ignored()
            self._doubtful |= before - self._ignored
            for path in self._ignored - before:
                self._forget(path)

    def _forget(self, path: str) -> None:
        """Look no longer at a file or folder that git ignores from now on. It is not deleted."""
        folder, _, name = path.rpartition("/")
        for _ in self._drop(path):
            pass
        if folder in self._folders and name in self._folders[folder].files:
            self._set(folder, name, None)

    def _look(self, path: str) -> Iterator[FileDelta]:
        folder, _, name = path.rpartition("/")
        content = self._folders.get(folder)
        try:
            found = os.lstat(path)
        except OSError:
            found = None
        if found is not None and stat.S_ISDIR(found.st_mode):
            if content is not None and name in content.files:
                yield self._set(folder, name, None)
            yield from self._scan(path)
            return
        if path in self._folders:
            yield from self._drop(path)
        if content is not None:
            new = FileState.of(found) if found is not None and stat.S_ISREG(found.st_mode) else None
            if new is not None or name in content.files:
                yield self._set(folder, name, new)
            if found is None or new is not None:
                content.others.discard(name)
            else:
                content.others.add(name)

    def _scan(self, top: str) -> Iterator[FileDelta]:
        """Compare a folder and all below it; yields each changed file. Raises TooManyFilesError."""
        new_folders = self._new_folders(top)
        todo = deque([top])
        for folder in cooperatively(_drained(todo), 4):
            content = self._folders.get(folder)
            if content is None:
                content = self._folders[folder] = _Folder()
                parent, _, name = folder.rpartition("/")
                if parent in self._folders:
                    self._folders[parent].folders.add(name)
            self._events.add(folder)  # before reading: later changes are reported
            files: dict[str, FileState] = {}
            folders: set[str] = set()
            others: set[str] = set()
            try:
                with os.scandir(folder) as entries:
                    for entry in cooperatively(entries):
                        if self._skips(entry.name) or f"{folder}/{entry.name}" in self._ignored:
                            continue
                        with contextlib.suppress(OSError):
                            if entry.is_dir(follow_symlinks=False):
                                folders.add(entry.name)
                            elif entry.is_file(follow_symlinks=False):
                                files[entry.name] = FileState.of(entry.stat(follow_symlinks=False))
                            else:
                                others.add(entry.name)
            except OSError as error:
                log.info("not looked at: %s", error)
            for name in content.folders - folders:
                yield from self._drop(f"{folder}/{name}")
            content.folders = folders
            todo.extend(f"{folder}/{name}" for name in sorted(folders))
            for name in [*(content.files.keys() - files.keys()), *files]:
                new = files.get(name)
                old = content.files.get(name)
                if old is None or new is None or old.stamp != new.stamp:
                    yield self._set(
                        folder, name, new, (*new_folders, *self._between(top, folder, new_folders))
                    )

            content.others = others

    def _new_folders(self, top: str) -> tuple[str, ...]:
        found: list[str] = []
        while top not in self._folders and top.startswith(self._workspace):
            found.insert(0, top)
            top = top.rpartition("/")[0]
        return tuple(found)

    def _between(self, top: str, folder: str, new: tuple[str, ...]) -> tuple[str, ...]:
        """Folders below ``top`` down to ``folder``, when ``top`` itself is new."""
        if not new or folder == top:
            return ()
        parts = folder[len(top) + 1 :].split("/")
        return tuple(f"{top}/{'/'.join(parts[: n + 1])}" for n in range(len(parts)))

    def _drop(self, folder: str) -> Iterator[FileDelta]:
        """Record that a folder is gone, with all below it."""
        content = self._folders.pop(folder, None)
        if content is None:
            return
        self._events.remove(folder)
        parent, _, name = folder.rpartition("/")
        if parent in self._folders:
            self._folders[parent].folders.discard(name)
        for name in content.folders:
            yield from self._drop(f"{folder}/{name}")
        self._count -= len(content.files)
        for name, old in content.files.items():
            yield FileDelta(f"{folder}/{name}", old, None)

    def _set(
        self, folder: str, name: str, new: FileState | None, new_folders: tuple[str, ...] = ()
    ) -> FileDelta:
        content = self._folders[folder]
        path = f"{folder}/{name}"
        old = content.files.get(name)
        if new is None:
            content.files.pop(name, None)
        elif old is not None and old.stamp == new.stamp:
            new = old
        else:
            content.files[name] = new
        self._count += (new is not None) - (old is not None)
        if self._count > MAX_FILES:
            raise TooManyFilesError(f"{self._workspace} has more than {MAX_FILES} files")
        certain = old is not None or not (
            name in content.others
            or any(path == other or path.startswith(f"{other}/") for other in self._doubtful)
        )
        return FileDelta(path, old, new, certain, new_folders)

    # -- contents --

    def _cover(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        content = self._folders.get(folder)
        state = content.files.get(name) if content is not None else None
        if content is None or state is None or state.source:
            return
        source = self._in_git(path, state) or self._copied(path, state)
        if source:
            content.files[name] = FileState(state.stamp, source)

    def _in_git(self, path: str, state: FileState) -> bytes:
        if self._git is None:
            return b""
        if self._index is None:
            try:
                found = self._git.index.stat()
                stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            except OSError:
                stamp = None
            # A file that changed after git looked cannot be what git saw, until git looks again.
            self._index = self._git.tracked() if stamp is not None and stamp != self._index_stamp else {}
            self._index_stamp = stamp
        entry = self._index.get(path)
        return b"g" + entry.oid if entry is not None and state.is_in(entry) else b""

    def _copied(self, path: str, state: FileState) -> bytes:
        if state.size > MAX_FILE:
            return b""
        digest = self._baseline.known(path, state.stamp)
        if digest is None:
            try:
                with open_regular(Path(path)) as file:
                    data = file.read(MAX_FILE + 1)
                    now = FileState.of(os.fstat(file.fileno()))
            except OSError:
                return b""
            # The file changed meanwhile, so this is not its earlier content; its event is on the way.
            digest = self._baseline.put(data) if now.stamp == state.stamp else None
        return b"" if digest is None else b"b" + digest.encode()


def _drained(todo: deque[str]) -> Iterator[str]:
    """Yield from the queue until it is empty, including items that are added meanwhile."""
    while todo:
        yield todo.popleft()


def _exists(path: str) -> bool:
    return os.path.lexists(path)
