"""Who wrote what of a file while commands ran, so that each change is kept once, as the work of who made it. Pure.

A command is seen by what stood in a file before and after it. What others wrote meanwhile (tools, an undo, the person,
commands that ended earlier) is known step by step: the command did what lies between those steps.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.files.blobs import Blobs
    from daemon.files.state import FileState

UNKNOWN = "?"
"""In place of a content's hash."""


@dataclass(slots=True, eq=False)
class Write:
    """A file from one content to another (hashes; None: no file), by somebody whose work is kept elsewhere."""

    order: float
    before: str | None
    after: str | None
    blobs: Blobs | None = None
    data: bytes | None = None
    """What ``after`` is, where no blobs have it."""
    done: bool = True
    """It is on disk; else it may be, or may come to be."""
    command: float | None = None
    """Of a command: when it began."""
    changed_mode: bool = False
    names: dict[int, str] = field(default_factory=dict[int, str])
    """What its version is called in each history, by the history's ``id``."""
    state: FileState | None = None
    """The file afterwards, where the content is not known."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What a command did to a file between two writes of others. ``order``: its place among these."""

    before: str | None
    after: str | None
    order: float
    later: tuple[Write, ...] = ()
    """The writes that came after it, though they were kept earlier."""


@dataclass(frozen=True, slots=True)
class KnownChange:
    """What is known of the changes of one command to one file. ``rest``: it did more that is not known."""

    gaps: tuple[Gap, ...]
    writes: tuple[Write, ...]
    rest: bool = False


def put(writes: list[Write], write: Write) -> None:
    """Add a write in its place."""
    bisect.insort(writes, write, key=lambda each: each.order)


def happened(
    writes: Sequence[Write], done: frozenset[Write], new: str | None
) -> tuple[list[Write], list[Write]]:
    """The writes that are in the content ``new``, and those that come behind it.

    ``done``: those that were on disk before it was read. Of the others that is so which made what stands there; those
    that others came behind have failed.
    """
    known = max((number + 1 for number, write in enumerate(writes) if write in done), default=0)
    did = [write for write in writes[:known] if write in done]
    rest = list(writes[known:])
    for count in range(len(rest), 0, -1):
        if new != UNKNOWN and rest[count - 1].after == new:
            return did + rest[count - 1 : count], rest[count:]
    return did, rest


def gaps_between(
    began: float,
    old: str | None,
    new: str | None,
    state: FileState | None,
    writes: Sequence[Write],
    behind: Sequence[Write],
    now: float,
) -> KnownChange:
    """What a command that ``began`` then did, while ``writes`` happened, and ``behind`` came later.

    ``old``, ``new``: hashes of the content before and after; ``state``: of the file after; ``now``: a place behind
    all that happened.
    """
    found: list[Gap] = []
    current, last, opaque = old, began, None
    for number, write in enumerate(writes):
        # Who began earlier explains what stood there when this one began; and what was about to be written then, may
        # have been.
        early = write.command is not None and write.command < began
        early = early or (write.command is None and write.order < began and current == write.after)
        unknown = UNKNOWN in (current, write.before)
        if not early and not unknown and current != write.before:
            found.append(Gap(current, write.before, _ahead_of(write, last), (*writes[number:], *behind)))
        current, last = write.after, max(last, write.order)
        opaque = write if current == UNKNOWN else None
    if UNKNOWN in (current, new):
        same = opaque is not None and _stamp(opaque.state) == _stamp(state)
        return KnownChange(tuple(found), tuple(writes), not same)
    if current != new:
        order = _ahead_of(behind[0], last) if behind else now
        found.append(Gap(current, new, order, tuple(behind)))
    return KnownChange(tuple(found), tuple(writes))


def _ahead_of(write: Write, last: float) -> float:
    """A place directly ahead of a write: behind the beginnings of all commands (whole numbers) that came before it."""
    return (max(last, math.ceil(write.order) - 1) + write.order) / 2


def _stamp(state: FileState | None) -> bytes | None:
    return None if state is None else state.stamp
