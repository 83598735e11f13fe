"""Read ``events.jsonl``: one event a line, rising ids, written by one process while others read.

Lines are found without reading those before them: from the end backwards, and by bisecting the bytes for an event's id,
with which our own lines begin. Any byte may be damaged, even of an id: see ``fitting``. Data after the last newline is
still being written, or was torn by a crash, and is no line yet. A line may be anything and of any length, because the
file is untrusted.
"""

from __future__ import annotations

import json
import re
from collections import deque
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from tools.json_access import mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_LINE = 64 * 1024 * 1024
"""Bytes of an event. A longer one is refused when it is written, and skipped when it is read."""
MAX_ID = 2**53 - 1
"""The highest event id: JavaScript's numbers, in which clients read it, are exact so far. A higher one is damage."""
_JUMP = 2**40
"""Largest plausible distance of an id from the last one: a larger one is damaged or forged, and would use up the
numbers."""
_BLOCK = 64 * 1024
_HEAD = 64
"""Bytes of a line that are enough for its id."""
_TRIES = 8
_WITNESSES = 3
"""Ids that are looked at to find out whether another one fits."""
_LAST = 8
"""Lines that are enough to know the last id."""
_NUMBERED = re.compile(rb'\{"event_id":([0-9]{1,16})[,}]')

_T = TypeVar("_T")


class LogLine(NamedTuple):
    """A complete line, without its newline."""

    offset: int
    size: int
    """Bytes in the file."""
    data: bytes
    """Empty when the line is too long."""

    def parsed(self) -> tuple[dict[str, object], int | None]:
        """Return its JSON object and its event id; None when there is none, because the line is damaged."""
        try:
            value: object = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}, None
        raw = mapping(value)
        event_id = raw.get("event_id")
        return raw, event_id if type(event_id) is int and 0 < event_id <= MAX_ID else None

    def event_id(self) -> int | None:
        """Return the id alone; without decoding the line when it is spelled like ours."""
        numbered = _NUMBERED.match(self.data)
        if numbered is None:
            return self.parsed()[1]
        event_id = int(numbered[1])
        return event_id if 0 < event_id <= MAX_ID else None


class StoredLine(NamedTuple):
    """One event as its JSON in a log."""

    event_id: int
    body: bytes


def fitting(
    records: Iterable[_T],
    number: Callable[[_T], int | None],
    skipped: Callable[[_T], None] = lambda _: None,
    after: int = 0,
) -> Iterator[tuple[int, _T]]:
    """Yield those of ``records`` that have an id which fits its neighbours, with it; ``skipped`` gets the others.

    Ids rise. An id that does not is damaged, in one record: if it were accepted, one wrong digit would hide all records
    after it. An id fits when it is above the last one that did, and most of the next ones are above it. ``after``: an
    id near which reading begins.
    """
    numbered = ((number(record), record) for record in records)
    ahead: deque[tuple[int, _T]] = deque()
    last = 0
    while True:
        for event_id, record in numbered:
            if event_id is None or event_id > max(last, after) + _JUMP:
                skipped(record)
                continue
            ahead.append((event_id, record))
            if len(ahead) > _WITNESSES:
                break
        if not ahead:
            return
        event_id, record = ahead.popleft()
        # An id that does not exceed the last one is no evidence.
        witnesses = [other for other, _ in ahead if other > last]
        against = sum(other <= event_id for other in witnesses)
        twice = bool(witnesses) and witnesses[0] == event_id != last + 1
        if event_id <= last or twice or 2 * against > len(witnesses):
            skipped(record)
            continue
        last = event_id
        yield event_id, record


