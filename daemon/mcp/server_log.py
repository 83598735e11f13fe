"""The log of an MCP server: what it wrote to stderr or sent as log messages, and what happened to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from tools.files.regular_files import write_private
from tools.redaction.redactor import SECRETS
from tools.text.terminal import plain
from tools.text.truncate import tail

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024
"""Kept of a log, in memory and on disk: its end."""
_WRITE_AFTER_S = 1.0


class McpServerLog:
    """Keeps the end of a log, and writes it to a file at most once a second, however much a server writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self._due = False
        self._closing = asyncio.Event()

    def add(self, data: bytes) -> None:
        """Add output as it comes. Quick."""
        self._data += data[-MAX_BYTES:]
        if len(self._data) > 2 * MAX_BYTES:
            del self._data[:-MAX_BYTES]
        self._due = True
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    def line(self, text: str) -> None:
        """Add a line of our own or a message of the server."""
        self.add((" ".join(text.splitlines()) + "\n").encode("utf-8", "replace"))

    def text(self) -> str:
        """Return the log without secrets and escape sequences."""
        text = self._data[-MAX_BYTES:].decode("utf-8", "replace")
        return SECRETS.text(tail(plain(text), MAX_BYTES))

    async def close(self) -> None:
        """Write what is left, and wait for a write that runs. The log of a server that starts again goes on."""
        self._closing.set()
        if self._writing is not None:
            await self._writing
        self._closing.clear()

    async def _write(self) -> None:
        while self._due:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_AFTER_S):
                    await self._closing.wait()
            self._due = False
            await asyncio.to_thread(self._to_disk, bytes(self._data[-MAX_BYTES:]))

    def _to_disk(self, data: bytes) -> None:
        text = SECRETS.text(plain(data.decode("utf-8", "replace")))
        try:
            write_private(self.path, text.encode("utf-8", "replace"))
        except OSError as error:
            log.warning("the log %s cannot be written: %s", self.path, error)
