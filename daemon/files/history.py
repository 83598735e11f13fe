"""Versions of every file that a session changes.

Contents are stored once, by hash; ``versions.jsonl`` records which content each write replaced with which. Both are on
disk before the workspace changes, so anything that a write destroys can be restored. The cost grows with the size of
the changes, not with that of the workspace.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import stat
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.files.blobs import Blobs
from daemon.files.concurrent_writes import ConcurrentWrites
from daemon.files.versions import (
    Action,
    FileVersions,
    RestoreStep,
    Version,
    VersionFile,
    VersionRecord,
    entries_of,
    name_of,
    settled,
    step_line,
    version_line,
)
from tools.files.regular_files import sha256
from tools.localization import t
from tools.paths import rule_target
from tools.tool import ChangeKind, CommandChange, CommandWatch, Counts, FileChange, ToolError
from tools.writing.atomic import read_or_none
from tools.writing.proposal import propose

if TYPE_CHECKING:
    from datetime import datetime

    from daemon.files.concurrent_writes import Write
    from daemon.files.state import FileState

log = logging.getLogger(__name__)


MAX_COUNTED = 1024 * 1024
"""Bytes of both sides above which the changed lines of a file that a command wrote are not counted."""


class NoWatch:
    """A ``CommandWatch`` that sees no changes."""

    async def ended(self) -> Sequence[CommandChange]:
        return ()


Place = tuple["SessionHistory", str]
"""Where versions are kept, and as the work of which tool call."""
WatchCommand = Callable[[Sequence[Place]], Awaitable[CommandWatch]]
"""A function that starts watching one command, for all histories that it belongs to."""


class KeptChange(Struct, frozen=True):
    """A stored change of one file: by a tool, a command, or an undo. Without ``change`` its contents are unknown, and
    it cannot be undone."""

    path: Path
    kind: ChangeKind
    change: FileChange | None = None
    before_mode: int | None = None
    after_mode: int | None = None
    folders: tuple[Path, ...] = ()
    """Folders that are made for the file, outermost first."""
    write: Write | None = None
    """Its place among what others wrote, when a command made it and its contents are known."""
    state: FileState | None = None
    """The file afterwards, when a command made it."""

    @staticmethod
    def planned(change: FileChange) -> KeptChange:
        """Describe a planned write."""
        before_mode: int | None = None
        if change.before is not None:
            with contextlib.suppress(OSError):
                before_mode = stat.S_IMODE(change.path.stat().st_mode)
        after_mode = None if change.after is None else before_mode if change.mode is None else change.mode
        folders = _missing_folders(change.path) if change.before is None else ()
        return KeptChange(change.path, change.kind, change, before_mode, after_mode, folders)


class SessionHistory:
    """Implements ``tools.tool.VersionKeeper`` for one session, in ``{trace}/files``."""

    def __init__(
        self,
        folder: Path,
        now: Callable[[], datetime],
        workspace: Path = Path("/"),
        *,
        on_written: Callable[[Sequence[Version]], None] = lambda versions: None,
        watch: WatchCommand | None = None,
        writes: ConcurrentWrites | None = None,
        read_only: bool = False,
    ) -> None:
        """``on_written`` receives versions that are on disk, on the event loop; ``writes`` receives them before, too.
        ``read_only``: decide nothing."""
        self.blobs = Blobs(folder / "blobs")
        self.workspace = workspace
        self.above: Place | None = None
        """For a sub-agent: the history of its caller, and the ``task`` call there."""
        self._names_above: dict[str, str] = {}
        """Names there of versions that are kept but not yet written."""
        self._file = VersionFile(folder / "versions.jsonl")
        self._now = now
        self._on_written = on_written
        self._watch = watch
        self._writes = writes or ConcurrentWrites()
        self._read_only = read_only
        self._record: VersionRecord | None = None
        self._kept: dict[str, Version | RestoreStep] = {}
        """Versions and steps of this process that are kept but not yet written, by name."""
        self._loading = threading.Lock()
        self._adding = threading.Lock()
        self._last_number = 0
        """Number of the newest version; 0: not known yet. Finding it takes longer as a session grows."""

    def keep_above(self, history: SessionHistory, call_id: str) -> None:
        """Keep everything also for this call in the history of the caller, so that undo, redo and lists of changes in
        the main session cover its sub-agents."""
        self.above = history, call_id

    async def keep(
        self, changes: Sequence[FileChange], tool_call_id: str, counts: Counts | None = None
    ) -> list[str]:
        """Keep the versions of changes. Raises ToolError when one cannot be kept: then nothing is written."""
        names = await asyncio.to_thread(self._keep, changes, tool_call_id, counts)
        if self.above is not None:
            history, call_id = self.above
            self._names_above.update(zip(names, await history.keep(changes, call_id, counts), strict=True))
        return names

    def written(self, versions: Sequence[str]) -> None:
        done = [item for name in versions if isinstance(item := self._kept.pop(name, None), Version)]
        self._mark("written", versions)
        self._writes.written([item.entry for item in done if item.entry is not None])
        self._on_written(done)
        if self.above is not None:
            names = (self._names_above.pop(name, None) for name in versions)
            self.above[0].written([name for name in names if name is not None])

    async def settle(self, versions: Sequence[str], contents: Mapping[Path, bytes]) -> None:
        await asyncio.to_thread(self.settle_now, versions, contents)
        if self.above is not None:
            names = [self._names_above[name] for name in versions if name in self._names_above]
            await self.above[0].settle(names, contents)

    def settle_now(self, versions: Sequence[str], contents: Mapping[Path, bytes]) -> None:
        """Record the contents that an editor made of these versions. Blocking."""
        try:
            after = {path: self.blobs.put(data) for path, data in contents.items()}
            record = self.record()
            with self._adding:
                hashes = {str(path): digest for path, digest in after.items()}
                self._file.append([{"settled": list(versions), "after": hashes}])
                record.settle(versions, after)
        except OSError as error:
            log.warning("what an editor made of a change could not be kept: %s", error)
            return
        for name in versions:
            if (item := self._kept.get(name)) is not None:
                self._kept[name] = settled(item, after)

    def failed(self, versions: Sequence[str]) -> None:
        self._mark("void", versions)
        items = [item for name in versions if (item := self._kept.get(name)) is not None]
        self._writes.failed([entry for item in items for entry in entries_of(item)])
        if self.above is not None:
            self.above[0].failed([self._names_above[name] for name in versions if name in self._names_above])

    def remained(self, versions: Sequence[str]) -> None:
        self.written(versions)

    async def watch_command(self, tool_call_id: str) -> CommandWatch:
        """Observe the workspace while a command of this call runs. Never raises."""
        return NoWatch() if self._watch is None else await self._watch(self._places(tool_call_id))

    def _places(self, tool_call_id: str) -> list[Place]:
        """Return all histories that a call belongs to: this one first, then those above."""
        above = () if self.above is None else self.above[0]._places(self.above[1])
        return [(self, tool_call_id), *above]

    def record(self) -> VersionRecord:
        """Return all versions and steps so far. Blocking at the first call. Raises OSError."""
        with self._loading:
            if self._record is None:
                record = VersionRecord()
                for line in self._file.read():
                    record.add(line)
                if not self._read_only and (undecided := record.undecided()):
                    self._file.append(_decide(record, undecided))
                self._record = record
            return self._record

    def keep_done(self, done: Sequence[KeptChange], tool_call_id: str) -> list[Version]:
        """Store changes that are on disk already; call ``tell`` with the result. Blocking. Raises ToolError."""
        changes = [item.change for item in done if item.change is not None]
        try:
            counts = self._counts([change for change in changes if _size(change) <= MAX_COUNTED])
            made = self._add([self._version(item, tool_call_id, counts) for item in done])
        except OSError as error:
            raise _not_kept(changes, error) from error
        for item, version in zip(done, made, strict=True):
            if item.write is not None and version.version is not None:
                item.write.blobs = self.blobs
                item.write.names[id(self)] = version.version
        return made

    def tell(self, versions: Sequence[Version]) -> None:
        """Announce versions of ``keep_done``; those with a name are marked as written. Quick."""
        names = [version.version for version in versions if version.version is not None]
        for name in names:
            self._kept.pop(name, None)
        self._mark("written", names)
        self._on_written(versions)

    def keep_step(self, action: Action, changes: Sequence[str], plan: Sequence[FileChange]) -> str:
        """Store what taking changes back is about to write; returns its name. Blocking. Raises ToolError."""
        try:
            record = self.record()
            files = tuple(self._entry(change, KeptChange.planned(change)) for change in plan)
            with self._adding:
                number = sum(isinstance(item, RestoreStep) for item in record.items) + 1
                step = RestoreStep(f"s{number}", action, tuple(changes), files, self._now().isoformat())
                self._file.append([step_line(step)])
                record.items.append(step)
            self._kept[step.step] = step
            self._writes.keeping(self, self.blobs, [(step.step, entry) for entry in files])
            return step.step
        except OSError as error:
            raise _not_kept(plan, error) from error

    def step_done(self, step: str) -> None:
        """The step is on disk. Never raises."""
        done = self._kept.pop(step, None)
        self._mark("done", [step])
        self._writes.written([] if done is None else entries_of(done))

    def step_failed(self, step: str) -> None:
        """The step was not written. Never raises."""
        self.failed([step])
        self._kept.pop(step, None)

    def _keep(
        self, changes: Sequence[FileChange], tool_call_id: str, counts: Counts | None = None
    ) -> list[str]:
        try:
            counts = self._counts(changes) if counts is None else counts
            planned = [KeptChange.planned(change) for change in changes]
            versions = self._add([self._version(item, tool_call_id, counts) for item in planned])
        except OSError as error:
            raise _not_kept(changes, error) from error
        kept = [(version.version or "", version.entry) for version in versions if version.entry is not None]
        self._writes.keeping(self, self.blobs, kept)
        return [name for name, _ in kept]

    def _version(self, item: KeptChange, tool_call_id: str, counts: Counts) -> Version:
        """Without a name yet. Raises OSError."""
        entry = None if item.change is None else self._entry(item.change, item)
        added, removed = counts.get(item.path, (0, 0))
        ahead_of = None if item.write is None else item.write.ahead_of(self)
        time = self._now().isoformat()
        return Version(None, tool_call_id, time, item.path, item.kind, entry, added, removed, ahead_of)

    def _counts(self, changes: Sequence[FileChange]) -> dict[Path, tuple[int, int]]:
        names = {change.path: rule_target(change.path, self.workspace) for change in changes}
        return {file.change.path: (file.diff.added, file.diff.removed) for file in propose(changes, names)}

    def _add(self, versions: Sequence[Version]) -> list[Version]:
        """Give versions their names and append them to the list, all in one go. Raises OSError."""
        record = self.record()
        with self._adding:
            last = self._last_number or max((_number(item) for item in record.items), default=0)
            named: list[Version] = []
            for version in versions:
                if version.entry is not None:
                    last += 1
                    version = replace(version, version=f"v{last}")
                named.append(version)
            self._file.append([version_line(version) for version in named])
            for version in named:
                record.insert(version)
            self._last_number = last
        self._kept.update({version.version: version for version in named if version.version is not None})
        return named

    def _entry(self, change: FileChange, item: KeptChange) -> FileVersions:
        return FileVersions(
            change.path,
            None if change.before is None else self.blobs.put(change.before),
            None if change.after is None else self.blobs.put(change.after),
            item.before_mode,
            item.after_mode,
            change.moved_from,
            item.folders,
        )

    def _mark(self, key: str, names: Sequence[str]) -> None:
        if not names:
            return
        if self._record is not None:
            marks = self._record.void if key == "void" else self._record.written
            marks.update(names)
        try:
            with self._adding:
                self._file.append([{key: list(names)}])
        except OSError as error:
            # When the list is read again, the contents give the same result.
            log.warning("the file history could not be marked: %s", error)


def _not_kept(changes: Sequence[FileChange], error: OSError) -> ToolError:
    what = t("of {name}", name=changes[0].path.name) if len(changes) == 1 else t("of the files")
    return ToolError(
        t(
            "Nothing was changed: the old version {what} could not be stored ({strerror}).",
            what=what,
            strerror=error.strerror or error,
        )
    )


def _size(change: FileChange) -> int:
    return len(change.before or b"") + len(change.after or b"")


def _missing_folders(path: Path) -> tuple[Path, ...]:
    missing: list[Path] = []
    for folder in path.parents:
        if folder.exists():
            break
        missing.append(folder)
    return tuple(reversed(missing))


def _number(item: Version | RestoreStep) -> int:
    name = item.version if isinstance(item, Version) else None
    return int(name[1:]) if name is not None and name[:1] == "v" and name[1:].isdecimal() else 0


def _decide(record: VersionRecord, undecided: Sequence[Version | RestoreStep]) -> list[dict[str, list[str]]]:
    """Decide by contents what was written, after a crash between keeping and writing.

    Newest first, each is compared with the known later content, else with the disk. Wrongly assuming a write is
    harmless: an undo then finds nothing to do.
    """
    written: list[str] = []
    void: list[str] = []
    for item in reversed(undecided):
        name = name_of(item) or ""
        later = record.items[record.items.index(item) + 1 :]
        happened = all(
            entry.before == entry.after or _after(entry, later, record) != entry.before
            for entry in entries_of(item)
        )
        (written if happened else void).append(name)
        (record.written if happened else record.void).add(name)
    lines: list[dict[str, list[str]]] = []
    if written:
        lines.append({"written": written[::-1]})
    if void:
        lines.append({"void": void[::-1]})
    return lines


def _after(entry: FileVersions, later: Sequence[Version | RestoreStep], record: VersionRecord) -> str | None:
    """Return the hash of the content after ``entry`` was to be written."""
    for item in later:
        if (name_of(item) or "") in record.written:
            for other in entries_of(item):
                if other.path == entry.path:
                    return other.before
    try:
        data = read_or_none(entry.path)
    except (IsADirectoryError, NotADirectoryError):
        return None  # no file is there: it became a folder, or a parent folder became a file
    except OSError:
        return "unreadable"
    return None if data is None else sha256(data)
