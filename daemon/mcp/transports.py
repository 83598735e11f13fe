"""The streams between the MCP SDK and a server, with bounds that the SDK's own do not have.

On stdio the server is a supervised process: nothing of it outlives the daemon. A message that is too long is dropped
and answered as an error, and a flood of notifications waits in the server's pipe. Import this in a thread: it loads the
SDK.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import re
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from anyio.abc import ObjectReceiveStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, jsonrpc_message_adapter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
    from contextvars import Context

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import ReadStream

    from tools.process.server_process import ServerProcess

    _Scan = Callable[[str, int], tuple[Any, int]]

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message of a server."""
MAX_UNSENT = 16 * 1024 * 1024
"""Bytes that a server may leave unread before it counts as dead."""
_READ = 1 << 16
_HEAD = 4096
_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*[,}]')
_METHOD = re.compile(rb'\s*"method"\s*:')
_BURST = 50
"""Messages after which reading pauses, so that at most 500 a second cost processor time."""
_PAUSE_S = 0.1
_NOTES_A_SECOND = 100
"""Notifications that are passed on; of more of a kind, the newest is."""
_MOST_HELD = 50
_DROPPED_BURST = 500
"""Notifications that are left out, until reading pauses: at most 5,000 a second cost the time to decode them."""
_LONG = 64 * 1024
"""Bytes of a message that takes too long to be decoded on the event loop."""
MAX_LIST = 1024 * 1024
"""Bytes of a page of a list over HTTP, which the SDK decodes on the event loop."""
_LIST = re.compile(rb'"method"\s*:\s*"(?:tools|prompts|resources|resources/templates)/list"')
_CONNECT_S = 30.0

Received = SessionMessage | Exception


class TooLongError(Exception):
    """A message was longer than MAX_MESSAGE, and it is not known which request it answers."""

    def __init__(self) -> None:
        super().__init__(f"the server sent a message of more than {MAX_MESSAGE:,} bytes")


