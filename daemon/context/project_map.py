"""A short map of the project for the system prompt: its folders, its languages, and the command that tests it.

It saves the model the first listings. It costs at most ``MAX_TOKENS`` in each request, and looks at a bounded number of
entries, however large the tree is.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from daemon.context.tokens import estimate_tokens
from daemon.model.tags import attribute
from tools.text.truncate import short

if TYPE_CHECKING:
    from pathlib import Path

MAX_TOKENS = 300
MAX_ENTRIES = 2_000
"""Most files and folders to visit; deeper and later ones are not counted."""
_MAX_IN_FOLDER = 200
"""Most entries to visit in one folder, so that a folder of data does not hide the others."""
_MAX_NAME = 40
"""Characters of a name: it comes with the folder, and may be anything."""
_MOST_LANGUAGES = 5
_SHAPES = ((24, 8), (24, 4), (24, 0), (12, 0), (6, 0), (0, 0))
"""Top folders, and folders below each of them, from the fullest map to the shortest."""
_SKIPPED = frozenset(
    {
        "node_modules", "bower_components", "site-packages", "vendor", "venv", "__pycache__", "target", "build", "dist",
        "out", "coverage",
    }
)  # fmt: skip
"""Folders of other people's code, and of build output. Folders that begin with a dot are skipped, too."""
_LANGUAGES = {
    ".py": "Python", ".pyi": "Python", ".ts": "TypeScript", ".tsx": "TypeScript", ".js": "JavaScript",
    ".jsx": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript", ".go": "Go", ".rs": "Rust", ".java": "Java",
    ".kt": "Kotlin", ".kts": "Kotlin", ".scala": "Scala", ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++",
    ".cxx": "C++", ".hpp": "C++", ".cs": "C#", ".fs": "F#", ".swift": "Swift", ".m": "Objective-C", ".rb": "Ruby",
    ".php": "PHP", ".pl": "Perl", ".lua": "Lua", ".r": "R", ".jl": "Julia", ".ex": "Elixir", ".exs": "Elixir",
    ".erl": "Erlang", ".hs": "Haskell", ".ml": "OCaml", ".clj": "Clojure", ".dart": "Dart", ".zig": "Zig",
    ".sh": "Shell", ".ps1": "PowerShell", ".sql": "SQL", ".vue": "Vue", ".svelte": "Svelte", ".html": "HTML",
    ".css": "CSS", ".scss": "CSS", ".tf": "Terraform", ".ipynb": "Jupyter notebooks",
}  # fmt: skip

Readable = Callable[[str, bool], bool]
"""Whether the rules let the model see a name, relative to the workspace with ``/``; the flag: it is a folder."""


_Folders = dict[str, set[str]]
"""Top folders that hold a readable file, and the folders in them that do."""


def project_map(root: Path, readable: Readable, test_command: str | None) -> str:
    """Return the map in at most ``MAX_TOKENS``; empty when there is nothing to show. Blocks: call it in a thread.

    A folder is shown only if the model may read a file in it. ``test_command``: None when it is not known.
    """
    folders, counted = _walk(root, readable)
    languages = ", ".join(name for name, _ in counted.most_common(_MOST_LANGUAGES))
    rest = [f"Languages: {languages}"] if languages else []
    if test_command:
        rest.append(f"Tests: {attribute(short(test_command, 200))}")
    if not rest and not folders:
        return ""
    text = ""
    for tops, below in _SHAPES:
        lines = [*_folder_lines(folders, tops, below), *rest]
        text = "\n".join(["<project_map>", *lines, "</project_map>"])
        if estimate_tokens(text) <= MAX_TOKENS:
            break
    return text


def _folder_lines(folders: _Folders, tops: int, below: int) -> Iterator[str]:
    names = sorted(folders)
    if not names or not tops:
        return
    yield "Folders:"
    for name in names[:tops]:
        inner = sorted(folders[name])
        told = ", ".join(map(_shown, inner[:below]))
        more = ", …" if told and len(inner) > below else ""
        yield f"- {_shown(name)}/{f' ({told}{more})' if told else ''}"
    if len(names) > tops:
        yield f"- … {len(names) - tops} more"


def _shown(name: str) -> str:
    return attribute(short(name, _MAX_NAME), keep_spaces=True)


def _walk(root: Path, readable: Readable) -> tuple[_Folders, Counter[str]]:
    """Look at the tree level by level, in the order of names, so that the same tree makes the same map."""
    folders: _Folders = {}
    languages: Counter[str] = Counter()
    left, todo = MAX_ENTRIES, deque([""])
    while todo and left > 0:
        folder = todo.popleft()
        for name, is_folder in _entries(root / folder, min(left, _MAX_IN_FOLDER)):
            left -= 1
            path = f"{folder}/{name}" if folder else name
            if not readable(path, is_folder):
                continue
            if is_folder:
                todo.append(path)
                continue
            top, *below = path.split("/")[:-1] or ("",)
            if top:
                folders.setdefault(top, set()).update(below[:1])
            ending = os.path.splitext(name)[1]  # noqa: PTH122 - a path object takes longer than all else here
            if (language := _LANGUAGES.get(ending.lower())) is not None:
                languages[language] += 1
    return folders, languages


def _entries(folder: Path, limit: int) -> list[tuple[str, bool]]:
    """Return name and whether it is a folder, sorted; links are left out. At most ``limit`` entries are read."""
    found: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.is_symlink():
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and entry.name in _SKIPPED:
                    continue
                found.append((entry.name, is_folder))
                if len(found) == limit:
                    break
    except OSError:
        pass  # a folder that has gone or cannot be read is left out of the map
    return sorted(found)
