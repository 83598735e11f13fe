"""Traces as files::

    .trace/{trace_id}/meta.json  goal.json  messages/{message_id}.json  events.jsonl
                      branches/{branch_id}/  the same for each branch   agents/{id}/  the same for each sub-agent

Trace ids and message ids sort by age, so the newest are found by name without opening anything. Every event is one
``write`` of one line: data that the kernel has accepted survives a ``kill -9`` of the daemon. A torn last line (power
loss) is cut off when the log is opened again.

The log holds the messages. The files in ``messages/`` are written from it for people and scripts, within a second or at
the end of the turn; nothing here reads them. Those that a kill left out are written when the session is opened, all of
them again by ``rebuild``.

The folder is part of an untrusted workspace: links in it are not followed, and only regular files are opened.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import stat
import threading
from collections import deque
from typing import IO, TYPE_CHECKING

from daemon.model.branches import branch_of, is_within, root_of, session_of
from daemon.model.encoding import json_bytes
from daemon.model.events import Event, MessageAdded, TurnEnded
from daemon.model.goals import Goal, GoalTree
from daemon.store.event_log import MAX_ID, MAX_LINE, LogReader
from daemon.store.file_reader import LOG, FileReader, holds_trace
from daemon.store.file_writer import put_aside, remove_folder, write_file
from daemon.store.ids import MESSAGE_ID
from daemon.store.migrations import FORMATS, Formats
from daemon.store.trace_index import TraceIndex
from daemon.store.trace_store import EventT, NewerFormatError, StoreError
from tools.files.regular_files import (
    TRACES,
    make_folder,
    open_regular,
    os_errors,
    read_regular,
    write_private,
)
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from daemon.model.messages import Message
    from daemon.model.traces import Trace

log = logging.getLogger(__name__)

_NOT_OPENED = noted("The session's log cannot be opened: {strerror}.")


class FileTraceStore(FileReader):
    """A folder of traces. One daemon writes (it holds the workspace's lock); other processes may read."""

    def __init__(self, root: Path, formats: Formats = FORMATS, also: Path | None = None) -> None:
        super().__init__(root, formats, also)
        self._listed = TraceIndex(self)
        self._logs: dict[str, IO[bytes]] = {}
        self._last_ids: dict[str, int] = {}
        self._highest_ids: dict[str, int] = {}
        """Highest event ids of logs that were read before they are written."""
        self._newest_line: tuple[Event, bytes] | None = None
        self._goals: dict[str, GoalFile] = {}
        self._snapshots = threading.Lock()
        self._newest: dict[str, int] = {}
        """Event ids of the newest snapshots."""
        self._unwritten: dict[str, deque[Message]] = {}
        """Messages of the log whose files are still to be written: with the next snapshot, as no step waits for
        them."""

    def prepare(self) -> None:
        """Make the folder and keep git out of it. Raises StoreError when it cannot be written."""
        words = noted(
            "Sessions cannot be stored in {root}: {strerror}. Make the folder writable, or remove whatever is in its "
            "place."
        )
        with os_errors(StoreError, words, root=self.root):
            if self.root.is_symlink():
                # A repository could contain this link, and make us write wherever it points.
                raise OSError(errno.ELOOP, t("it is a symbolic link"), str(self.root))
            # Create no folder beside a workspace that is gone; elsewhere the folder is ours.
            self.root.mkdir(parents=self.root.name != TRACES, exist_ok=True, mode=0o700)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                write_private(ignore, b"*\n")
            elif not os.access(self.root, os.W_OK):
                raise PermissionError(errno.EACCES, t("not writable"), str(self.root))

    def refuse_links(self, trace_id: str) -> None:
        """Raise StoreError when a trace that came from elsewhere would make us write through links, or into devices."""
        for parent, folders, files in os.walk(self._folder(trace_id)):
            for name in (*folders, *files):
                mode = os.lstat(os.path.join(parent, name)).st_mode  # noqa: PTH118 - many files
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    raise StoreError(
                        t(
                            "Session {trace_id} has symbolic links in its folder and is not opened.",
                            trace_id=trace_id,
                        )
                    )

    # -- writing --

    def create(self, trace: Trace) -> None:
        folder = self.folder(trace.trace_id)
        fresh = False
        try:
            with os_errors(
                StoreError, noted("The session cannot be stored in {folder}: {strerror}."), folder=folder
            ):
                self.prepare()
                if self._is_linked(folder):
                    raise OSError(errno.ELOOP, t("it is reached through a symbolic link"), str(folder))
                if branch_of(trace.trace_id) is not None:
                    self._folder(root_of(trace.trace_id))
                fresh = not folder.exists()
                make_folder(folder)
                # A kill may have left the beginning of a child with this name.
                (folder / "messages").mkdir(exist_ok=not holds_trace(folder))
                self.save_snapshot(trace, GoalTree())
        except StoreError:
            self.close(trace.trace_id)
            if fresh:
                # Half of a session is worse than none: it would be the newest one, and contain nothing.
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def append(self, event: EventT) -> EventT:
        """Append an event to the log. Raises StoreError when it cannot be written."""
        trace_id = event.trace_id
        handle = self._log(trace_id)
        event_id = self._last_ids[trace_id] + 1
        if event_id > MAX_ID:
            raise StoreError(t("This session has reached its maximum number of events. Start a new session."))
        numbered = event.model_copy(update={"event_id": event_id})
        line = json_bytes(self.formats.write("event", numbered.stored())) + b"\n"
        if len(line) > MAX_LINE:
            raise StoreError(
                t(
                    "An event of {count} MB cannot be stored; the limit is {max_line} MB.",
                    count=len(line) // 1000000,
                    max_line=MAX_LINE // 1000000,
                )
            )
        if os.fstat(handle.fileno()).st_nlink == 0:
            self.close(trace_id)
            raise StoreError(
                t(
                    "The session's folder {trace_id} was deleted, so nothing more can be stored in it. "
                    "Start a new session.",
                    trace_id=self.folder(trace_id),
                )
            )
        try:
            with os_errors(StoreError, noted("The session's log cannot be written: {strerror}.")):
                _write_all(handle, line)
        except StoreError:
            # A half-written line must not merge with the next event.
            self.close(trace_id)
            raise
        self._last_ids[trace_id] = event_id
        self._newest_line = numbered, line[:-1]
        if isinstance(numbered, MessageAdded):
            self._unwritten.setdefault(trace_id, deque()).append(numbered.message)
        elif isinstance(numbered, TurnEnded):
            self._write_waiting(trace_id)
        return numbered

    def line(self, event: Event) -> bytes | None:
        newest = self._newest_line
        # Lines of a later format contain its number, and that is the store's own.
        return newest[1] if newest is not None and newest[0] is event and self.formats.current == 1 else None

    def restore_messages(self, trace_id: str, messages: Sequence[Message]) -> int:
        """Write those of these messages again whose own record is lost or another; returns how many. Raises
        StoreError."""
        return sum(self._write_message(trace_id, message, compare=True) for message in messages)

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        """Write the goals first, because metadata that names an event id vouches for both."""
        folder = self._folder(trace.trace_id)
        self._write_waiting(trace.trace_id)
        with self._snapshots:
            if trace.last_event_id < self._newest.get(trace.trace_id, 0):
                return  # one that began earlier, in a thread, finishes late
            goals = self._goals.setdefault(trace.trace_id, GoalFile(self.formats))
            write_file(folder / "goal.json", goals.encoded(tree))
            write_file(
                folder / "meta.json", json_bytes(self.formats.write("trace", trace.stored()), indent=1)
            )
            self._newest[trace.trace_id] = trace.last_event_id

    def recover(self, trace_id: str) -> int:
        """Raises StoreError when it cannot be written."""
        if trace_id in self._logs:
            return 0
        folder = self._folder(trace_id)
        try:
            self.trace(trace_id)
        except NewerFormatError:
            raise  # nothing of it was changed
        except StoreError as error:
            log.warning("%s", error)
        with os_errors(StoreError, _NOT_OPENED):
            torn = _cut_torn_line(folder / LOG)
        self._highest_ids[trace_id] = self._highest_event_id(trace_id)
        # A kill or a full disk may have come between a message and its file.
        for message in self._other_messages(trace_id, _message_files(folder)):
            self._write_message(trace_id, message)
        return torn

    def set_aside(self, trace_id: str, kept: Collection[str], *, snapshot: bool) -> list[str]:
        """Move the records of all messages except ``kept`` (their ids) to the folder ``aside``, under an unused name.

        ``snapshot``: with a copy of metadata and goals. Returns their new paths, for the user. Raises StoreError.
        """
        folder = self._folder(trace_id)
        names = [f"messages/{name}.json" for name in sorted(_message_files(folder)) if name not in kept]
        copied = [name for name in ("meta.json", "goal.json") if snapshot and (folder / name).is_file()]
        return put_aside(folder, moved=names, copied=copied)

    def delete(self, trace_id: str) -> None:
        """Delete a trace. Its folder disappears at once; the next deletion removes what a kill leaves."""
        folder = self._folder(trace_id)
        for open_id in list(self._logs):
            if open_id == trace_id or open_id.startswith((f"{trace_id}:", f"{trace_id}.")):
                self.close(open_id)
        remove_folder(folder)
        self._indexes.forget(trace_id)
        for known in [known for known in list(self._highest_ids) if is_within(known, trace_id)]:
            del self._highest_ids[known]

    def close(self, trace_id: str | None = None) -> None:
        for key in [trace_id] if trace_id is not None else list(self._logs):
            self._write_waiting(key)
            self._unwritten.pop(key, None)
            handle = self._logs.pop(key, None)
            self._last_ids.pop(key, None)
            self._goals.pop(key, None)
            self._newest.pop(key, None)
            self._indexes.forget(key)
            if handle is not None:
                handle.close()

    # -- reading --

    def traces(
        self, *, limit: int, before: str | None = None, matches: Callable[[Trace], bool] | None = None
    ) -> list[Trace]:
        """Return the metadata of all traces. For damaged metadata, the title comes from the log."""
        found: list[Trace] = []
        for trace_id in self.trace_ids():
            if len(found) >= limit:
                break
            if before is not None and trace_id >= before:
                continue
            trace = self._listed.trace(trace_id, writing=trace_id in self._logs)
            if trace is not None and (matches is None or matches(trace)):
                found.append(trace)
        return found

    def last_event_id(self, trace_id: str) -> int:
        known = self._last_ids.get(trace_id)
        return super().last_event_id(trace_id) if known is None else known

    # -- internals --

    def _write_waiting(self, trace_id: str) -> None:
        """Write the files of messages that have none yet, from any thread."""
        waiting = self._unwritten.get(trace_id)
        while waiting:
            try:
                message = waiting.popleft()
            except IndexError:
                return  # another thread took the last one
            try:
                self._write_message(trace_id, message)
            except StoreError as error:
                log.warning("a message is in the log alone: %s", error)

    def _write_message(self, trace_id: str, message: Message, *, compare: bool = False) -> bool:
        """Write the file of a message of the log, with ``compare`` only where it is another; whether it was written.

        Raises StoreError.
        """
        own = session_of(message.trace_id, message.branch_id) == trace_id
        if not own or not MESSAGE_ID.fullmatch(message.message_id):
            return False  # damage or another program may have changed its ids
        path = self._folder(trace_id) / "messages" / f"{message.message_id}.json"
        data = json_bytes(self.formats.write("message", message.stored()), indent=1)
        if compare:
            with contextlib.suppress(OSError):
                if read_regular(path) == data:
                    return False
        if not path.parent.exists():
            with contextlib.suppress(OSError):  # otherwise the write reports it
                path.parent.mkdir()
        write_file(path, data)
        return True

    def _log(self, trace_id: str) -> IO[bytes]:
        handle = self._logs.get(trace_id)
        if handle is None:
            path = self._folder(trace_id) / LOG
            with os_errors(StoreError, _NOT_OPENED):
                _cut_torn_line(path)
                # Continue above every id ever read, because events below a damaged id would be invisible.
                last = max(self.last_event_id(trace_id), self._highest_ids.get(trace_id, 0))
                handle = path.open("ab", buffering=0)
            self._logs[trace_id] = handle
            self._last_ids[trace_id] = last
        return handle


def _message_files(folder: Path) -> set[str]:
    """Return the ids of the messages that have a file. Files of a write that was killed begin with a dot."""
    messages = folder / "messages"
    if messages.is_symlink():
        return set()
    try:
        names = [entry.name for entry in os.scandir(messages)]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return {stem for stem in stems if MESSAGE_ID.fullmatch(stem)}


def _write_all(handle: IO[bytes], data: bytes) -> None:
    # An unbuffered file writes what fits: a full disk first causes a short write, only then an error.
    rest = memoryview(data)
    while rest:
        rest = rest[handle.write(rest) :]


def _cut_torn_line(path: Path) -> int:
    """Cut off the data after the last newline; returns the number of bytes. Raises OSError."""
    try:
        with open_regular(path) as file:
            reader = LogReader(file)
    except FileNotFoundError:
        return 0
    if reader.torn:
        log.warning("cut a torn line of %d bytes off %s", reader.torn, path)
        os.truncate(path, reader.end)
    return reader.torn


class GoalFile:
    """The encoder of one trace's goals. Remembers the goals of the last tree it encoded, and nothing older."""

    def __init__(self, formats: Formats = FORMATS) -> None:
        self.formats = formats
        self._known: dict[str, tuple[Goal, bytes]] = {}

    def encoded(self, tree: GoalTree) -> bytes:
        """Return the file's content: the JSON of ``tree.stored()``, indented by one."""
        known: dict[str, tuple[Goal, bytes]] = {}
        for goal in tree.goals:
            before = self._known.get(goal.id)
            known[goal.id] = before if before is not None and before[0] is goal else (goal, _goal_text(goal))
        self._known = known
        record = self.formats.write("goal_tree", tree.model_copy(update={"goals": []}).stored())
        record["goals"] = record.pop("goals")  # the format, if present, comes before them
        head = json_bytes(record, indent=1)
        if not known:
            return head
        goals = b",\n".join(text for _, text in known.values())
        # The list is the last field, so goals replace the empty list at the end.
        before = head.removesuffix(b"[]\n}")
        return b"".join((before, b"[\n", goals, b"\n ]\n}"))


def _goal_text(goal: Goal) -> bytes:
    return b"\n".join(b"  " + line for line in json_bytes(goal.stored(), indent=1).split(b"\n"))
