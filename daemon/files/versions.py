"""The list of a session's file versions: old and new content of each file, and the author.

``versions.jsonl`` has one JSON object a line and only grows::

    {"version": "v1", "path", "before", "after", "tool_call_id", "time", "added", "removed", …}   kept, not yet written
    {…, "ahead_of": "v1"}    made before that one, though kept after it
    {"written": ["v1"]}      on disk          {"void": ["v1"]}   never written
    {"settled": ["v1"], "after": {path: hash}}   before "written": an editor saved it with another content than kept
    {"step": "s1", "action", "changes", "files", "time"}   the user takes changes back, or forward again
    {"done": ["s1"]}

Contents are hashes (``daemon.files.blobs``); null: there was no file.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from msgspec import Struct, field
from pydantic import AliasPath, BeforeValidator, Field, TypeAdapter

from tools.files.regular_files import make_folder
from tools.tool import ChangeKind, kind_of_change

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Action = Literal["undo", "redo", "restore"]
T = TypeVar("T")


def _bits(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= 0o7777 else None


@dataclass(frozen=True, slots=True)
class FileVersions:
    """One file from one content to another, by hash. None: no file there."""

    path: Path
    before: str | None
    after: str | None
    before_mode: Annotated[
        int | None, BeforeValidator(_bits), Field(validation_alias=AliasPath("mode", 0))
    ] = None
    after_mode: Annotated[
        int | None, BeforeValidator(_bits), Field(validation_alias=AliasPath("mode", 1))
    ] = None
    """Permission bits, where they are known."""
    moved_from: Path | None = None
    folders: tuple[Path, ...] = ()
    """Folders that were made for the file, outermost first."""

    @property
    def kind(self) -> ChangeKind:
        """Whether the file is created, updated or deleted."""
        return kind_of_change(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Version:
    """A file that a tool call changed. Without ``entry`` its old content is not known, and it cannot be undone."""

    version: str | None
    tool_call_id: str
    time: str
    path: Path
    kind: ChangeKind
    entry: FileVersions | None
    added: int = 0
    removed: int = 0
    ahead_of: str | None = None
    """A version that was kept earlier and made later: what a command did is known when it ends."""


@dataclass(frozen=True, slots=True)
class RestoreStep:
    """An undo or redo by the user; ``files`` are its changes on disk."""

    step: str
    action: Action
    changes: tuple[str, ...]
    files: tuple[FileVersions, ...]
    time: str


class VersionRecord(Struct):
    """The list of versions, in order, and which of them are on disk."""

    items: list[Version | RestoreStep] = field(default_factory=list["Version | RestoreStep"])
    written: set[str] = field(default_factory=set[str])
    void: set[str] = field(default_factory=set[str])

    def add(self, line: Mapping[str, Any]) -> None:
        """Take one line into account. A line that cannot be understood is left out."""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if "written" in line or "done" in line:
                self.written.update(_stored(list[str], line.get("written") or line["done"]))
            elif "void" in line:
                self.void.update(_stored(list[str], line["void"]))
            elif "settled" in line:
                after = _stored(dict[Path, str | None], line["after"])
                self.settle(_stored(list[str], line["settled"]), after)
            elif "step" in line:
                self.items.append(_stored(RestoreStep, line))
            else:
                self.insert(_version(line))

    def insert(self, version: Version) -> None:
        """Add a version in its place: where it was made, which need not be the end."""
        if version.ahead_of is not None:
            for number in range(len(self.items) - 1, -1, -1):
                if name_of(self.items[number]) == version.ahead_of:
                    self.items.insert(number, version)
                    return
        self.items.append(version)

    def settle(self, names: Sequence[str], after: Mapping[Path, str | None]) -> None:
        """Record that after the write the files in ``after`` hold that content (hashes), for these versions and
        steps."""
        wanted = set(names)
        for number in range(len(self.items) - 1, -1, -1):
            if not wanted:
                return
            if (name := name_of(self.items[number])) in wanted:
                wanted.discard(name)
                self.items[number] = settled(self.items[number], after)

    def undecided(self) -> list[Version | RestoreStep]:
        """Return versions and steps that were kept before a crash, so that it is unknown whether they were written."""
        return [item for item in self.items if (name := name_of(item)) is not None and not self.knows(name)]

    def knows(self, name: str) -> bool:
        """Return whether it is known that a version or step was written, or was not."""
        return name in self.written or name in self.void

    def versions(self) -> list[Version]:
        """Return the versions that are (or were) on disk, oldest first."""
        return [
            item
            for item in self.items
            if isinstance(item, Version) and (item.version is None or item.version in self.written)
        ]

    def steps(self) -> list[RestoreStep]:
        """Return the steps that were done, oldest first."""
        return [item for item in self.items if isinstance(item, RestoreStep) and item.step in self.written]


def name_of(item: Version | RestoreStep) -> str | None:
    """Return the id of a version or step; None for a version that was only noticed."""
    return item.step if isinstance(item, RestoreStep) else item.version


def settled(item: Version | RestoreStep, after: Mapping[Path, str | None]) -> Version | RestoreStep:
    """Return the version or step with other contents after the write."""

    def entry(old: FileVersions) -> FileVersions:
        return replace(old, after=after[old.path]) if old.path in after else old

    if isinstance(item, RestoreStep):
        return replace(item, files=tuple(entry(file) for file in item.files))
    return item if item.entry is None else replace(item, entry=entry(item.entry))


def entries_of(item: Version | RestoreStep) -> Sequence[FileVersions]:
    """Return its changes of files, as far as their contents are known."""
    if isinstance(item, RestoreStep):
        return item.files
    return () if item.entry is None else (item.entry,)


class VersionFile:
    """``versions.jsonl`` itself. Blocking, but for short appends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._torn = False

    def read(self) -> list[dict[str, Any]]:
        """Return all lines but torn ones. Raises OSError when it cannot be read."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        self._torn = bool(data) and not data.endswith(b"\n")
        found: list[dict[str, Any]] = []
        for line in data.split(b"\n"):
            with contextlib.suppress(ValueError, RecursionError):  # truncated by a crash
                value: object = json.loads(line)
                if isinstance(value, dict):
                    found.append(cast("dict[str, Any]", value))
        return found

    def append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Add lines, all in one write. Raises OSError."""
        if not lines:
            return
        make_folder(self._path.parent)
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        data = (b"\n" if self._torn else b"") + text.encode()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            written = 0
            while written < len(data):
                written += os.write(descriptor, data[written:])
                self._torn = True  # until the whole line is there
            self._torn = False
        finally:
            os.close(descriptor)


