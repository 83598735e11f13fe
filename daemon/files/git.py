"""Asks git about an untrusted repository, so that nothing the repository names is run: no hooks, no filters, no
monitor, no fetching of missing objects. Blocking: call it in a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.files.cooperative import cooperatively
from daemon.files.index_file import FILE, BadIndexError, entries, extensions
from tools.files.regular_files import read_regular
from tools.process.environment import GIT_ASKED, git_environment
from tools.process.programs import find_program
from tools.search.ripgrep import SLOW_S, endless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from daemon.files.index_file import IndexLine

log = logging.getLogger(__name__)

_TIMEOUT_S = 30.0
_MAX_INDEX = 1 << 30
_ATTRIBUTES = ("filter", "working-tree-encoding", "ident")


class Git:
    """The repository that contains a workspace."""

    def __init__(self, program: str, workspace: Path, top: Path, index: Path, hash_size: int) -> None:
        self._program = program
        self._workspace = workspace
        self._top = top
        self._hash_size = hash_size
        self.index = index
        """The index file."""

    @staticmethod
    def of(workspace: Path, origin: Path | None = None) -> Git | None:
        """Return the repository, or None: there is no git, no repository, or git does not trust it.

        ``origin``: the folder of which the workspace is a copy; no program of it is run.
        """
        program = find_program("git", workspace, origin)
        if program is None:
            return None
        asked = ("rev-parse", "--show-toplevel", "--git-path", "index", "--show-object-format")
        lines = _output(program, workspace, asked).decode("utf-8", "surrogateescape").split("\n")
        if len(lines) < 3:
            return None
        top = Path(os.path.realpath(lines[0]))
        if not workspace.is_relative_to(top):
            return None  # its configuration moves the files elsewhere
        return Git(program, workspace, top, workspace / lines[1], 32 if lines[2] == "sha256" else 20)

    def ignored(self) -> set[str]:
        """Absolute paths of what git ignores; of an ignored folder only the folder itself."""
        return self._ignored()

    def ignored_in(self, folders: Iterable[str]) -> set[str]:
        """Return what ``ignored`` does, only in some folders (absolute paths)."""
        mine = self._mine(folders)
        batches = (mine[start : start + 200] for start in range(0, len(mine), 200))
        return {path for batch in batches for path in self._ignored("--", *batch)}

    def are_ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those of some absolute paths that git ignores."""
        given = b"".join(os.fsencode(path) + b"\0" for path in self._mine(paths))
        return set(_names(self._ask("check-ignore", "-z", "--stdin", given=given))) if given else set()

    def _ignored(self, *where: str) -> set[str]:
        asked = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        data = self._ask("--literal-pathspecs", *asked, *where)
        return {f"{self._workspace.as_posix()}/{name.rstrip('/')}" for name in _names(data)}

    def _mine(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that are not behind a link or in an inner repository: git refuses all if one of them is."""
        elsewhere = {self._workspace.as_posix(): False, "": False}

        def is_elsewhere(folder: str) -> bool:
            if folder not in elsewhere:
                links = Path(folder).is_symlink() or os.path.lexists(f"{folder}/.git")
                elsewhere[folder] = links or is_elsewhere(folder.rpartition("/")[0])
            return elsewhere[folder]

        return [path for path in paths if not is_elsewhere(path.rpartition("/")[0])]

    def tracked(self) -> dict[str, IndexLine]:
        """Tracked files whose bytes on disk are those of their blob, if their stat is still the same.

        By absolute path, below the workspace only.
        """
        try:
            data = read_regular(self.index, _MAX_INDEX, follow=True)
            written_ns = self.index.stat().st_mtime_ns
            root = os.fsencode(self._top.as_posix())
            prefix = os.fsencode(self._workspace.as_posix()) + b"/"
            found: dict[str, IndexLine] = {}
            attributes = (self._top / ".git" / "info" / "attributes").exists()
            end = 12
            for entry, end in cooperatively(entries(data, self._hash_size)):  # noqa: B007 - the last end counts
                if entry.kind != FILE or entry.stage or entry.assumed or entry.skipped or entry.intended:
                    continue
                full = root + b"/" + entry.path
                attributes = attributes or entry.path.endswith(b".gitattributes")
                # Files that changed at the moment of git's check may look unchanged ("racily clean").
                if full.startswith(prefix) and entry.mtime_ns < written_ns:
                    found[os.fsdecode(full)] = entry
            if any(name == b"link" for name, _ in extensions(data, end, self._hash_size)):
                raise BadIndexError("a split index")
        except (OSError, BadIndexError) as error:
            log.info("the index of %s is not used: %s", self._top, error)
            return {}
        if attributes or self._ask("config", "--get", "core.autocrlf").strip() not in (b"", b"false"):
            return self._unconverted(found)
        return found

    def blobs(self, oids: Sequence[bytes]) -> dict[bytes, bytes]:
        """Contents by id, each verified; those that are missing or damaged are left out."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(oids), 200):
            some = [oid.hex().encode() for oid in oids[start : start + 200]]
            data = self._ask("cat-file", "--batch", given=b"".join(oid + b"\n" for oid in some))
            for name, content in blobs_in(data, some):
                oid = bytes.fromhex(name.decode())
                if _object_id(content, len(oid)) == oid:
                    found[oid] = content
        return found

    def _unconverted(self, found: dict[str, IndexLine]) -> dict[str, IndexLine]:
        """Without the files that git converts on their way to the disk."""
        oids = {entry.oid for entry in found.values()}
        given = b"".join(oid.hex().encode() + b"\n" for oid in oids)
        sizes = dict(object_sizes(self._ask("cat-file", "--batch-check", given=given)))
        given = b"".join(os.fsencode(path) + b"\0" for path in found)
        fields = self._ask("check-attr", "-z", "--stdin", *_ATTRIBUTES, given=given).split(b"\0")
        converted = {
            os.fsdecode(path)
            for path, value in zip(fields[0::3], fields[2::3], strict=False)
            if value not in (b"unspecified", b"unset")
        }
        return {
            path: entry for path, entry in found.items() if entry.has_size(sizes) and path not in converted
        }

    def _ask(self, *args: str, given: bytes = b"") -> bytes:
        return _output(self._program, self._workspace, args, given)


def object_sizes(listing: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the ids in hex and the sizes in an answer of ``git cat-file --batch-check``; missing objects have none."""
    for line in listing.splitlines():
        oid, _, rest = line.partition(b" ")
        size = rest.rpartition(b" ")[2]
        if size.isdigit():
            yield oid, int(size)


def blobs_in(data: bytes, oids: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the contents in an answer of ``git cat-file --batch`` to these ids in hex; missing ones are left out."""
    at = 0
    for oid in oids:
        end = data.find(b"\n", at)
        if end < 0:
            return
        head = data[at:end].split(b" ")
        at = end + 1
        if len(head) == 3 and head[2].isdigit():
            size = int(head[2])
            if head[1] == b"blob":
                yield oid, data[at : at + size]
            at += size + 1


def git_command(program: str, *args: str | bytes, settings: Iterable[str] = ()) -> list[str | bytes]:
    """Return a command line for ``run``, with ``git_environment`` as its environment."""
    return [program, *GIT_ASKED, *(part for setting in settings for part in ("-c", setting)), *args]


def run(
    argv: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    given: bytes = b"",
    timeout_s: float,
    reads_ignores: bool = False,
    running: Callable[[subprocess.Popen[bytes]], AbstractContextManager[object]] = contextlib.nullcontext,
) -> tuple[int, bytes, bytes]:
    """Return the exit code, output and errors of a program. It has ended whatever happens.

    ``reads_ignores``: it reads ignore files below ``cwd``; it is ended early if one of them is endless. ``running`` is
    entered while it runs, e.g. to let another thread kill it. Raises OSError when it cannot be started, and
    TimeoutExpired.
    """
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            with running(process):
                try:
                    out, errors = process.communicate(given or None, SLOW_S if reads_ignores else timeout_s)
                except subprocess.TimeoutExpired:
                    if not reads_ignores or endless(cwd, stopped=lambda: process.poll() is not None):
                        raise
                    out, errors = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
        return process.returncode, out, errors


def _output(program: str, folder: Path, args: Sequence[str], given: bytes = b"") -> bytes:
    """Output of git; empty when it fails."""
    command, env = git_command(program, *args), git_environment()
    try:
        return run(command, cwd=folder, env=env, given=given, timeout_s=_TIMEOUT_S, reads_ignores=True)[1]
    except (OSError, subprocess.TimeoutExpired) as error:
        log.info("git %s: %s", args[0], error)
        return b""


def _names(data: bytes) -> list[str]:
    return [os.fsdecode(name) for name in data.split(b"\0") if name]


def _object_id(content: bytes, size: int) -> bytes:
    head = b"blob %d\0" % len(content)
    # git's own naming of contents; it protects nothing.
    return (hashlib.sha256 if size == 32 else hashlib.sha1)(head + content).digest()
