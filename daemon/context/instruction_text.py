"""The texts of instruction files, with the files that they import by ``@path`` lines. All functions block."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from tools.files.regular_files import open_regular
from tools.text.truncate import head

MAX_DEPTH = 5
"""How deep imports of imported files are followed."""
Readable = Callable[[str], bool]
"""Whether a file may be read: gets its name relative to the workspace, or its absolute path outside of it."""
_CUT = "\n[… cut]"
_IMPORT = re.compile(r"[ \t]*(?:[-*][ \t]+)?@(\S+)[ \t]*")
_FENCES = ("```", "~~~")


def read_text(path: Path, within: Path | None, limit: int) -> str:
    """Return the text of a regular file, cut at ``limit`` characters; empty when there is none to show.

    ``within``: a link that leads out of this folder is rejected, because a repository must not make us send other files
    to the model.
    """
    real = real_file(path)
    if real is None or (within is not None and not real.is_relative_to(within.resolve())):
        return ""
    try:
        with open_regular(real) as file:
            data = file.read(4 * limit + 4)
    except OSError:
        return ""
    text = data.decode("utf-8-sig", errors="replace").strip()
    return text if len(text) <= limit else head(text, limit) + _CUT


def real_file(path: Path) -> Path | None:
    """Return where ``path`` leads when that is a regular file: not a device or a pipe, whose end never comes."""
    try:
        return path.resolve() if path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None  # RuntimeError: a loop of links, in Python below 3.13


class Imports(Struct):
    """Expands the imports of one instruction file, and of those that it imports.

    A line that is nothing but ``@path`` is replaced by the text of that file, relative to the importing one. The line
    stays where there is no such file, it may not be read, it was imported already, or the limits are reached.
    """

    root: Path
    """The folder, resolved, out of which no import may lead."""
    workspace: Path
    """The root of the workspace, resolved, by which rules name files."""
    readable: Readable
    left: int
    """Characters that may still be imported."""
    home: bool = False
    """``~`` stands for the home folder: in the user's own files."""
    _seen: set[Path] = field(default_factory=set[Path])

    def expand(self, text: str, file: Path, depth: int = 0) -> str:
        """Return ``text``, which is that of ``file``, with what it imports."""
        if "@" not in text or depth >= MAX_DEPTH:
            return text
        self._seen.add(file.resolve())
        lines: list[str] = []
        fenced = False
        for line in text.splitlines():
            fenced ^= line.lstrip().startswith(_FENCES)
            match = None if fenced else _IMPORT.fullmatch(line)
            imported = None if match is None else self._import(match[1], file, depth)
            lines.append(line if imported is None else imported)
        return "\n".join(lines)

    def _import(self, name: str, file: Path, depth: int) -> str | None:
        place = os.path.expanduser(name) if self.home and name.startswith("~/") else name  # noqa: PTH111
        real = real_file(file.parent / place)
        if real is None or real in self._seen or self.left <= 0 or not real.is_relative_to(self.root):
            return None
        inside = real.is_relative_to(self.workspace)
        if not self.readable(real.relative_to(self.workspace).as_posix() if inside else real.as_posix()):
            return None
        text = read_text(real, self.root, self.left)
        if not text or "\0" in text:
            return None
        self.left -= len(text)
        return f"[{name}]\n{self.expand(text, real, depth + 1)}"
