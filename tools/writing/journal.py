"""The record of a change that is being written: the remains of a crash, and how to handle them.

One file for each batch, in a private folder outside the workspace. Its lines: a head, one line a file, an end with the
checksum of everything before it, then the marks as they are reached (``commit``, ``undo``, ``done``). The file is
locked while its process lives, so that a change in progress is not taken for an interrupted one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct, field

from tools.json_access import mapping
from tools.writing import disk

if TYPE_CHECKING:
    from tools.tool import ChangeKind

Mark = Literal["commit", "undo", "done"]

_MARKS: tuple[Mark, ...] = ("commit", "undo", "done")
_TOKEN = re.compile(r"[0-9a-f]{16}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SUFFIX = ".journal"
_END = "end "
_NAME_BYTES = 80


class Item(Struct, frozen=True):
    """One file of a batch. ``before`` and ``after`` are hex sha256; empty when there is none, or only one file."""

    path: Path
    kind: ChangeKind
    before: str
    after: str
    temp: Path
    """The new content, until it is renamed. Beside its target: the same file system, so renaming is atomic."""
    backup: Path
    """The old file under another name, from just before it is replaced until all are."""
    up: int = 0
    """How many folders above its target the two are: a file in the way of a folder turns into it, or the reverse."""


class Batch(Struct):
    """Everything that is written together."""

    token: str
    items: list[Item] = field(default_factory=list[Item])
    folders: list[Path] = field(default_factory=list[Path])
    """To be made, outer ones first."""
    emptied: list[tuple[Path, int]] = field(default_factory=list[tuple[Path, int]])
    """To be removed when their files are, inner ones first, with their permission bits: one of them becomes a file."""
    marks: set[Mark] = field(default_factory=set[Mark])
    complete: bool = True
    """The record was read to its end, and is undamaged."""

    def add(
        self,
        path: Path,
        kind: ChangeKind,
        before: str = "",
        after: str = "",
        number: int | None = None,
        up: int = 0,
    ) -> None:
        """One more file. Its other names follow from token and number: a damaged record cannot name other files."""
        # Short enough for a target whose own name is as long as the file system permits.
        stem = path.name.encode("utf-8", "ignore")[:_NAME_BYTES].decode("utf-8", "ignore")
        name = f".{stem}.{self.token}{len(self.items) if number is None else number:x}"
        temp, backup = (path.parents[up] / f"{name}.{end}.goalwright-tmp" for end in ("new", "old"))
        self.items.append(Item(path, kind, before, after, temp, backup, up))

    def late_folders(self) -> list[Path]:
        """Return those of ``folders`` that can be made only when a file in the way is gone."""
        gone = {item.path for item in self.items if item.kind == "delete"}
        return [folder for folder in self.folders if not gone.isdisjoint((folder, *folder.parents))]


def new_batch() -> Batch:
    """Return an empty batch with a token of its own."""
    return Batch(os.urandom(8).hex())


class Journal:
    """The record of one batch, open. ``durable``: each step is flushed to disk before the next one is taken."""

    def __init__(self, path: Path, descriptor: int, durable: bool) -> None:
        self.path = path
        self._descriptor = descriptor
        self._durable = durable

    @classmethod
    def begin(cls, folder: Path, batch: Batch, *, durable: bool) -> Journal:
        """Write the record of a batch that is about to be staged. Raises OSError."""
        path = folder / (batch.token + _SUFFIX)
        try:
            descriptor = disk.open_record(path, create=True)
        except FileNotFoundError:
            disk.make_private_folder(folder)
            descriptor = disk.open_record(path, create=True)
        journal = cls(path, descriptor, durable)
        try:
            disk.lock(descriptor)
            disk.append(descriptor, _to_bytes(batch), sync=durable)
            if durable:
                disk.sync_folder(folder)
        except BaseException:
            with contextlib.suppress(OSError):
                journal.remove()
            raise
        return journal

    @classmethod
    def open(cls, path: Path) -> tuple[Journal, Batch] | None:
        """Open a record that was left behind; None when its process still lives. Raises OSError."""
        descriptor = disk.open_record(path, create=False)
        journal = cls(path, descriptor, durable=True)
        try:
            if disk.lock(descriptor):
                return journal, _from_bytes(path.name.removesuffix(_SUFFIX), disk.read_record(descriptor))
        except BaseException:
            journal.close()
            raise
        journal.close()
        return None

    def mark(self, batch: Batch, mark: Mark) -> None:
        """Record that a step was reached. Raises OSError."""
        batch.marks.add(mark)  # also when this fails, because the line may have been written anyway
        # The line before may be incomplete.
        disk.append(self._descriptor, f"\n{mark}\n".encode(), sync=self._durable and mark != "done")

    def remove(self) -> None:
        """All is as it should be: forget it. May be called again after an error. Raises OSError."""
        self.close()  # first, because Windows cannot remove an open file
        disk.remove(self.path)

    def close(self) -> None:
        """Leave the record for the next start."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):
                disk.close(descriptor)


