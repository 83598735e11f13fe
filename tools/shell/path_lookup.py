"""The real ``CommandPlace`` of a command line: links followed and wildcards looked up on disk, within bounds. Blocking.

The bounds apply to a whole question: a line with many wildcards must not read the disk for seconds. A wildcard that is
not resolved in time counts as "any file there", so nothing slips through.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.files.hard_links import other_names
from tools.files.regular_files import read_regular
from tools.process.programs import find_program
from tools.shell.accesses import IGNORE_FILES, PROCESS
from tools.shell.git import names_programs
from tools.shell.question import CommandPlace
from tools.shell.wildcards import expression, suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_ENTRIES = 2000
MAX_S = 0.05
MAX_STEPS = 500
"""Names and links of a path that are followed; beyond that it may lead anywhere."""
MAX_SEARCHES = 5
"""How often the other names of a file are looked for."""
_EXCLUDE = ".git/info/exclude"
MAX_IGNORE_BYTES = 100_000
"""A longer ignore file may show any hidden file again."""
_SECRETIVE = re.compile(r"/\.|\.(?:env|pem|key|p12|pfx|jks|keystore|kdbx)$|/id_")


class _Lookup:
    def __init__(
        self,
        workspace: Path,
        origin: Path | None,
        max_entries: int,
        clock: Callable[[], float],
        *,
        expands_dots: bool,
    ) -> None:
        self._workspace = workspace
        self._roots = (workspace,) if origin is None else (workspace, origin)
        self._expands_dots = expands_dots
        self._searches = MAX_SEARCHES
        self._left = max_entries
        self._clock = clock
        self._spent = 0.0
        self._own: dict[tuple[str, Path | None], bool] = {}

    def has_program(self, name: str, folder: Path | None) -> bool:
        """Return whether PATH leads to a program of the workspace: it may do anything, whatever its name."""
        if (name, folder) not in self._own:
            self._own[name, folder] = self._has_program(name, folder)
        return self._own[name, folder]

    def _has_program(self, name: str, folder: Path | None) -> bool:
        for place in os.environ.get("PATH", "").split(os.pathsep):
            fixed = Path(place).is_absolute()
            if folder is None and not fixed:
                return True
            found = shutil.which(name, path=str((folder or self._workspace) / place))
            if found is not None:
                names = Path(found), Path(os.path.realpath(found))
                return not fixed or any(path.is_relative_to(root) for path in names for root in self._roots)
        return False

    def real(self, path: Path) -> Path:
        """Return the path with links followed; a hard link to a possible secret counts as that."""
        real = Path(os.path.realpath(path))
        if real != path and (within := _within_process(path)) is not None:
            return within
        try:
            linked = real.stat().st_nlink > 1 and real.is_file()
        except OSError:
            return real
        if not linked or self._searches <= 0:
            return real
        self._searches -= 1
        others = other_names(real, self._workspace)
        return next((other for other in others if _SECRETIVE.search(other.as_posix())), real)

    def files(self, folder: Path, pattern: str) -> Sequence[str] | None:
        began = self._clock()
        try:
            if pattern == "**":
                return self._below(folder, began)
            return self._matching(folder, pattern, began)
        except _TooMuchError:
            return None
        finally:
            self._spent += self._clock() - began

    def brought_back(self, folder: Path, names: Sequence[str]) -> Sequence[str] | None:
        """Read the ignore files of a folder, of those above it, and among ``names`` below it; see CommandPlace."""
        around = [above / name for above in (folder, *folder.parents) for name in (*IGNORE_FILES, _EXCLUDE)]
        below = [
            folder / name
            for name in names
            if name.rpartition("/")[2] in IGNORE_FILES or name.endswith(_EXCLUDE)
        ]
        found: dict[str, None] = {}
        began = self._clock()
        for file in dict.fromkeys(around + below):
            try:
                text = read_regular(file, MAX_IGNORE_BYTES, follow=True)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # rg cannot read it either
            except OSError:
                return None
            if self._spent + self._clock() - began > MAX_S:
                return None
            for line in text.decode(errors="replace").splitlines():
                if line.startswith("!") and (glob := line[1:].strip().rstrip("/")):
                    if (like := suffix(glob)) is None:
                        return None
                    found[like] = None
        self._spent += self._clock() - began
        return tuple(found)

    def _below(self, folder: Path, began: float) -> list[str]:
        found: list[str] = []
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            for entry in self._entries(folder / inner, began):
                name = f"{inner}/{entry.name}" if inner else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                else:
                    found.append(name)
        return found

    def _matching(self, folder: Path, pattern: str, began: float) -> list[str]:
        """Return matching files and folders; as in the shell, a leading dot must be literal."""
        absolute = pattern.startswith("/")
        names = [""]
        for part in [part for part in pattern.split("/") if part]:
            found: list[str] = []
            for name in names:
                base = Path("/", name) if absolute else folder / name
                if not any(c in part for c in "*?["):
                    if os.path.lexists(base / part):
                        found.append(f"{name}/{part}" if name else part)
                    continue
                wanted = expression(part)
                if self._expands_dots and part.startswith("."):
                    dots = [each for each in (".", "..") if wanted.fullmatch(each)]
                    found += [f"{name}/{each}" if name else each for each in dots]
                for entry in self._entries(base, began):
                    hidden = entry.name.startswith(".") and not part.startswith(".")
                    if not hidden and wanted.fullmatch(entry.name):
                        found.append(f"{name}/{entry.name}" if name else entry.name)
            names = found
        return [f"/{name}" for name in names] if absolute else names

    def _entries(self, folder: Path, began: float) -> list[os.DirEntry[str]]:
        found: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0 or self._spent + self._clock() - began > MAX_S:
                        raise _TooMuchError
                    found.append(entry)
        except OSError:
            return []
        return found


@cache
def _expands_dots(bash: str) -> bool:
    """Return whether ``.*`` means ``.`` and ``..``, too, as for bash before 5.2. Blocking, looked at once."""
    try:
        command = [bash, "--noprofile", "--norc", "-c", "echo /.*"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, env={}, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return b"/.." in done.stdout.split()


def _within_process(path: Path) -> Path | None:
    """Return where a path leaves for the folder of a process, which is another one for each process that asks; None
    when it does not."""
    done, rest = Path("/"), [*reversed(path.parts[1:])]
    for _ in range(MAX_STEPS):
        if not rest:
            return None
        name = rest.pop()
        step = done.parent if name == ".." else done / name
        if PROCESS.fullmatch(step.as_posix()):
            return step.joinpath(*reversed(rest))
        try:
            target = step.readlink()
        except OSError:
            done = step
            continue
        done = Path("/") if target.is_absolute() else done
        rest += [part for part in reversed(target.parts) if part != "/"]
    return Path("/proc/self/cwd")


class _TooMuchError(Exception):
    pass


def real_place(
    workspace: Path,
    origin: Path | None = None,
    *,
    max_entries: int = MAX_ENTRIES,
    clock: Callable[[], float] = time.monotonic,
    expands_dots: bool | None = None,
) -> CommandPlace:
    """Return the place for one question about a command that starts in the workspace. ``origin``: the workspace itself,
    if this one is a branch's copy: programs of either may do anything. ``expands_dots``: whether ``.*``
    means ``.`` and ``..``, too; None: as for the bash that is installed."""
    bash = find_program("bash", workspace, origin)
    if expands_dots is None:
        expands_dots = bash is not None and _expands_dots(bash)
    lookup = _Lookup(workspace, origin, max_entries, clock, expands_dots=expands_dots)
    return CommandPlace(
        workspace=workspace,
        home=Path(os.path.realpath(Path.home())),
        real=lookup.real,
        files=lookup.files,
        brought_back=lookup.brought_back,
        others=lambda path: other_names(path, workspace),
        names_programs=names_programs,
        has_program=lookup.has_program,
        has_bash=bash is not None,
    )
