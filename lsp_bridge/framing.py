"""Frames of JSON-RPC messages on a stream, as in the language server protocol: a ``Content-Length``, then the body.

Goalwright's own two ends read strictly here: what is no frame ends the connection. Language servers print other text
between their messages, so that the client of language servers has a reader of its own, which goes on at the next frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class FramingError(ValueError):
    """Raised for data that is no frame, so that the start of the next one is unknown; the text says why."""


def frame(body: bytes) -> bytes:
    """Return a message as it is sent."""
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def content_length(line: bytes) -> int | None:
    """Return the bytes of the body that a line of the header announces; None for another line. Raises FramingError."""
    name, _, value = line.partition(b":")
    if name.strip().lower() != b"content-length":
        return None
    try:
        return int(value)
    except ValueError as error:
        raise FramingError("Content-Length must be a number.") from error


async def read_body(reader: asyncio.StreamReader, most: int) -> bytes | None:
    """Return the body of the next message, of at most ``most`` bytes; None at the end of the stream.

    A line of the header may have as many bytes as ``reader`` buffers. Raises FramingError, and IncompleteReadError when
    the stream ends within a body.
    """
    length: int | None = None
    begun = False
    while True:
        try:
            line = await reader.readline()
        except ValueError as error:
            raise FramingError("A header line is too long.") from error
        if not line.endswith(b"\n"):
            return None
        if line.strip():
            begun = True
            if (announced := content_length(line)) is None:
                continue
            if not 0 <= announced <= most:
                raise FramingError(f"A message must have between 0 and {most} bytes, not {announced}.")
            length = announced
        elif length is not None:
            return await reader.readexactly(length)
        elif begun:
            raise FramingError("The header of a message must have a Content-Length.")
