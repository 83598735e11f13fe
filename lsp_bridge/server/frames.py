"""Sends a client what happens in a few milliseconds as one piece."""

from __future__ import annotations

import asyncio

_TICK_S = 0.008
"""Seconds that a notification waits for others: half a frame of a screen."""


class Frames:
    """Collects messages and hands them to the connection together, in their order.

    Each piece wakes the client up, which then competes with us for the processor, several times in each step.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._held: list[bytes] = []
        self._size = 0
        self._due: asyncio.Handle | None = None
        self._soon = False

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._size + self._writer.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send whole messages in this round of the event loop, after those that wait."""
        self._hold(data)
        if not self._soon:
            if self._due is not None:
                self._due.cancel()
            self._due = asyncio.get_running_loop().call_soon(self.flush)
            self._soon = True

    def write_soon(self, data: bytes) -> None:
        """Send whole messages that nobody waits for."""
        self._hold(data)
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_TICK_S, self.flush)

    def flush(self) -> None:
        """Send what there is now."""
        if self._due is not None:
            self._due.cancel()
        held, self._held, self._size, self._due, self._soon = self._held, [], 0, None, False
        if held and not self._writer.is_closing():
            self._writer.write(b"".join(held))

    def close(self) -> None:
        """Send what there is, and end the connection."""
        self.flush()
        self._writer.close()

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)
