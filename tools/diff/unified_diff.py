"""Unified diffs for people and models, and their numbers. Pure.

Line ends are left out of the diff unless they are what differs: then they are shown as ``␍``. Such a diff is
for reading; changes themselves always travel as bytes (``FileChange``).
"""

from __future__ import annotations

import difflib
import operator
import unicodedata
from typing import TYPE_CHECKING, TypeVar

from tools.text.decoding import decode
from tools.text.lines import Line, line_number, split_lines
from tools.text.terminal import UNSEEN
from tools.tool import Diff, DiffHunk, FileChange, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CONTEXT = 3
"""Lines of context around a change, as ``diff -u`` and git have it."""
MAX_LINES = 400
MAX_BYTES = 64 * 1024

_NO_END = "\\ No newline at end of file"
_SLOW = 25_000_000
"""Above this product of line counts difflib may leave frequent lines out of its alignment."""
_TOO_SLOW = 400_000_000

T = TypeVar("T")
Opcode = tuple[str, int, int, int, int]


def unified(before: str | None, after: str | None, path: str) -> Diff:
    """Diff of two texts of the file ``path`` (relative or absolute, with ``/``). None: there is no file."""
    first, old_window, new_window = _window(before or "", after or "")
    skipped = line_number(before or "", first) - 1
    old, new = split_lines(old_window), split_lines(new_window)
    mark = len({line.end for line in (*old, *new)} - {""}) > 1
    name = shown_name(path.lstrip("/"))
    out = [
        "--- /dev/null" if before is None else f"--- a/{name}",
        "+++ /dev/null" if after is None else f"+++ b/{name}",
    ]
    added = removed = 0
    hunks: list[DiffHunk] = []
    for group in grouped(_line_codes(old, new)):
        row = len(out)
        i1, i2, j1, j2 = (skipped + n for n in (group[0][1], group[-1][2], group[0][3], group[-1][4]))
        out.append(f"@@ -{line_range(i1, i2)} +{line_range(j1, j2)} @@")
        lines = (i1 + (i1 < i2), i2 - i1, j1 + (j1 < j2), j2 - j1)
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += _render(" ", old[i1:i2], mark)
                continue
            removed += i2 - i1
            added += j2 - j1
            out += _render("-", old[i1:i2], mark)
            out += _render("+", new[j1:j2], mark)
        hunks.append(DiffHunk(row, len(out) - row, *lines))
    if not hunks and (before is None) == (after is None):
        return Diff("", 0, 0)
    return Diff("\n".join(out) + "\n", added, removed, hunks=tuple(hunks))


def hunk_spans(before: str, after: str) -> list[tuple[int, int, int, int]]:
    """For each hunk of ``unified``: which span of ``before`` becomes which span of ``after``, as offsets."""
    first, old_window, new_window = _window(before, after)
    old, new = split_lines(old_window), split_lines(new_window)
    old_at = [first + line.start for line in old] + [first + len(old_window)]
    new_at = [first + line.start for line in new] + [first + len(new_window)]
    spans: list[tuple[int, int, int, int]] = []
    for group in grouped(_line_codes(old, new)):
        changed = [code for code in group if code[0] != "equal"]
        (_, i1, _, j1, _), (_, _, i2, _, j2) = changed[0], changed[-1]
        spans.append((old_at[i1], old_at[i2], new_at[j1], new_at[j2]))
    return spans


def _line_codes(old: Sequence[Line], new: Sequence[Line]) -> list[Opcode]:
    return opcodes([(line.body, line.end) for line in old], [(line.body, line.end) for line in new])


def shown_name(path: str) -> str:
    """Return a file's name on one line: control characters escaped, and what hides or reorders text.

    A name may hold line ends, and with them lines that look like those of a diff of another file.
    """
    return "".join(
        char.encode("unicode_escape").decode("ascii") if unicodedata.category(char) in UNSEEN else char
        for char in path
    )


def of_change(change: FileChange, path: str, base: bytes | None = None) -> Diff:
    """Return the diff of a planned change, both sides in the encoding of the old one; binary data is only named.

    ``base`` replaces the missing old content of a moved file.
    """
    before = change.before if base is None else base
    try:
        old = None if before is None else decode(before)
        new = None if change.after is None else decode(change.after, None if old is None else old.codec)
    except ToolError:
        return Diff(f"Binary file {shown_name(path)}\n", 0, 0, binary=True)
    return unified(None if old is None else old.text, None if new is None else new.text, path)


def without_head(diff: str) -> str:
    """Return the hunks of the diff of one file, without what names it; empty when it has none."""
    at = 0 if diff.startswith("@@") else diff.find("\n@@") + 1
    return diff[at:] if diff.startswith("@@", at) else ""


