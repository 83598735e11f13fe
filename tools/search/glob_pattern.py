"""Glob patterns over ``/``-separated relative paths, matched in time linear in the path. Pure.

The patterns come from models, and a regular expression with many stars may backtrack for minutes while it holds the
interpreter. So a pattern is a small automaton: a set of places in the pattern (the bits of a number) moves along with
each character of the path. Moves are remembered, so that most characters cost one look-up.
"""

from __future__ import annotations

import functools
import re

from msgspec import Struct, field

from tools.errors import ToolError

MAX_PATTERN = 2_000
"""Characters. The automaton has about as many places, and each move costs in proportion."""
_MAX_MOVES = 50_000
"""Most moves that are remembered."""

_NOT_SLASH = re.compile(r"[^/]", re.DOTALL)
_ANY = re.compile(r".", re.DOTALL)


class Glob:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        """As it was given."""
        places = _parse(pattern)
        # Every match ends with what is behind the last sign that may have a meaning.
        self._tail = re.split(r"[*?\[\]{},\\/]", pattern)[-1]
        # The start of a path is the start of a segment, as after a slash.
        self._start = places.spread(1, "/")
        self._end = 1 << places.end
        self._move = functools.lru_cache(_MAX_MOVES)(places.step)

    def match(self, path: str) -> bool:
        """Return whether the pattern covers the whole path."""
        if not path.endswith(self._tail):
            return False
        row, move = self._start, self._move
        for char in path:
            row = move(row, char)
            if not row:
                return False
        return bool(row & self._end)


def compile_glob(pattern: str) -> Glob:
    """Compile a pattern as people write them.

    ``*`` and ``?`` stop at ``/``, ``**`` does not; ``[a-z]``, ``[!a]``, ``{a,b}`` and ``\\`` work as usual. A pattern
    without ``/`` matches names at any depth, as in ``.gitignore``. Raises ToolError when it is malformed.
    """
    if len(pattern) > MAX_PATTERN:
        raise ToolError(
            f"The glob pattern has {len(pattern)} characters, at most {MAX_PATTERN} are allowed. Use a shorter one."
        )
    try:
        return Glob(pattern)
    except re.error as error:
        raise ToolError(f"Not a usable glob pattern: {pattern!r} ({error}).") from error


def split_base(pattern: str) -> tuple[str, str]:
    """Return the folder a pattern begins with, up to its first wildcard, and the rest: ``/a/b/**/*.py`` → ``/a/b``."""
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        if re.search(r"[*?\[{]", part) or index == len(parts) - 1:
            return "/".join(parts[:index]) or ("/" if pattern.startswith("/") else ""), "/".join(
                parts[index:]
            )
    return "", pattern


class _Places(Struct):
    """The places of a pattern: what each takes, and where it leads. A row is a set of places, one bit for each."""

    takes: list[str | re.Pattern[str] | None] = field(default_factory=list["str | re.Pattern[str] | None"])
    """A character, a class of characters, or nothing (the place only leads elsewhere)."""
    loops: int = 0
    """Places that stay where they are when they take a character: ``*`` and ``**``."""
    skips: int = 0
    """Places that may be passed at any time."""
    segments: int = 0
    """Places that may be passed at the start of a segment: ``**/``."""
    leads: dict[int, int] = field(default_factory=dict[int, int])
    """Rows to which the places of braces lead."""
    leading: int = 0
    """The places in ``leads``."""
    _taking: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def end(self) -> int:
        """The place behind the last one."""
        return len(self.takes)

    def add(self, takes: str | re.Pattern[str] | None) -> int:
        """Append a place and return its number."""
        self.takes.append(takes)
        return len(self.takes) - 1

    def lead(self, place: int, target: int) -> None:
        """Let a place lead to another one."""
        self.leads[place] = self.leads.get(place, 0) | 1 << target
        self.leading |= 1 << place

    def step(self, row: int, char: str) -> int:
        """Return the places that are reached by a character."""
        taking = self._taking.get(char)
        if taking is None:
            taking = sum(1 << n for n, takes in enumerate(self.takes) if _takes(takes, char))
            if len(self._taking) < 1_000:
                self._taking[char] = taking
        row &= taking
        return self.spread((row & ~self.loops) << 1 | row & self.loops, char)

    def spread(self, row: int, before: str) -> int:
        """Return ``row`` and all places that are reached from it without a character; ``before``: the last
        character."""
        free = self.skips | self.segments if before == "/" else self.skips
        done = 0
        while fresh := row & ~done:
            done = row
            row |= (fresh & free) << 1
            leading = fresh & self.leading
            while leading:
                lowest = leading & -leading
                row |= self.leads[lowest.bit_length() - 1]
                leading ^= lowest
        return row


def _takes(takes: str | re.Pattern[str] | None, char: str) -> bool:
    if takes is None or isinstance(takes, str):
        return takes == char
    return takes.match(char) is not None


def _parse(pattern: str) -> _Places:
    """Raises ToolError, and re.error for a malformed class of characters."""
    text = pattern.replace("\\\\", "\\").removeprefix("./")
    places = _Places()
    if "/" not in text:
        _any_folders(places)
    text = text.lstrip("/")
    braces = _braces(text)
    groups: list[tuple[int, list[int]]] = []
    """The open braces: where each group begins, and where its alternatives end."""
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            at = _stars(places, text, at)
        elif char == "?":
            places.add(_NOT_SLASH)
        elif char == "[":
            at = _class(places, text, at)
        elif char == "{" and at - 1 in braces:
            groups.append((places.add(None), []))
            places.lead(groups[-1][0], places.end)
        elif char == "}" and groups:
            for place in groups.pop()[1]:
                places.lead(place, places.end)
        elif char == "," and groups:
            start, ends = groups[-1]
            ends.append(places.add(None))
            places.lead(start, places.end)
        else:
            if char == "\\" and at < len(text):
                char = text[at]
                at += 1
            places.add(char)
    if groups:
        raise ToolError(f"Not a usable glob pattern: {pattern!r} (a brace is not closed).")
    return places


def _stars(places: _Places, text: str, at: int) -> int:
    """Add the stars of which the first is before ``at``; returns where the text continues."""
    first = at - 1
    while text[at : at + 1] == "*":
        at += 1
    several = at - first > 1
    if several and text[at : at + 1] == "/" and (first == 0 or text[first - 1] in "/{,"):
        _any_folders(places)
        return at + 1
    star = 1 << places.add(_ANY if several else _NOT_SLASH)
    places.loops |= star
    places.skips |= star
    return at


def _any_folders(places: _Places) -> None:
    """``**/``: nothing, or any folders. Several in a row are one."""
    if places.end and places.segments >> (places.end - 1) & 1:
        return
    place = 1 << places.add(_ANY)
    places.loops |= place
    places.segments |= place


def _class(places: _Places, text: str, at: int) -> int:
    """Add the class of characters that begins before ``at``; returns where the text continues."""
    end = text.find("]", at + 1 + (text[at : at + 1] in ("!", "^")))
    if end < 0:
        places.add("[")
        return at
    body = text[at:end].replace("\\", r"\\").replace("[", r"\[").replace("&&", r"&\&")
    places.add(re.compile("[" + ("^/" + body[1:] if body[0] in "!^" else body) + "]", re.DOTALL))
    return end + 1


def _braces(text: str) -> set[int]:
    """Return where braces open that are closed again."""
    opened: list[int] = []
    closed: set[int] = set()
    for at, char in enumerate(text):
        if char == "{":
            opened.append(at)
        elif char == "}" and opened:
            closed.add(opened.pop())
    return closed
