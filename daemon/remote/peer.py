"""Calls between two of our own processes over a stream of bytes: a request, its answer, and messages without one.

Frames are pickles, so both ends must trust each other: a driver and the nodes of its cluster do, because Ray itself
works that way. What a frame holds is plain data; an error is rebuilt from its class, arguments and attributes.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

log = logging.getLogger(__name__)

MAX_FRAME = 1 << 31
"""Largest number of bytes of a frame; a larger one was not sent by a peer."""
_LARGE = 1 << 18
"""Bytes of a frame that takes a thread."""
_HEAD = struct.Struct(">Q")

Handler = Callable[..., object]
"""Answers a call: returns a value, an awaitable, or an asynchronous generator for ``stream``."""


class PeerLostError(Exception):
    """Raised for calls that can no longer be answered; the message says why."""


class Pipe(Protocol):
    """A stream of bytes in both directions."""

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end. Raises PeerLostError or OSError."""
        ...

    async def write(self, data: bytes, /) -> None:
        """Send bytes. Raises PeerLostError or OSError."""
        ...


class StreamPipe:
    """A pipe over asyncio's streams. Implements Pipe."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(1 << 20)

    async def write(self, data: bytes, /) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        """Close both directions."""
        self._writer.close()


class Peer:
    """One end of a connection. ``run`` reads until the end; everything else works only meanwhile."""

    def __init__(self, pipe: Pipe, handlers: dict[str, Handler]) -> None:
        self._pipe = pipe
        self._handlers = handlers
        self._last = 0
        self._waiting: dict[int, asyncio.Queue[tuple[str, Any]]] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._out: asyncio.Queue[bytes] = asyncio.Queue()
        self._lost: str | None = None
        self.lost = asyncio.Event()
        """Set when the other end is gone."""

    async def run(self) -> str:
        """Serve until the other end is gone; returns why. Canceled, it ends all calls."""
        sending = asyncio.create_task(self._send())
        why = "the connection was closed"
        try:
            await self._receive()
        except (OSError, PeerLostError) as error:
            why = str(error)
        finally:
            self._lost = why
            self.lost.set()
            sending.cancel()
            serving = list(self._serving.values())
            for task in serving:
                task.cancel()
            await asyncio.gather(sending, *serving, return_exceptions=True)
            for queue in self._waiting.values():
                queue.put_nowait(("lost", why))
        return why

    def tell(self, name: str, *args: Any) -> None:
        """Send a message that needs no answer; lost when the connection is."""
        self._put(("tell", 0, name, args))

    async def call(self, name: str, *args: Any) -> Any:
        """Return the other end's answer. Raises its error, and PeerLostError. Canceled, the other end is, too."""
        async with aclosing(self.stream(name, *args)) as items:
            async for item in items:
                return item
        return None

    async def stream(self, name: str, *args: Any) -> AsyncGenerator[Any]:
        """Yield what the other end yields; for a plain answer, that alone. Raises as ``call`` does."""
        if self._lost is not None:
            raise PeerLostError(self._lost)
        self._last += 1
        number = self._last
        queue = self._waiting[number] = asyncio.Queue[tuple[str, Any]]()
        ended = False
        self._put(("call", number, name, args))
        try:
            while True:
                kind, value = await queue.get()
                ended = kind != "item"
                if kind == "lost":
                    raise PeerLostError(value)
                if kind == "error":
                    raise _rebuilt(*value)
                if kind == "end":
                    return
                yield value
        finally:
            del self._waiting[number]
            if not ended:
                self._put(("cancel", number, "", ()))

    def close(self) -> None:
        """Close the pipe, where it can be closed."""
        if isinstance(self._pipe, StreamPipe):
            self._pipe.close()

    # -- internals --

    def _put(self, frame: tuple[str, int, str, Any]) -> None:
        data = pickle.dumps(frame, protocol=5)
        self._out.put_nowait(_HEAD.pack(len(data)) + data)

    async def _send(self) -> None:
        while True:
            data = [await self._out.get()]
            while not self._out.empty() and sum(map(len, data)) < 1 << 20:
                data.append(self._out.get_nowait())
            try:
                await self._pipe.write(b"".join(data))
            except (OSError, PeerLostError) as error:
                log.debug("a frame was not sent: %s", error)
                return  # the reader notices the end as well

    async def _receive(self) -> None:
        buffer = bytearray()
        while data := await self._pipe.read():
            buffer += data
            while len(buffer) >= _HEAD.size:
                (size,) = _HEAD.unpack_from(buffer)
                if size > MAX_FRAME:
                    raise PeerLostError(f"a frame of {size} bytes is not possible")
                if len(buffer) < _HEAD.size + size:
                    break
                frame = bytes(buffer[_HEAD.size : _HEAD.size + size])
                del buffer[: _HEAD.size + size]
                # A patch may be large, and nothing else is to wait for it.
                large = size > _LARGE
                self._heard(*(await asyncio.to_thread(pickle.loads, frame) if large else pickle.loads(frame)))

    def _heard(self, kind: str, number: int, name: str, value: Any) -> None:
        if kind == "tell":
            try:
                self._handlers[name](*value)
            except Exception:  # it needs no answer, and must not end the connection
                log.exception("the message %s could not be handled", name)
        elif kind == "call":
            self._serving[number] = asyncio.create_task(self._serve(number, name, value))
        elif kind == "cancel":
            if (task := self._serving.get(number)) is not None:
                task.cancel()
        elif (queue := self._waiting.get(number)) is not None:
            queue.put_nowait((kind, value))

    async def _serve(self, number: int, name: str, args: Any) -> None:
        try:
            found: Any = self._handlers[name](*args)
            if hasattr(found, "__aiter__"):
                async with aclosing(found) as items:
                    async for item in items:
                        self._put(("item", number, "", item))
            else:
                self._put(("item", number, "", await found if asyncio.iscoroutine(found) else found))
            self._put(("end", number, "", None))
        except asyncio.CancelledError:
            self._put(("error", number, "", (PeerLostError, ("the call was canceled",), {})))
            raise
        except Exception as error:
            self._put_error(number, error)
        finally:
            self._serving.pop(number, None)

    def _put_error(self, number: int, error: Exception) -> None:
        told = (type(error), error.args, dict(vars(error)))
        try:
            self._put(("error", number, "", told))
        except Exception:  # something in it cannot be pickled
            log.exception("a call failed")
            self._put(("error", number, "", (RuntimeError, (str(error),), {})))


def _rebuilt(kind: type[Exception], args: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    # Not by a call: the arguments of a class need not be those of the exception that it makes.
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(attributes)
    return error
