"""Files and lines of a folder, by ripgrep when it is installed and by Python when not, with the same answers."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from tools.process import programs
from tools.process.background import finish
from tools.search import plain_search
from tools.text.truncate import head
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tools.search.glob_pattern import Glob

EXCLUDED = (".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__", ".trace")
"""Folders that are never searched. ripgrep leaves out what git ignores besides."""
MAX_COLUMNS = 500
MAX_BYTES = 8 * 1024 * 1024
"""Output of one search after which it is stopped: far more than the results that are shown."""
MAX_FILES = 200_000
TIMEOUT_S = 30.0
"""Seconds for reading the disk. Matches until then are the answer."""
FINISH_S = 10.0
"""Seconds for choosing and sorting the results."""

T = TypeVar("T")
_ROOT = str(Path(__file__).resolve().parents[2])
_PLAIN_SEARCH = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tools.search.plain_search import run; run(sys.argv[2])"
)
_EXCLUSIONS = tuple(f"--glob=!{name}" for name in EXCLUDED)
_TWO_LINES = "--glob=!*\n*"
"""Names with a line end: the rest of one, after it, would be taken for the name of another file."""
_COMMON = ("--no-config", "--no-messages", "--hidden", "--null", "--color=never")


class SearchResult(Struct, frozen=True):
    """Results, and whether the search was stopped before its end (too much, or too long)."""

    files: tuple[str, ...] = ()
    """Paths with ``/``, relative to the searched folder."""
    lines: tuple[tuple[str, int, str], ...] = ()
    """Path, line number from 1, text."""
    cut: bool = False


class Deadline:
    """A time after which a walk stops with its results so far."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds
        self.hit = False

    def over(self) -> bool:
        """Return whether the time is over; then ``hit`` is set."""
        self.hit = self.hit or time.monotonic() >= self._ends
        return self.hit

    def until(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items as long as there is time."""
        for item in items:
            if self.over():
                return
            yield item


def ripgrep(workspace: Path) -> str | None:
    """Return the ``rg`` program, if there is one outside of the workspace."""
    return programs.find_program("rg", workspace)


async def list_files(root: Path, rg: str | None) -> SearchResult:
    """Return all files below a folder but the excluded ones."""
    if rg is None:
        return await asyncio.to_thread(_walk, root)
    argv = [rg, "--files", *_COMMON, *_EXCLUSIONS, "./"]
    data, cut, _ = await _ripgrep(argv, root, MAX_FILES * 200)
    names = await asyncio.to_thread(lambda: tuple(_relative(name) for name in data.split("\0")[:-1]))
    return SearchResult(files=names, cut=cut)


def _walk(root: Path) -> SearchResult:
    deadline = Deadline(TIMEOUT_S)
    walk = plain_search.walk(str(root), frozenset(EXCLUDED), deadline.over)
    files = tuple(itertools.islice(walk, MAX_FILES + 1))
    return SearchResult(files=files[:MAX_FILES], cut=deadline.hit or len(files) > MAX_FILES)


async def find_lines(
    root: Path, pattern: str, include: Glob | None, rg: str | None, only: str | None = None
) -> SearchResult:
    """Lines below a folder that match a regular expression. ``only``: a single file of the folder.

    Raises ToolError when the pattern is malformed.
    """
    if rg is not None:
        limits = (f"--max-columns={MAX_COLUMNS}", "--max-columns-preview", "--crlf", "--engine=auto")
        argv = [rg, *_COMMON, "--with-filename", "--line-number", "--no-heading", *limits]
        excluded = () if only else (*_EXCLUSIONS, _TWO_LINES)
        argv += [f"--regexp={pattern}", *excluded, "--", f"./{only or ''}"]  # "-" alone would be stdin
    else:
        wanted = {
            "pattern": pattern,
            "include": include.pattern if include is not None else "",
            "excluded": EXCLUDED,
            "max_columns": MAX_COLUMNS,
            "paths": [only] if only else [],
        }
        argv = [sys.executable, "-I", "-c", _PLAIN_SEARCH, _ROOT, json.dumps(wanted)]
    data, cut, error = await (_ripgrep if rg is not None else _collect)(argv, root, MAX_BYTES, include)
    if not data and error:
        raise ToolError(f"The search failed: {head(error.strip(), 1000)}")
    return SearchResult(lines=await asyncio.to_thread(_parse, data), cut=cut)


def _parse(data: str) -> tuple[tuple[str, int, str], ...]:
    found: list[tuple[str, int, str]] = []
    for line in data.split("\n"):
        path, separator, rest = line.partition("\0")
        number, colon, text = rest.partition(":")
        if separator and colon and number.isdigit():
            found.append((_relative(path), int(number), text.rstrip("\r")))
    return tuple(found)


def _relative(path: str) -> str:
    return path.replace(os.sep, "/").removeprefix("./")


async def _ripgrep(
    argv: Sequence[str], root: Path, limit: int, include: Glob | None = None
) -> tuple[str, bool, str]:
    """``_collect`` of ripgrep. When it gets stuck in an ignore file that has no end, it is run without them."""
    running = asyncio.ensure_future(_collect(argv, root, limit, include))
    try:
        await asyncio.wait({running}, timeout=SLOW_S)
        if not running.done():
            looking = asyncio.to_thread(endless, root, frozenset(EXCLUDED), running.done)
            if await looking and not running.done():
                await _canceled(running)
                program, *rest = argv
                return await _collect([program, "--no-ignore", *rest], root, limit, include)
        await asyncio.wait({running})
    finally:
        if not running.done():
            await _canceled(running)
    return running.result()


async def _canceled(running: asyncio.Future[tuple[str, bool, str]]) -> None:
    running.cancel()
    if await finish(running):
        raise asyncio.CancelledError


async def _collect(
    argv: Sequence[str], cwd: Path, limit: int, include: Glob | None = None
) -> tuple[str, bool, str]:
    """Return the output of a program, whether it was cut, and its stderr when it failed.

    ``include``: of a search, only the lines of these files, so that others do not use up the ``limit``.
    """
    out, err = bytearray(), bytearray()
    wanted: Callable[[bytes], bytes] = bytes if include is None else _lines_of(include)

    def keep(fd: int, data: bytes) -> bool:
        (out if fd == 1 else err).extend(wanted(data) if fd == 1 else data)
        return len(out) + len(err) < limit

    try:
        ended = await programs.run(
            argv,
            cwd=cwd,
            env=programs.scrubbed_environment(os.environ),
            on_output=keep,
            timeout_s=TIMEOUT_S,
            grace_s=0.5,
        )
    except OSError as error:
        raise ToolError(f"The search could not be started: {error}") from error
    cut = ended.timed_out or len(out) >= limit
    failed = ended.exit_code not in (0, 1) and not cut
    return out.decode("utf-8", "replace"), cut, err.decode("utf-8", "replace") if failed else ""


def _lines_of(include: Glob) -> Callable[[bytes], bytes]:
    """Return a function that takes the output of a search in pieces, and returns its lines of these files."""
    rest = b""
    verdicts: dict[bytes, bool] = {}

    def is_wanted(line: bytes) -> bool:
        path = line.partition(b"\0")[0]
        if path not in verdicts:
            verdicts[path] = include.match(_relative(path.decode("utf-8", "replace")))
        return verdicts[path]

    def wanted(data: bytes) -> bytes:
        nonlocal rest
        *lines, rest = (rest + data).split(b"\n")
        return b"".join(line + b"\n" for line in lines if is_wanted(line))

    return wanted


SLOW_S = 0.5
"""Seconds that a program may take before its obstacle is looked for."""
_NAMES = (".gitignore", ".ignore", ".rgignore", ".gitattributes")
_MOST_BYTES = 16 * 1024 * 1024


def endless(root: Path, excluded: Collection[str] = (), stopped: Callable[[], bool] = lambda: False) -> bool:
    """Return whether there is an endless file in ``root``, below it (except ``excluded`` folders) or above it.
    Blocking.

    ``stopped``: the result is no longer needed.
    """
    if any(_is_endless(folder / name) for folder in (root, *root.parents) for name in _NAMES):
        return True
    if _is_endless(root / ".git" / "info" / "exclude"):
        return True
    waiting = [str(root)]
    while waiting and not stopped():
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.name in _NAMES and _is_endless(Path(entry.path)):
                        return True
                    if entry.name not in excluded and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return False


def _is_endless(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return not stat.S_ISDIR(found.st_mode) and (
        not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES
    )