class LogReader:
    """The lines of an open log at the time of creation. Not for two threads at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._block_at = 0
        self._block = b""
        size = file.seek(0, 2)
        self.end = self._newline_before(size) + 1
        """Where the last complete line ends."""
        self.torn = size - self.end
        """Bytes behind it."""

    def blocks(self, start: int = 0) -> Iterator[tuple[int, bytes, int]]:
        """Yield all lines from ``start``, which is the beginning of one, many at a time: their offset, their bytes and
        following ones, and the number of their own bytes. A line that is too long comes alone, with no bytes."""
        size = 4 * _BLOCK
        while start < self.end:
            block = self._read(start, min(self.end, start + size))
            whole = block.rfind(b"\n") + 1
            if whole:
                yield start, block, whole
                start, size = start + whole, 4 * _BLOCK
            elif len(block) < min(size, self.end - start):
                return  # the file was truncated
            elif size > MAX_LINE:
                end = self._newline_behind(start, self.end)
                yield start, b"", end - start
                start, size = end + 1, 4 * _BLOCK
            else:
                size = min(4 * size, MAX_LINE + 1)

    def forwards(self, start: int = 0) -> Iterator[LogLine]:
        """Lines from ``start``, which is the beginning of one."""
        for offset, block, whole in self.blocks(start):
            if not block:
                yield LogLine(offset, whole, b"")
            begin = 0
            while (end := block.find(b"\n", begin, whole)) >= 0:
                size = end - begin
                yield LogLine(offset + begin, size, b"" if size > MAX_LINE else block[begin:end])
                begin = end + 1

    def backwards(self) -> Iterator[LogLine]:
        """Lines from the last one to the first."""
        end = self.end
        while end > 0:
            start = self._newline_before(end - 1) + 1
            yield self.line(start, end - 1 - start)
            end = start

    def line(self, offset: int, size: int) -> LogLine:
        """Return a line whose place is known."""
        return LogLine(offset, size, b"" if size > MAX_LINE else self._read(offset, offset + size))

    def last_id(self) -> int:
        """Return the last id that fits; 0 when there is none."""
        ends: list[tuple[int, int]] = []
        for line in self.backwards():
            event_id = line.event_id()
            if event_id is not None:
                ends.append((event_id, line.offset))
                if len(ends) == _LAST:
                    break
        return max((event_id for event_id, _ in fitting(reversed(ends), lambda end: end[0])), default=0)

    def position_after(self, event_id: int) -> int:
        """Return the beginning of a line: no event before it has an id above ``event_id``, and the first that has is
        near.

        An id that does not fit its neighbours does not count, see ``fitting``.
        """
        low, high = 0, self.end
        while event_id > 0 and high - low > _BLOCK:
            middle = (low + high) // 2
            found = self._id_behind(middle, high)
            if found is None:
                break  # unreadable lines: read through the rest
            start, number = found
            if start < high and number <= event_id and self._is_at_most(start, event_id):
                low = start
            else:
                high = middle
        return low

    def _is_at_most(self, start: int, event_id: int) -> bool:
        """Return whether one of the next two ids agrees with the one at ``start``: it may be damaged, but not two of
        three."""
        for _ in range(_WITNESSES - 1):
            found = self._id_behind(start, self.end)
            if found is None or found[0] >= self.end:
                return False
            start, number = found
            if number <= event_id:
                return True
        return False

    def _id_behind(self, position: int, end: int) -> tuple[int, int] | None:
        """Return the first line that begins at or behind ``position``: where, and its id. None when none has one
        near."""
        for _ in range(_TRIES):
            start = self._newline_behind(position, end) + 1
            if start >= end:
                return end, 0
            head = _NUMBERED.match(self._read(start, min(start + _HEAD, self.end)))
            if head is not None and 0 < int(head[1]) <= MAX_ID:
                return start, int(head[1])
            newline = self._newline_behind(start, self.end)
            number = self.line(start, newline - start).event_id()
            if number is not None:
                return start, number
            position = newline
        return None

    def _newline_behind(self, position: int, end: int) -> int:
        """Return the offset of the first newline at or after ``position``; ``end`` when there is none before."""
        while position < end:
            block = self._read(position, min(end, position + _BLOCK))
            found = block.find(b"\n")
            if found >= 0:
                return position + found
            if not block:
                return end
            position += len(block)
        return end

    def _newline_before(self, end: int) -> int:
        """Return the offset of the last newline before ``end``; -1 when there is none."""
        while end > 0:
            if not self._block_at < end <= self._block_at + len(self._block):
                self._block_at = max(0, end - _BLOCK)
                self._block = self._read(self._block_at, end)
                if len(self._block) < end - self._block_at:
                    return -1  # the file was truncated
            found = self._block.rfind(b"\n", 0, end - self._block_at)
            if found >= 0:
                return self._block_at + found
            end = self._block_at
        return -1

    def _read(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        wanted = end - start
        data = self._file.read(wanted)
        if len(data) == wanted or not data:
            return data
        pieces = [data]
        while (wanted := wanted - len(data)) > 0 and (data := self._file.read(wanted)):
            pieces.append(data)
        return b"".join(pieces)
