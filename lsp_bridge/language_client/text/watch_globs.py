"""Which file changes a language server asked to hear about (``workspace/didChangeWatchedFiles``).

The globs come from a server, which may be led by the workspace: they must not be able to keep the event loop busy,
as regular expressions with several wildcards can. Ones that are too rich match everything: then the server hears of
a change more.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from lsp_bridge.language_client.text.uris import file_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.base import ChangeKind

_WIRE_KIND: dict[ChangeKind, Literal[1, 2, 3]] = {"create": 1, "update": 2, "delete": 3}
_WATCH_BIT: dict[ChangeKind, int] = {"create": 1, "update": 2, "delete": 4}
_ALL_KINDS = 7
_MAX_WATCHERS = 1000
_MAX_GLOB = 2000
_MAX_ALTERNATIVES = 256
_MAX_SEGMENTS = 40


@dataclass(frozen=True, slots=True)
class Watcher:
    """One registered pattern, ready to be matched."""

    base: Path
    glob: WatchGlob
    kinds: int

    def wants(self, path: Path, kind: ChangeKind) -> bool:
        """Whether the server asked for this change of this (absolute) path."""
        if not self.kinds & _WATCH_BIT[kind]:
            return False
        try:
            relative = path.relative_to(self.base).as_posix()
        except ValueError:
            relative = path.as_posix()
        return self.glob.matches(relative)


def wire_kind(kind: ChangeKind) -> int:
    """LSP's FileChangeType."""
    return _WIRE_KIND[kind]


def watchers_of(options: Mapping[str, Any], root: Path) -> list[Watcher]:
    """The watchers in the options of a registration; malformed ones are left out."""
    given = options.get("watchers")
    items = cast("list[object]", given) if isinstance(given, list) else []
    if len(items) > _MAX_WATCHERS:
        return [Watcher(root, WatchGlob("**"), _ALL_KINDS)]
    watchers: list[Watcher] = []
    for item in items:
        if not isinstance(item, dict):
            continue
        watcher = cast("dict[str, Any]", item)
        pattern, base = watcher.get("globPattern"), root
        if isinstance(pattern, dict):
            relative = cast("dict[str, Any]", pattern)
            base = _base(relative.get("baseUri"), root)
            pattern = relative.get("pattern")
        kinds = watcher.get("kind")
        if isinstance(pattern, str):
            number = kinds if isinstance(kinds, int) and not isinstance(kinds, bool) else _ALL_KINDS
            watchers.append(Watcher(base, WatchGlob(pattern), number))
    return watchers


class WatchGlob:
    """LSP's glob (``*  ?  **  {a,b}  [!x]``) on a path with ``/``. Matching takes time linear in most paths."""

    def __init__(self, glob: str) -> None:
        self._alternatives = _parsed(glob)

    def matches(self, path: str) -> bool:
        """Whether it covers ``path``, which is relative to the pattern's base, or absolute."""
        names = tuple(path.split("/"))
        return self._alternatives is None or any(_covers(one, names) for one in self._alternatives)


_Segment = re.Pattern[str] | None
"""None: ``**``, any number of names."""


@functools.lru_cache(maxsize=512)
def _parsed(glob: str) -> tuple[tuple[_Segment, ...], ...] | None:
    """None: too rich, it matches everything."""
    if len(glob) > _MAX_GLOB:
        return None
    expanded = _expanded(glob)
    if expanded is None:
        return None
    alternatives = tuple(_segments(one) for one in expanded)
    return None if any(len(one) > _MAX_SEGMENTS for one in alternatives) else alternatives


def _expanded(glob: str) -> list[str] | None:
    """Without braces; None: too many."""
    done: list[str] = []
    waiting = [glob]
    while waiting:
        one = waiting.pop()
        begin = one.find("{")
        if begin < 0:
            done.append(one)
        else:
            end, parts = _braces(one, begin)
            waiting += [one[:begin] + part + one[end:] for part in parts]
        if len(done) + len(waiting) > _MAX_ALTERNATIVES:
            return None
    return done


def _braces(glob: str, begin: int) -> tuple[int, list[str]]:
    """The end of the braces that open at ``begin`` (or of the glob), and what is between their commas."""
    depth, start, parts = 0, begin + 1, list[str]()
    for at in range(begin, len(glob)):
        char = glob[at]
        if char == "{":
            depth += 1
        elif char == "," and depth == 1:
            parts.append(glob[start:at])
            start = at + 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return at + 1, [*parts, glob[start:at]]
    return len(glob), [*parts, glob[start:]]


def _segments(glob: str) -> tuple[_Segment, ...]:
    segments: list[_Segment] = []
    for name in glob.replace("}", "").split("/"):
        plain = re.sub(r"\*\*+", "*", name)
        many = plain != name
        if many and name.startswith("**") and (not segments or segments[-1] is not None):
            segments.append(None)
        if plain != "*" or not many:
            # fnmatch's expressions do not go back and forth between several wildcards.
            segments.append(_compiled(plain))
            if many and name.endswith("**"):
                segments.append(None)
    return tuple(segments)


@functools.lru_cache(maxsize=2048)
def _compiled(name: str) -> re.Pattern[str]:
    try:
        return re.compile(fnmatch.translate(name))
    except re.error:
        return re.compile(re.escape(name))


def _covers(segments: tuple[_Segment, ...], names: tuple[str, ...]) -> bool:
    """Places in ``segments`` that can be reached, name by name: no going back."""
    reached = _passing(segments, {0})
    for name in names:
        following: set[int] = set()
        for at in reached:
            if at < len(segments):
                segment = segments[at]
                if segment is None:
                    following.add(at)
                elif segment.match(name):
                    following.add(at + 1)
        if not following:
            return False
        reached = _passing(segments, following)
    return len(segments) in reached


def _passing(segments: tuple[_Segment, ...], reached: set[int]) -> set[int]:
    """With the places behind each ``**``, which may stand for nothing."""
    for at in list(reached):
        while at < len(segments) and segments[at] is None:
            at += 1
            reached.add(at)
    return reached


def _base(uri: object, fallback: Path) -> Path:
    if isinstance(uri, dict):  # a WorkspaceFolder
        uri = cast("dict[str, object]", uri).get("uri")
    found = file_of(uri)
    return Path(found) if found else fallback
