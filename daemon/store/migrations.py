"""Formats of stored data, and migrations of what older versions wrote.

Metadata has its ``format``; so does every other record (event, goal tree, message) from format 2 on, and a record
without one is of format 1. So a log that an old version started and this one continues is read line by line, and
nothing has to be converted on disk: old records stay unchanged until they are written again.

To change the format: raise ``daemon.model.traces.FORMAT``, add a ``Migration`` for the one before to ``STEPS``, and a
trace of the old format to ``tests/contract/store/formats``. A new kind of event, or a new field with a default, needs
neither.
"""

from __future__ import annotations

import json
import logging
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct, field
from pydantic import TypeAdapter, ValidationError

from daemon.model.events import Event
from daemon.model.goals import GoalTree
from daemon.model.traces import FORMAT, BranchTrace, Trace
from daemon.store.trace_store import first, refuse_newer
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from daemon.store.event_log import StoredLine

log = logging.getLogger(__name__)

Kind = Literal["trace", "goal_tree", "message", "event"]
Record = dict[str, Any]
"""JSON of one stored record. Any because it may be of a version that this one does not know."""
DAMAGE = (ValueError, RecursionError)
"""Raised by all that reads a damaged record."""


@cache
def _events() -> TypeAdapter[Event]:
    # Created on first use, because it takes a tenth of the daemon's start.
    return TypeAdapter(Event)


def event_of(line: bytes) -> Event:
    """Return the event in a line of the current format. Raises ValueError."""
    return _events().validate_json(line)


def _same(record: Record) -> Record:
    return record


class Migration(Struct, frozen=True):
    """From one format to the next; each function takes a record and returns it as the next format has it.

    An event that holds a message, a goal or metadata is converted by ``event`` alone.
    """

    trace: Callable[[Record], Record] = _same
    goal_tree: Callable[[Record], Record] = _same
    message: Callable[[Record], Record] = _same
    event: Callable[[Record], Record] = _same


STEPS: Mapping[int, Migration] = MappingProxyType({})
"""By the format they start from: all from 1 to the one before ``FORMAT``."""


class Formats(Struct, frozen=True):
    """The formats that a store writes and reads."""

    current: int = FORMAT
    steps: Mapping[int, Migration] = field(default_factory=lambda: STEPS)

    def trace(self, data: bytes, trace_id: str) -> Trace:
        """Return the metadata in a record of this trace. Raises NewerFormatError, and ``DAMAGE``."""
        raw = self._record("trace", data, trace_id)
        found = (BranchTrace if "explore_start_id" in raw else Trace).model_validate(raw)
        if found.trace_id != trace_id:
            # A session's id is the name that its record has in the store; the content is untrusted.
            raise ValueError(t("it names another session"))
        return found

    def goal_tree(self, data: bytes, trace_id: str) -> GoalTree:
        """Return the goals in a record. Raises NewerFormatError, and ``DAMAGE``."""
        if self._is_current(data):
            return GoalTree.model_validate_json(data)
        return GoalTree.model_validate(self._record("goal_tree", data, trace_id))

    def event(self, data: bytes, trace_id: str) -> Event | None:
        """Return the event in a line of a log; None when it is damaged, or this version does not know it.

        Raises NewerFormatError.
        """
        try:
            event = self._event(data, trace_id)
        except DAMAGE:
            return None
        # An event that names another session is damaged; a log that begins with one belongs to another session.
        return event if event.trace_id == trace_id or event.event == "session_created" else None

    def events(self, lines: Iterable[StoredLine], trace_id: str, limit: int | None) -> list[Event]:
        """Return the events of the lines that this version can read, the first ``limit`` of them. Reads no further.

        Raises NewerFormatError.
        """
        return first(self._readable(lines, trace_id), limit)

    def write(self, kind: Kind, record: Record) -> Record:
        """Add the format to a record and return it; ``record`` may be changed."""
        if kind == "trace" or self.current > 1:
            record["format"] = self.current
        return record

    def _readable(self, lines: Iterable[StoredLine], trace_id: str) -> Iterator[Event]:
        for line in lines:
            event = self.event(line.body, trace_id)
            if event is not None:
                yield event
            else:  # one of a newer version stays in the log, but this version cannot use it
                log.warning("unknown event %d in the log of %s", line.event_id, trace_id)

    def _event(self, data: bytes, trace_id: str) -> Event:
        if self._is_current(data):
            try:
                return event_of(data)
            except ValidationError:
                pass  # json supports deeper nesting than pydantic's parser
        return _events().validate_python(self._record("event", data, trace_id))

    def _is_current(self, data: bytes) -> bool:
        """Return whether nothing can have to be converted, so that the fast parser may read it."""
        return self.current == 1 and b'"format"' not in data

    def _record(self, kind: Kind, data: bytes, trace_id: str) -> Record:
        """Return a record in the current format. Raises NewerFormatError, and ``DAMAGE``."""
        value: object = json.loads(data)
        if not isinstance(value, dict):
            raise ValueError(t("it is not a JSON object"))
        record = cast("Record", value)
        written = record.get("format", 1)
        if type(written) is not int or written < 1:
            raise ValueError(t("{written!r} is not a valid format version", written=written))
        refuse_newer(trace_id, written, self.current)
        for number in range(written, self.current):
            record = getattr(self.steps[number], kind)(record)
        return {**record, "format": self.current} if kind == "trace" else record


FORMATS = Formats()
"""Those of this version."""
