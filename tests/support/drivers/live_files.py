"""Looks into folders in which another process writes and deletes meanwhile."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def files_with(folder: Path, text: str) -> list[Path]:
    """Return the files below ``folder`` that have ``text`` in them; those that go meanwhile are passed over."""
    found: list[Path] = []
    for where, _, names in os.walk(folder):  # not pathlib: it raises when a folder goes
        for file in map(Path(where).joinpath, names):
            with suppress(FileNotFoundError):
                if file.is_file() and text.encode() in file.read_bytes():
                    found.append(file)
    return found
