"""Reads the files of a trace, whoever wrote them and in whichever format. Any thread, nothing is ever written."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections import OrderedDict
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, cast

from pydantic import TypeAdapter, ValidationError

from daemon.model.branches import session_of
from daemon.model.events import Event, MessageAdded
from daemon.model.goals import GoalTree
from daemon.model.messages import Message, Role
from daemon.model.traces import BranchTrace, Trace
from daemon.store.base import NewerFormatError, StoreError, UnknownTraceError
from daemon.store.event_log import LogLine, LogReader, fitting
from daemon.store.ids import MESSAGE_ID, sequence_of
from daemon.store.lost_messages import lost_messages
from daemon.store.message_index import IndexedMessage, MessageIndexes, in_order
from tools.files.regular_files import open_regular, read_regular
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator
    from pathlib import Path

    from daemon.store.migrations import Formats, Kind, Record

log = logging.getLogger(__name__)

LOG = "events.jsonl"
_SUFFIX = ".json"
_LISTED = 1000
"""Traces whose metadata is remembered, so that a filtered list does not read it all each time."""

Stamp = tuple[int, int, int]


@cache
def _events() -> TypeAdapter[Event]:
    # Made on first use: it takes a tenth of the daemon's start.
    return TypeAdapter(Event)


def event_of(line: bytes) -> Event:
    """A line of today's format as it is read from a log. Raises ValueError."""
    return _events().validate_json(line)


