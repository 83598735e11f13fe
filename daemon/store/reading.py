"""Reads the files of a trace, whoever wrote them and in whichever format. Any thread, nothing is ever written."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Generator, Iterator
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, cast

from pydantic import TypeAdapter, ValidationError

from daemon.model.events import Event, SessionCreated, SessionUpdated
from daemon.model.goals import GoalTree
from daemon.model.messages import Message, Role
from daemon.model.traces import BranchTrace, Trace
from daemon.store.base import NewerFormat, StoreError, UnknownTrace
from daemon.store.event_log import Line, LogReader
from daemon.store.ids import MESSAGE_ID
from daemon.store.message_index import MessageIndexes, Place
from daemon.store.migrations import Formats, Kind, Record
from daemon.store.regular import open_regular, read_regular

log = logging.getLogger(__name__)

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_LOG = "events.jsonl"
_SUFFIX = ".json"
_LISTED = 1000
"""Traces whose metadata is remembered, so that a filtered list does not read it all each time."""

_Stamp = tuple[int, int, int]


def event_of(line: bytes) -> Event:
    """A line of today's format as it is read from a log. Raises ValueError."""
    return _EVENT.validate_json(line)


class FileReader:
    """Remembers where messages stand, and the metadata of lists."""

    def __init__(self, formats: Formats) -> None:
        self._formats = formats
        self._indexes = MessageIndexes()
        self._lock = Lock()
        self._traces: OrderedDict[Path, tuple[_Stamp, Trace]] = OrderedDict()

    def forget(self, trace_id: str) -> None:
        """The trace was deleted."""
        self._indexes.forget(trace_id)

    # -- snapshots --

    def trace(self, folder: Path, trace_id: str) -> Trace:
        """See TraceStore."""
        path = folder / "meta.json"
        try:
            stamp = _stamp(path)
            with self._lock:
                known = self._traces.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            raw = self._record("trace", read_regular(path), trace_id)
            found = (BranchTrace if "explore_start_id" in raw else Trace).model_validate(raw)
        except FileNotFoundError as error:
            raise UnknownTrace(f"There is no session {trace_id}.") from error
        except (ValueError, OSError, RecursionError) as error:
            raise _damaged(path, error) from error
        with self._lock:
            self._traces[path] = (stamp, found)
            self._traces.move_to_end(path)
            while len(self._traces) > _LISTED:
                self._traces.popitem(last=False)
        return found

    def listed(self, folder: Path, trace_id: str) -> Trace | None:
        """Metadata as far as a list needs it, from the log when its file is damaged. None: it is not to be listed."""
        try:
            return self.trace(folder, trace_id)
        except (UnknownTrace, NewerFormat) as error:
            log.warning("left out of the list of sessions: %s", error)
            return None
        except StoreError as error:
            log.warning("%s", error)
        try:
            return self._trace_from_log(folder, trace_id)
        except (StoreError, OSError) as error:
            log.warning("left out of the list of sessions: %s", error)
            return None

    def goal_tree(self, folder: Path, trace_id: str) -> GoalTree:
        """See TraceStore."""
        path = folder / "goal.json"
        try:
            data = read_regular(path)
            if self._is_current(data):
                return GoalTree.model_validate_json(data)
            return GoalTree.model_validate(self._record("goal_tree", data, trace_id))
        except (ValueError, OSError, RecursionError) as error:
            raise _damaged(path, error) from error

    # -- messages --

    def messages(
        self,
        folder: Path,
        trace_id: str,
        *,
        limit: int | None,
        before: int | None,
        goal_ids: frozenset[str | None] | None,
        role: Role | None,
    ) -> list[Message]:
        """See TraceStore."""
        first_page = limit if before is None and goal_ids is None and role is None else None
        logged = self._places(folder, trace_id, first_page)
        kept = _names(folder / "messages")
        order = [(place.sequence, name) for name, place in logged.items()]
        order += [(_sequence_of(name), name) for name in kept if name not in logged]
        order.sort(reverse=True)
        found: list[Message] = []
        with self._source(folder, trace_id) as source:
            for sequence, name in order:
                if limit is not None and len(found) >= limit:
                    break
                if before is not None and sequence >= before:
                    continue
                place = logged.get(name)
                if place is not None and not _wanted(place.goal_id, place.role, goal_ids, role):
                    continue
                message = source.message(name, place)
                if _wanted(message.goal_id, message.role, goal_ids, role):
                    found.append(message)
        found.reverse()
        return found

    def unsaved(self, folder: Path, trace_id: str) -> list[Message]:
        """Messages that are in the log alone. Raises StoreError."""
        logged = self._places(folder, trace_id)
        lost = logged.keys() - _names(folder / "messages")
        if not lost:
            return []
        with self._source(folder, trace_id) as source:
            return [source.message(name, logged[name]) for name in sorted(lost)]

    def _places(self, folder: Path, trace_id: str, newest: int | None = None) -> dict[str, Place]:
        try:
            if newest is not None:
                return self._indexes.newest(trace_id, folder / _LOG, newest)
            return self._indexes.places(trace_id, folder / _LOG)
        except OSError as error:
            raise StoreError(f"The session's log cannot be read: {error.strerror or error}.") from error

    @contextlib.contextmanager
    def _source(self, folder: Path, trace_id: str) -> Generator[_Messages]:
        with contextlib.ExitStack() as stack:
            try:
                reader = LogReader(stack.enter_context(_opened(folder / _LOG)))
            except FileNotFoundError:
                reader = None
            yield _Messages(self, folder, trace_id, reader)

    def from_line(self, line: Line, trace_id: str) -> Message | None:
        """The message of a line of the log; None when there is none, or a damaged one."""
        event = self._event(line, trace_id)
        return event.message if event is not None and event.event == "message_added" else None

    def from_file(self, path: Path, trace_id: str) -> Message:
        """The message of a file. Raises StoreError."""
        try:
            data = read_regular(path)
            if self._is_current(data):
                return Message.model_validate_json(data)
            return Message.model_validate(self._record("message", data, trace_id))
        except (ValueError, OSError, RecursionError) as error:
            raise _damaged(path, error) from error

    # -- events --

    def events(self, folder: Path, trace_id: str, *, after: int, limit: int | None) -> list[Event]:
        """See TraceStore."""
        found: list[Event] = []
        if limit is not None and limit <= 0:
            return found
        try:
            file = _opened(folder / _LOG)
        except FileNotFoundError:
            return found
        with file:
            reader = LogReader(file)
            last = after
            for line in reader.forwards(reader.position_after(after)):
                event_id = line.event_id()
                if event_id is None:
                    if line.size:
                        log.warning("unreadable line in the log of %s", trace_id)
                    continue
                if event_id <= last:
                    continue
                event = self._event(line, trace_id)
                if event is None:
                    # An event of a newer version: the log keeps it, this version has no use for it.
                    log.warning("unknown event %d in the log of %s", event_id, trace_id)
                    continue
                last = event_id
                found.append(event)
                if len(found) == limit:
                    break
        return found

    def last_event_id(self, folder: Path) -> int:
        """See TraceStore."""
        try:
            file = _opened(folder / _LOG)
        except FileNotFoundError:
            return 0
        with file:
            ids = (line.event_id() for line in LogReader(file).backwards())
            return next((event_id for event_id in ids if event_id is not None), 0)

    def _event(self, line: Line, trace_id: str) -> Event | None:
        if self._is_current(line.data):
            try:
                return event_of(line.data)
            except ValidationError:
                pass  # json knows deeper nesting than pydantic's parser
        try:
            return _EVENT.validate_python(self._record("event", line.data, trace_id))
        except (ValueError, RecursionError):
            return None

    def _trace_from_log(self, folder: Path, trace_id: str) -> Trace | None:
        trace: Trace | None = None
        with _opened(folder / _LOG) as file:
            for line in _about_the_session(LogReader(file)):
                event = self._event(line, trace_id)
                if isinstance(event, SessionCreated):
                    trace = event.trace
                elif trace is not None and event is not None:
                    known: dict[str, Any] = {"last_event_id": event.event_id, "updated_at": event.time}
                    if isinstance(event, SessionUpdated):
                        names = ("title", "summary", "model")
                        known |= {k: v for k, v in event.updates.items() if k in names and isinstance(v, str)}
                    trace = trace.model_copy(update=known)
        return trace if trace is None or trace.trace_id == trace_id else None

    # -- formats --

    def _is_current(self, data: bytes) -> bool:
        """Whether nothing can have to be converted, so that the fast parser may read it."""
        return self._formats.current == 1 and b'"format"' not in data

    def _record(self, kind: Kind, data: bytes, trace_id: str) -> Record:
        value: object = json.loads(data)
        if not isinstance(value, dict):
            raise ValueError("it is no JSON object")
        return self._formats.read(kind, cast("Record", value), trace_id)


