"""Asks git about an untrusted repository, so that nothing the repository names is run: no hooks, no filters, no
monitor, no fetching of missing objects. Blocking: call it in a thread.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.files.cooperative import cooperatively
from daemon.files.state import IndexEntry, UnknownIndexError, entries
from tools.files.regular_files import read_regular
from tools.process.environment import GIT_ASKED, git_environment
from tools.process.programs import find_program
from tools.search.ripgrep import SLOW_S, endless

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
        lines = _run(program, workspace, asked).decode("utf-8", "surrogateescape").split("\n")
        if len(lines) < 3:
            return None
        top = Path(os.path.realpath(lines[0]))
        if not workspace.is_relative_to(top):
            return None  # its configuration moves the files elsewhere
        return Git(program, workspace, top, workspace / lines[1], 32 if lines[2] == "sha256" else 20)

    def ignored(self) -> set[str]:
        """Absolute paths of what git ignores; of an ignored folder only the folder itself."""
        data = self._ask("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        return {f"{self._workspace.as_posix()}/{name.rstrip('/')}" for name in _names(data)}

    def are_ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those of some absolute paths that git ignores."""
        given = b"".join(os.fsencode(path) + b"\0" for path in paths)
        return set(_names(self._ask("check-ignore", "-z", "--stdin", given=given))) if given else set()

    def tracked(self) -> dict[str, IndexEntry]:
        """Tracked files whose bytes on disk are those of their blob, if their stat is still the same.

        By absolute path, below the workspace only.
        """
        try:
            data = read_regular(self.index, _MAX_INDEX, follow=True)
            written_ns = self.index.stat().st_mtime_ns
            root = os.fsencode(self._top.as_posix())
            prefix = os.fsencode(self._workspace.as_posix()) + b"/"
            found: dict[str, IndexEntry] = {}
            attributes = (self._top / ".git" / "info" / "attributes").exists()
            for path, entry in cooperatively(entries(data, self._hash_size)):
                full = root + b"/" + path
                attributes = attributes or path.endswith(b".gitattributes")
                # Files that changed at the moment of git's check may look unchanged ("racily clean").
                if full.startswith(prefix) and entry.mtime_ns < written_ns:
                    found[os.fsdecode(full)] = entry
        except (OSError, UnknownIndexError) as error:
            log.info("the index of %s is not used: %s", self._top, error)
            return {}
        if attributes or self._ask("config", "--get", "core.autocrlf").strip() not in (b"", b"false"):
            return self._unconverted(found)
        return found

    def blobs(self, oids: Sequence[bytes]) -> dict[bytes, bytes]:
        """Contents by id, each verified; those that are missing or damaged are left out."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(oids), 200):
            some = oids[start : start + 200]
            found.update(self._some_blobs(some))
        return found

    def _some_blobs(self, oids: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        given = b"".join(oid.hex().encode() + b"\n" for oid in oids)
        data = self._ask("cat-file", "--batch", given=given)
        at = 0
        for oid in oids:
            end = data.find(b"\n", at)
            if end < 0:
                return
            head = data[at:end].split(b" ")
            at = end + 1
            if len(head) != 3 or head[1] != b"blob" or not head[2].isdigit():
                continue
            size = int(head[2])
            content = data[at : at + size]
            at += size + 1
            if _object_id(content, len(oid)) == oid:
                yield oid, content

    def _unconverted(self, found: dict[str, IndexEntry]) -> dict[str, IndexEntry]:
        """Without the files that git converts on their way to the disk."""
        oids = {entry.oid for entry in found.values()}
        given = b"".join(oid.hex().encode() + b"\n" for oid in oids)
        sizes: dict[bytes, int] = {}
        for line in self._ask("cat-file", "--batch-check", given=given).splitlines():
            head = line.split(b" ")
            if len(head) == 3 and head[2].isdigit():
                sizes[bytes.fromhex(head[0].decode("ascii"))] = int(head[2])
        given = b"".join(os.fsencode(path) + b"\0" for path in found)
        fields = self._ask("check-attr", "-z", "--stdin", *_ATTRIBUTES, given=given).split(b"\0")
        converted = {
            os.fsdecode(path)
            for path, value in zip(fields[0::3], fields[2::3], strict=False)
            if value not in (b"unspecified", b"unset")
        }
        return {
            path: entry
            for path, entry in found.items()
            if sizes.get(entry.oid) == entry.size and path not in converted
        }

    def _ask(self, *args: str, given: bytes = b"") -> bytes:
        return _run(self._program, self._workspace, args, given)


def _run(program: str, folder: Path, args: Sequence[str], given: bytes = b"") -> bytes:
    """Output of git; empty when it fails."""
    try:
        with subprocess.Popen(
            [program, *GIT_ASKED, *args],
            cwd=folder,
            env=git_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as running:
            return _output(running, folder, given)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.info("git %s: %s", args[0], error)
        return b""


def _output(running: subprocess.Popen[bytes], folder: Path, given: bytes) -> bytes:
    """Return the output of git. Raises TimeoutExpired when it takes too long, or reads an endless ignore file."""
    try:
        try:
            return running.communicate(given, SLOW_S)[0]
        except subprocess.TimeoutExpired:
            if endless(folder, stopped=lambda: running.poll() is not None):
                raise
            return running.communicate(timeout=_TIMEOUT_S)[0]
    except BaseException:
        running.kill()
        raise


def _names(data: bytes) -> list[str]:
    return [os.fsdecode(name) for name in data.split(b"\0") if name]


def _object_id(content: bytes, size: int) -> bytes:
    head = b"blob %d\0" % len(content)
    # git's own naming of contents; it protects nothing.
    return (hashlib.sha256 if size == 32 else hashlib.sha1)(head + content).digest()
