"""The sandbox without mounts: Landlock, a system call filter and a broker, for Linux where bwrap does not work.

Decisions, for the limits of Landlock (rules only allow, hold for everything below a folder, and cannot be added later):
1. Hidden files cannot be read, and protected ones cannot be changed, at any time; nothing is restored afterwards. An
   editor's git runs ``.git/config`` within seconds of a change, so a later repair would come too late.
2. A folder with something hidden or protected below it (an *edge*) gets no rule for that right; its other entries do.
3. New entries of edges come from a broker outside of the sandbox (``landlock_run``), so builds, tests and ``git
   commit`` work. It rejects names of the fence, also those that do not exist yet. It only adds to what the kernel
   allows: unknown calls fail, and if the broker is killed, such calls fail.
4. ``/tmp``, ``/var/tmp`` and ``/dev/shm`` stay shared with others: commands can make entries there and change their own
   and those of earlier commands, but no others.
5. Modes, owners, Unix sockets and loopback TCP go through the broker, too; other sockets, io_uring, keys, namespaces
   and extended attributes are rejected. Processes outside can be neither traced nor signalled.
6. Still possible: seeing that hidden things exist (``stat``), time stamps and locks of files, command lines of other
   processes (not their memory, environment or open files), disk use. ``LIMITS`` has the list.
7. Harmless, but fails: pseudo-terminals, datagram sockets, debuggers of other processes, new folders in an edge beyond
   the pool of 64. The caller offers such commands again outside of the sandbox.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import marshal
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from tools.sandbox import seccomp

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE, _MAKE, _REFER, _TRUNCATE, _DEVICE = 0x30, 0x1780, 1 << 13, 1 << 14, 1 << 15
"""To make files, folders, sockets, FIFOs and links, but no devices."""
_CHANGE = _WRITE | _REMOVE | _MAKE | _REFER | _TRUNCATE
_ALL = _READ | _EXECUTE | _LIST | _CHANGE
_MEMORY = Path("/dev/shm")
_SHARED = (_MEMORY, Path("/tmp"), Path("/var/tmp"))
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_REMEMBERED = 2000
_FOLDERS, _FILES = 64, 128
_PROBE_S = 20.0
_SCOPES = 6
"""The first version of Landlock that can keep connections and signals inside."""
LIMITS = (
    "that hidden files exist, their size, times and extended attributes can be seen, and their folders watched",
    "time stamps of the user's files can be changed, and files that can be read can be locked",
    "names and command lines of other processes can be seen",
)
"""Accesses that no fence can forbid here, as text for the user."""


class Fence(Struct, frozen=True):
    """The limits of one command. All paths are absolute and resolved."""

    writable: tuple[Path, ...]
    """Trees that may be read and written."""
    read_only: tuple[Path, ...]
    """Trees or files in ``writable`` that may not be written; those that do not exist may not be made."""
    hidden: tuple[Path, ...]
    """Trees or files anywhere that may be neither read nor written."""
    network: bool
    readable: tuple[Path, ...] = ()
    """Trees that may be read although a folder above them is hidden."""
    tmp: Path | None = None
    """A private folder for temporary files; also to be listed in ``writable``."""


@functools.cache
def landlock_abi() -> int:
    """Return the version of Landlock that the kernel has, 0 without it."""
    if not sys.platform.startswith("linux"):
        return 0
    found = ctypes.CDLL(None, use_errno=True).syscall(444, None, ctypes.c_size_t(0), 1)
    return max(found, 0)


def landlock_prefix(fence: Fence, state_file: Path) -> tuple[str, ...]:
    """Write what to enforce to ``state_file`` and return the words before the command's own. Blocking.

    ``state_file`` is for this command alone: it must not exist yet, and is removed when the command starts. Its folder
    must be private and last from command to command; no command may write there, and it is hidden from this one.
    Raises OSError, or ``seccomp.Unsupported``.
    """
    plan = make_plan(fence, state_file.parent, landlock_abi())
    fd = os.open(state_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        marshal.dump(plan, file)  # the same Python reads it, and importing json would take longer
    return (sys.executable, "-I", "-S", "-c", _start("main"), str(state_file))


def scoped_prefix(program: str) -> tuple[str, ...]:
    """Return the words before those of ``program``, by which it reaches no Unix sockets without a file outside.

    There are none where the kernel cannot do that, or where ``program`` gets rights from its file, which it would lose.
    """
    if landlock_abi() < _SCOPES or Path(program).stat().st_mode & stat.S_ISUID:
        return ()
    return (sys.executable, "-I", "-S", "-c", _start("scoped"))


def _start(function: str) -> str:
    # Importing it as a module uses the compiled code.
    code = str(Path(__file__).resolve().parents[2])
    return (
        f"import sys;sys.path.append({code!r});from tools.sandbox.landlock_run import {function};{function}()"
    )


def enforces(fence: Fence) -> tuple[str, ...]:
    """Return, as text for the user, the parts of the fence that this sandbox cannot enforce; empty when it enforces
    all."""
    missing: list[str] = []
    for path in fence.writable:
        if path.is_symlink() or os.path.realpath(path) != str(path):
            missing.append(f"{path} is not a resolved path")
        elif path == Path("/"):
            missing.append("the whole disk would be writable")
    for path in (*fence.hidden, *fence.read_only):
        if path.is_relative_to("/proc"):
            missing.append(f"{path} cannot be hidden or protected")
    return tuple(missing)


@functools.cache
def usable() -> str | None:
    """Return None if this sandbox works here, else the reason, as text. Blocking; tested once with a real command."""
    if not landlock_abi():
        return "the kernel has no Landlock, or it is switched off"
    try:
        with tempfile.TemporaryDirectory(prefix="goalwright-landlock-") as folder:
            return _probe(Path(os.path.realpath(folder)))
    except (OSError, subprocess.SubprocessError, seccomp.UnsupportedError) as error:
        return f"Landlock does not work here ({error})"


def _probe(folder: Path) -> str | None:
    work, private = folder / "work", folder / "private"
    for made in (work, private):
        made.mkdir(mode=0o700)
    for name in ("hidden", "kept", "plain"):
        (work / name).write_text("before")
    fence = Fence((work,), (work / "kept",), (work / "hidden",), network=False)
    script = (
        "! (cat hidden) 2>/dev/null && ! (echo x >kept) 2>/dev/null && echo x >plain && echo x >new && mkdir made && "
        "echo x >made/inner && cat new made/inner >/dev/null && rm new && echo works"
    )
    done = subprocess.run(
        [*landlock_prefix(fence, private / "plan.json"), "/bin/sh", "-c", script],
        cwd=work, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False,
    )  # fmt: skip
    if done.returncode == 0 and done.stdout == b"works\n":
        return None
    said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
    return f"Landlock does not work here ({said or f'the probe ended with {done.returncode}'})"


def make_plan(fence: Fence, private: Path, abi: int) -> dict[str, Any]:
    """Turn a fence into rules, edges and a filter for ``landlock_run``. Raises OSError or Unsupported."""
    root = Path("/")
    # The names in the pool are secret, because its members have rules of their own.
    hidden = {*fence.hidden, private}
    closed = {path for path in hidden if path.is_dir()}
    kept = hidden | set(fence.read_only)
    reads, lists, writes = _Enumeration({*hidden, Path("/dev")}), _Enumeration(closed), _Enumeration(kept)
    for tree in (root, *fence.readable, *fence.writable):
        reads.allow(tree, _READ | _EXECUTE)
        lists.allow(tree, _LIST)
    for tree in fence.writable:
        writes.allow(tree, _CHANGE)
    rules: dict[str, int] = {}
    for found in (reads.rules, lists.rules, writes.rules):
        for path, rights in found.items():
            rules[path] = rules.get(path, 0) | rights
    for name in _DEVICES:
        rules[f"/dev/{name}"] = _READ | _WRITE | _TRUNCATE | (_DEVICE if name == "tty" else 0)
    record = private / "made"
    made = _made_before(record)
    edges: dict[str, dict[str, Any]] = {}
    for path, names in (lists.edges | writes.edges).items():
        is_open = path in writes.edges
        edges[path] = {
            "path": path,
            "kept": sorted(names),
            "writable": is_open,
            "pooled": is_open,
            "fresh": False,
        }
    for path in _SHARED:
        if (
            path.is_dir()
            and not path.is_symlink()
            and not writes.reaches(path)
            and not any(path.is_relative_to(tree) for tree in hidden)
        ):
            edge = edges.setdefault(str(path), {"path": str(path), "kept": sorted(reads.leading(path))})
            edge |= {"writable": True, "fresh": True, "pooled": path != _MEMORY}
            rules |= {name: _ALL for name in made if Path(name).parent == path}
    for path, edge in edges.items():
        edge["readable"] = path not in reads.edges and path != str(_MEMORY)
    built = seccomp.build(network=fence.network, listing=bool(lists.edges), abi=abi)
    poor = any(edge["pooled"] and not edge["readable"] for edge in edges.values())
    return {
        "handled": (_handled(abi), 0b11 if abi >= 4 and not fence.network else 0, 0b11 if abi >= 6 else 0),
        "rules": sorted(rules.items()),
        "rights": _ALL,
        # The pool goes into the first edge of its disk, preferably not a shared one.
        "edges": sorted(edges.values(), key=lambda edge: edge["fresh"]),
        "record": str(record),
        "made": made,
        "kept": sorted(str(path) for path in kept),
        "filter": built.code,
        "calls": built.calls,
        "network": fence.network,
        "private": str(private),
        "folders": _FOLDERS,
        # Without a file to hide, new files in edges are readable without rules of their own.
        "files": _FILES if poor else 0,
        "tmp": str(fence.tmp) if fence.tmp else None,
    }


def _made_before(record: Path) -> dict[str, tuple[int, int]]:
    """Return entries of earlier commands in shared folders that still exist, by path."""
    from tools.sandbox.landlock_rules import birth  # only Linux has what it needs

    found: dict[str, tuple[int, int]] = {}
    try:
        lines = record.read_text("utf-8", "surrogateescape").split("\n")
    except OSError:
        return found
    for line in lines[-_REMEMBERED:]:
        # A record of an older version has no time, so its path begins where the time is expected.
        disk, number, made, path = (*line.split(" ", 3), "", "", "")[:4]
        with contextlib.suppress(OSError):
            info = os.lstat(path)
            if (str(info.st_dev), str(info.st_ino), str(birth(path))) == (disk, number, made):
                found[path] = (info.st_dev, info.st_ino)
    return found


def _handled(abi: int) -> int:
    """Return all rights to files that this version knows."""
    return (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1


class _Enumeration:
    """Rules that allow trees but for some paths in them."""

    def __init__(self, holes: set[Path]) -> None:
        self._holes = holes
        self._above = {parent for hole in holes for parent in hole.parents}
        self.rules: dict[str, int] = {}
        self.edges: dict[str, set[str]] = {}
        """Folders above holes, and the names in them that lead to one, folded."""

    def allow(self, tree: Path, rights: int) -> None:
        """Allow ``rights`` in a tree, but for the holes."""
        waiting = [tree]
        while waiting:
            path = waiting.pop()
            if path in self._holes:
                continue
            if path not in self._above:
                self.rules[str(path)] = rights
                continue
            self.edges[str(path)] = self.leading(path)
            with contextlib.suppress(OSError), os.scandir(path) as entries:
                waiting += [Path(entry.path) for entry in entries if not entry.is_symlink()]

    def reaches(self, path: Path) -> bool:
        """Return whether something in a tree of ``path`` is allowed already, or not to be touched."""
        return str(path) in self.edges or any(path.is_relative_to(tree) for tree in self.rules)

    def leading(self, folder: Path) -> set[str]:
        """Return the names in a folder, folded, that are holes or lead to one."""
        return {path.name.casefold() for path in self._holes | self._above if path.parent == folder}
