"""Instruction files of other programs in a workspace, with their scopes. ``rule_files`` blocks, the rest is pure.

GitHub Copilot: ``.github/copilot-instructions.md`` and ``.github/instructions``. Cursor: ``.cursorrules`` and
``.cursor/rules``. Cline: ``.clinerules``, a file or a folder.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.context.instruction_text import Readable, read_text, real_file
from tools.errors import ToolError
from tools.search.glob_pattern import compile_glob
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_FILE = 16_000
"""Characters of one file."""
MOST_FILES = 100
"""Files of one folder."""
_DEPTH = 3
_LONGEST = 200
"""Characters of a description."""
_ALWAYS = (".github/copilot-instructions.md", ".cursorrules", ".clinerules")
_FOLDERS = {".github/instructions": ".instructions.md", ".cursor/rules": ".mdc", ".clinerules": ".md"}
"""Folders with files for a scope, by the ending of their names."""
_SCOPE_KEYS = {".github/instructions": "applyTo", ".cursor/rules": "globs", ".clinerules": "paths"}
_HEAD = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z_-]+):[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_COMMA = re.compile(r",(?![^{]*\})")
_EVERYTHING = frozenset({"*", "**", "**/*"})


class RuleFile(Struct, frozen=True):
    """One file. Without ``always``, ``globs`` and ``description`` it is only for users who name it."""

    name: str
    """Relative to the workspace, with ``/``."""
    text: str
    always: bool = False
    globs: tuple[str, ...] = ()
    """Patterns of the files that it is about, relative to the workspace."""
    description: str = ""

    def covers(self, paths: Iterable[str]) -> bool:
        """Return whether it is about one of these files."""
        return any(_matches(pattern, path) for pattern in self.globs for path in paths)


def has_rule_folders(workspace: Path) -> bool:
    """Return whether there may be files with a scope: three quick look-ups."""
    return any(os.path.isdir(f"{workspace}/{folder}") for folder in _FOLDERS)  # noqa: PTH112


def rule_files(workspace: Path, readable: Readable) -> Iterator[RuleFile]:
    """Yield all files in a stable order: those for the whole project, then those of folders by name.

    ``workspace``: resolved. ``readable``: whether the rules allow reading a file. Unreadable files are left out.
    """
    for name in _ALWAYS:
        if (text := _text(workspace, name, readable)) is not None:
            yield RuleFile(name, text, always=True)
    for folder, ending in _FOLDERS.items():
        for name in _names_in(workspace, folder, ending):
            if (text := _text(workspace, name, readable)) is not None:
                yield parse(folder, name, text)


def _names_in(workspace: Path, folder: str, ending: str) -> list[str]:
    found: list[str] = []
    for path, folders, names in os.walk(workspace / folder):
        inside = Path(path).relative_to(workspace)
        deep = len(inside.parts) - folder.count("/") - 1
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if deep < _DEPTH else []
        found += [(inside / name).as_posix() for name in sorted(names) if name.endswith(ending)]
        if len(found) > MOST_FILES:
            break
    return found[:MOST_FILES]


def _text(workspace: Path, name: str, readable: Readable) -> str | None:
    path = workspace / name
    real = real_file(path)
    if real is None or not readable(name):
        return None
    try:
        info = real.stat()
    except OSError:
        return None
    return _known_text(path, workspace, info.st_mtime_ns, info.st_size, info.st_ino) or None


@functools.lru_cache(maxsize=256)
def _known_text(path: Path, workspace: Path, *_stamp: int) -> str:
    """Return the text as it was read last: the files are looked at after each result about a file."""
    return read_text(path, workspace, MAX_FILE)


def parse(folder: str, name: str, text: str) -> RuleFile:
    """Return the file of a folder with its scope. The front matter is often no YAML (``globs: *.ts``), so it is read by
    lines."""
    match = _HEAD.match(text)
    front = _front(match[1]) if match is not None else {}
    body = text[match.end() :].strip() if match is not None else text
    globs = tuple(dict.fromkeys(_globs(front.get(_SCOPE_KEYS[folder], []))))
    always = not _EVERYTHING.isdisjoint(globs)
    description = ""
    if folder == ".cursor/rules":
        always = always or front.get("alwaysApply") == ["true"]
        description = one_line(" ".join(front.get("description", [])), _LONGEST)
    elif folder == ".clinerules":
        always = always or not globs
    return RuleFile(name, body, always, () if always else globs, description)


def _front(head: str) -> dict[str, list[str]]:
    """Return the values of each key: of one line, or of a list below it."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for line in head.splitlines():
        if (match := _KEY.match(line)) is not None:
            values = found.setdefault(match[1], [])
            text = match[2]
        elif (match := _ITEM.match(line)) is not None:
            text = match[1]
        else:
            continue
        if text := _unquoted(text.strip()):
            values.append(text)
    return found


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _globs(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
        for one in _COMMA.split(inner):
            pattern = _unquoted(one.strip()).removeprefix("./").lstrip("/")
            if pattern:
                yield f"{pattern}**" if pattern.endswith("/") else pattern


def _matches(pattern: str, path: str) -> bool:
    try:
        return compile_glob(pattern).match(path)
    except ToolError:
        return False