def version_line(version: Version) -> dict[str, Any]:
    """Return a version as stored JSON."""
    line: dict[str, Any] = {
        "version": version.version,
        "path": str(version.path),
        "tool_call_id": version.tool_call_id,
        "time": version.time,
        "added": version.added,
        "removed": version.removed,
    }
    if version.ahead_of is not None:
        line["ahead_of"] = version.ahead_of
    if version.entry is None:
        return {**line, "kind": version.kind}
    return {**line, **_entry_line(version.entry)}


def step_line(step: RestoreStep) -> dict[str, Any]:
    """Return a step as stored JSON."""
    return {
        "step": step.step,
        "action": step.action,
        "changes": list(step.changes),
        "files": [{"path": str(entry.path), **_entry_line(entry)} for entry in step.files],
        "time": step.time,
    }


def _entry_line(entry: FileVersions) -> dict[str, Any]:
    line: dict[str, Any] = {"before": entry.before, "after": entry.after}
    if entry.before_mode is not None or entry.after_mode is not None:
        line["mode"] = [entry.before_mode, entry.after_mode]
    if entry.moved_from is not None:
        line["moved_from"] = str(entry.moved_from)
    if entry.folders:
        line["folders"] = [str(folder) for folder in entry.folders]
    return line


def _version(line: Mapping[str, Any]) -> Version:
    if line["version"] is None:
        return _stored(Version, {**line, "entry": None})
    entry = _stored(FileVersions, line)
    return _stored(Version, {**line, "entry": entry, "kind": entry.kind})


def _stored(kind: type[T], value: object) -> T:
    """Parse stored JSON as a ``kind``. Raises ValueError."""
    return _adapter(kind).validate_python(value)


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)
