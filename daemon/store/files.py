"""Traces as files, in the layout of seed 000::

    .trace/{trace_id}/meta.json  goal.json  messages/{message_id}.json  events.jsonl
                      branches/{branch_id}/  the same of each branch   agents/{id}/  the same of each sub-agent

Trace ids and message ids sort by age, so the newest are found by name without opening anything. Every event
is one ``write`` of one line: what the kernel has taken survives a ``kill -9`` of the daemon. A torn last
line (power loss) is cut off when the log is opened again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from pydantic import TypeAdapter, ValidationError

from daemon.model.branches import BRANCH_ID, branch_of, root_of, session_of
from daemon.model.events import Event, SessionCreated, SessionUpdated
from daemon.model.goals import GoalTree
from daemon.model.messages import Message
from daemon.model.traces import BranchTrace, Trace
from daemon.store.base import EventT, NewerFormat, StoreError, UnknownTrace, refuse_newer
from daemon.store.encoding import json_bytes
from daemon.store.goal_file import GoalFile

log = logging.getLogger(__name__)

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_TAIL_BLOCK = 64 * 1024
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_TRACE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class FileTraceStore:
    """A folder of traces. One daemon writes (it holds the workspace's lock); others may read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._logs: dict[str, IO[bytes]] = {}
        self._last_ids: dict[str, int] = {}
        self._goals: dict[str, GoalFile] = {}
        self._snapshots = threading.Lock()
        self._newest: dict[str, int] = {}
        """Event ids of the newest snapshots."""

    def prepare(self) -> None:
        """Make the folder and keep git out of it. Raises StoreError when it cannot be written."""
        try:
            if self.root.is_symlink():
                # A repository could bring it along and have us write wherever it points.
                raise OSError(40, "it is a link", str(self.root))
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                _write_atomically(ignore, b"*\n")
            elif not os.access(self.root, os.W_OK):
                raise PermissionError(13, "not writable", str(self.root))
        except OSError as error:
            raise StoreError(
                f"Sessions cannot be stored in {self.root}: {error.strerror or error}. "
                "Make the folder writable, or remove what stands in its way."
            ) from error

    def refuse_links(self, trace_id: str) -> None:
        """Raise StoreError when a trace that came from elsewhere would make us write through links."""
        for parent, folders, files in os.walk(self._folder(trace_id)):
            for name in (*folders, *files):
                if os.path.islink(os.path.join(parent, name)):  # noqa: PTH114, PTH118 - many files
                    raise StoreError(f"Session {trace_id} has links in its folder: it is not opened.")

    def create(self, trace: Trace) -> None:
        """See TraceStore."""
        folder = self.folder(trace.trace_id)
        try:
            self.prepare()
            if self._is_linked(folder):
                raise OSError(errno.ELOOP, "a link leads there", str(folder))
            (folder / "messages").mkdir(parents=True)
        except OSError as error:
            raise StoreError(
                f"The session cannot be stored in {folder}: {error.strerror or error}."
            ) from error
        self.save_snapshot(trace, GoalTree())

    def append(self, event: EventT) -> EventT:
        """See TraceStore. Raises StoreError when the disk refuses."""
        trace_id = event.trace_id
        handle = self._log(trace_id)
        event_id = self._last_ids[trace_id] + 1
        numbered = event.model_copy(update={"event_id": event_id})
        line = json_bytes(numbered.stored()) + b"\n"
        if os.fstat(handle.fileno()).st_nlink == 0:
            self.close(trace_id)
            raise StoreError(
                f"The session's folder {self.root / trace_id} was deleted, so nothing of it can be stored. "
                "Start a new session."
            )
        try:
            _write_all(handle, line)
        except OSError as error:
            # A half-written line must not glue itself to the next event.
            self.close(trace_id)
            raise StoreError(f"The session's log cannot be written: {error.strerror or error}.") from error
        self._last_ids[trace_id] = event_id
        return numbered

    def save_message(self, message: Message) -> None:
        """See TraceStore."""
        if not _SAFE_NAME.fullmatch(message.message_id):
            raise StoreError(f"{message.message_id!r} is not the id of a message.")
        owner = session_of(message.trace_id, message.branch_id)
        path = self._folder(owner) / "messages" / f"{message.message_id}.json"
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"{path.parent} cannot be made: {error.strerror or error}.") from error
        _write_json(path, message.stored())

    def save_snapshot(self, trace: Trace, tree: GoalTree) -> None:
        """See TraceStore. Goals first: metadata that names an event id vouches for both."""
        folder = self._folder(trace.trace_id)
        with self._snapshots:
            if trace.last_event_id < self._newest.get(trace.trace_id, 0):
                return  # one that began earlier, in a thread, comes late
            goals = self._goals.setdefault(trace.trace_id, GoalFile())
            _write_file(folder / "goal.json", goals.encoded(tree))
            _write_json(folder / "meta.json", trace.stored())
            self._newest[trace.trace_id] = trace.last_event_id

    def trace(self, trace_id: str) -> Trace:
        """See TraceStore."""
        path = self._folder(trace_id) / "meta.json"
        try:
            raw = _as_dict(json.loads(path.read_bytes()))
            refuse_newer(trace_id, raw.get("format"))
            return (BranchTrace if "explore_start_id" in raw else Trace).model_validate(raw)
        except FileNotFoundError as error:
            raise UnknownTrace(f"There is no session {trace_id}.") from error
        except (ValueError, ValidationError, OSError) as error:
            raise StoreError(
                f"{path} is damaged ({error.__class__.__name__}); the event log is intact."
            ) from error

    def goal_tree(self, trace_id: str) -> GoalTree:
        """See TraceStore."""
        path = self._folder(trace_id) / "goal.json"
        try:
            return GoalTree.model_validate_json(path.read_bytes())
        except (ValueError, ValidationError, OSError) as error:
            raise StoreError(
                f"{path} is damaged ({error.__class__.__name__}); the event log is intact."
            ) from error

    def trace_ids(self) -> list[str]:
        """All ids, newest first."""
        try:
            names = [entry.name for entry in os.scandir(self.root) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        return sorted(names, reverse=True)

    def traces(self, *, limit: int, before: str | None = None) -> list[Trace]:
        """See TraceStore. Where metadata is damaged, the log has the title; a newer format is left out."""
        found: list[Trace] = []
        for trace_id in self.trace_ids():
            if before is not None and trace_id >= before:
                continue
            try:
                found.append(self.trace(trace_id))
            except (UnknownTrace, NewerFormat) as error:
                log.warning("left out of the list of sessions: %s", error)
            except StoreError as error:
                log.warning("%s", error)
                if (trace := self._trace_from_log(trace_id)) is not None:
                    found.append(trace)
            if len(found) == limit:
                break
        return found

    def messages(
        self, trace_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[Message]:
        """See TraceStore. Reads newest first and only as many files as needed."""
        folder = self._folder(trace_id) / "messages"
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            names = sorted((e.name for e in os.scandir(folder) if _is_message(e.name)), reverse=True)
        found: list[Message] = []
        for name in names:
            if limit is not None and len(found) == limit:
                break
            if before is not None and _sequence_of(name) >= before:
                continue
            try:
                found.append(Message.model_validate_json((folder / name).read_bytes()))
            except (ValueError, OSError) as error:
                raise StoreError(
                    f"{folder / name} is damaged ({error.__class__.__name__}); the event log is intact."
                ) from error
        found.reverse()
        return found

    def events(self, trace_id: str, *, after: int = 0) -> Sequence[Event]:
        """See TraceStore. Reads from the end of the log, so recent events of a long trace are cheap."""
        found: list[Event] = []
        for line in _lines_from_the_end(self._folder(trace_id) / "events.jsonl"):
            raw, event_id = _numbered(line)
            if event_id is None:
                log.warning("unreadable line in the log of %s", trace_id)
                continue
            if event_id <= after:
                break
            try:
                found.append(_EVENT.validate_python(raw))
            except ValidationError:
                # An event of a newer version: the log keeps it, this version has no use for it.
                log.warning("unknown event %d in the log of %s", event_id, trace_id)
        found.reverse()
        return found

    def last_event_id(self, trace_id: str) -> int:
        """See TraceStore."""
        if trace_id in self._last_ids:
            return self._last_ids[trace_id]
        for line in _lines_from_the_end(self._folder(trace_id) / "events.jsonl"):
            _, event_id = _numbered(line)
            if event_id is not None:
                return event_id
        return 0

    def close(self, trace_id: str | None = None) -> None:
        """See TraceStore."""
        for key in [trace_id] if trace_id is not None else list(self._logs):
            handle = self._logs.pop(key, None)
            self._last_ids.pop(key, None)
            self._goals.pop(key, None)
            self._newest.pop(key, None)
            if handle is not None:
                handle.close()

    def folder(self, trace_id: str) -> Path:
        """Where a session is kept, there or not; a child in the folder of its parent. Raises UnknownTrace."""
        # Ids come from clients: path segments of a known form, nothing that climbs.
        root, child = root_of(trace_id), branch_of(trace_id)
        if not _TRACE_ID.fullmatch(root) or (child is None) != (root == trace_id):
            raise UnknownTrace(f"{trace_id[:100]!a} is not the id of a session.")
        folder = self.root / root
        if child is not None:
            if not BRANCH_ID.fullmatch(child):
                raise UnknownTrace(f"{trace_id[:100]!a} is not the id of a session.")
            for name in child.split("."):
                folder = folder / ("agents" if name.startswith("s") else "branches") / name
        return folder

    def _folder(self, trace_id: str) -> Path:
        folder = self.folder(trace_id)
        if self._is_linked(folder) or not folder.is_dir():
            raise UnknownTrace(f"There is no session {trace_id}.")
        return folder

    def _is_linked(self, folder: Path) -> bool:
        """Whether a link leads to a session's folder: then it may be anywhere."""
        while folder != self.root:
            if folder.is_symlink():
                return True
            folder = folder.parent
        return False

    def _trace_from_log(self, trace_id: str) -> Trace | None:
        """Metadata as far as a list needs it."""
        trace: Trace | None = None
        for event in self.events(trace_id):
            if isinstance(event, SessionCreated):
                trace = event.trace
            elif trace is not None:
                known = {"last_event_id": event.event_id, "updated_at": event.time}
                if isinstance(event, SessionUpdated):
                    known |= {k: v for k, v in event.updates.items() if k in ("title", "summary", "model")}
                trace = trace.model_copy(update=known)
        return trace

    def _log(self, trace_id: str) -> IO[bytes]:
        handle = self._logs.get(trace_id)
        if handle is None:
            path = self._folder(trace_id) / "events.jsonl"
            try:
                _cut_torn_line(path)
                last = self.last_event_id(trace_id)
                handle = path.open("ab", buffering=0)
            except OSError as error:
                raise StoreError(f"The session's log cannot be opened: {error.strerror or error}.") from error
            self._logs[trace_id] = handle
            self._last_ids[trace_id] = last
        return handle


def _write_all(handle: IO[bytes], data: bytes) -> None:
    # An unbuffered file takes what fits: a full disk shows first as a short write, only then as an error.
    rest = memoryview(data)
    while rest:
        rest = rest[handle.write(rest) :]


def _numbered(line: bytes) -> tuple[dict[str, object], int | None]:
    """A line of the log and its event id; None when the line is damaged."""
    try:
        raw = _as_dict(json.loads(line))
    except (ValueError, RecursionError):
        return {}, None
    event_id = raw.get("event_id")
    return raw, event_id if isinstance(event_id, int) else None


def _as_dict(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _is_message(name: str) -> bool:
    # Files of a write that was killed begin with a dot.
    return name.endswith(".json") and not name.startswith(".")


def _sequence_of(name: str) -> int:
    """``msg_000012_ab12cd.json`` → 12."""
    try:
        return int(name.split("_")[1])
    except (IndexError, ValueError):
        return 0


def _write_json(path: Path, value: object) -> None:
    _write_file(path, json_bytes(value, indent=1))


def _write_file(path: Path, data: bytes) -> None:
    try:
        _write_atomically(path, data)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}.") from error


def _write_atomically(path: Path, data: bytes) -> None:
    # A reader sees the old file or the new one, never half of it.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _cut_torn_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb+") as handle:
        size = handle.seek(0, os.SEEK_END)
        keep = size
        while keep > 0:
            start = max(0, keep - _TAIL_BLOCK)
            handle.seek(start)
            block = handle.read(keep - start)
            newline = block.rfind(b"\n")
            if newline >= 0:
                keep = start + newline + 1
                break
            keep = start
        if keep != size:
            log.warning("cut a torn line of %d bytes off %s", size - keep, path)
            handle.truncate(keep)


def _lines_from_the_end(path: Path) -> Iterator[bytes]:
    """Complete lines of a file, last first. What stands after the last newline is still being written."""
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return
    with handle:
        position = handle.seek(0, os.SEEK_END)
        rest = b""
        complete = False
        while position > 0:
            start = max(0, position - _TAIL_BLOCK)
            handle.seek(start)
            block = handle.read(position - start) + rest
            position = start
            if not complete:
                end = block.rfind(b"\n")
                if end < 0:
                    rest = block
                    continue
                block = block[:end]
                complete = True
            rest, *lines = block.split(b"\n")
            for line in reversed(lines):
                if line:
                    yield line
        if complete and rest:
            yield rest