class _Messages:
    """Reads the messages of one session: from the log, which is the truth, else from their files."""

    def __init__(self, files: FileReader, folder: Path, trace_id: str, log_file: LogReader | None) -> None:
        self._files = files
        self._folder = folder / "messages"
        self._trace_id = trace_id
        self._log = log_file

    def message(self, name: str, place: Place | None) -> Message:
        """The message called ``name``. Raises StoreError."""
        if place is not None and self._log is not None:
            found = self._files.from_line(self._log.line(place.offset, place.size), self._trace_id)
            if found is not None:
                return found
        if not MESSAGE_ID.fullmatch(name):
            raise StoreError(f"{name[:100]!a} is not the id of a message.")
        return self._files.from_file(self._folder / f"{name}{_SUFFIX}", self._trace_id)


def _about_the_session(reader: LogReader) -> Iterator[Line]:
    """What made it, what changed its title and so on, and its last event."""
    for line in reader.forwards():
        if b'"event":"session_' in line.data[:300]:
            yield line
    yield from (line for line, _ in zip(reader.backwards(), range(1), strict=False))


def _opened(log_file: Path) -> BinaryIO:
    try:
        return open_regular(log_file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"The session's log cannot be read: {error.strerror or error}.") from error


def _names(folder: Path) -> set[str]:
    """Ids of the messages that have a file. Files of a write that was killed begin with a dot."""
    if folder.is_symlink():
        return set()
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return {stem for stem in stems if MESSAGE_ID.fullmatch(stem)}


def _sequence_of(name: str) -> int:
    """``msg_000012_ab12cd`` → 12."""
    try:
        return int(name.split("_")[1])
    except (IndexError, ValueError):
        return 0


def _wanted(
    goal_id: str | None, its_role: str, goal_ids: frozenset[str | None] | None, role: str | None
) -> bool:
    return (goal_ids is None or goal_id in goal_ids) and (role is None or its_role == role)


def _stamp(path: Path) -> _Stamp:
    status = path.lstat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _damaged(path: Path, error: Exception) -> StoreError:
    return StoreError(f"{path} is damaged ({error.__class__.__name__}); the event log is intact.")
