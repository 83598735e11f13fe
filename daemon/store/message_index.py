"""An index of the messages of a trace: their offsets in its log, with goal and role.

Built in one pass over the log that decodes nothing but the heads of the lines (100 MB take about 0.1 s), and continued
from there the next time. So a page of one goal's messages costs what it returns.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from msgspec import Struct, field

from daemon.model.events import kinds
from daemon.store.event_log import LogLine, LogReader, fitting
from tools.files.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_KEPT = 4
"""Traces whose index is remembered."""
_END = 16 * 1024 * 1024
"""Bytes at the end of a log in which the first page is looked for."""
_ENVELOPE = 400
_OURS = b'{"event_id":'
"""The beginning of our lines; it occurs nowhere else in one, because quotes in strings are escaped."""
_KIND = b',"event":"'
_OTHERS = frozenset(f'{kind}"'.encode() for kind in kinds() - {"message_added"})
_LONGEST = max(map(len, _OTHERS))
_ADDED = b',"event":"message_added","message":'
_STRING = rb'"(?:[^"\\]|\\.)*"'
_MESSAGE = re.compile(
    rb'\{"message_id":(' + _STRING + rb'),"trace_id":' + _STRING + rb',"branch_id":(?:null|' + _STRING
    + rb'),"role":("[a-z]+"),"sequence":(-?[0-9]{1,15}),"goal_id":(null|' + _STRING + rb"),"
)  # fmt: skip


class IndexedMessage(NamedTuple):
    """The fields of a message that lists need, and the offset of its event in the log."""

    message_id: str
    sequence: int
    role: str
    goal_id: str | None
    offset: int
    size: int
    event_id: int


class _LogIndex(Struct):
    """The messages of one log, by id."""

    places: dict[str, IndexedMessage] = field(default_factory=dict[str, IndexedMessage])
    scanned: int = 0
    """Bytes of the log that are in it."""
    file: tuple[int, int] = (0, 0)
    """Device and inode of the log."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    _texts: dict[bytes, str | None] = field(default_factory=dict[bytes, "str | None"])

    def follow(self, log: BinaryIO) -> None:
        """Read lines that were appended since."""
        status = os.fstat(log.fileno())
        reader = LogReader(log)
        if self.file != (status.st_dev, status.st_ino) or reader.end < self.scanned:
            self.places.clear()
            self.scanned = 0
            self.file = (status.st_dev, status.st_ino)
        for offset, block, whole in reader.blocks(self.scanned):
            begin = 0
            while (end := block.find(b"\n", begin, whole)) >= 0:
                place = self.place(block, begin, end, offset)
                if place is not None:
                    self.places[place.message_id] = place
                begin = end + 1
        self.scanned = reader.end

    def place(self, data: bytes, begin: int, end: int, offset: int) -> IndexedMessage | None:
        """Return the place of a message from its event; None for any other line. ``data``: the file from ``offset``
        on."""
        # Most lines get no further than this check, so its speed determines the total time.
        kind = data.find(_KIND, begin, min(end, begin + _ENVELOPE))
        if kind >= 0 and data.startswith(_OURS, begin):
            word = kind + len(_KIND)
            if data[word : data.find(b'"', word, word + _LONGEST) + 1] in _OTHERS:
                return None
            return self._spelled_like_ours(data, begin, end, offset, kind)
        # Another program wrote it, or it is damaged.
        return _parsed_place(LogLine(offset + begin, end - begin, data[begin:end]))

    def _spelled_like_ours(
        self, data: bytes, begin: int, end: int, offset: int, kind: int
    ) -> IndexedMessage | None:
        added = data.startswith(_ADDED, kind)
        message = _MESSAGE.match(data, kind + len(_ADDED), end) if added else None
        if message is None:
            return _parsed_place(LogLine(offset + begin, end - begin, data[begin:end]))
        message_id, role, sequence, goal_id = message.groups()
        name, its_role = self._text(message_id, keep=False), self._text(role)
        line = LogLine(offset + begin, end - begin, data[begin : begin + len(_OURS) + 17])
        event_id = line.event_id()
        if name is None or its_role is None or event_id is None:
            return None
        return IndexedMessage(
            name, int(sequence), its_role, self._text(goal_id), line.offset, line.size, event_id
        )

    def _text(self, data: bytes, *, keep: bool = True) -> str | None:
        """Return a JSON string or null. ``keep``: the same few come again and again."""
        if data in self._texts:
            return self._texts[data]
        try:
            text = json.loads(data)
        except ValueError:
            text = None
        if keep:
            self._texts[data] = text
        return text


