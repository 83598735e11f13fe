"""The ``*** Begin Patch`` envelope (source: the patch format of Codex, which many models write). Pure."""

from __future__ import annotations

import re

from msgspec import Struct, field

from tools.patching.model import (
    FilePatch,
    Hunk,
    HunkDraft,
    HunkLine,
    Kind,
    Names,
    PatchError,
    at_line,
    finished,
    shown,
    without_final_end,
)
from tools.patching.unified import range_of

_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File:(.*)", re.IGNORECASE)
_MOVE = re.compile(r"\*\*\* (?:Move|Rename) to:(.*)", re.IGNORECASE)
_BEGIN = re.compile(r"\*\*\* Begin Patch\s*$", re.IGNORECASE)
_END = re.compile(r"\*\*\* End Patch\s*$", re.IGNORECASE)
_END_OF_FILE = re.compile(r"\*\*\* End of File\s*$", re.IGNORECASE)
_WRAPPER = re.compile(r"(?:```|~~~)\w*\s*$|['\"]?[A-Z_]{2,20}['\"]?\)?$|[)'\"]$")
_NAMES = re.compile(r"--- .*\n\+\+\+ ")
_COMMAND = re.compile(r".*<<-?\s*['\"]?\w+['\"]?|(?:apply_patch|patch)\b")


def is_envelope(lines: list[str]) -> bool:
    """Return whether the first thing of a patch in the text is the beginning of an envelope."""
    for line in lines:
        if _BEGIN.match(line) or _SECTION.match(line):
            return True
        if line.startswith(("diff --git ", "--- ", "@@ -")):
            return False
    return False


def parse_envelope(lines: list[str]) -> list[FilePatch]:
    """Return the sections of an envelope; ``lines`` are without ``\\n``. Raises PatchError."""
    return _Reader(lines).run()