class Paced(ObjectReceiveStream[Received]):
    """A stream of the SDK that a server cannot flood, be it with notifications, requests or answers to nothing.

    What is not read fills the pipe, and then the server itself waits. Many reports of progress before a result must not
    keep it waiting, so most of them are left out.
    """

    def __init__(self, stream: ReadStream[Received], seen: Callable[[Received], Awaitable[None]]) -> None:
        """``seen``: looks at each message before the SDK does, and may change it."""
        self._stream = stream
        self._seen = seen
        self._received = 0
        self._due: deque[Received] = deque()
        self._held: dict[tuple[str, str], Received] = {}
        """The newest notification of each kind beyond those that are passed on."""
        self._notes = 0
        self._second = 0.0
        """When ``_notes`` begins again, in the time of the event loop."""
        self._dropped = 0

    @property
    def last_context(self) -> Context | None:
        """The context of the sender of the last message, for the SDK."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Received:
        """Return the next message. Raises anyio.EndOfStream."""
        received = await self._next()
        self._received += 1
        if self._received % _BURST == 0:
            await asyncio.sleep(_PAUSE_S)
        await self._seen(received)
        return received

    async def _next(self) -> Received:
        loop = asyncio.get_running_loop()
        while not self._due:
            received = await self._read()
            kind = None if received is None else _kind(received)
            if received is None or kind is None:
                self._due += (*self._held.values(), *([] if received is None else [received]))
                self._held.clear()
                continue
            if loop.time() > self._second:
                self._second, self._notes = loop.time() + 1, 0
            if self._notes < _NOTES_A_SECOND:
                self._notes += 1
                self._held.pop(kind, None)
                return received
            self._held[kind if len(self._held) < _MOST_HELD else (kind[0], "")] = received
            self._dropped += 1
            if self._dropped % _DROPPED_BURST == 0:
                await asyncio.sleep(_PAUSE_S)
        return self._due.popleft()

    async def _read(self) -> Received | None:
        """Return what the server sends next; None when the second of those held back has passed."""
        if not self._held:
            return await self._stream.receive()
        left_s = self._second - asyncio.get_running_loop().time()
        if left_s > 0:
            with anyio.move_on_after(left_s):  # unlike asyncio's, it ends no read that has a message
                return await self._stream.receive()
        return None

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def _kind(received: Received) -> tuple[str, str] | None:
    """Return what a notification is about; None for messages that must not be left out."""
    message = received.message if isinstance(received, SessionMessage) else None
    if not isinstance(message, JSONRPCNotification) or message.method == "notifications/cancelled":
        return None
    return message.method[:100], str((message.params or {}).get("progressToken", ""))[:100]


@asynccontextmanager
async def stdio_streams(
    process: ServerProcess, ended: asyncio.Event
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]]:
    """Yield the SDK's streams over a process. ``ended`` is set when no more can come."""
    to_session, read = anyio.create_memory_object_stream[Received](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        try:
            async with to_session:
                try:
                    await _receive(process, to_session)
                except TooLongError as error:
                    await to_session.send(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session has ended
        finally:
            ended.set()

    async def send() -> None:
        async with from_session:
            async for sent in from_session:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                if process.unsent > MAX_UNSENT:
                    ended.set()
                    return
                process.write(text.encode() + b"\n")

    tasks = [asyncio.create_task(receive()), asyncio.create_task(send())]
    try:
        yield read, write
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for stream in (to_session, read, write, from_session):
            stream.close()


async def _receive(process: ServerProcess, to_session: MemoryObjectSendStream[Received]) -> None:
    loop, pause = asyncio.get_running_loop(), 0.0
    async for line in _lines(process.stdout):
        # After a long or bad one the next has to wait as long as that took: a flood gets half of a processor at most.
        await asyncio.sleep(pause)
        began, pause = loop.time(), 0.0
        try:
            if len(line) > _LONG:
                try:
                    value = await asyncio.to_thread(decoded, line)
                finally:
                    pause = loop.time() - began
                message = jsonrpc_message_adapter.validate_python(value, by_name=False)
            else:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            received = SessionMessage(message)
        except ValueError as error:
            # Programs print to stdout by mistake, and no answer is lost by that; else the request must not wait for it.
            refused = _refusal(line)
            if refused is not None and _is_request(line):
                if process.unsent > MAX_UNSENT:
                    return  # it reads none of the answers
                pause = loop.time() - began
                text = refused.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.write(text.encode() + b"\n")
                continue
            received = error if refused is None else refused
        await to_session.send(received)


async def _lines(stdout: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield complete lines; one that is too long only with its beginning. Raises TooLongError."""
    held = bytearray()
    skipping = False
    while data := await stdout.read(_READ):
        *ended, rest = data.split(b"\n")
        for part in ended:
            if not skipping and (line := bytes(held + part)).strip():
                yield line
            held.clear()
            skipping = False
        if skipping:
            continue
        held += rest
        if len(held) > MAX_MESSAGE:
            if _ID.match(held) is None:
                raise TooLongError
            yield bytes(held[:_HEAD])
            held.clear()
            skipping = True


def _is_request(line: bytes) -> bool:
    """Return whether a message with an id that cannot be read is a request of the server."""
    found = _ID.match(line)
    return found is not None and _METHOD.match(line, found.end()) is not None


def _refusal(line: bytes) -> SessionMessage | None:
    """Return an error for a request or in place of an answer that cannot be read; None when it has no id."""
    found = _ID.match(line)
    if found is None:
        return None
    why = f"the message is not valid, longer than {MAX_MESSAGE:,} bytes, or has more than {MOST_VALUES:,} values"
    error = ErrorData(code=INTERNAL_ERROR, message=why)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], transport: httpx2.AsyncBaseTransport, auth: httpx2.Auth | None
) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield the SDK's streams over streamable HTTP. ``auth``: adds the tokens of a sign-in."""
    # Not compressed, so that a small answer cannot become a large one.
    sent = {**headers, "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(_CONNECT_S, read=None)  # each request has a timeout of its own
    async with (
        httpx2.AsyncClient(headers=sent, timeout=timeout, transport=transport, auth=auth) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Ends answers that are too long; of streams, the SDK bounds each event."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.TransportError("the server sent a compressed answer although none is accepted")
        listed = request.method == "POST" and _LIST.search(_body(request)) is not None
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        most = MAX_LIST if listed else math.inf if events else MAX_MESSAGE
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, most, events)
        return response


def _body(request: httpx2.Request) -> bytes:
    try:
        return request.content[:_HEAD]
    except httpx2.RequestNotRead:
        return b""


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: float, events: bool) -> None:
        self._stream = stream
        self._most = most
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, values = self._most, ValueCount(events=self._events)
        async for data in self._stream:
            left -= len(data)
            if left < 0:
                raise httpx2.StreamError(f"the answer is longer than {self._most:,} bytes")
            if values.add(data) > MOST_VALUES:
                raise httpx2.StreamError(f"the answer has more than {MOST_VALUES:,} values")
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


# -- long messages --

# The C decoders hold the interpreter's lock until a whole message is decoded: seconds, where it has a million values.
# The standard library's decoder in Python lets other threads run between values, and can count them.
MOST_VALUES = 300_000
"""Values and keys of one message."""
_INNER = rb"(?:[^\"\\\r\n]+|\\[^\r\n])*+"
_STRING = re.compile(rb'"%b(?:"|(?=[\r\n\\]))|(")%b\Z' % (_INNER, _INNER))
"""Group 1: the quote of a string that goes on. In JSON a string does not contain a line break, so each line begins
outside of strings."""
_VALUE = re.compile(rb"[,:\[{]")
_BLANK_LINE = re.compile(rb"\n\r?\n|\r\r")
_parts: Any = importlib.import_module("json.decoder")
_scanner: Any = importlib.import_module("json.scanner")


class ValueCount:
    """Counts values and keys of a JSON text that comes in pieces, by the signs between them.

    ``events``: the text is a stream of events, in which a blank line ends a message.
    """

    def __init__(self, *, events: bool) -> None:
        self._count = 0
        self._events = events
        self._open = b""
        """The beginning of a string, or of an escape in it, that the last piece has cut in two."""
        self._end = b""

    def add(self, data: bytes) -> int:
        """Return the count for the current message."""
        ends = self._end + data
        if self._events and _BLANK_LINE.search(ends):
            self._count = 0
        self._end = ends[-2:]
        data = self._open + data
        whole = len(data) - (len(data) - len(data.rstrip(b"\\"))) % 2
        plain, quote, _ = _STRING.sub(rb"\1", data[:whole]).partition(b'"')
        self._open = quote + data[whole:]
        self._count += len(_VALUE.findall(plain))
        return self._count


def decoded(data: bytes) -> Any:
    """Return the value of a JSON text, without holding up other threads.

    Raises ValueError, also when it has too many values or is nested too deeply.
    """
    try:
        return _decoder().decode(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _decoder() -> json.JSONDecoder:
    left = MOST_VALUES

    def counting(scan: _Scan) -> _Scan:
        def one(text: str, at: int) -> tuple[Any, int]:
            nonlocal left
            left -= 1
            if left < 0:
                raise ValueError(f"it has more than {MOST_VALUES:,} values")
            return scan(text, at)

        return one

    def array(at: Any, scan: _Scan, *more: Any) -> Any:
        return _parts.JSONArray(at, counting(scan), *more)

    def an_object(at: Any, strict: bool, scan: _Scan, *more: Any) -> Any:
        return _parts.JSONObject(at, strict, counting(scan), *more)

    decoder: Any = json.JSONDecoder(object_pairs_hook=_object)
    decoder.parse_array, decoder.parse_object, decoder.parse_string = array, an_object, _string
    decoder.scan_once = _scanner.py_make_scanner(decoder)
    return decoder


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for key, _ in pairs:
        key.encode()
    return dict(pairs)


def _string(text: str, end: int, strict: bool = True) -> tuple[str, int]:
    """Return a string of the text; half a surrogate pair is an error, as for other decoders of messages."""
    value, end = _parts.scanstring(text, end, strict)
    if not value.isascii():
        value.encode()
    return value, end
