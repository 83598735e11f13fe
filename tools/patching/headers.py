"""The lines before a file's hunks: names with their prefixes, quotes and dates, and git's extended header. Pure."""

from __future__ import annotations

import contextlib
import os
import re
from datetime import datetime

from msgspec import Struct, field

from tools.patching.model import Action, FilePatch, Names, PatchError, at_line, shown

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_PLAIN = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, '"': 34}
_DATE = re.compile(r"(?<!\s)\s+\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: ?[+-]\d{4})?\s*$")
_EPOCH = re.compile(r"((?:1970-01-01|1969-12-31)[ T]\d\d:\d\d:00)(?:\.0+)?(?: ?([+-]\d{4}))?\s*$")
_PREFIX = re.compile(r"[abciow12]/(?=.)")
_MODE = re.compile(r"(old mode|new mode|deleted file mode|new file mode) (\d{6})\s*$")
_INDEX = re.compile(r"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d{6}))?\s*$")
_MOVE = re.compile(r"(rename|copy) (from|to) (.+)$")
_IGNORED = re.compile(r"(?:dis)?similarity index \d+%\s*$")
_LONGEST_NAME = 8_192


def has_prefix(name: str) -> bool:
    """Return whether a name begins with ``a/`` or another prefix that git puts before names."""
    return _PREFIX.match(name) is not None


def without_first(name: str) -> str:
    """Return a name without its first folder."""
    return name.partition("/")[2]


def unquote(text: str) -> str:
    """Return a name between quotes as git writes it: C escapes, octal ones for bytes."""
    out = bytearray()
    at = 0
    for found in _ESCAPE.finditer(text):
        out += text[at : found.start()].encode("utf-8", "surrogatepass")
        code = found.group(1)
        if code[0] in "01234567":
            out.append(int(code, 8) & 0xFF)
        else:
            out += bytes([_PLAIN[code]]) if code in _PLAIN else code.encode("utf-8", "surrogatepass")
        at = found.end()
    out += text[at:].encode("utf-8", "surrogatepass")
    return os.fsdecode(bytes(out))


class HeaderName(Struct, frozen=True):
    """The name in a ``---`` or ``+++`` line."""

    name: str
    absent: bool
    """There is no such file: it is ``/dev/null``, or has the beginning of 1970 as its date (``diff -N``)."""

    @property
    def there(self) -> str | None:
        """The name if there is such a file."""
        return None if self.absent else self.name


def header_name(rest: str) -> HeaderName:
    """Parse the text after ``---`` or ``+++``: a name, perhaps quoted, perhaps with a date."""
    rest = rest[:_LONGEST_NAME].rstrip("\r\n")
    quoted = _QUOTED.match(rest)
    if quoted:
        name, stamp = unquote(quoted.group(1)), rest[quoted.end() :]
    elif "\t" in rest:
        name, _, stamp = rest.partition("\t")
    else:
        date = _DATE.search(rest)
        name, stamp = (rest[: date.start()], date.group()) if date else (rest.rstrip(), "")
    return HeaderName(name, name == "/dev/null" or _is_epoch(stamp.strip()))


def _is_epoch(stamp: str) -> bool:
    found = _EPOCH.match(stamp)
    with contextlib.suppress(ValueError):  # no such time of day
        return found is not None and datetime.fromisoformat(found[1] + (found[2] or "+0000")).timestamp() == 0
    return False


def plain_names(old: HeaderName, new: HeaderName) -> Names:
    """Return the names of ``---`` and ``+++`` lines without anything from git about them."""
    heads = old.name.partition("/")[0], new.name.partition("/")[0]
    same = heads[0] != heads[1] and without_first(old.name) == without_first(new.name) != ""
    if old.absent or new.absent:
        only = new.name if old.absent else old.name
        return Names(old.there, new.there, "pair" if same or has_prefix(only) else "weak")
    paired = same and has_prefix(old.name) and has_prefix(new.name)
    return Names(old.name, new.name, "pair" if paired else "weak")