class _Section(Struct):
    kind: str
    path: str
    move: str | None = None
    hunks: list[HunkDraft] = field(default_factory=list[HunkDraft])
    added: list[HunkLine] = field(default_factory=list[HunkLine])


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.cr_text = _is_crlf(lines)
        self.raw = [line.removesuffix("\r") for line in lines] if self.cr_text else lines
        self.plain = [line.removesuffix("\r") for line in lines]
        self.files: list[FilePatch] = []
        self.open: _Section | None = None

    def run(self) -> list[FilePatch]:
        last = self._last_line()
        outside = True
        for at in range(last):
            line = self.plain[at]
            if _BEGIN.match(line):
                self._close()
                outside = False
            elif _END.match(line):
                self._close()
                outside = True
            elif found := _SECTION.match(line):
                self._close()
                self._begin(found.group(1).capitalize(), found.group(2).strip(), at)
                outside = False
            elif outside:
                if line.startswith(("diff --git ", "@@ -")):
                    raise at_line(at + 1, "an envelope and a unified diff are mixed. Send one format.")
            elif self.open is None:
                self._between(line, at)
            else:
                self._take(self.open, at)
        self._close()
        return self.files

    def _last_line(self) -> int:
        """Return where the patch ends: without the fence or the end of the here-document that was put around it."""
        last = len(self.plain)
        while last and (not self.plain[last - 1].strip() or _WRAPPER.match(self.plain[last - 1])):
            last -= 1
        return last

    def _begin(self, kind: str, path: str, at: int) -> None:
        if not path:
            raise at_line(at + 1, f"{shown(self.plain[at])} names no file.")
        self.open = _Section(kind, path)

    def _between(self, line: str, at: int) -> None:
        if line.strip() and not _WRAPPER.match(line) and not _COMMAND.match(line):
            raise at_line(
                at + 1,
                f"{shown(line)} is not expected here. "
                "Begin with *** Add File: PATH, *** Update File: PATH or *** Delete File: PATH.",
            )

    def _take(self, section: _Section, at: int) -> None:
        line = self.plain[at]
        if found := _MOVE.match(line):
            move = found.group(1).strip()
            if section.kind != "Update" or section.hunks or section.move is not None or not move:
                raise at_line(
                    at + 1, "*** Move to: NEW_PATH belongs directly under its *** Update File: line."
                )
            section.move = move
        elif section.kind == "Delete":
            if line.strip():
                raise at_line(at + 1, "*** Delete File: takes no further lines.")
        elif section.kind == "Add":
            self._take_added(section, at)
        else:
            self._take_hunk_line(section, at)

    def _take_added(self, section: _Section, at: int) -> None:
        line, raw = self.plain[at], self.raw[at]
        if _END_OF_FILE.match(line) or (line.startswith("@@") and not section.added):
            return
        if line.startswith("+"):
            section.added.append(HunkLine("+", line[1:], raw.endswith("\r")))
        elif not line.strip():
            section.added.append(HunkLine("+", "", raw.endswith("\r"), soft=True))
        elif line.startswith("\\ ") and section.added:
            without_final_end(section.added)
        else:
            raise at_line(
                at + 1, f"{shown(line)}: every line of a file in *** Add File: must begin with '+'."
            )

    def _take_hunk_line(self, section: _Section, at: int) -> None:
        line = self.plain[at]
        current = section.hunks[-1] if section.hunks else None
        if line.startswith("@@"):
            numbers, anchor = range_of(line)
            if current is None or current.lines or current.at_end:
                current = HunkDraft()
                section.hunks.append(current)
            current.header = f"{current.header} {line}".strip()
            current.numbers = numbers
            if anchor:
                current.anchors += (anchor,)
            return
        if _END_OF_FILE.match(line):
            if current is None:
                raise at_line(at + 1, "*** End of File belongs at the end of a hunk.")
            current.at_end = True
            return
        pairs = ("\n".join(self.plain[first : first + 2]) for first in (at - 1, at))
        if current is None and any(map(_NAMES.match, pairs)):
            return
        if current is None or current.at_end:
            if not line.strip():
                return
            current = HunkDraft()
            section.hunks.append(current)
        if line.startswith("\\ ") and current.lines:
            without_final_end(current.lines)
            return
        current.lines.append(self._hunk_line(at))

    def _hunk_line(self, at: int) -> HunkLine:
        line, cr = self.plain[at], self.raw[at].endswith("\r")
        kinds: dict[str, Kind] = {" ": " ", "+": "+", "-": "-"}
        if not line:
            return HunkLine(" ", "", cr, soft=True)
        if line[0] in kinds:
            return HunkLine(kinds[line[0]], line[1:], cr)
        if line[0] == "\t":
            return HunkLine(" ", line, cr)
        raise at_line(
            at + 1,
            f"{shown(line)} has no prefix. Every line of a hunk begins with ' ' (context), '-' or '+'; "
            "a new hunk begins with @@.",
        )

    def _close(self) -> None:
        section, self.open = self.open, None
        if section is None:
            return
        source = f"*** {section.kind} File: {section.path}"
        if section.kind == "Delete":
            self.files.append(FilePatch("delete", Names(section.path, None), source=source))
        elif section.kind == "Add":
            added = list(section.added)
            while added and added[-1].soft:
                added.pop()
            hunk = Hunk(1, source, tuple(added), ends_stated=self._stated(added))
            self.files.append(
                FilePatch("add", Names(None, section.path), (hunk,) if added else (), source=source)
            )
        else:
            self.files.append(self._update(section, source))

    def _update(self, section: _Section, source: str) -> FilePatch:
        drafts = [draft for draft in section.hunks if draft.lines or draft.at_end]
        stated = self._stated([line for draft in drafts for line in draft.lines])
        if not drafts and section.move is None:
            raise PatchError(f"{source} has no changes below it. Nothing was changed.")
        names = Names(section.path, section.move or section.path)
        moves = section.move is not None
        return FilePatch("update", names, finished(drafts, stated), moves=moves, source=source)

    def _stated(self, lines: list[HunkLine]) -> bool:
        return not self.cr_text and any(line.cr for line in lines)


def _is_crlf(lines: list[str]) -> bool:
    """Return whether the patch itself has ``\\r\\n``: then these do not reflect the files."""
    frame = [line for line in lines if line.startswith(("***", "@@"))]
    return bool(frame) and all(line.endswith("\r") for line in frame)