class FileReader:
    """Remembers where messages stand, and the metadata of lists."""

    def __init__(self, formats: Formats, log_only: Callable[[str], bool] = lambda _: False) -> None:
        """``log_only``: of which sessions no file but the log is believed to have a message."""
        self._formats = formats
        self.log_only = log_only
        self._indexes = MessageIndexes()
        self._lock = Lock()
        self._traces: OrderedDict[Path, tuple[Stamp, Trace]] = OrderedDict()

    def forget(self, trace_id: str) -> None:
        """The trace was deleted."""
        self._indexes.forget(trace_id)

    # -- snapshots --

    def trace(self, folder: Path, trace_id: str) -> Trace:
        """See TraceStore."""
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
                # A session's id is the name of its folder; what a file says may come from anybody.
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
        """See TraceStore."""
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
        """See TraceStore."""
        first_page = limit if before is None and goal_ids is None and role is None else None
        found, skipped = self._chosen(folder, trace_id, first_page, limit, before, goal_ids, role)
        if skipped and first_page is not None:  # those before it are wanted in its place
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
        """Messages, and whether some were left out because neither the log nor a file has them whole."""
        logged = self._places(folder, trace_id, newest)
        order = [(place.sequence, name) for name, place in logged.items()]
        if not logged:
            # The log is the truth, so files that it does not know are none of the session's. Has it none, they are all.
            order = [(sequence_of(name), name) for name in names_in(folder / "messages")]
        order.sort(reverse=True)
        found: list[Message] = []
        skipped = False
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
                if message is None:
                    skipped = True
                elif _wanted(message.goal_id, message.role, goal_ids, role):
                    found.append(message)
        found.reverse()
        return found, skipped

    def unsaved(self, folder: Path, trace_id: str) -> list[Message]:
        """Messages that are in the log alone. Raises StoreError."""
        logged = self._places(folder, trace_id)
        lost = logged.keys() - names_in(folder / "messages")
        if not lost:
            return []
        with self._source(folder, trace_id) as source:
            found = [source.message(name, logged[name]) for name in sorted(lost)]
        return [message for message in found if message is not None]

    def _places(self, folder: Path, trace_id: str, newest: int | None = None) -> dict[str, IndexedMessage]:
        try:
            if newest is not None:
                indexed = self._indexes.newest(trace_id, folder / LOG, newest)
            else:
                indexed = self._indexes.found(trace_id, folder / LOG)
        except OSError as error:
            raise StoreError(
                t("The session's log cannot be read: {strerror}.", strerror=error.strerror or error)
            ) from error
        places = in_order(indexed.places, lambda: self.last_event_id(folder))
        unfit = [place.offset for name, place in indexed.places.items() if name not in places]
        if not (indexed.odd or unfit) or self.log_only(trace_id):
            return places
        with self._source(folder, trace_id) as source:
            if source.log is None:
                return places
            odd = [*indexed.odd, *unfit]
            files = names_in(folder / "messages")
            return places | lost_messages(
                source.log, places, odd, files, source.file, lambda line: self.event(line, trace_id)
            )

    def _from_files(self, folder: Path, trace_id: str, damaged: Collection[int]) -> list[tuple[int, Event]]:
        """Events of messages whose line in the log, which begins at one of ``damaged``, cannot be read: from the
        messages' own files. With the offset of the line."""
        if not damaged or self.log_only(trace_id):
            return []
        found: list[tuple[int, Event]] = []
        with self._source(folder, trace_id) as source:
            for name, place in self._places(folder, trace_id).items():
                if place.offset in damaged and (message := source.message(name, place)) is not None:
                    event = MessageAdded(
                        event_id=place.event_id, trace_id=trace_id, time=message.created_at, message=message
                    )
                    found.append((place.offset, event))
        return found

    @contextlib.contextmanager
    def _source(self, folder: Path, trace_id: str) -> Generator[MessageFiles]:
        with contextlib.ExitStack() as stack:
            try:
                reader = LogReader(stack.enter_context(opened(folder / LOG)))
            except FileNotFoundError:
                reader = None
            yield MessageFiles(self, folder, trace_id, reader)

    def names(self, folder: Path) -> list[str]:
        """Ids of the messages that have a file."""
        return sorted(names_in(folder / "messages"))

    def from_line(self, line: LogLine, trace_id: str) -> Message | None:
        """The message of a line of the log; None when there is none, or a damaged one."""
        event = self.event(line, trace_id)
        return event.message if event is not None and event.event == "message_added" else None

    def from_file(self, path: Path, trace_id: str) -> Message:
        """The message of a file. Raises StoreError."""
        try:
            data = read_regular(path)
            if self._is_current(data):
                return Message.model_validate_json(data)
            return Message.model_validate(self._record("message", data, trace_id))
        except (ValueError, OSError, RecursionError) as error:
            raise self._damaged(path.parent.parent, path, error) from error

    # -- events --

    def events(self, folder: Path, trace_id: str, *, after: int, limit: int | None) -> list[Event]:
        """See TraceStore."""
        found: list[Event] = []
        if limit is not None and limit <= 0:
            return found
        try:
            file = opened(folder / LOG)
        except FileNotFoundError:
            return found
        with file:
            reader = LogReader(file)
            damaged: set[int] = set()

            def skipped(line: LogLine) -> None:
                damaged.add(line.offset)
                if line.size:
                    log.warning(
                        "a line of the log of %s is damaged, %d bytes from its beginning",
                        trace_id,
                        line.offset,
                    )

            lines = fitting(reader.forwards(reader.position_after(after)), LogLine.event_id, skipped, after)
            for event_id, line in lines:
                if event_id <= after:
                    continue
                event = self.event(line, trace_id)
                if event is None:
                    # An event of a newer version: the log keeps it, this version has no use for it.
                    log.warning("unknown event %d in the log of %s", event_id, trace_id)
                    damaged.add(line.offset)
                    continue
                found.append(event)
                if len(found) == limit:
                    break
        saved = {event.event_id: event for _, event in self._from_files(folder, trace_id, damaged)}
        if any(event_id > after for event_id in saved):
            by_id = saved | {event.event_id: event for event in found}
            found = [by_id[event_id] for event_id in sorted(by_id) if event_id > after][:limit]
        return found

    def last_event_id(self, folder: Path) -> int:
        """See TraceStore."""
        try:
            file = opened(folder / LOG)
        except FileNotFoundError:
            return 0
        with file:
            return LogReader(file).last_id()

    def highest_event_id(self, folder: Path, trace_id: str) -> int:
        """The highest id that any reader takes for one, wherever it begins: reads the whole log. 0: there is none.

        The same as the last one, but in a log that was damaged in many places, or made up.
        """
        try:
            file = opened(folder / LOG)
        except FileNotFoundError:
            return 0
        with file:
            ids = [event_id for event_id, _ in fitting(LogReader(file).forwards(), LogLine.event_id)]
            ids += [place.event_id for place in self._places(folder, trace_id).values()]
            return max(max(ids, default=0), LogReader(file).last_id())

    def damaged(self, folder: Path, trace_id: str) -> tuple[list[int], list[int]]:
        """Numbers (from 1) of the lines of the log that no reader takes notice of, and of those whose message is read
        from its own file. Reads the whole log."""
        try:
            file = opened(folder / LOG)
        except FileNotFoundError:
            return [], []
        with file:
            reader = LogReader(file)
            good = {
                line.offset
                for _, line in fitting(reader.forwards(), LogLine.event_id)
                if self.event(line, trace_id) is not None
            }
            bad = {
                line.offset: number
                for number, line in enumerate(reader.forwards(), 1)
                if line.size and line.offset not in good
            }
        saved = {offset for offset, _ in self._from_files(folder, trace_id, bad)}
        return (
            [number for offset, number in bad.items() if offset not in saved],
            [number for offset, number in bad.items() if offset in saved],
        )

    def event(self, line: LogLine, trace_id: str) -> Event | None:
        """The event of a line; None when it is damaged, or this version does not know it."""
        event = self._event(line, trace_id)
        # One that names another session is damaged, too; a log that begins with one is another session's.
        if event is not None and event.trace_id != trace_id and event.event != "session_created":
            return None
        return event

    def _event(self, line: LogLine, trace_id: str) -> Event | None:
        if self._is_current(line.data):
            try:
                return event_of(line.data)
            except ValidationError:
                pass  # json knows deeper nesting than pydantic's parser
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
                    "{path} is {how}: `goalwright trace rebuild` makes it anew from the event log.",
                    path=path,
                    how=how,
                )
            )
        return StoreError(
            t(
                "{path} is {how}, and there is no event log from which it could be made anew.",
                path=path,
                how=how,
            )
        )

    # -- formats --

    def _is_current(self, data: bytes) -> bool:
        """Whether nothing can have to be converted, so that the fast parser may read it."""
        return self._formats.current == 1 and b'"format"' not in data

    def _record(self, kind: Kind, data: bytes, trace_id: str) -> Record:
        value: object = json.loads(data)
        if not isinstance(value, dict):
            raise ValueError(t("it is no JSON object"))
        return self._formats.read(kind, cast("Record", value), trace_id)


