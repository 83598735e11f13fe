"""A decoder for server-sent events, the format of streamed answers. Pure."""

from __future__ import annotations


class EventReader:
    """Decode events from bytes that may be cut anywhere. Keeps only ``data``, which names the event as well."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        """Pieces of an unfinished line, joined once: a very long line costs no more than its size."""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """Add bytes and return the data of each event that they complete."""
        waits = bool(self._begun) and self._begun[-1].endswith(b"\r")
        if not piece or not (waits or b"\n" in piece or b"\r" in piece):
            self._begun += [piece] if piece else []
            return []
        lines = b"".join([*self._begun, piece]).splitlines(keepends=True)
        # A line that ends in CR may still get the LF that belongs to it.
        self._begun = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        events: list[bytes] = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if text.startswith(b"data:"):
                self._data.append(text[5:].removeprefix(b" "))
            elif not text and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
