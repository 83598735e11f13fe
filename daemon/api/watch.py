"""The WebSocket ``/api/traces/{trace_id}/watch`` (source: seed 000 "WebSocket 实时推送", seed 003 "WebSocket 事件").

Query: ``since_event_id`` (absent: only what is new; 0: everything; above what there is: as absent), ``branch_id`` (a
branch or sub-agent), ``deltas`` (default true), ``events`` (``all``, ``goals``, ``steps``; see ``daemon.api.frames``).
Refused before the handshake (HTTP, ``{"detail": …}``): 404 no such trace or branch, 409 one that a newer Goalwright
wrote, 422 a query that means nothing, 500 a trace that cannot be read. Close codes: 1001 the daemon stops, 1008 the
client sends too much, 1011 the log cannot be read any more, 1013 too many clients, each with words.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.utils import ClientDisconnected

from daemon.api.frames import CHOICES, Wants, connected_frame, framed
from daemon.api.hub import Hub, HubClient
from daemon.api.reader import NotFoundError, TraceReader, session_id_of, unknown
from daemon.api.websocket import ClientLimits, outlet_of, taken
from daemon.bus import Bus
from daemon.collector import COLLECTOR
from daemon.store.base import NewerFormatError, StoreError, UnknownTraceError

log = logging.getLogger(__name__)

GOING_AWAY, TOO_MUCH, FAILED, TRY_LATER = 1001, 1008, 1011, 1013
_MOST_WORDS = 120
"""Bytes of the words of a close (RFC 6455: 123)."""


class HandshakeRefusedError(Exception):
    """A client is refused before the handshake; ``status`` is HTTP's."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class _EndedError(Exception):
    """A client is sent away, or has left (``code`` None)."""

    def __init__(self, code: int | None = None, words: str = "") -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True, slots=True)
class Query:
    """What a client asks for."""

    session_id: str
    since_event_id: int | None
    wants: Wants


@dataclass(slots=True)
class _Watched:
    """A hub, who needs it, and when it goes."""

    hub: Hub
    opened: asyncio.Task[None]
    users: int = 0
    going: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class _Life:
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    clients: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])
    closing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


