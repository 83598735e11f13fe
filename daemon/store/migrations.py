"""Formats of what is stored, and how what an older version wrote is read.

Metadata says its ``format``; so does every other record (event, goal tree, message) from format 2 on, and one that says
none is of format 1. So a log that was begun by an old version and goes on with this one is read line by line, and
nothing has to be converted on the disk: what is old stays as it is until it is written anew.

To change the format: raise ``daemon.model.traces.FORMAT``, add a ``Migration`` for the one before to ``STEPS``,
and a trace of the old format to ``tests/contract/store/formats``. A new kind of event, or a new field with
a default, needs neither.
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
"""JSON of one record as it is stored. Any because it is JSON, of a version that this one need not know."""


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
    """What a store writes, and reads."""

    current: int = FORMAT
    steps: Mapping[int, Migration] = field(default_factory=lambda: STEPS)

    def read(self, kind: Kind, record: Record, trace_id: str) -> Record:
        """A record as the current format has it. Raises NewerFormatError, and ValueError for what has no format."""
        written = record.get("format", 1)
        if type(written) is not int or written < 1:
            raise ValueError(t("{written!r} is no format", written=written))
        refuse_newer(trace_id, written, self.current)
        for number in range(written, self.current):
            step = self.steps[number]
            record = getattr(step, kind)(record)
        return {**record, "format": self.current} if kind == "trace" else record

    def write(self, kind: Kind, record: Record) -> Record:
        """The same record with its format said; ``record`` may be changed."""
        if kind == "trace" or self.current > 1:
            record["format"] = self.current
        return record


FORMATS = Formats()
"""Those of this version."""
