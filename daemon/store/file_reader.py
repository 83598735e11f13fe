"""Read the files of a trace, from any source and in any format. Any thread, nothing is ever written."""

from __future__ import annotations

import io
import json
import logging
from collections import OrderedDict
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, cast

from pydantic import TypeAdapter, ValidationError

from daemon.model.events import Event
from daemon.model.goals import GoalTree
from daemon.model.traces import BranchTrace, Trace
from daemon.store.event_log import LogLine, LogReader, StoredLine, fitting
from daemon.store.message_index import IndexedMessage, MessageIndexes, in_order
from daemon.store.trace_store import StoreError, UnknownTraceError
from tools.files.regular_files import open_regular, read_regular
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from daemon.model.messages import Message, Role
    from daemon.store.migrations import Formats, Kind, Record

log = logging.getLogger(__name__)

LOG = "events.jsonl"
_LISTED = 1000
"""Traces whose metadata is remembered, so that a filtered list does not read it all each time."""

Stamp = tuple[int, int, int]


@cache
def _events() -> TypeAdapter[Event]:
    # Created on first use, because it takes a tenth of the daemon's start.
    return TypeAdapter(Event)


def event_of(line: bytes) -> Event:
    """Return the event in a line of the current format. Raises ValueError."""
    return _events().validate_json(line)


