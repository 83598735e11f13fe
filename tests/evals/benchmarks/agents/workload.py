"""The work that every agent does: a repository of 200 small files, of which it reads one and edits it, in turns."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FILES = 200
_IN_A_FOLDER = 20
_FUNCTIONS = 10
PROMPT = "Read the parts of the shop one by one and raise the limit of each."
SAID_LAST = "All limits are raised."
_GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_NAMES = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes, in no agent's words."""

    kind: Literal["read", "edit"]
    path: str
    """Relative to the repository."""
    old: str
    """A line of the file: for an edit the one to replace, for a read one that the model must be shown."""
    new: str = ""


def calls(count: int, first_file: int = 0) -> list[Call]:
    """``count`` calls, alternately a read and an edit of the same file. Files are used from ``first_file`` on."""
    found: list[Call] = []
    for number in range(count):
        part = first_file + number // 2
        line = _limit(part)
        kind = "edit" if number % 2 else "read"
        found.append(Call(kind, _path(part), line, f"{line}000" if kind == "edit" else ""))
    return found


def files_for(count: int) -> int:
    """Return how many files the repository needs for two runs of ``count`` calls, so that each edits its own."""
    return max(FILES, count + 2)


def plant(folder: Path, files: int = FILES) -> None:
    """Make the repository, with one commit. Needs git."""
    for part in range(files):
        path = folder / _path(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_content(part))
    for command in (("init", "--quiet"), ("add", "."), (*_NAMES, "commit", "--quiet", "-m", "The shop")):
        subprocess.run(["git", *command], cwd=folder, env={**os.environ, **_GIT}, check=True)


def unfinished(folder: Path, work: list[Call]) -> list[str]:
    """The files whose edit is not on disk."""
    edits = (call for call in work if call.kind == "edit")
    return [call.path for call in edits if call.new not in (folder / call.path).read_text().splitlines()]


def _path(part: int) -> str:
    return f"shop/area_{part // _IN_A_FOLDER}/part_{part:03}.py"


def _limit(part: int) -> str:
    # Long enough to be found in a request by its text alone.
    return f"LIMIT_OF_PART_{part:03} = 7{part:03}"


def _content(part: int) -> str:
    functions = "".join(
        f"\n\ndef price_{number}(amount: int) -> int:\n"
        f'    """Return the price of article {number}."""\n'
        f"    return amount * {part + number}\n"
        for number in range(_FUNCTIONS)
    )
    return f'"""Part {part} of the shop."""\n\n{_limit(part)}\n{functions}'