def left_behind(folder: Path) -> list[Path]:
    """Return the records in a folder. Never raises."""
    try:
        names = sorted(disk.names_in(folder))
    except OSError:
        return []
    return [
        folder / name
        for name in names
        if name.endswith(_SUFFIX) and _TOKEN.fullmatch(name.removesuffix(_SUFFIX))
    ]


def _to_bytes(batch: Batch) -> bytes:
    head: dict[str, Any] = {"token": batch.token, "folders": [str(folder) for folder in batch.folders]}
    if batch.emptied:
        head["emptied"] = [[str(folder), mode] for folder, mode in batch.emptied]
    lines: list[dict[str, Any]] = [head]
    for item in batch.items:
        line = {"path": str(item.path), "kind": item.kind, "before": item.before, "after": item.after}
        lines.append({**line, "up": item.up} if item.up else line)
    body = b"".join(json.dumps(line).encode("ascii") + b"\n" for line in lines)
    return body + f"{_END}{hashlib.sha256(body).hexdigest()}\n".encode("ascii")


def _from_bytes(token: str, data: bytes) -> Batch:
    """Parse a record as far as possible. Folders and marks count only when it is undamaged."""
    batch = Batch(token, complete=False)
    head, _, rest = data.partition(f"\n{_END}".encode())
    checksum, _, marks = rest.partition(b"\n")
    body = head + b"\n"
    first, *lines = (_object(line) for line in body.split(b"\n")[:-1])
    for number, line in enumerate(lines):
        # The position matters, because the names of an item are derived from its number.
        _add(batch, line, number)
    if hashlib.sha256(body).hexdigest().encode("ascii") == checksum:
        batch.complete = True
        batch.folders += [Path(folder) for folder in cast("list[str]", first["folders"])]
        emptied = cast("list[tuple[str, int]]", first.get("emptied", []))
        batch.emptied += [(Path(folder), mode) for folder, mode in emptied]
        reached = marks.split(b"\n")[:-1]
        batch.marks |= {mark for mark in _MARKS if mark.encode() in reached}
    return batch


def _object(line: bytes) -> dict[str, Any]:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return mapping(value)


def _add(batch: Batch, line: dict[str, Any], number: int) -> None:
    path, kind, before, after = (line.get(key) for key in ("path", "kind", "before", "after"))
    if isinstance(path, str) and _is_path(path) and kind in ("create", "update", "delete"):
        hashes = [one if isinstance(one, str) and _SHA256.fullmatch(one) else "" for one in (before, after)]
        up = line.get("up")
        up = up if isinstance(up, int) and 0 < up < len(Path(path).parents) else 0
        batch.add(Path(path), kind, *hashes, number=number, up=up)


def _is_path(text: str) -> bool:
    return "\0" not in text and Path(text).is_absolute() and Path(text).name != ""