def opened(log_file: Path) -> BinaryIO:
    """A log, to be read. Raises FileNotFoundError, StoreError."""
    try:
        return open_regular(log_file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(
            t("The session's log cannot be read: {strerror}.", strerror=error.strerror or error)
        ) from error


def _wanted(
    goal_id: str | None, its_role: str, goal_ids: frozenset[str | None] | None, role: str | None
) -> bool:
    return (goal_ids is None or goal_id in goal_ids) and (role is None or its_role == role)


def stamp_of(path: Path) -> Stamp:
    """Changes with the file. Raises OSError."""
    status = path.lstat()
    return status.st_ino, status.st_mtime_ns, status.st_size


class MessageFiles:
    """Reads the messages of one session: from the log, which is the truth, else from their files."""

    def __init__(self, files: FileReader, folder: Path, trace_id: str, log_file: LogReader | None) -> None:
        self._files = files
        self._folder = folder / "messages"
        self._trace_id = trace_id
        self.log = log_file

    def message(self, name: str, place: IndexedMessage | None) -> Message | None:
        """The message called ``name``; None when its line in the log is damaged and there is no file of it, either.

        Raises StoreError for a damaged file of a session that has no log."""
        if place is not None and self.log is not None:
            found = self._files.from_line(self.log.line(place.offset, place.size), self._trace_id)
            if found is not None:
                return found
            found = None if self._files.log_only(self._trace_id) else self.file(name)
            if found is None or found.sequence != place.sequence:
                # As when the log is replayed: one damaged message is not to cost the person all others.
                log.warning("message %a of %s is damaged in the log, and lost", name, self._trace_id)
                return None
            return found
        if not MESSAGE_ID.fullmatch(name):
            raise StoreError(t("{name!a} is not the id of a message.", name=name[:100]))
        return self._files.from_file(self._folder / f"{name}{_SUFFIX}", self._trace_id)

    def file(self, name: str) -> Message | None:
        """What the file of that very message has; None when there is none, or a damaged one."""
        try:
            found = self.message(name, None)
        except NewerFormatError:
            raise
        except StoreError:
            return None
        if found is None or found.message_id != name:
            return None
        return found if session_of(found.trace_id, found.branch_id) == self._trace_id else None


def names_in(folder: Path) -> set[str]:
    """Ids of the messages that have a file. Files of a write that was killed begin with a dot."""
    if folder.is_symlink():
        return set()
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return {stem for stem in stems if MESSAGE_ID.fullmatch(stem)}
