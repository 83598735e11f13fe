"""Convert ``file:`` URIs of servers to paths. In one place, so that all compared paths are made alike."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_URI = 10_000
_DRIVE = re.compile(r"/([A-Za-z])(?::|\|)(?=/|$)")


def file_of(uri: object) -> str | None:
    """Return the path of a ``file:`` URI; None for everything else (``untitled:``, ``jdt:``, another machine …).

    Absolute, with ``..`` resolved as text and without double slashes; links are not followed. The letter of a drive
    (Windows) is a capital one, as Python's own paths have it.
    """
    if not isinstance(uri, str) or len(uri) > _MAX_URI or uri[:5].lower() != "file:":
        return None
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="strict")
    except (ValueError, UnicodeError):
        return None
    if parts.netloc.lower() not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        return None
    path = "/" + posixpath.normpath(path).lstrip("/")
    if drive := _DRIVE.match(path):
        return f"{drive[1].upper()}:{path[drive.end() :] or '/'}"
    return path


def path_of(uri: object, known: Mapping[str, Path]) -> Path | None:
    """Return the file of a server's URI, under the name by which it was opened.

    ``known``: the names of the open documents by their real paths. Other files get their real path, so that a link in
    the workspace to a target outside does not count as inside.
    """
    file = file_of(uri)
    if file is None:
        return None
    try:
        real = os.path.realpath(file)
        found = known.get(os.path.normcase(real))
    except (OSError, ValueError):
        return None
    return found or Path(real)
