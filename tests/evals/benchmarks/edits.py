"""The writing tools, from their arguments to their result: everything but the user and the language servers."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from daemon.files.history import SessionHistory
from tests.evals.benchmarks.measures import Baseline, Measure
from tests.evals.benchmarks.stage import Stage
from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.files.regular_files import sha256
from tools.matching.match import find_edit
from tools.registry import builtin_tools, run_tool
from tools.text.decoding import decode, splice_bytes
from tools.tool import ToolError, ToolResult

LINES = 10_000
EDITS = 15
FILES = 200
_LINE = 7_002


async def measure(stage: Stage) -> list[Measure]:
    """``edit`` on a long file, a search that fails, and a patch of many files."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        return [*await _edit(stage, root / "edit"), *await _patch(stage, root / "patch")]


def source(lines: int) -> str:
    """Python as people write it: lines that resemble each other, none quite like another."""
    text: list[str] = []
    for number in range(lines // 5):
        text += [
            f"def part_{number}(value: int, other: str = 'x{number}') -> int:",
            f'    """Part {number} of many: what it returns depends on both."""',
            f"    result = value * {number} + len(other)",
            f"    return result if result > {number % 7} else -result",
            "",
        ]
    return "\n".join(text) + "\n"


async def _edit(stage: Stage, folder: Path) -> list[Measure]:
    ctx = _context(folder)
    path = ctx.workspace / "long.py"
    path.write_text(source(LINES))
    data = path.read_bytes()
    ctx.files.note_read(path, sha256(data))
    found = data.decode().splitlines(keepends=True)[_LINE : _LINE + 2]
    old, new = "".join(found), "".join(found).replace("+", "-", 1)
    whole: list[float] = []
    pure: list[float] = []
    failing: list[float] = []
    for _ in range(stage.runs):
        took: list[float] = []
        for _ in range(EDITS):
            took.append(await _run("edit", ctx, file_path="long.py", old_string=old, new_string=new))
            old, new = new, old
        whole.append(statistics.median(took))
        now, text = path.read_bytes(), (old, new)
        pure.append(statistics.median([_timed(lambda n=now, t=text: _plan(n, *t)) for _ in range(EDITS)]))
        failing.append(_timed(lambda: _not_found(data)))
    bare = Baseline("the bytes: open, write, fsync, rename", _bare(stage, folder, [data]))
    again = Baseline(
        "decode and encode", statistics.median(_timed(lambda: data.decode().encode()) for _ in range(99))
    )
    kept = f"{LINES} lines, {len(data) // 1000} KB; validation, both checks, diff, file history and write"
    return [
        Measure(f"edit of {LINES} lines: whole tool run", "ms", tuple(whole), 5.0, bare, kept),
        Measure(f"edit of {LINES} lines: find and splice", "ms", tuple(pure), baseline=again),
        Measure(f"edit of {LINES} lines: search that fails", "ms", tuple(failing), 100.0, again),
    ]


async def _patch(stage: Stage, folder: Path) -> list[Measure]:
    ctx = _context(folder)
    contents: list[bytes] = []
    names = [f"part{number % 20}/module_{number}.py" for number in range(FILES)]
    for number, name in enumerate(names):
        path = ctx.workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source(100 + number))
        contents.append(path.read_bytes())
        ctx.files.note_read(path, sha256(contents[-1]))
    there, back = _patch_text(names, "+", "-"), _patch_text(names, "-", "+")
    took: list[float] = []
    for _ in range(stage.runs):
        took.append(await _run("patch", ctx, patch_text=there))
        there, back = back, there
    bare = Baseline("the bytes: open, write, fsync, rename", _bare(stage, folder, contents))
    note = f"one hunk in each of {FILES} files in 20 folders, {sum(map(len, contents)) // 1000} KB; all files or none"
    return [Measure(f"patch of {FILES} files: whole tool run", "ms", tuple(took), 500.0, bare, note)]


def _patch_text(names: list[str], old: str, new: str) -> str:
    lines = ["*** Begin Patch"]
    for name in names:
        lines += [f"*** Update File: {name}", "@@ def part_9(value: int, other: str = 'x9') -> int:"]
        lines += ['     """Part 9 of many: what it returns depends on both."""']
        lines += [f"-    result = value * 9 {old} len(other)", f"+    result = value * 9 {new} len(other)"]
        lines += ["     return result if result > 2 else -result"]
    return "\n".join([*lines, "*** End Patch", ""])


def _context(folder: Path) -> FakeToolContext:
    """Everything approved, no language server; file history and journal are the real ones."""
    (folder / "workspace").mkdir(parents=True)
    history = SessionHistory(folder / "files", lambda: datetime.now(UTC))
    return replace(fake_context(folder / "workspace"), history=history)  # pyright: ignore[reportArgumentType]


async def _run(tool: str, ctx: FakeToolContext, **arguments: str) -> float:
    sent, tools = json.dumps(arguments), builtin_tools()
    start = time.perf_counter()
    result: ToolResult = await run_tool(tools[tool], sent, ctx)
    took = (time.perf_counter() - start) * 1000
    assert not result.is_error, result.content
    return took


def _plan(data: bytes, old: str, new: str) -> None:
    decoded = decode(data)
    edit = find_edit(decoded.text, old, new, False)
    splice_bytes(data, decoded, [(span.start, span.end, span.replacement) for span in edit.spans])


def _not_found(data: bytes) -> None:
    """Six lines of which four are there: what a model writes from memory."""
    text = decode(data).text
    lines = text.splitlines()[_LINE - 2 : _LINE + 4]
    lines[1] = lines[1].replace("Part", "Piece")
    lines[3] = "    return abs(result)"
    try:
        find_edit(text, "\n".join(lines) + "\n", "nothing", False)
    except ToolError:
        return
    raise AssertionError("found")


def _bare(stage: Stage, folder: Path, contents: list[bytes]) -> float:
    """Milliseconds for writing the same bytes as safely, and doing nothing else."""

    def write() -> None:
        for number, data in enumerate(contents):
            temp = folder / f"bare{number}.tmp"
            with temp.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temp.replace(folder / f"bare{number}")

    return statistics.median(_timed(write) for _ in range(max(stage.runs, 3)))


def _timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return (time.perf_counter() - start) * 1000
