"""The WebSocket ``/api/traces/{trace_id}/watch``.

Query: ``since_event_id`` (absent: only what is new; 0: everything; above the last one: as absent), ``branch_id`` (a
branch or sub-agent), ``deltas`` (default true), ``events`` (``all``, ``goals``, ``steps``; see ``daemon.api.frames``).
Rejected before the handshake (HTTP, ``{"detail": …}``): 404 no such trace or branch, 409 one that a newer Goalwright
wrote, 422 an invalid query, 500 a trace that cannot be read, 503 an unreachable database. Close codes: 1001 the daemon
stops, 1008 the client sends too much, 1011 the log cannot be read any more, 1013 too many clients, or an unreachable
database, each with a reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from daemon.api.frames import CHOICES, Subscription, connected_frame
from daemon.api.hub import ClientLimits, Hub, HubClient, StalledError
from daemon.api.listing import ParameterError
from daemon.api.problems import problem_of
from daemon.api.reader import TraceReader, found, session_id_of
from daemon.api.security import UNREACHABLE
from daemon.api.step_views import NotFoundError
from daemon.bus import Bus
from daemon.gc_tuning import COLLECTOR
from daemon.store.trace_store import StoreError, UnknownTraceError, UnreachableError

log = logging.getLogger(__name__)

GOING_AWAY, TOO_MUCH, FAILED, TRY_LATER = 1001, 1008, 1011, 1013
_MOST_WORDS = 120
"""Most bytes of the reason of a close (RFC 6455: 123)."""


class _EndedError(Exception):
    """A client is sent away, or has left (``code`` None)."""

    def __init__(self, code: int | None = None, words: str = "") -> None:
        super().__init__(words)
        self.code = code


class Query(Struct, frozen=True):
    """The parameters of one WebSocket connection."""

    reader: TraceReader
    session_id: str
    since_event_id: int | None
    wants: Subscription


class WatchServer:
    """All clients that watch traces over one server; made and used on its event loop."""

    def __init__(
        self,
        reader_for: Callable[[HTTPConnection], TraceReader],
        bus: Bus,
        *,
        attached: Callable[[], None] = lambda: None,
        left: Callable[[], None] = lambda: None,
        limits: ClientLimits | None = None,
    ) -> None:
        """``reader_for``: reads what the sender of a request may see. ``attached`` and ``left``: a client came or went
        (``Daemon.client_attached``, ``client_left``)."""
        self.limits = limits or ClientLimits()
        self._reader_for = reader_for
        self._bus = bus
        self._attached = attached
        self._left = left
        self._hubs: dict[tuple[TraceReader, str], Hub] = {}
        self._stopping = asyncio.Event()
        self._dropped = asyncio.Event()
        self._serving: set[asyncio.Task[object]] = set()
        # Encoding does not wait for readers; a single reader leaves CPU time for the event loop.
        self._encoders = ThreadPoolExecutor(2, "watch-encode")
        self._readers = ThreadPoolExecutor(1, "watch-read")

    @property
    def clients(self) -> int:
        """How many watch now."""
        return sum(hub.users for hub in self._hubs.values())

    async def serve(self, websocket: WebSocket, trace_id: str) -> None:
        """Speak with one client until it or we leave; the caller has checked token, Host and Origin."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("serve runs in a task")
        self._serving.add(task)
        try:
            await self._serve(websocket, trace_id)
        except (NotFoundError, ParameterError, StoreError) as error:  # before the handshake
            status, detail = problem_of(error)
            await websocket.send_denial_response(
                JSONResponse({"detail": detail}, status, {"cache-control": "no-store"})
            )
        except (WebSocketDisconnect, StalledError):
            pass  # it left
        finally:
            self._serving.discard(task)

    async def close(self) -> None:
        """Close all clients with 1001 and release everything."""
        self._stopping.set()
        if self._serving:
            # Each of them has its own deadline.
            await asyncio.wait(self._serving)
        self._encoders.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)

    def drop(self) -> None:
        """Send all clients away who watch now, because nothing more is known of their sessions; they may try again."""
        self._dropped.set()
        self._dropped = asyncio.Event()

    # -- one client --

    async def _serve(self, websocket: WebSocket, trace_id: str) -> None:
        query = query_of(websocket, trace_id, self._reader_for(websocket))
        hub = await self._enter(websocket, query)
        if hub is None:
            return
        self._attached()
        try:
            current, frame = await self._connected(query)
            await websocket.accept()
            since = query.since_event_id
            event_id = current if since is None else min(since, current)
            client = HubClient(query.wants, websocket.send_text, event_id, self.limits)
            hub.join(client)
            try:
                await client.send((frame,))
                await self._speak(websocket, hub, client)
            finally:
                hub.leave(client)
        finally:
            self._left()
            await self._leave(query, hub)

    async def _enter(self, websocket: WebSocket, query: Query) -> Hub | None:
        """Return a place for one more client; None when there is none, and the client was informed. Raises
        NotFoundError, StoreError."""
        limits = self.limits
        key = query.reader, query.session_id
        hub = self._hubs.get(key)
        here = hub.users if hub is not None else 0
        if self._stopping.is_set():
            await _sent_away(websocket, GOING_AWAY, "The daemon is stopping.")
            return None
        if self.clients >= limits.clients or here >= limits.clients_per_trace:
            many = (
                f"{here} clients watch this trace"
                if here >= limits.clients_per_trace
                else (f"{self.clients} clients watch traces of this daemon")
            )
            await _sent_away(websocket, TRY_LATER, f"{many} already. Close one of them, or try again later.")
            return None
        if hub is None or hub.failed:
            hub = self._hubs[key] = Hub(
                query.session_id,
                query.reader.store,
                self._bus,
                limits,
                views=query.reader.steps,
                encoders=self._encoders,
                readers=self._readers,
            )
        hub.users += 1
        try:
            with found(query.session_id):
                await asyncio.shield(hub.opened)
        except BaseException:
            await self._leave(query, hub)
            raise
        return hub

    async def _leave(self, query: Query, hub: Hub) -> None:
        key = query.reader, query.session_id
        hub.users -= 1
        if not hub.users:
            if self._hubs.get(key) is hub:
                del self._hubs[key]
            await hub.close()

    async def _connected(self, query: Query) -> tuple[int, str]:
        """Return the event id of the first frame, and the frame. Raises NotFoundError, StoreError."""
        # Read a live session at once, because the goals must match the event that they follow.
        seen = await query.reader.seen(query.session_id)
        current = seen.trace.last_event_id

        def first_frame() -> str:
            return connected_frame(query.session_id, current, seen.connected())

        return current, await asyncio.get_running_loop().run_in_executor(
            self._encoders, COLLECTOR.run, first_frame
        )

    async def _speak(self, websocket: WebSocket, hub: Hub, client: HubClient) -> None:
        """Serve a client until one side ends; then send the reason of the close."""
        dropped = self._dropped
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(hub.feed(client)),
            asyncio.create_task(_heard_out(websocket, self.limits.frames_from_client)),
            asyncio.create_task(self._stopping.wait()),
            asyncio.create_task(dropped.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        ended = _end(outcomes, stopping=self._stopping.is_set())
        if ended.code is None and dropped.is_set():
            ended = _EndedError(TRY_LATER, UNREACHABLE)
        if ended.code is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.close_s):
                await websocket.close(ended.code, _words(str(ended)))


