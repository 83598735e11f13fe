"""Unified diffs: of git, of ``diff -u`` and of models that count badly. Pure.

Where a hunk ends is decided here, by its lines rather than by the counts in its header.
"""

from __future__ import annotations

import re

from msgspec import Struct, field
from msgspec.structs import replace

from tools.patching.headers import (
    GitHeader,
    HeaderName,
    git_header,
    has_prefix,
    header_name,
    plain_names,
    without_first,
)
from tools.patching.model import (
    FilePatch,
    HunkDraft,
    HunkLine,
    Numbers,
    PatchError,
    at_line,
    finished,
    shown,
    without_final_end,
)

_RANGE = re.compile(r"-(\d{1,9})(?:,(\d{1,9}))?\s+\+(\d{1,9})(?:,(\d{1,9}))?\s*(?=@@|$)")
_VERSION = re.compile(r"\d+\.\d+[\w.+() -]*$")
_SECTION = re.compile(
    r"@@|diff -|Index: |\*\*\* (?:Begin|End|Add|Update|Delete) |GIT binary patch|Binary files? .* differ$|Only in .+: |"
    r"commit [0-9a-f]{7,64}\b|From [0-9a-f]{7,64} |Property changes on: "
)
_FENCE = re.compile(r"```|~~~")
_FOREIGN = (
    (re.compile(r"diff --(?:cc|combined) |@@@"), "this is a combined diff of a merge. Send a diff against one parent."),
    (re.compile(r"\*\*\* \d+(?:,\d+)? \*{4}$"), "this is a context diff. Send a unified diff (diff -u)."),
    (re.compile(r"\*\*\* (?:Begin|End) Patch|\*\*\* (?:Add|Update|Delete) File:"),
     "a unified diff and a *** Begin Patch envelope are mixed. Send one format."),
    (re.compile(r"GIT binary patch$|Binary files? .+ differ$"),
     "binary files cannot be patched. Leave them out, or copy them with a command."),
)  # fmt: skip
_LONE_DIFF = re.compile(r"\d+(?:,\d+)?[acd]\d+(?:,\d+)?$")


class _Section(Struct):
    file: FilePatch | GitHeader
    hunks: list[HunkDraft] = field(default_factory=list[HunkDraft])


def range_of(header: str) -> tuple[Numbers | None, str]:
    """Return the numbers in an ``@@`` line, if any, and the heading that it names as the place.

    Text after the numbers is only git's reminder for readers and no heading.
    """
    inner = header[2:]
    found = _RANGE.match(inner.lstrip())
    if found is not None:
        a, b, c, d = found.groups()
        heading = inner.lstrip()[found.end() :].removeprefix("@@").strip()
        return Numbers(int(a), _count(b), int(c), _count(d), heading), ""
    inner = inner.partition(" @@")[0] if " @@" in inner else inner.removesuffix("@@")
    inner = inner.strip()
    if re.match(r"[-+]?\d*(?:,\d+)?(?:\s+[-+]?\d*(?:,\d+)?)?$", inner) or not re.search(r"\w", inner):
        return None, ""
    return None, inner


