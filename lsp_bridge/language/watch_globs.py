"""Which file changes a language server asked to hear about (``workspace/didChangeWatchedFiles``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from tools.base import ChangeKind

_WIRE_KIND: dict[ChangeKind, Literal[1, 2, 3]] = {"create": 1, "update": 2, "delete": 3}
_WATCH_BIT: dict[ChangeKind, int] = {"create": 1, "update": 2, "delete": 4}
_ALL_KINDS = 7


@dataclass(frozen=True, slots=True)
class Watcher:
    """One registered pattern, ready to be matched."""

    base: Path
    pattern: re.Pattern[str]
    kinds: int

    def wants(self, path: Path, kind: ChangeKind) -> bool:
        """Whether the server asked for this change of this (absolute) path."""
        if not self.kinds & _WATCH_BIT[kind]:
            return False
        try:
            relative = path.relative_to(self.base).as_posix()
        except ValueError:
            return self.pattern.fullmatch(path.as_posix()) is not None
        return self.pattern.fullmatch(relative) is not None


def wire_kind(kind: ChangeKind) -> int:
    """LSP's FileChangeType."""
    return _WIRE_KIND[kind]


def watchers_of(options: Mapping[str, Any], workspace: Path) -> list[Watcher]:
    """The watchers in the options of a registration; malformed ones are left out."""
    watchers: list[Watcher] = []
    for item in cast("list[object]", options.get("watchers") or []):
        if not isinstance(item, dict):
            continue
        watcher = cast("dict[str, Any]", item)
        pattern, base = watcher.get("globPattern"), workspace
        if isinstance(pattern, dict):
            relative = cast("dict[str, Any]", pattern)
            base = _base(relative.get("baseUri"), workspace)
            pattern = relative.get("pattern")
        kinds = watcher.get("kind")
        if isinstance(pattern, str):
            number = kinds if isinstance(kinds, int) else _ALL_KINDS
            watchers.append(Watcher(base, glob_pattern(pattern), number))
    return watchers


def glob_pattern(glob: str) -> re.Pattern[str]:
    """LSP's glob (``*  ?  **  {a,b}  [!x]``) as a regular expression on a path with ``/``."""
    parts: list[str] = []
    depth = index = 0
    while index < len(glob):
        char = glob[index]
        index += 1
        if char == "*" and glob.startswith("*", index):
            index += 1
            if glob.startswith("/", index):
                index += 1
                parts.append("(?:.*/)?")
            else:
                parts.append(".*")
        elif char == "*":
            parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
        elif char == "{":
            depth += 1
            parts.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            parts.append(")")
        elif char == "," and depth:
            parts.append("|")
        elif char == "[" and (end := glob.find("]", index + 1)) > 0:
            body = glob[index:end].replace("\\", "\\\\")
            parts.append(f"[^{body[1:]}]" if body.startswith("!") else f"[{body}]")
            index = end + 1
        else:
            parts.append(re.escape(char))
    parts.append(")" * depth)
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob))


def _base(uri: object, fallback: Path) -> Path:
    from pygls.uris import to_fs_path

    if isinstance(uri, dict):  # a WorkspaceFolder
        uri = cast("dict[str, object]", uri).get("uri")
    found = to_fs_path(uri) if isinstance(uri, str) else None
    return Path(found) if found else fallback