def limited(diff: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> str:
    """Return ``diff`` cut to a size for display, with a last line on the omitted part."""
    lines = diff.split("\n")
    total = len(lines) - (lines[-1] == "")
    shown: list[str] = []
    size = 0
    for line in lines[:max_lines]:
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes:
            break
        shown.append(line)
    if len(shown) >= total:
        return diff
    return "\n".join(shown) + f"\n… {total - len(shown)} more lines of this diff are not shown.\n"


def is_limited(diff: str) -> bool:
    """Return whether ``limited`` left something out. No other line of a diff begins with ``…``."""
    return "\n…" in diff


def common_ends(
    old: Sequence[T], new: Sequence[T], same: Callable[[T, T], bool] = operator.eq
) -> tuple[int, int]:
    """Return how many items two sequences share at the beginning, and of the others at the end."""
    top, least = 0, min(len(old), len(new))
    while top < least and same(old[top], new[top]):
        top += 1
    tail = 0
    while tail < least - top and same(old[-1 - tail], new[-1 - tail]):
        tail += 1
    return top, tail


def opcodes(old: Sequence[object], new: Sequence[object]) -> list[Opcode]:
    """Like difflib's opcodes of two sequences of hashable lines, fast when they differ in few places.

    Common beginnings and ends are always reported as such, so that an insertion is where it was made.
    """
    top, tail = common_ends(old, new)
    a, b = old[top : len(old) - tail], new[top : len(new) - tail]
    codes: list[Opcode] = [("equal", 0, top, 0, top)] if top else []
    if a and b and len(a) * len(b) <= _TOO_SLOW:
        matcher = difflib.SequenceMatcher(None, a, b, autojunk=len(a) * len(b) > _SLOW)  # pyright: ignore[reportArgumentType]  # lines are hashable
        codes += [
            (tag, i1 + top, i2 + top, j1 + top, j2 + top) for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        ]
    elif a or b:
        tag = "replace" if a and b else "delete" if a else "insert"
        codes.append((tag, top, top + len(a), top, top + len(b)))
    if tail:
        codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return codes


def grouped(codes: Sequence[Opcode]) -> Iterator[list[Opcode]]:
    """Yield the opcodes of each hunk, with those of its context."""
    group: list[Opcode] = []
    for index, (tag, i1, i2, j1, j2) in enumerate(codes):
        if tag != "equal":
            group.append((tag, i1, i2, j1, j2))
            continue
        first, last = index == 0, index == len(codes) - 1
        if not first and (last or i2 - i1 > 2 * CONTEXT):
            length = min(CONTEXT, i2 - i1)
            yield [*group, (tag, i1, i1 + length, j1, j1 + length)]
            group = []
        if first or (i2 - i1 > 2 * CONTEXT and not last):
            length = min(CONTEXT, i2 - i1)
            group = [(tag, i2 - length, i2, j2 - length, j2)]
        elif not last:
            group.append((tag, i1, i2, j1, j2))
    if any(code[0] != "equal" for code in group):
        yield group


def _window(old: str, new: str) -> tuple[int, str, str]:
    """Return the parts of two texts that differ, with enough whole lines around for the context.

    Returns the offset of the two parts, and the parts. Most changes are small and most files are
    not: this is what keeps the diff of a long file cheap.
    """
    if old == new or len(old) + len(new) < 10_000:
        return 0, old, new
    least = min(len(old), len(new))
    top = _longest(least, lambda size: old.startswith(new[:size]))
    tail = _longest(least - top, lambda size: old.endswith(new[len(new) - size :]))
    first = top
    for _ in range(CONTEXT + 1):
        first = old.rfind("\n", 0, max(first, 0))
    first += 1
    end = len(old) - tail
    for _ in range(CONTEXT + 1):
        found = old.find("\n", end)
        end = len(old) if found < 0 else found + 1
    return first, old[first:end], new[first : len(new) - (len(old) - end)]


def _longest(limit: int, holds: Callable[[int], bool]) -> int:
    """Return the largest size up to ``limit`` for which ``holds`` is true, given that it is for all smaller ones."""
    low, step = 0, 1024
    while low + step <= limit and holds(low + step):
        low += step
        step *= 2
    high = min(limit, low + step - 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def line_range(first: int, last: int) -> str:
    """Return a range of lines as the head of a hunk has it."""
    length = last - first
    # An empty range names the line before it (POSIX diff).
    return f"{first + (length > 0)}" + ("" if length == 1 else f",{length}")


def _render(sign: str, lines: Sequence[Line], mark: bool) -> Iterator[str]:
    for line in lines:
        yield sign + line.body + (line.end.replace("\r", "␍").replace("\n", "") if mark else "")
        if not line.end:
            yield _NO_END