class WatchServer:
    """All clients that watch traces of one daemon; made and used on its event loop. See ``daemon.api.app.Watch``."""

    def __init__(
        self,
        reader: TraceReader,
        bus: Bus,
        *,
        attached: Callable[[], None] = lambda: None,
        left: Callable[[], None] = lambda: None,
        limits: ClientLimits | None = None,
    ) -> None:
        """``attached`` and ``left``: a client came or went (``Daemon.client_attached``, ``client_left``)."""
        self.limits = limits or ClientLimits()
        self._reader = reader
        self._bus = bus
        self._attached = attached
        self._left = left
        self._watched: dict[str, _Watched] = {}
        self._life = _Life()
        # Encoding waits for nobody who reads; one reader at a time leaves the event loop its share of the processor.
        self._encoders = ThreadPoolExecutor(2, "watch-encode")
        self._readers = ThreadPoolExecutor(1, "watch-read")

    @property
    def clients(self) -> int:
        """How many watch now."""
        return sum(watched.users for watched in self._watched.values())

    async def serve(self, websocket: WebSocket, trace_id: str) -> None:
        """Speak with one client until it or we leave; the caller has checked token, Host and Origin."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("serve runs in a task")
        self._life.clients.add(task)
        try:
            await self._serve(websocket, trace_id)
        except HandshakeRefusedError as refused:
            await websocket.send_denial_response(
                JSONResponse({"detail": str(refused)}, refused.status, {"cache-control": "no-store"})
            )
        except (WebSocketDisconnect, ClientDisconnected):
            pass  # it left
        finally:
            self._life.clients.discard(task)

    async def close(self) -> None:
        """Close all clients with 1001 and let go of everything."""
        life = self._life
        life.stopping.set()
        if life.clients:
            # Each of them has a deadline of its own.
            await asyncio.wait(life.clients)
        for session_id in list(self._watched):
            self._let_go(session_id)
        if life.closing:
            await asyncio.wait(life.closing)
        self._encoders.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)

    # -- one client --

    async def _serve(self, websocket: WebSocket, trace_id: str) -> None:
        query = query_of(websocket, trace_id)
        watched = await self._enter(websocket, query.session_id)
        if watched is None:
            return
        self._attached()
        try:
            current, frame = await self._connected(query.session_id)
            await websocket.accept()
            since = query.since_event_id
            client = HubClient(
                query.wants, outlet_of(websocket), current if since is None else min(since, current)
            )
            await taken(client.outlet, frame, self.limits.stalled_s)
            await self._speak(websocket, watched.hub, client)
        finally:
            self._left()
            self._leave(query.session_id, watched)

    async def _enter(self, websocket: WebSocket, session_id: str) -> _Watched | None:
        """A place for one more client; None when there is none, and it was told so. Raises HandshakeRefusedError."""
        limits = self.limits
        watched = self._watched.get(session_id)
        here = watched.users if watched is not None else 0
        if self._life.stopping.is_set():
            await _sent_away(websocket, GOING_AWAY, "The daemon is stopping.")
            return None
        if self.clients >= limits.clients or here >= limits.clients_per_trace:
            many = (
                f"{here} clients watch this trace"
                if here >= limits.clients_per_trace
                else (f"{self.clients} clients watch traces of this daemon")
            )
            await _sent_away(websocket, TRY_LATER, f"{many} already: close one of them, or try again later.")
            return None
        if watched is not None and watched.hub.failed:
            self._let_go(session_id)
            watched = None
        if watched is None:
            hub = Hub(
                session_id,
                self._reader.store,
                self._bus,
                limits,
                views=self._reader.steps,
                encoders=self._encoders,
                readers=self._readers,
            )
            watched = self._watched[session_id] = _Watched(hub, asyncio.create_task(hub.open()))
        if watched.going is not None:
            watched.going.cancel()
            watched.going = None
        watched.users += 1
        try:
            await asyncio.shield(watched.opened)
        except BaseException as error:
            self._leave(session_id, watched, at_once=True)
            if isinstance(error, StoreError):
                raise _refusal(error, session_id) from error
            raise
        return watched

    def _leave(self, session_id: str, watched: _Watched, *, at_once: bool = False) -> None:
        watched.users -= 1
        if watched.users or self._watched.get(session_id) is not watched:
            return
        if at_once or self._life.stopping.is_set():
            self._let_go(session_id)
        else:
            loop = asyncio.get_running_loop()
            watched.going = loop.call_later(self.limits.linger_s, self._let_go, session_id)

    def _let_go(self, session_id: str) -> None:
        watched = self._watched.pop(session_id, None)
        if watched is None:
            return
        if watched.going is not None:
            watched.going.cancel()
        closing = asyncio.create_task(watched.hub.close())
        self._life.closing.add(closing)
        closing.add_done_callback(self._life.closing.discard)

    async def _connected(self, session_id: str) -> tuple[int, bytes]:
        """The event that the first frame stands at, and the frame. Raises HandshakeRefusedError."""
        try:
            # Of a live session in one go: the goals and the event that they are after belong together.
            seen = await self._reader.seen(session_id)
        except NotFoundError as error:
            raise HandshakeRefusedError(404, str(error)) from error
        except StoreError as error:
            raise _refusal(error, session_id) from error
        current = seen.trace.last_event_id

        def first_frame() -> bytes:
            return framed(connected_frame(session_id, current, seen.connected()))

        return current, await asyncio.get_running_loop().run_in_executor(
            self._encoders, COLLECTOR.run, first_frame
        )

    async def _speak(self, websocket: WebSocket, hub: Hub, client: HubClient) -> None:
        """Until one of us goes; then the words of the close."""
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(hub.feed(client)),
            asyncio.create_task(_heard_out(websocket, self.limits.frames_from_client)),
            asyncio.create_task(self._life.stopping.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        ended = _end(outcomes, stopping=self._life.stopping.is_set())
        if ended.code is None:
            return
        try:
            async with asyncio.timeout(self.limits.close_s):
                await websocket.close(ended.code, _words(str(ended)))
        except TimeoutError:
            client.outlet.abort()


async def _heard_out(websocket: WebSocket, most: int) -> None:
    """Returns when the client has left. Raises _EndedError for one that talks too much."""
    for _ in range(most + 1):
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
    raise _EndedError(TOO_MUCH, "This socket tells what happens and takes no messages.")


def _end(outcomes: Sequence[object], *, stopping: bool) -> _EndedError:
    """How it ended, by what became of feeding, hearing and waiting."""
    for outcome in outcomes:
        if isinstance(outcome, _EndedError):
            return outcome
        if isinstance(outcome, ClientDisconnected | WebSocketDisconnect):
            return _EndedError()
        if isinstance(outcome, UnknownTraceError):
            return _EndedError(FAILED, "This trace was deleted: there is nothing to come back to.")
        if isinstance(outcome, StoreError):
            return _EndedError(FAILED, str(outcome))  # coming back mends nothing
        if isinstance(outcome, Exception):
            log.error("watching failed", exc_info=outcome)
            return _EndedError(
                FAILED, "Watching failed; the daemon's log says why. Connect again with since_event_id."
            )
    if stopping:
        return _EndedError(GOING_AWAY, "The daemon stops: connect again with since_event_id when it is back.")
    return _EndedError()


def query_of(websocket: WebSocket, trace_id: str) -> Query:
    """The query of a client. Raises HandshakeRefusedError."""
    query = websocket.query_params
    branch_id = query.get("branch_id") or None
    try:
        session_id = session_id_of(trace_id, branch_id)
    except NotFoundError as error:
        raise HandshakeRefusedError(404, str(error)) from error
    since_text = query.get("since_event_id", "")
    since = (
        int(since_text) if since_text.isascii() and since_text.isdecimal() and len(since_text) < 16 else None
    )
    if since is None and since_text:
        raise HandshakeRefusedError(422, "since_event_id is the number of an event, 0 or more.")
    chosen = query.get("events") or "all"
    if (events := CHOICES.get(chosen)) is None:
        raise HandshakeRefusedError(422, f"events is one of: {', '.join(CHOICES)}.")
    try:
        # The words that parameters of the REST endpoints take: yes, off, 1, …
        deltas = TypeAdapter(bool).validate_python(query.get("deltas") or "true")
    except ValidationError as error:
        raise HandshakeRefusedError(422, "deltas is true or false.") from error
    return Query(session_id, since, Wants(events, deltas))


def _refusal(error: StoreError, session_id: str) -> HandshakeRefusedError:
    """As the REST endpoints say it: the store speaks of sessions and their ids."""
    if isinstance(error, UnknownTraceError):
        return HandshakeRefusedError(404, str(unknown(session_id)))
    return HandshakeRefusedError(409 if isinstance(error, NewerFormatError) else 500, str(error))


async def _sent_away(websocket: WebSocket, code: int, words: str) -> None:
    # Before the handshake there is no close code, and a page could not see why.
    await websocket.accept()
    await websocket.close(code, _words(words))


def _words(text: str) -> str:
    """As much of it as a close can hold."""
    data = text.encode()
    return text if len(data) <= _MOST_WORDS else data[: _MOST_WORDS - 3].decode(errors="ignore") + "…"
