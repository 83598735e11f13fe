"""Read the traces in a folder, from any source and in any format. Any thread, nothing is ever written."""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Generic, TypeVar

from daemon.model.branches import BRANCH_ID, child_id
from daemon.store.event_log import LogLine, LogReader, StoredLine, fitting
from daemon.store.file_writer import size_of
from daemon.store.ids import TRACE_ID, folder_names, kind_of, order_of_children
from daemon.store.message_index import IndexedMessage, MessageIndexes, in_order
from daemon.store.migrations import DAMAGE, FORMATS, Formats
from daemon.store.trace_store import StoreError, UnknownTraceError, first
from tools.files.regular_files import is_real_folder, open_regular, os_errors, read_regular
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from daemon.model.events import Event
    from daemon.model.goals import GoalTree
    from daemon.model.messages import Message, Role
    from daemon.model.traces import Trace

log = logging.getLogger(__name__)

LOG = "events.jsonl"
_REMEMBERED = 1000
"""Traces of which something is remembered, so that a list does not read it all each time."""
_UNREADABLE = noted("The session's log cannot be read: {strerror}.")

T = TypeVar("T")


class Remembered(Generic[T]):
    """Values made from the files that were used last, each until its file changes. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Path, tuple[object, T]] = OrderedDict()

    def get(self, path: Path, stamp: object, make: Callable[[], T]) -> T:
        """Return the value of a file. ``make`` is called unless the value is known for this ``stamp``."""
        with self._lock:
            known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        made = make()
        with self._lock:
            self._known[path] = stamp, made
            self._known.move_to_end(path)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return made


def holds_trace(folder: Path) -> bool:
    """Return whether a folder is a trace: without log and metadata there is nothing to show or continue."""
    return os.path.lexists(folder / LOG) or os.path.lexists(folder / "meta.json")


class FileReader:
    """The part of a store of files that only reads; caches the offsets of messages, and the metadata of lists."""

    def __init__(self, root: Path, formats: Formats = FORMATS, also: Path | None = None) -> None:
        """``root``: the folder of new traces. ``also``: another folder with traces, from when ``root`` was a different
        one."""
        self.root = root
        self.formats = formats
        self._also = also
        self._indexes = MessageIndexes()
        self._traces = Remembered["Trace"]()

    # -- folders --

    def trace_ids(self) -> list[str]:
        """Return all ids, newest first."""
        names: set[str] = set()
        for root in filter(None, (self.root, self._also)):
            if is_real_folder(root):
                with contextlib.suppress(OSError):
                    names |= {entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)}
        return sorted((name for name in names if TRACE_ID.fullmatch(name)), reverse=True)

    def children(self, trace_id: str) -> list[str]:
        folder = self._folder(trace_id)
        found: list[str] = []
        for kind in ("branches", "agents"):
            with contextlib.suppress(OSError):  # the folder of another user, or deleted at this moment
                if not is_real_folder(folder / kind):
                    continue
                names = [e.name for e in os.scandir(folder / kind) if e.is_dir(follow_symlinks=False)]
                # Skip names with a dot, which belong to a child's child.
                good = [name for name in names if BRANCH_ID.fullmatch(name) and "." not in name]
                # A kill may have left the beginning of one.
                good = [name for name in good if kind_of(name) == kind and holds_trace(folder / kind / name)]
                found += [child_id(trace_id, name) for name in good]
        return sorted(found, key=order_of_children)

    def size(self, trace_id: str) -> int:
        return size_of(self._folder(trace_id))

    def folder(self, trace_id: str) -> Path:
        """Return where a session is kept, there or not; a child in the folder of its parent. Raises
        UnknownTraceError."""
        names = folder_names(trace_id)
        also = self._also
        if also is None or os.path.lexists(self.root / names[0]) or not is_real_folder(also / names[0]):
            also = self.root
        return also.joinpath(*names)

    def _folder(self, trace_id: str) -> Path:
        folder = self.folder(trace_id)
        if not is_real_folder(folder) or self._is_linked(folder):
            raise UnknownTraceError(t("There is no session {trace_id}.", trace_id=trace_id))
        return folder

    def _is_linked(self, folder: Path) -> bool:
        """Return whether a link leads to a session's folder: then it may be anywhere."""
        while folder not in (self.root, self._also):
            if folder.is_symlink():
                return True
            folder = folder.parent
        return folder.is_symlink()

    # -- snapshots --

    def trace(self, trace_id: str) -> Trace:
        path = self._folder(trace_id) / "meta.json"
        try:
            stamp = stamp_of(path)
            return self._traces.get(path, stamp, lambda: self.formats.trace(read_regular(path), trace_id))
        except FileNotFoundError as error:
            if self.last_event_id(trace_id) == 0:
                raise UnknownTraceError(t("There is no session {trace_id}.", trace_id=trace_id)) from error
            raise self._damaged(trace_id, path, error) from error
        except (OSError, *DAMAGE) as error:
            raise self._damaged(trace_id, path, error) from error

    def goal_tree(self, trace_id: str) -> GoalTree:
        path = self._folder(trace_id) / "goal.json"
        try:
            return self.formats.goal_tree(read_regular(path), trace_id)
        except (OSError, *DAMAGE) as error:
            raise self._damaged(trace_id, path, error) from error

    def snapshot(self, trace_id: str) -> tuple[bytes, bytes]:
        """Return metadata and goals as JSON, ``{}`` for what cannot be read. Raises UnknownTraceError."""
        folder = self._folder(trace_id)
        found: list[bytes] = []
        for name in ("meta.json", "goal.json"):
            try:
                found.append(read_regular(folder / name))
            except OSError:
                found.append(b"{}")
        return found[0], found[1]

    # -- messages --

    def messages(
        self,
        trace_id: str,
        *,
        limit: int | None = None,
        before: int | None = None,
        goal_ids: frozenset[str | None] | None = None,
        role: Role | None = None,
    ) -> list[Message]:
        """Return messages, reading only their lines of the log."""
        found: list[Message] = []
        # For a first page the end of the log suffices, unless messages there are damaged: then earlier ones are wanted.
        first_page = before is None and goal_ids is None and role is None
        for newest in dict.fromkeys((limit if first_page else None, None)):
            places = [
                place
                for place in self._places(trace_id, newest).values()
                if (before is None or place.sequence < before)
                and (goal_ids is None or place.goal_id in goal_ids)
                and (role is None or place.role == role)
            ]
            places.sort(key=lambda place: (place.sequence, place.message_id), reverse=True)
            found = first(self._read(trace_id, places), limit)
            if len(found) in (limit, len(places)):
                break
        found.reverse()
        return found

    def _other_messages(self, trace_id: str, known: Collection[str]) -> list[Message]:
        """Return the messages of the log but ``known`` (their ids). Raises StoreError."""
        return list(
            self._read(trace_id, [at for name, at in self._places(trace_id).items() if name not in known])
        )

    def _places(self, trace_id: str, newest: int | None = None) -> dict[str, IndexedMessage]:
        path = self._folder(trace_id) / LOG
        with os_errors(StoreError, _UNREADABLE):
            if newest is None:
                places = self._indexes.found(trace_id, path)
            else:
                places = self._indexes.newest(trace_id, path, newest)
        return in_order(places, lambda: _last_id(path))

    def _read(self, trace_id: str, places: Sequence[IndexedMessage]) -> Iterator[Message]:
        """Yield the messages at these places of the log; a damaged one costs only itself."""
        with opened(self._folder(trace_id) / LOG) as file:
            reader = LogReader(file)
            for place in places:
                event = self.formats.event(reader.line(place.offset, place.size).data, trace_id)
                if event is not None and event.event == "message_added":
                    yield event.message
                else:
                    log.warning("message %a of %s is damaged, and lost", place.message_id, trace_id)

    # -- events --

    def events(self, trace_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        return self.formats.events(self.lines(trace_id, after=after), trace_id, limit)

    def lines(self, trace_id: str, *, after: int = 0) -> Iterator[StoredLine]:
        """Return the events with an id above ``after`` as they stand in the log. Raises UnknownTraceError."""
        return self._lines(self._folder(trace_id) / LOG, trace_id, after)

    @staticmethod
    def _lines(path: Path, trace_id: str, after: int) -> Iterator[StoredLine]:
        def skipped(line: LogLine) -> None:
            if line.size:
                log.warning(
                    "a line of the log of %s is damaged, %d bytes from its beginning", trace_id, line.offset
                )

        with opened(path) as file:
            reader = LogReader(file)
            found = fitting(reader.forwards(reader.position_after(after)), LogLine.event_id, skipped, after)
            for event_id, line in found:
                if event_id > after:
                    yield StoredLine(event_id, line.data)

    def last_event_id(self, trace_id: str) -> int:
        return _last_id(self._folder(trace_id) / LOG)

    def _highest_event_id(self, trace_id: str) -> int:
        """Return the highest id that any reader accepts, wherever it begins: reads the whole log. 0: there is none.

        It equals the last one, except in a log that was damaged in many places, or forged.
        """
        with opened(self._folder(trace_id) / LOG) as file:
            ids = [event_id for event_id, _ in fitting(LogReader(file).forwards(), LogLine.event_id)]
            ids += [place.event_id for place in self._places(trace_id).values()]
            return max(max(ids, default=0), LogReader(file).last_id())

    def without_effect(self, trace_id: str) -> list[int]:
        """Return the numbers (from 1) of the lines of the log that are damaged, out of order, or of a newer version.

        Reads the whole log.
        """
        with opened(self._folder(trace_id) / LOG) as file:
            reader = LogReader(file)
            good = {
                line.offset
                for _, line in fitting(reader.forwards(), LogLine.event_id)
                if self.formats.event(line.data, trace_id) is not None
            }
            return [
                number
                for number, line in enumerate(reader.forwards(), 1)
                if line.size and line.offset not in good
            ]

    def _damaged(self, trace_id: str, path: Path, error: Exception) -> StoreError:
        try:
            logged = self.last_event_id(trace_id) > 0
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
            t("{path} is {how}, and there is no event log to rebuild it from.", path=path, how=how)
        )


def opened(log_file: Path) -> BinaryIO:
    """Open a log for reading; an empty one where there is none. Raises StoreError."""
    with os_errors(StoreError, _UNREADABLE):
        try:
            return open_regular(log_file)
        except FileNotFoundError:
            return io.BytesIO()


def _last_id(log_file: Path) -> int:
    with opened(log_file) as file:
        return LogReader(file).last_id()


def stamp_of(path: Path) -> tuple[int, int, int]:
    """Changes with the file. Raises OSError."""
    status = path.lstat()
    return status.st_ino, status.st_mtime_ns, status.st_size
