"""LSP's base protocol as real servers speak it: headers, then as many bytes of JSON.

Data between messages (log lines that a server prints to stdout) is skipped; a message with a wrong ``Content-Length``
is one bad message, and reading continues at the next header, even if that begins in the middle of a line. Only endless
data is an error: a giant line, or too much that is no message.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from tools.json_access import mapping

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

MAX_MESSAGE_BYTES = 64_000_000
MAX_LINE_BYTES = 1 << 16
_MAX_JUNK_BYTES = 1 << 20
"""Between two messages."""
_THREAD_BYTES = 128_000
_LINES_A_TURN = 96
"""Lines before other tasks get a turn on the event loop: reading does not wait while the buffer has data."""
# Match at the end of the line, because a length that was too small leaves the rest of a body before it.
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*([0-9]{1,12})[ \t]*\r?\n", re.IGNORECASE)


class BadStreamError(Exception):
    """The stream cannot be read as messages. The text says why."""


class BadMessage:
    """A placeholder for a message that could not be read."""

    def __init__(self, why: str) -> None:
        self.why = why


async def messages(stream: asyncio.StreamReader) -> AsyncIterator[dict[str, Any] | BadMessage]:
    """Yield the messages until the end of the stream. Raises BadStreamError."""
    junk = lines = 0
    length: int | None = None
    while line := await _line(stream):
        lines += 1
        if lines % _LINES_A_TURN == 0:
            await asyncio.sleep(0)
        if not line.strip():
            if length is None:
                continue
            if not 0 < length <= MAX_MESSAGE_BYTES:
                raise BadStreamError(f"it announced a message of {length} bytes")
            try:
                body = await _exactly(stream, length)
            except asyncio.IncompleteReadError:
                raise BadStreamError("it ended in the middle of a message") from None
            message = await _parse(body)
            yield message
            junk, length = junk + len(body) if isinstance(message, BadMessage) else 0, None
        elif found := _LENGTH.search(line):
            length = int(found[1])
            junk += found.start()
        elif b":" not in line or length is None:
            junk += len(line)
        else:
            junk += len(line) if len(line) > 1000 else 0  # another header, e.g. Content-Type
        if junk > _MAX_JUNK_BYTES:
            raise BadStreamError("it writes what is no JSON-RPC")


def _as_it_is(value: dict[str, Any]) -> dict[str, Any]:
    return value


async def _line(stream: asyncio.StreamReader) -> bytes:
    try:
        line = await stream.readline()
    except ValueError:  # asyncio: the line is longer than its buffer
        raise BadStreamError("it wrote a line without end") from None
    if len(line) > MAX_LINE_BYTES:
        raise BadStreamError(f"it wrote a line of {len(line)} bytes")
    return line


async def _exactly(stream: asyncio.StreamReader, size: int) -> bytes:
    if size <= 1 << 16:
        return await stream.readexactly(size)
    # Read in pieces: asyncio would stop reading until everything fits its buffer, and copy it several times.
    parts: list[bytes] = []
    while size:
        part = await stream.read(min(size, 1 << 18))
        if not part:
            raise asyncio.IncompleteReadError(b"", size)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


async def _parse(body: bytes) -> dict[str, Any] | BadMessage:
    try:
        if len(body) > _THREAD_BYTES:
            # With a hook in Python: the C parser would hold the interpreter's lock, and so block the event loop, until
            # it has read everything.
            value: object = await asyncio.to_thread(json.loads, body, object_hook=_as_it_is)
        else:
            value = json.loads(body)
    except (ValueError, RecursionError) as error:
        return BadMessage(f"{error or type(error).__name__}")
    if not isinstance(value, dict):
        return BadMessage("not an object")
    return value  # pyright: ignore[reportUnknownVariableType]  # JSON


class MethodNotFoundError(Exception):
    """The server asked for something that this client does not do."""


class ServerGoneError(Exception):
    """The server's process has ended, or it stopped speaking JSON-RPC."""


class ServerError(Exception):
    """The server refused a request. ``code`` is JSON-RPC's or LSP's, ``data`` the server's own (JSON)."""

    def __init__(self, message: str, code: int = 0, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @property
    def ask_again(self) -> bool:
        """The server was busy with something newer (LSP's ServerCancelled and ContentModified)."""
        return self.code in (-32802, -32801) and mapping(self.data).get("retriggerRequest") is not False

    @classmethod
    def from_wire(cls, error: object) -> ServerError:
        """Make an error from the ``error`` member of a response, which may be anything."""
        body: Mapping[str, Any] = mapping(error)
        code = body.get("code")
        return cls(str(body.get("message", error)), code if isinstance(code, int) else 0, body.get("data"))
