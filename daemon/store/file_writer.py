"""Writes files of the store whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.store.trace_store import UNWRITABLE, StoreError
from tools.files.regular_files import os_errors, private_file
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELETED = ".deleted-"
"""Begins the name of a folder that is being removed."""


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically. Raises StoreError."""
    with os_errors(StoreError, UNWRITABLE, path=path), private_file(path) as file:
        file.write(data)


def remove_folder(folder: Path) -> None:
    """Remove a folder atomically for all readers, then its contents. Follows no links. Raises StoreError."""
    aside = folder.with_name(f"{_DELETED}{secrets.token_hex(4)}")
    with os_errors(StoreError, noted("{folder} cannot be removed: {strerror}."), folder=folder):
        folder.rename(aside)
    sweep(folder.parent)
    if aside.exists():
        raise StoreError(t("{aside} could not be removed completely. Delete it by hand.", aside=aside))


def put_aside(folder: Path, *, moved: Sequence[str], copied: Sequence[str]) -> list[str]:
    """Move and copy files of a trace into its folder ``aside``, below a name that is free; their new paths, as seen
    from the trace's folder. Raises StoreError."""
    if not moved and not copied:
        return []
    kept = folder / "aside"
    with os_errors(StoreError, UNWRITABLE, path=kept):
        if kept.is_symlink():
            raise OSError(errno.ELOOP, t("it is a symbolic link"), str(kept))
        kept.mkdir(exist_ok=True, mode=0o700)
        numbers = [int(one.name) for one in kept.iterdir() if one.name.isascii() and one.name.isdigit()]
        into = kept / str(max(numbers, default=0) + 1)
        into.mkdir(mode=0o700)
        for name in copied:
            shutil.copyfile(folder / name, into / name, follow_symlinks=False)
        for name in moved:
            (folder / name).rename(into / Path(name).name)
    return [(into / Path(name).name).relative_to(folder).as_posix() for name in (*copied, *moved)]


def sweep(parent: Path) -> None:
    """Remove what a removal that was killed, or that failed, left in a folder."""
    for entry in list(os.scandir(parent)):
        if entry.name.startswith(_DELETED) and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; files that vanish do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 - many files
    return total
