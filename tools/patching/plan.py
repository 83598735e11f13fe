"""Compute the new content of every file of a patch. Pure: works on contents that were read before."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from tools.localization import t
from tools.patching.hunk_placement import Placed, by_numbers, place_hunks
from tools.patching.hunk_search import FileLines
from tools.patching.hunk_shape import outer_trimmed
from tools.patching.model import FilePatch, Hunk, PatchError, added_text
from tools.patching.splice import splices
from tools.text.decoding import Text, decode, read_as_quoted, splice_bytes
from tools.text.truncate import head
from tools.tool import FileChange, ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.patching.names import NamedSection

MAX_FILE_BYTES = 10_000_000
"""As for edit: above this size the diff is too long to read."""
_MAX_NOTES = 10
_MARK = "\ufeff"
_LONE_CR = re.compile(r"\r(?!\n)")


class _File(Struct):
    """A file while the sections of the patch are applied one after the other."""

    original: bytes | None
    now: bytes | None
    executable: bool | None = None
    origin: Path | None = None
    like: Path | None = None
    """For a copy: the file that it is a copy of."""


class _PatchPlanner(Struct):
    bases: Mapping[Path, bytes | None]
    modes: Mapping[Path, int]
    fuzz: int
    files: dict[Path, _File] = field(default_factory=dict[Path, _File])
    notes: list[str] = field(default_factory=list[str])

    def file(self, path: Path) -> _File:
        if path not in self.files:
            base = self.bases.get(path)
            self.files[path] = _File(base, base)
        return self.files[path]

    def take(self, step: NamedSection) -> None:
        if step.old is None:
            self._add(step)
        elif step.new is None:
            self._delete(step)
        elif step.file.moves or step.file.action == "copy":
            self._transfer(step)
        else:
            file = self.file(step.old.path)
            file.now = self._patched(_there(file, step), step)
            file.executable = _newer(file.executable, step.file.executable)

    def _add(self, step: NamedSection) -> None:
        assert step.new is not None
        file = self.file(step.new.path)
        content = Text("", "utf-8").encode(_new_content(step))
        if file.now is not None:
            if file.now == content:
                raise PatchError(
                    f"{step.name} already exists with this content: already applied. Nothing was changed."
                )
            raise PatchError(
                f"{step.name} already exists, so it cannot be added. Nothing was changed: read it and "
                "update it, or give the new file another name."
            )
        file.now = content
        file.executable = step.file.executable

    def _delete(self, step: NamedSection) -> None:
        assert step.old is not None
        file = self.file(step.old.path)
        data = _there(file, step)
        if any(hunk.changes for hunk in step.file.hunks):
            left = self._patched(data, step)
            if decode(left).text:
                raise PatchError(
                    f"{step.name}: the patch deletes it, but the file has more lines than the patch removes. Nothing "
                    "was changed: read it again, or use *** Delete File: without its content."
                )
        file.now, file.executable, file.origin, file.like = None, None, None, None

    def _transfer(self, step: NamedSection) -> None:
        assert step.old is not None and step.new is not None
        old, new = self.file(step.old.path), self.file(step.new.path)
        if new.now is not None:
            verb = "moved" if step.file.moves else "copied"
            raise PatchError(
                f"{step.name} cannot be {verb} to {step.new.rule}, which already exists. Nothing was "
                "changed: delete that file first, or give another name."
            )
        if step.file.moves:
            content = self._patched(_there(old, step), step)
            new.executable = _newer(old.executable, step.file.executable)
            new.origin = old.origin or (step.old.path if old.original is not None else None)
            new.like = old.like
            old.now, old.executable, old.origin, old.like = None, None, None, None
        else:
            content = self._patched(self._copied(old, step), step)
            new.executable = _newer(old.executable, step.file.executable)
            new.like = old.origin or old.like or step.old.path
        new.now = content

    def _copied(self, old: _File, step: NamedSection) -> bytes:
        """Return the content to copy: git uses the file as it was before the patch, a series of patches the newest."""
        if old.original == old.now or old.original is None or old.now is None:
            return old.original if old.original is not None else _there(old, step)
        blob = step.file.old_blob
        fits = {data for data in (old.original, old.now) if blob and is_blob(data, blob)}
        if len(fits) != 1:
            raise PatchError(
                f"{step.name} is copied and changed in the same patch, and it is unclear which of its "
                "contents is to be copied. Nothing was changed: send the copy separately."
            )
        return fits.pop()

    def _patched(self, data: bytes, step: NamedSection) -> bytes:
        try:
            after, notes = apply_hunks(data, step.file, self.fuzz)
        except ToolError as error:
            raise PatchError(f"{step.name}: {error}", told=error.told) from error
        self.notes += [f"{step.name}: {note}" for note in notes]
        return after

    def changes(self) -> list[FileChange]:
        out: list[FileChange] = []
        for path, file in self.files.items():
            origin = file.origin
            if origin is not None and self.files[origin].now is not None:
                origin = None
            mode = self._mode(path, file)
            if file.now == file.original and (mode is None or file.original is None):
                continue
            out.append(FileChange(path, file.original, file.now, mode=mode, moved_from=origin))
        return out

    def _mode(self, path: Path, file: _File) -> int | None:
        """Return the bits to set, or None to leave them: those of the old file for a move or copy, with git's one
        bit."""
        if file.now is None:
            return None
        source = file.origin or file.like
        current = self.modes.get(source or path)
        if current is None:
            return 0o755 if file.executable else None
        wanted = current
        if file.executable is not None:
            readable = (current & 0o444) >> 2
            wanted = (current | readable) if file.executable else (current & ~0o111)
        if file.origin is None and file.like is not None:
            wanted &= 0o777  # a copy runs as nobody else
        return wanted if source is not None or wanted != current else None


def plan_changes(
    steps: Sequence[NamedSection], bases: Mapping[Path, bytes | None], modes: Mapping[Path, int], fuzz: int
) -> tuple[list[FileChange], str]:
    """Return all changes of a patch, and notes on deviations from it. Raises ToolError.

    ``bases`` and ``modes``: contents and bits of the files there are.
    """
    planner = _PatchPlanner(bases, modes, fuzz)
    for step in steps:
        planner.take(step)
    changes = planner.changes()
    if not changes:
        raise PatchError("The patch changes nothing.", told=t("The file already has the agent's change."))
    notes = planner.notes[:_MAX_NOTES]
    if len(planner.notes) > _MAX_NOTES:
        notes.append(f"… and {len(planner.notes) - _MAX_NOTES} more hunks differed.")
    return changes, "\n".join(notes)


def _there(file: _File, step: NamedSection) -> bytes:
    if file.now is None:
        raise PatchError(f"{step.name} does not exist. Nothing was changed.")
    return file.now


def _newer(before: bool | None, now: bool | None) -> bool | None:
    return before if now is None else now


def _new_content(step: NamedSection) -> str:
    hunks: list[Hunk] = []
    for hunk in step.file.hunks:
        lines = outer_trimmed(hunk.lines)
        for line in lines:
            if line.kind != "+" and not line.soft:
                raise PatchError(
                    f"{step.name} is a new file, but {hunk.name} has a line without '+': {head(line.text, 80)!r}. "
                    "Nothing was changed: begin every line with '+', or name the old file to change it."
                )
        hunks.append(replace(hunk, lines=tuple(replace(line, kind="+") for line in lines)))
    return added_text(hunks)


def is_blob(data: bytes, shortened: str) -> bool:
    """Return whether ``shortened`` (seven hex digits or more) begins git's hash of a file with this content."""
    if len(shortened) < 7 or not shortened.strip("0"):
        return False
    head = b"blob %d\0" % len(data)
    kinds = [hashlib.sha256] if len(shortened) == 64 else [hashlib.sha1]
    return any(kind(head + data, usedforsecurity=False).hexdigest().startswith(shortened) for kind in kinds)


