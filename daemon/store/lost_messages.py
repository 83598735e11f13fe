"""Messages whose line in the log is damaged while their own file is whole.

The log is the truth, so files that it does not know are no messages. But a line that cannot be read says that there was
something, and where: the file of a message that stands between its neighbours, in the messages' order and in that of
the events' ids, is what it held. It is the only good copy that is left, so every reader takes it: what is shown, what
the model is sent, what is rebuilt.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.store.event_log import MAX_ID, LogLine, LogReader, fitting
from daemon.store.ids import sequence_of
from daemon.store.message_index import OURS, IndexedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from daemon.model.events import Event
    from daemon.model.messages import Message

_NAME = re.compile(rb'"message_id":"([A-Za-z0-9_]{1,100})"')
_SHAPE = b',"sequence":'
_HEAD = 1000
"""Bytes of a line in which the id of its message stands."""


@dataclass(slots=True)
class _Lost:
    """A line that cannot be read, and the ids that its event can have had."""

    line: LogLine
    first: int
    last: int


def lost_messages(
    reader: LogReader,
    places: dict[str, IndexedMessage],
    odd: Sequence[int],
    files: Collection[str],
    read: Callable[[str], Message | None],
    event: Callable[[LogLine], Event | None],
) -> dict[str, IndexedMessage]:
    """Of the lines that begin at ``odd``, which cannot be read or have an id that does not fit: the messages.

    ``places``: messages of the lines around them. ``files``: ids of the messages that have a file; ``read`` reads one,
    None when it is damaged or of another session; ``event`` a line.
    """
    rising = sorted(places.values(), key=lambda place: place.offset)
    offsets = [place.offset for place in rising]
    gaps: dict[int, set[int]] = {}
    for offset in odd:
        gaps.setdefault(bisect_right(offsets, offset), set()).add(offset)
    unknown: dict[int, list[str]] = {}
    for name in files:
        if name not in places:
            unknown.setdefault(sequence_of(name), []).append(name)
    found: dict[str, IndexedMessage] = {}
    for number, lines in gaps.items():
        before = rising[number - 1] if number else None
        behind = rising[number] if number < len(rising) else None
        names = _between(unknown, before, behind)
        if not names:
            continue
        lost = _lost_lines(reader, lines, before, behind, event)
        low = before.event_id if before is not None else 0
        high = behind.event_id if behind is not None else MAX_ID
        for name, where, event_id in _paired(names, lost):
            if not low < event_id < high:
                continue  # lines that stand elsewhere than they were written: no two events have one id
            message = read(name)
            if message is not None and message.sequence == sequence_of(name):
                line = where.line
                found[name] = IndexedMessage(
                    name, message.sequence, message.role, message.goal_id, line.offset, line.size, event_id
                )
    return found


def _between(
    unknown: dict[int, list[str]], before: IndexedMessage | None, behind: IndexedMessage | None
) -> list[str]:
    """Names of files whose message stands between two others; of two with the same number, one is forged."""
    low = before.sequence if before is not None else 0
    return [
        ones[0]
        for sequence, ones in sorted(unknown.items())
        if low < sequence and (behind is None or sequence < behind.sequence) and len(ones) == 1
    ]


def _lost_lines(
    reader: LogReader,
    offsets: set[int],
    before: IndexedMessage | None,
    behind: IndexedMessage | None,
    event: Callable[[LogLine], Event | None],
) -> list[_Lost]:
    skipped: list[LogLine] = []
    whole: list[tuple[int, int]] = []
    fit: dict[int, tuple[LogLine, int]] = {}
    end = behind.offset if behind is not None else reader.end
    for event_id, line in fitting(
        reader.forwards(before.offset if before is not None else 0), LogLine.event_id, skipped.append
    ):
        whole.append((line.offset, event_id))
        if line.offset in offsets:
            fit[line.offset] = line, event_id
        if line.offset >= end:
            break
    found = list[_Lost]()
    for line, event_id in fit.values():
        if line.data.find(OURS, 1) < 0:
            found.append(_Lost(line, event_id, event_id))
        else:  # the first of the two has the id
            at = bisect_right(whole, (line.offset, event_id))
            found.append(_Lost(line, event_id + 1, whole[at][1] - 1 if at < len(whole) else MAX_ID - 1))
    for line in skipped:
        if line.offset in offsets:
            at = bisect_left(whole, (line.offset, 0))
            first = whole[at - 1][1] + 1 if at else 1
            found.append(_Lost(line, first, whole[at][1] - 1 if at < len(whole) else MAX_ID - 1))
    found = [lost for lost in found if (its := event(lost.line)) is None or its.event == "message_added"]
    return sorted(found, key=lambda lost: lost.line.offset)


def _paired(names: list[str], lost: list[_Lost]) -> list[tuple[str, _Lost, int]]:
    """Each file with the line that held it, and the id of its event.

    Most lines still say which message is theirs. What is left goes by the order; where a damaged newline made one line
    of two, they are both of the last one.
    """
    said = [match[1].decode() if (match := _NAME.search(one.line.data[:_HEAD])) else "" for one in lost]
    known = set(said)
    free = [number for number, name in enumerate(said) if name not in names]
    free = [number for number in free if _SHAPE in lost[number].line.data[:_HEAD]] or free
    roomy = [number for number in free if lost[number].last > lost[number].first]
    pairs: list[tuple[str, _Lost, int]] = []
    used: Counter[int] = Counter()
    top = 0
    for name in names:
        if name in known:
            number = said.index(name)
        elif free:
            number = free.pop(0)
        elif roomy:
            number = roomy[-1]
        else:
            continue
        one = lost[number]
        event_id = max(one.first + used[number], top + 1)
        if event_id <= one.last:
            used[number] += 1
            top = event_id
            pairs.append((name, one, event_id))
    return pairs
