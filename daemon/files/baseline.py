"""Copies of files that could not be restored otherwise: untracked, changed since the last commit, or without git.

They are outside the workspace, in a folder of the user's. Each content of a file is copied once, even across restarts
of the daemon. Blocking: call it in a thread.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections import Counter
from typing import TYPE_CHECKING, cast

from daemon.files.blobs import BlobError, Blobs
from tools.files.regular_files import write_private

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

MAX_FILE = 2 * 1024 * 1024
MAX_TOTAL = 200 * 1024 * 1024
"""Bytes: of one file, and of all copies."""


class Baseline:
    """The copies of one workspace."""

    def __init__(self, folder: Path, max_total: int = MAX_TOTAL) -> None:
        self._blobs = Blobs(folder / "blobs")
        self._list = folder / "files.json"
        self._max_total = max_total
        self._total = 0
        self._sizes: dict[str, int] = {}
        self._uses: Counter[str] = Counter()
        self._earlier: dict[str, tuple[str, str]] = {}

    def open(self) -> None:
        """Find what an earlier daemon left, and remove what its list does not name."""
        with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
            raw = cast("dict[str, list[str]]", json.loads(self._list.read_bytes()))
            self._earlier = {path: (str(stamp), str(digest)) for path, (stamp, digest) in raw.items()}
        named = {digest for _, digest in self._earlier.values()}
        with contextlib.suppress(OSError):
            for path in self._blobs.all():
                if path.name in named:
                    self._sizes[path.name] = path.stat().st_size
                    self._total += self._sizes[path.name]
                else:
                    path.unlink()

    def known(self, path: str, stamp: bytes) -> str | None:
        """Hash of the copy of a file that an earlier daemon made while its stat was ``stamp``."""
        earlier = self._earlier.get(path)
        if earlier is None or earlier[0] != stamp.hex() or earlier[1] not in self._sizes:
            return None
        self._uses[earlier[1]] += 1
        return earlier[1]

    def put(self, data: bytes) -> str | None:
        """Copy a content; None when there is no room for it."""
        if len(data) > MAX_FILE or self._total + len(data) > self._max_total:
            return None
        try:
            digest = self._blobs.put(data)
        except OSError as error:
            log.info("no copy is kept: %s", error)
            return None
        if digest not in self._sizes:
            self._sizes[digest] = len(data)
            self._total += len(data)
        self._uses[digest] += 1
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return a copied content; None when it is missing or damaged."""
        try:
            return self._blobs.get(digest)
        except BlobError as error:
            log.info("%s", error)
            return None

    def release(self, digest: str) -> None:
        """One file less has this content."""
        self._uses[digest] -= 1
        if self._uses[digest] <= 0:
            del self._uses[digest]
            self._total -= self._sizes.pop(digest, 0)
            with contextlib.suppress(OSError):
                self._blobs.path(digest).unlink()

    def save(self, files: dict[str, tuple[bytes, str]]) -> None:
        """Remember for the next daemon: stat and hash by path."""
        text = json.dumps({path: [stamp.hex(), digest] for path, (stamp, digest) in files.items()})
        try:
            self._list.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._list, text.encode())
        except OSError as error:
            log.info("the list of copies could not be written: %s", error)
