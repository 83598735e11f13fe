"""Versions of every file a session changes (source: seed 002 §5.5, mission M17).

Contents are stored once, by hash; ``versions.jsonl`` says which file went from which content to which. Both
sides are on disk before the workspace is touched, so whatever a write destroys can be brought back. The cost
grows with what changed, never with the size of the workspace.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from tools.base import CommandChange, CommandWatch, FileChange, ToolError


class _NoWatch:
    async def ended(self) -> Sequence[CommandChange]:
        return ()


class SessionHistory:
    """The port ``FileHistory`` of tools, for one session, in ``{trace}/files``."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._now = now
        self._count: int | None = None

    async def keep(self, changes: Sequence[FileChange], tool_call_id: str) -> list[str]:
        """See tools.base.FileHistory. Raises ToolError when the version cannot be kept: then nothing is written."""
        return await asyncio.to_thread(lambda: [self._keep(change, tool_call_id) for change in changes])

    def written(self, versions: Sequence[str]) -> None:
        """See tools.base.FileHistory."""

    async def watch_command(self, tool_call_id: str) -> CommandWatch:
        """See tools.base.FileHistory."""
        return _NoWatch()

    def versions(self) -> list[dict[str, str | None]]:
        """All versions, oldest first: ``version, path, before, after`` (hashes), ``tool_call_id, time``."""
        try:
            text = (self._folder / "versions.jsonl").read_text("utf-8")
        except FileNotFoundError:
            return []
        found: list[dict[str, str | None]] = []
        for line in text.split("\n"):
            with contextlib.suppress(ValueError):  # torn by a crash
                found.append(json.loads(line))
        return found

    def content(self, sha256: str) -> bytes:
        """A stored content by its hash."""
        return (self._folder / "blobs" / sha256[:2] / sha256).read_bytes()

    def _keep(self, change: FileChange, tool_call_id: str) -> str:
        try:
            first = self._count is None
            if self._count is None:
                self._count = len(self.versions())
            entry = {
                "version": f"v{self._count + 1}",
                "path": str(change.path),
                "before": self._blob(change.before),
                "after": self._blob(change.after),
                "tool_call_id": tool_call_id,
                "time": self._now().isoformat(),
            }
            with (self._folder / "versions.jsonl").open("a", encoding="utf-8") as log:
                log.write(("\n" if first and self._is_torn() else "") + json.dumps(entry) + "\n")
            self._count += 1
        except OSError as error:
            raise ToolError(
                f"Nothing was changed: the old version of {change.path.name} could not be kept "
                f"({error.strerror or error})."
            ) from error
        return str(entry["version"])

    def _is_torn(self) -> bool:
        """Whether a crash left half a line at the end of the list."""
        try:
            with (self._folder / "versions.jsonl").open("rb") as log:
                log.seek(-1, os.SEEK_END)
                return log.read(1) != b"\n"
        except OSError:  # missing or empty
            return False

    def _blob(self, content: bytes | None) -> str | None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if content is None:
            return None
        sha256 = hashlib.sha256(content).hexdigest()
        path = self._folder / "blobs" / sha256[:2] / sha256
        # A crash of the machine may leave a file whose content never reached the disk.
        if not path.exists() or path.stat().st_size != len(content):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(content)
            Path(name).replace(path)
        return sha256