class GitHeader(Struct):
    """The lines from ``diff --git`` to the first hunk."""

    line: int
    source: str
    pair: tuple[str, str] | None
    fields: dict[str, str] = field(default_factory=dict[str, str])
    old: str | None = None
    new: str | None = None
    named: bool = False
    """Whether ``---`` and ``+++`` lines were there."""

    def take(self, text: str) -> bool:
        """Read an extended header line; False when it is none."""
        if (found := _MODE.match(text)) is not None:
            self.fields[found.group(1)] = found.group(2)
        elif (found := _INDEX.match(text)) is not None:
            self.fields["old blob"], self.fields["new blob"] = found.group(1), found.group(2)
            if found.group(3):
                self.fields.setdefault("index mode", found.group(3))
        elif (found := _MOVE.match(text)) is not None:
            quoted = _QUOTED.fullmatch(found.group(3))
            name = unquote(quoted.group(1)) if quoted else found.group(3)
            self.fields[f"{found.group(1)} {found.group(2)}"] = name
        else:
            return _IGNORED.match(text) is not None
        return True

    def file(self) -> FilePatch:
        """Return the section without its hunks. Raises PatchError for what cannot be done or understood."""
        values = self.fields
        for key, mode in values.items():
            if key.endswith("mode") and mode not in ("100644", "100755", "100664"):
                kind = {"120000": "a symbolic link", "160000": "a submodule"}.get(
                    mode, f"a file of mode {mode}"
                )
                raise at_line(
                    self.line, f"{shown(self.source)} is about {kind}, which patch does not change."
                )
        blobs = values.get("old blob", ""), values.get("new blob", "")
        for what in ("rename", "copy"):
            if f"{what} from" in values and f"{what} to" in values:
                names = Names(values[f"{what} from"], values[f"{what} to"])
                action = "copy" if what == "copy" else "update"
                return self._made(action, names, blobs, moves=what == "rename")
        old, new = (self.old, self.new) if self.named else (self.pair or (None, None))
        if "new file mode" in values:
            old = None
        if "deleted file mode" in values:
            new = None
        if old is None and new is None:
            raise at_line(self.line, f"no file name can be found in {shown(self.source)}.")
        names = Names(self._bare(old, 0), self._bare(new, 1))
        if names.old is not None and names.new is not None and names.old != names.new:
            # In a diff of ``git diff --no-index``, the existing files decide which of the two names is intended.
            names = Names(names.old, names.new, "weak")
        action = "add" if names.old is None else "delete" if names.new is None else "update"
        return self._made(action, names, blobs)

    def _made(self, action: Action, names: Names, blobs: tuple[str, str], moves: bool = False) -> FilePatch:
        mode = self.fields.get("new mode") or self.fields.get("new file mode")
        executable = None if mode is None else mode == "100755"
        if action == "add" and executable is False:
            executable = None
        return FilePatch(action, names, (), moves, executable, *blobs, self.source)

    def _bare(self, name: str | None, side: int) -> str | None:
        """Return the name without its prefix; the ``diff --git`` line shows whether there is one."""
        if name is None:
            return None
        if self.pair is None:
            return without_first(name) if has_prefix(name) else name
        left, right = self.pair
        if left == right:
            return name
        head = self.pair[side].partition("/")[0] + "/"
        paired = without_first(left) == without_first(right) != ""
        if paired or (has_prefix(left) and has_prefix(right)):
            return name.removeprefix(head)
        return name


def git_header(line: int, source: str) -> GitHeader:
    """Begin a section at a ``diff --git`` line."""
    return GitHeader(line, source, _git_pair(source.removeprefix("diff --git ").strip("\r\n")))


def _git_pair(rest: str) -> tuple[str, str] | None:
    """Both names of a ``diff --git`` line, with their prefixes; None when it can be split in several ways."""
    if len(rest) > _LONGEST_NAME:
        raise PatchError("A file name in the patch is too long. Nothing was changed.")
    if '"' in rest:
        both = re.fullmatch(rf"({_QUOTED.pattern}|\S.*?) ({_QUOTED.pattern}|\S.*)", rest)
        if both is None:
            return None
        left, right = both.group(1), both.group(3)
        return _unquoted(left), _unquoted(right)
    found: list[tuple[str, str]] = []
    for blank in re.finditer(" ", rest):
        left, right = rest[: blank.start()], rest[blank.end() :]
        if left == right or (without_first(left) == without_first(right) != ""):
            found.append((left, right))
    if not found and rest.count(" ") == 1:
        left, _, right = rest.partition(" ")
        return left, right
    return found[0] if len(found) == 1 else None


def _unquoted(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    return unquote(quoted.group(1)) if quoted else text