def apply_hunks(data: bytes, file: FilePatch, fuzz: int) -> tuple[bytes, list[str]]:
    """Return the patched content and notes on what differed. Raises ToolError; see ``place_hunks``."""
    if not any(hunk.changes for hunk in file.hunks):
        return data, []
    if len(data) > MAX_FILE_BYTES:
        raise PatchError(
            f"the file has {len(data) // 1_000_000} MB; patch takes files of at most {MAX_FILE_BYTES // 1_000_000} MB."
        )
    decoded, file = _read_as_meant(data, file)
    if file.new_blob and is_blob(data, file.new_blob) and file.old_blob != file.new_blob:
        raise PatchError(
            "already applied: the file has the content that its index line names. Nothing was changed."
        )
    if file.old_blob and is_blob(data, file.old_blob):
        proven = _proven(data, decoded, file)
        if proven is not None:
            return proven, []
    try:
        placed, after = _placed(data, decoded, file, fuzz, lone_cr=False)
    except PatchError as error:
        if not _LONE_CR.search(decoded.text):
            raise
        try:
            placed, after = _placed(data, decoded, file, fuzz, lone_cr=True)
        except PatchError:
            # The plain view of lines makes the better message.
            raise error from None
    return after, [note for one in placed if (note := _note(one))]


def _read_as_meant(data: bytes, file: FilePatch) -> tuple[Text, FilePatch]:
    """Return the file's text in the encoding in which it has what the patch quotes; a byte-order mark is text if
    quoted."""
    decoded = decode(data)
    quoted = [line.text for hunk in file.hunks for line in hunk.old]
    strange = [text for text in quoted if not text.isascii()]
    decoded = read_as_quoted(data, decoded, max(strange, key=len, default=""))
    if not decoded.bom:
        return decoded, file
    if any(text.startswith(_MARK) for text in quoted):
        return Text(_MARK + decoded.text, decoded.codec), file
    hunks = tuple(
        replace(hunk, lines=tuple(replace(line, text=line.text.removeprefix(_MARK)) for line in hunk.lines))
        if any(line.text.startswith(_MARK) for line in hunk.lines)
        else hunk
        for hunk in file.hunks
    )
    return decoded, replace(file, hunks=hunks)


def _placed(
    data: bytes, decoded: Text, file: FilePatch, fuzz: int, lone_cr: bool
) -> tuple[list[Placed], bytes]:
    lines = FileLines(decoded.text, _texts(file), lone_cr)
    placed = place_hunks(lines, file.hunks, fuzz)
    return placed, splice_bytes(data, decoded, splices(lines, placed))


def _texts(file: FilePatch) -> set[str]:
    return {line.text for hunk in file.hunks for line in hunk.lines}


def _proven(data: bytes, decoded: Text, file: FilePatch) -> bytes | None:
    """Return the result, when git's ``index`` line proves it: it is the hash of the file before and of the result."""
    lines = FileLines(decoded.text, _texts(file))
    placed = by_numbers(lines, file.hunks)
    if placed is None:
        return None
    after = splice_bytes(data, decoded, splices(lines, placed))
    return after if is_blob(after, file.new_blob) else None


def _note(one: Placed) -> str:
    said: list[str] = []
    if one.strategy not in ("exact", "line ends"):
        what = "blanks at line ends" if one.strategy == "trailing blanks" else one.strategy
        said.append(f"differed from the file in {what}")
    if one.dropped:
        said.append(f"was placed without {one.dropped} of its context lines, which the file does not have")
    return f"{one.hunk.name} {' and '.join(said)}." if said else ""
