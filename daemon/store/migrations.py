"""Formats of stored data, and migrations of what older versions wrote.

Metadata has its ``format``; so does every other record (event, goal tree, message) from format 2 on, and a record
without one is of format 1. So a log that an old version started and this one continues is read line by line, and
nothing has to be converted on disk: old records stay unchanged until they are written again.

To change the format: raise ``daemon.model.traces.FORMAT``, add a ``Migration`` for the one before to ``STEPS``, and a
trace of the old format to ``tests/contract/store/formats``. A new kind of event, or a new field with a default, needs
neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from daemon.model.traces import FORMAT
from daemon.store.trace_store import refuse_newer
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Kind = Literal["trace", "goal_tree", "message", "event"]
Record = dict[str, Any]
"""JSON of one stored record. Any because it may be of a version that this one does not know."""


def _same(record: Record) -> Record:
    return record


@dataclass(frozen=True, slots=True)
class Migration:
    """From one format to the next; each function takes a record and returns it as the next format has it.

    An event that holds a message, a goal or metadata is converted by ``event`` alone.
    """

    trace: Callable[[Record], Record] = _same
    goal_tree: Callable[[Record], Record] = _same
    message: Callable[[Record], Record] = _same
    event: Callable[[Record], Record] = _same


STEPS: Mapping[int, Migration] = MappingProxyType({})
"""By the format they start from: all from 1 to the one before ``FORMAT``."""


@dataclass(frozen=True, slots=True)
class Formats:
    """The formats that a store writes and reads."""

    current: int = FORMAT
    steps: Mapping[int, Migration] = field(default_factory=lambda: STEPS)

    def read(self, kind: Kind, record: Record, trace_id: str) -> Record:
        """Return a record in the current format. Raises NewerFormatError, and ValueError for one without a valid
        format."""
        written = record.get("format", 1)
        if type(written) is not int or written < 1:
            raise ValueError(t("{written!r} is not a valid format version", written=written))
        refuse_newer(trace_id, written, self.current)
        for number in range(written, self.current):
            step = self.steps[number]
            record = getattr(step, kind)(record)
        return {**record, "format": self.current} if kind == "trace" else record

    def write(self, kind: Kind, record: Record) -> Record:
        """Add the format to a record and return it; ``record`` may be changed."""
        if kind == "trace" or self.current > 1:
            record["format"] = self.current
        return record


FORMATS = Formats()
"""Those of this version."""