def _count(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


def parse_unified(lines: list[str]) -> list[FilePatch]:
    """Return the sections of a unified diff; ``lines`` are without ``\\n``. Raises PatchError."""
    return _Scanner(lines).run()


class _Scanner:
    def __init__(self, lines: list[str]) -> None:
        self.raw = lines
        self.plain = [line[:-1] if line.endswith("\r") else line for line in lines]
        self.sections: list[_Section] = []
        self.anchors: list[str] = []

    def run(self) -> list[FilePatch]:
        at = 0
        while at < len(self.plain):
            at = self._step(at)
        return [_finish(section) for section in self.sections]

    def _step(self, at: int) -> int:
        line = self.plain[at]
        current = self.sections[-1] if self.sections else None
        for pattern, message in _FOREIGN:
            if pattern.match(line):
                raise at_line(at + 1, message)
        if _LONE_DIFF.match(line) and self._line(at + 1)[:2] in ("< ", "> "):
            raise at_line(at + 1, "this is a plain diff. Send a unified diff (diff -u).")
        if line.startswith("diff --git "):
            self.sections.append(_Section(git_header(at + 1, line)))
            self.anchors.clear()
            return at + 1
        git = current.file if current is not None and not current.hunks else None
        if isinstance(git, GitHeader) and not git.named and git.take(line):
            return at + 1
        if line.startswith("--- ") and self._line(at + 1).startswith("+++ "):
            self._names(header_name(line[4:]), header_name(self.plain[at + 1][4:]), git, f"{line}")
            return self._bare_hunk(at + 2)
        if line.startswith("--- ") and self._line(at + 1).startswith("@@"):
            raise at_line(at + 1, f"after {shown(line)} the +++ line with the new file's name is missing.")
        if line.startswith("+++ ") and self._line(at + 1).startswith("@@"):
            name = header_name(line[4:])
            self._names(name, name, git, line)
            return at + 1
        if line.startswith("@@"):
            if current is None:
                raise at_line(at + 1, "a hunk without a file. Put --- a/FILE and +++ b/FILE lines before it.")
            return self._hunk(at, current)
        return at + 1

    def _line(self, at: int) -> str:
        return self.plain[at] if at < len(self.plain) else ""

    def _names(
        self, old: HeaderName, new: HeaderName, git: FilePatch | GitHeader | None, source: str
    ) -> None:
        self.anchors.clear()
        if old.absent and new.absent:
            raise PatchError(f"{shown(source)}: both names are /dev/null. Nothing was changed.")
        if isinstance(git, GitHeader) and not git.named:
            git.old, git.new, git.named = old.there, new.there, True
            return
        names = plain_names(old, new)
        action = "add" if old.absent else "delete" if new.absent else "update"
        self.sections.append(_Section(FilePatch(action, names, source=source)))

    def _bare_hunk(self, at: int) -> int:
        """Changes directly after the names: the ``@@`` line was left out."""
        if self._line(at)[:1] in ("+", "-", " ") and not self._is_names(at, None):
            return self._body(at, self.sections[-1], HunkDraft(), self.raw[at - 1].endswith("\r"))
        return at

    def _hunk(self, at: int, section: _Section) -> int:
        numbers, anchor = range_of(self.plain[at])
        if anchor:
            self.anchors.append(anchor)
        hunk = HunkDraft(self.plain[at], numbers, tuple(self.anchors))
        if anchor and self._line(at + 1).startswith("@@"):
            return at + 1
        self.anchors.clear()
        return self._body(at + 1, section, hunk, self.raw[at].endswith("\r"))

    def _body(self, at: int, section: _Section, hunk: HunkDraft, own_cr: bool) -> int:
        """Collect the lines of a hunk. Returns where they end.

        ``own_cr``: the patch itself has ``\\r\\n``, so that only a second ``\\r`` belongs to a file.
        """
        body = _Count(hunk.numbers)
        while at < len(self.plain):
            line, cr = self.plain[at], self.raw[at].endswith("\r")
            if own_cr:
                line, cr = line.removesuffix("\r"), line.endswith("\r")
            kind = line[:1]
            if kind == "":
                if body.satisfied() and self._over(at, strict=True):
                    break
                body.take(" ")
                hunk.lines.append(HunkLine(" ", "", cr, soft=True))
            elif kind == "+" or kind == "-" or kind == " ":
                if self._is_names(at, body) or self._is_signature(at, body):
                    break
                if kind == " " and body.satisfied() and self._is_layout(at):
                    break
                body.take(kind)
                hunk.lines.append(HunkLine(kind, line[1:], cr))
            elif line.startswith("\\ "):
                if hunk.lines:
                    without_final_end(hunk.lines)
            elif kind == "\t":
                # A context line may have lost its first blank, because prose does not begin with a tab.
                body.take(" ")
                hunk.lines.append(HunkLine(" ", line, cr))
            else:
                if not body.satisfied():
                    self._over(at, strict=False)
                break
            at += 1
        if hunk.lines:
            section.hunks.append(hunk)
        return at

    def _over(self, at: int, strict: bool) -> bool:
        """Return whether a hunk is over at a line that may be layout or prose.

        It is not if changes follow before a new section begins. Raises PatchError then: they would be lost, or prose be
        taken for them.
        """
        if _SECTION.match(self.plain[at]):
            return True
        for index in range(at + 1, len(self.plain)):
            line = self.plain[index]
            if _SECTION.match(line) or _FENCE.match(line) or self._is_names(index, None):
                return True
            if line in ("-- ", "--") and (
                index + 1 == len(self.plain) or _VERSION.match(self._line(index + 1))
            ):
                return True
            if strict and line[:1] not in ("", "+", "-", " ", "\\"):
                return True
            if line[:1] in ("+", "-"):
                where = "according to the counts of its @@ line the hunk ends here, but changes follow"
                if not strict:
                    where = f"{shown(self.plain[at])} has no prefix ' ', '+' or '-', but changes follow"
                raise at_line(at + 1, f"{where}. Give every line of a hunk its prefix, also blank ones.")
        return True

    def _is_layout(self, at: int) -> bool:
        """Return whether only blanks follow before the next section: they separate hunks."""
        for index in range(at, len(self.plain)):
            if self.plain[index].strip():
                return bool(_SECTION.match(self.plain[index])) or self._is_names(index, None)
        return True

    def _is_names(self, at: int, body: _Count | None) -> bool:
        """Return whether ``---`` and ``+++`` lines begin a new file; they may also be lines removed and added."""
        if not (self.plain[at].startswith("--- ") and self._line(at + 1).startswith("+++ ")):
            return False
        hunk_follows = self._line(at + 2).startswith("@@")
        old, new = header_name(self.plain[at][4:]), header_name(self.plain[at + 1][4:])
        # A patch hardly removes a line "-- a/x" and adds "++ b/x"; but "-- x" may become "++ x".
        certain = old.absent or new.absent or _is_pair(old.name, new.name)
        if body is None or body.stated is None:
            return hunk_follows or certain or old.name == new.name
        if body.satisfied() or (certain and hunk_follows):
            return True
        left = body.left()
        if min(left) >= 1:
            return hunk_follows and left != (1, 1)
        return hunk_follows or certain or old.name == new.name

    def _is_signature(self, at: int, body: _Count) -> bool:
        """Return whether ``-- `` ends a mail (``git format-patch``) rather than removing a line ``- ``."""
        if self.plain[at] not in ("-- ", "--"):
            return False
        return body.satisfied() or _VERSION.match(self._line(at + 1)) is not None


class _Count:
    """How many lines of both sides a hunk still has to have, if its header can be believed."""

    def __init__(self, numbers: Numbers | None) -> None:
        self.stated = numbers
        self.old = self.new = 0

    def take(self, kind: str) -> None:
        self.old += kind != "+"
        self.new += kind != "-"

    def left(self) -> tuple[int, int]:
        if self.stated is None:
            return 0, 0
        old, new = self.stated.old_count, self.stated.new_count
        return (1 if old is None else old) - self.old, (1 if new is None else new) - self.new

    def satisfied(self) -> bool:
        return self.stated is not None and self.left() == (0, 0)


def _is_pair(old: str, new: str) -> bool:
    return old != new and has_prefix(old) and has_prefix(new) and without_first(old) == without_first(new)


def _finish(section: _Section) -> FilePatch:
    file = section.file.file() if isinstance(section.file, GitHeader) else section.file
    # Line ends mean something when some lines of the content have ``\r\n``.
    stated = any(line.cr for hunk in section.hunks for line in hunk.lines)
    return replace(file, hunks=finished(section.hunks, stated))
