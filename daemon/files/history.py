"""Versions of every file a session changes (source: seed 002 §5.5, mission M17).

Contents are stored once, by hash; ``versions.jsonl`` says which file went from which content to which. Both
sides are on disk before the workspace is touched, so whatever a write destroys can be brought back. The cost
grows with what changed, never with the size of the workspace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tools.base import FileChange, ToolError


class SessionHistory:
    """The port ``FileHistory`` of tools, for one session, in ``{trace}/files``."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._now = now
        self._count: int | None = None

    async def keep(self, change: FileChange, tool_call_id: str) -> str:
        """See tools.base.FileHistory. Raises ToolError when the version cannot be kept: then nothing is written."""
        return await asyncio.to_thread(self._keep, change, tool_call_id)

    def versions(self) -> list[dict[str, str | None]]:
        """All versions, oldest first: ``version, path, before, after`` (hashes), ``tool_call_id, time``."""
        try:
            text = (self._folder / "versions.jsonl").read_text("utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines() if line]

    def content(self, sha256: str) -> bytes:
        """A stored content by its hash."""
        return (self._folder / "blobs" / sha256[:2] / sha256).read_bytes()

    def _keep(self, change: FileChange, tool_call_id: str) -> str:
        try:
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
                log.write(json.dumps(entry) + "\n")
            self._count += 1
        except OSError as error:
            raise ToolError(
                f"Nothing was changed: the old version of {change.path.name} could not be kept "
                f"({error.strerror or error})."
            ) from error
        return str(entry["version"])

    def _blob(self, content: bytes | None) -> str | None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if content is None:
            return None
        sha256 = hashlib.sha256(content).hexdigest()
        path = self._folder / "blobs" / sha256[:2] / sha256
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(content)
            Path(name).replace(path)
        return sha256
