"""Writes what a command was asked to put into a file, as the person named it."""

from __future__ import annotations

import stat
from pathlib import Path

from daemon.store.base import StoreError
from daemon.store.writing import write_atomically
from tools.localization import t


def save(output: Path, data: bytes, *, force: bool = False) -> None:
    """Write ``data`` to ``output``: whole or not at all, through links, and into pipes and devices as they are.

    Raises StoreError in words about ``output``: also when a file is there and not ``force``.
    """
    try:
        path = output.resolve()  # a link stays one
        kind = path.stat().st_mode if path.exists() else None
        if kind is None or (stat.S_ISREG(kind) and force):
            write_atomically(path, data)
        elif stat.S_ISREG(kind):
            raise StoreError(
                t("{output} exists already. Name another file, or replace it by --force.", output=output)
            )
        else:
            with path.open("wb") as there:
                there.write(data)
    except OSError as error:
        raise StoreError(
            t("{output} cannot be written: {strerror}.", output=output, strerror=error.strerror or error)
        ) from error
    except RuntimeError as error:  # links in a circle
        raise StoreError(t("{output} cannot be written: {error}.", output=output, error=error)) from error