class MessageIndexes:
    """The indexes of the traces that were read last. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _LogIndex] = OrderedDict()

    def found(self, trace_id: str, log: Path) -> dict[str, IndexedMessage]:
        """Return all messages of a log, by id. Raises OSError when it cannot be read; one that is not there is
        empty."""
        with self._lock:
            index = self._known.setdefault(trace_id, _LogIndex())
            self._known.move_to_end(trace_id)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        with index.lock:
            try:
                with open_regular(log) as file:
                    index.follow(file)
            except FileNotFoundError:
                return {}
            return dict(index.places)

    def newest(self, trace_id: str, log: Path, limit: int) -> dict[str, IndexedMessage]:
        """At least the newest ``limit`` messages of a log. Without the index, where that is not there yet and the
        end of the log has them: the first page of a long trace is not to wait for it. Raises as ``found``."""
        with self._lock:
            known = trace_id in self._known
        if not known:
            try:
                with open_regular(log) as file:
                    found = _from_the_end(LogReader(file), limit)
            except FileNotFoundError:
                return {}
            if found is not None:
                return found
        return self.found(trace_id, log)

    def forget(self, trace_id: str) -> None:
        """Let go of the index of a deleted or closed trace."""
        with self._lock:
            self._known.pop(trace_id, None)


def in_order(places: dict[str, IndexedMessage], last_id: Callable[[], int]) -> dict[str, IndexedMessage]:
    """Without those whose event has an id that does not fit, which no reader of events takes notice of, either.

    ``last_id``: of the log.
    """
    rising = sorted(places.values(), key=_offset)
    if not rising:
        return places
    end = last_id()
    if rising[-1].event_id <= end and all(one.event_id < other.event_id for one, other in pairwise(rising)):
        return places
    return {place.message_id: place for event_id, place in fitting(rising, _event_id) if event_id <= end}


def _offset(place: IndexedMessage) -> int:
    return place.offset


def _event_id(place: IndexedMessage) -> int:
    return place.event_id


def _from_the_end(reader: LogReader, limit: int) -> dict[str, IndexedMessage] | None:
    """Return the last ``limit`` messages, or all; None when they are too far from the end."""
    index = _LogIndex()
    found: dict[str, IndexedMessage] = {}
    for line in reader.backwards():
        if len(found) >= limit:
            break
        if reader.end - line.offset > _END:
            return None
        place = index.place(line.data, 0, len(line.data), line.offset) if line.data else None
        if place is not None:
            found.setdefault(place.message_id, place)
    return found


def _parsed_place(line: LogLine) -> IndexedMessage | None:
    raw, event_id = line.parsed()
    message = raw.get("message")
    if event_id is None or raw.get("event") != "message_added" or not isinstance(message, dict):
        return None
    fields = cast("dict[str, object]", message)
    message_id, sequence, role = fields.get("message_id"), fields.get("sequence"), fields.get("role")
    goal_id = fields.get("goal_id")
    if not isinstance(message_id, str) or type(sequence) is not int or not isinstance(role, str):
        return None
    goal = goal_id if isinstance(goal_id, str) else None
    return IndexedMessage(message_id, sequence, role, goal, line.offset, line.size, event_id)