async def _heard_out(websocket: WebSocket, most: int) -> None:
    """Returns when the client has left. Raises _EndedError for one that talks too much."""
    for _ in range(most + 1):
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
    raise _EndedError(TOO_MUCH, "This socket sends events and accepts no messages.")


def _end(outcomes: Sequence[object], *, stopping: bool) -> _EndedError:
    """Return the end, by the results of sending, receiving and waiting."""
    for outcome in outcomes:
        if isinstance(outcome, _EndedError):
            return outcome
        if isinstance(outcome, WebSocketDisconnect | StalledError):
            return _EndedError()
        if isinstance(outcome, UnknownTraceError):
            return _EndedError(FAILED, "This trace was deleted.")
        if isinstance(outcome, UnreachableError):
            log.warning("%s", outcome)
            return _EndedError(TRY_LATER, UNREACHABLE)
        if isinstance(outcome, StoreError):
            return _EndedError(FAILED, str(outcome))  # reconnecting does not help
        if isinstance(outcome, Exception):
            log.error("watching failed", exc_info=outcome)
            return _EndedError(
                FAILED, "Watching failed; the daemon's log says why. Connect again with since_event_id."
            )
    if stopping:
        return _EndedError(
            GOING_AWAY, "The daemon is stopping: connect again with since_event_id when it is back."
        )
    return _EndedError()


def websocket_settings(limits: ClientLimits) -> dict[str, Any]:
    """Return the WebSocket options of ``uvicorn.Config``."""
    return {
        "ws": "websockets-sansio",
        "ws_max_size": limits.frame_bytes,
        "ws_per_message_deflate": False,
        "ws_ping_interval": limits.ping_s,
        "ws_ping_timeout": limits.ping_timeout_s,
    }


def query_of(websocket: WebSocket, trace_id: str, reader: TraceReader) -> Query:
    """Return the query of a client. Raises NotFoundError, ParameterError."""
    query = websocket.query_params
    branch_id = query.get("branch_id") or None
    session_id = session_id_of(trace_id, branch_id)
    since_text = query.get("since_event_id", "")
    since = (
        int(since_text) if since_text.isascii() and since_text.isdecimal() and len(since_text) < 16 else None
    )
    if since is None and since_text:
        raise ParameterError("since_event_id is the number of an event, 0 or more.")
    chosen = query.get("events") or "all"
    if (events := CHOICES.get(chosen)) is None:
        raise ParameterError(f"events is one of: {', '.join(CHOICES)}.")
    try:
        # Accept the same values as parameters of the REST endpoints: yes, off, 1, …
        deltas = TypeAdapter(bool).validate_python(query.get("deltas") or "true")
    except ValidationError as error:
        raise ParameterError("deltas is true or false.") from error
    return Query(reader, session_id, since, Subscription(events, deltas))


async def _sent_away(websocket: WebSocket, code: int, words: str) -> None:
    # Before the handshake there is no close code, and a page could not show the reason.
    await websocket.accept()
    await websocket.close(code, _words(words))


def _words(text: str) -> str:
    """Return as much of the text as a close can hold."""
    data = text.encode()
    return text if len(data) <= _MOST_WORDS else data[: _MOST_WORDS - 3].decode(errors="ignore") + "…"