class FileReader:
    """Reads traces; caches the offsets of messages, and the metadata of lists."""

    def __init__(self, formats: Formats) -> None:
        self._formats = formats
        self._indexes = MessageIndexes()
        self._lock = Lock()
        self._traces: OrderedDict[Path, tuple[Stamp, Trace]] = OrderedDict()

    def forget(self, trace_id: str) -> None:
        """Let go of what a deleted or closed trace has; it is read again when needed."""
        self._indexes.forget(trace_id)

    # -- snapshots --

    def trace(self, folder: Path, trace_id: str) -> Trace:
        path = folder / "meta.json"
        try:
            stamp = stamp_of(path)
            with self._lock:
                known = self._traces.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            raw = self._record("trace", read_regular(path), trace_id)
            found = (BranchTrace if "explore_start_id" in raw else Trace).model_validate(raw)
            if found.trace_id != trace_id:
                # A session's id is the name of its folder; the content of a file is untrusted.
                raise ValueError(t("it names another session"))
        except FileNotFoundError as error:
            if self.last_event_id(folder) == 0:
                raise UnknownTraceError(t("There is no session {trace_id}.", trace_id=trace_id)) from error
            raise self._damaged(folder, path, error) from error
        except (ValueError, OSError, RecursionError) as error:
            raise self._damaged(folder, path, error) from error
        with self._lock:
            self._traces[path] = (stamp, found)
            self._traces.move_to_end(path)
            while len(self._traces) > _LISTED:
                self._traces.popitem(last=False)
        return found

    def goal_tree(self, folder: Path, trace_id: str) -> GoalTree:
        path = folder / "goal.json"
        try:
            data = read_regular(path)
            if self._is_current(data):
                return GoalTree.model_validate_json(data)
            return GoalTree.model_validate(self._record("goal_tree", data, trace_id))
        except (ValueError, OSError, RecursionError) as error:
            raise self._damaged(folder, path, error) from error

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
        first_page = limit if before is None and goal_ids is None and role is None else None
        found, skipped = self._chosen(folder, trace_id, first_page, limit, before, goal_ids, role)
        if skipped and first_page is not None:  # the messages before these are wanted instead
            found, _ = self._chosen(folder, trace_id, None, limit, before, goal_ids, role)
        return found

    def _chosen(
        self,
        folder: Path,
        trace_id: str,
        newest: int | None,
        limit: int | None,
        before: int | None,
        goal_ids: frozenset[str | None] | None,
        role: Role | None,
    ) -> tuple[list[Message], bool]:
        """Messages, oldest first, and whether some were left out because their lines are damaged."""
        places = [
            place
            for place in self._places(folder, trace_id, newest).values()
            if (before is None or place.sequence < before)
            and (goal_ids is None or place.goal_id in goal_ids)
            and (role is None or place.role == role)
        ]
        places.sort(key=lambda place: (place.sequence, place.message_id), reverse=True)
        found: list[Message] = []
        skipped = False
        for message in self._read(folder, trace_id, places):
            if limit is not None and len(found) >= limit:
                break
            if message is None:
                skipped = True
            else:
                found.append(message)
        found.reverse()
        return found, skipped

    def others(self, folder: Path, trace_id: str, known: Collection[str]) -> list[Message]:
        """Return the messages of the log but ``known`` (their ids). Raises StoreError."""
        places = [place for name, place in self._places(folder, trace_id).items() if name not in known]
        return [message for message in self._read(folder, trace_id, places) if message is not None]

    def _places(self, folder: Path, trace_id: str, newest: int | None = None) -> dict[str, IndexedMessage]:
        try:
            if newest is not None:
                places = self._indexes.newest(trace_id, folder / LOG, newest)
            else:
                places = self._indexes.found(trace_id, folder / LOG)
        except OSError as error:
            raise StoreError(
                t("The session's log cannot be read: {strerror}.", strerror=error.strerror or error)
            ) from error
        return in_order(places, lambda: self.last_event_id(folder))

    def _read(
        self, folder: Path, trace_id: str, places: Sequence[IndexedMessage]
    ) -> Iterator[Message | None]:
        """Yield the message at each of these places of the log; None for a damaged one, which costs only itself."""
        with opened(folder / LOG) as file:
            reader = LogReader(file)
            for place in places:
                event = self.event(reader.line(place.offset, place.size), trace_id)
                if event is None or event.event != "message_added":
                    log.warning("message %a of %s is damaged, and lost", place.message_id, trace_id)
                    yield None
                else:
                    yield event.message

    # -- events --

    def events(self, folder: Path, trace_id: str, *, after: int, limit: int | None) -> list[Event]:
        found: list[Event] = []
        if limit is not None and limit <= 0:
            return found

        def skipped(line: LogLine) -> None:
            if line.size:
                log.warning(
                    "a line of the log of %s is damaged, %d bytes from its beginning", trace_id, line.offset
                )

        with opened(folder / LOG) as file:
            reader = LogReader(file)
            lines = fitting(reader.forwards(reader.position_after(after)), LogLine.event_id, skipped, after)
            for event_id, line in lines:
                if event_id <= after:
                    continue
                event = self.event(line, trace_id)
                if event is None:
                    # An event of a newer version stays in the log, but this version cannot use it.
                    log.warning("unknown event %d in the log of %s", event_id, trace_id)
                    continue
                found.append(event)
                if len(found) == limit:
                    break
        return found

    def lines(self, folder: Path, after: int) -> Iterator[StoredLine]:
        """Yield the events with an id above ``after``, as they stand in the log."""
        with opened(folder / LOG) as file:
            reader = LogReader(file)
            found = fitting(reader.forwards(reader.position_after(after)), LogLine.event_id, after=after)
            for event_id, line in found:
                if event_id > after:
                    yield StoredLine(event_id, line.data)

    def last_event_id(self, folder: Path) -> int:
        with opened(folder / LOG) as file:
            return LogReader(file).last_id()

    def highest_event_id(self, folder: Path, trace_id: str) -> int:
        """Return the highest id that any reader accepts, wherever it begins: reads the whole log. 0: there is none.

        It equals the last one, except in a log that was damaged in many places, or forged.
        """
        with opened(folder / LOG) as file:
            ids = [event_id for event_id, _ in fitting(LogReader(file).forwards(), LogLine.event_id)]
            ids += [place.event_id for place in self._places(folder, trace_id).values()]
            return max(max(ids, default=0), LogReader(file).last_id())

    def damaged(self, folder: Path, trace_id: str) -> list[int]:
        """Numbers (from 1) of the lines of the log that no reader takes notice of. Reads the whole log."""
        with opened(folder / LOG) as file:
            reader = LogReader(file)
            good = {
                line.offset
                for _, line in fitting(reader.forwards(), LogLine.event_id)
                if self.event(line, trace_id) is not None
            }
            return [
                number
                for number, line in enumerate(reader.forwards(), 1)
                if line.size and line.offset not in good
            ]

    def event(self, line: LogLine, trace_id: str) -> Event | None:
        """Return the event of a line; None when it is damaged, or this version does not know it."""
        event = self._event(line, trace_id)
        # An event that names another session is damaged; a log that begins with one belongs to another session.
        if event is not None and event.trace_id != trace_id and event.event != "session_created":
            return None
        return event

    def _event(self, line: LogLine, trace_id: str) -> Event | None:
        if self._is_current(line.data):
            try:
                return event_of(line.data)
            except ValidationError:
                pass  # json supports deeper nesting than pydantic's parser
        try:
            return _events().validate_python(self._record("event", line.data, trace_id))
        except (ValueError, RecursionError):
            return None

    def _damaged(self, folder: Path, path: Path, error: Exception) -> StoreError:
        try:
            logged = self.last_event_id(folder) > 0
        except StoreError:
            logged = False
        how = (
            "missing"
            if isinstance(error, FileNotFoundError)
            else t("damaged ({kind})", kind=error.__class__.__name__)
        )
        if logged:
            return StoreError(
                t(
                    "{path} is {how}. Run `goalwright trace rebuild` to rebuild it from the event log.",
                    path=path,
                    how=how,
                )
            )
        return StoreError(
            t(
                "{path} is {how}, and there is no event log to rebuild it from.",
                path=path,
                how=how,
            )
        )

    # -- formats --

    def _is_current(self, data: bytes) -> bool:
        """Return whether nothing can have to be converted, so that the fast parser may read it."""
        return self._formats.current == 1 and b'"format"' not in data

    def _record(self, kind: Kind, data: bytes, trace_id: str) -> Record:
        value: object = json.loads(data)
        if not isinstance(value, dict):
            raise ValueError(t("it is not a JSON object"))
        return self._formats.read(kind, cast("Record", value), trace_id)


def opened(log_file: Path) -> BinaryIO:
    """Open a log for reading; an empty one where there is none. Raises StoreError."""
    try:
        return open_regular(log_file)
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as error:
        raise StoreError(
            t("The session's log cannot be read: {strerror}.", strerror=error.strerror or error)
        ) from error


def stamp_of(path: Path) -> Stamp:
    """Changes with the file. Raises OSError."""
    status = path.lstat()
    return status.st_ino, status.st_mtime_ns, status.st_size
