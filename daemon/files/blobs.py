"""Contents by their hash. Each is stored once, and verified whenever it is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.files.regular_files import make_folder, os_errors, sha256, write_private
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobError(Exception):
    """Raised when a content is missing or has changed; the message says which."""


class Blobs:
    """A folder of contents. Blocking: call it in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Store a content and return its hash. Raises OSError."""
        digest = sha256(data)
        path = self.path(digest)
        # A machine crash may leave a file whose content never reached the disk.
        if not path.exists() or path.stat().st_size != len(data):
            make_folder(self.folder, 0o700)
            write_private(path, data)
        return digest

    def get(self, digest: str) -> bytes:
        """Return a stored content. Raises BlobError when it is missing or damaged."""
        if not _SHA256.fullmatch(digest):
            raise BlobError(t("{digest!r} is not a content hash.", digest=digest[:80]))
        words = noted("The stored content {digest} cannot be read ({strerror}).")
        with os_errors(BlobError, words, digest=digest[:12]):
            data = self.path(digest).read_bytes()
        if sha256(data) != digest:
            raise BlobError(t("The stored content {digest} is damaged.", digest=digest[:12]))
        return data

    def all(self) -> Iterator[Path]:
        """Yield the files of all contents. Raises OSError."""
        return (path for path in self.folder.rglob("*") if path.is_file())

    def path(self, digest: str) -> Path:
        """Return where a content is. In older sessions it is in one of 256 folders, which took longer to make than to
        write the contents."""
        older = self.folder / digest[:2] / digest
        return older if older.exists() else self.folder / digest
