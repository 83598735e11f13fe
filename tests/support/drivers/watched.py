"""Traces that are watched: a real uvicorn with the real WebSocket, over a store, and real clients.

The traces are live ones of which the test says what happens: stored, applied and told, in one go, as by a session.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect

from daemon.api.hub import ClientLimits
from daemon.api.reader import TraceReader
from daemon.api.serving import IdleTimeout
from daemon.api.watch import WatchServer, websocket_settings
from daemon.bus import Bus
from daemon.model.branches import branch_of, root_of
from daemon.model.events import (
    AffectedGoal,
    Delta,
    Event,
    GoalAdded,
    GoalUpdated,
    MessageAdded,
    Notice,
    SessionCreated,
)
from daemon.model.goals import Goal, GoalStats
from daemon.model.messages import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart
from daemon.model.traces import Trace
from daemon.plan.goal_stats import worked_ms
from daemon.state.session_state import SessionState
from daemon.store.trace_store import TraceStore
from tests.support.drivers.waiting import until
from tests.support.fakes.memory_store import MemoryTraceStore

TRACE = "20260102-030405-000000abcd"
BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Json = dict[str, Any]


class Watched:
    """A server and what happens in its traces."""

    def __init__(self, store: TraceStore, limits: ClientLimits) -> None:
        self.store = store
        self.bus = Bus()
        self.states: dict[str, SessionState] = {}
        self.attached = 0
        self.connections: Collection[object] = ()
        self.reader = TraceReader(store, self.states.get)
        self.server = WatchServer(
            lambda _: self.reader, self.bus, attached=self._came, left=self._went, limits=limits
        )
        self.port = 0
        self._ticks = 0

    def begin(self, session_id: str = TRACE) -> SessionState:
        """A new trace."""
        now = self.time()
        trace = Trace(trace_id=session_id, workspace="/w", created_at=now, updated_at=now)
        self.store.create(trace)
        state = self.states[session_id] = SessionState(trace)
        self.emit(SessionCreated(trace_id=session_id, time=now, trace=trace))
        return state

    def emit(self, *events: Event) -> list[Event]:
        """They happen, one after the other."""
        return [self.happens(event) for event in events]

    def happens(self, event: Event) -> Event:
        """Into the log, into the state, to the listeners."""
        numbered = self.store.append(event)
        if (state := self.states.get(event.trace_id)) is not None:
            state.apply(numbered)
        self.bus.publish(numbered)
        return numbered

    def delta(self, text: str, session_id: str = TRACE, **fields: Any) -> None:
        """A piece of an answer."""
        known: dict[str, Any] = {"kind": "text", "message_id": "m1", **fields}
        self.bus.publish(Delta(trace_id=session_id, text=text, **known))

    def notices(self, count: int, session_id: str = TRACE, *, text: str = "so") -> list[Event]:
        """Small events."""
        return self.emit(
            *(
                Notice(trace_id=session_id, time=self.time(), level="info", text=f"{text} {number}")
                for number in range(count)
            )
        )

    def goal(self, goal_id: str, parent_id: str | None = None, session_id: str = TRACE) -> Event:
        """A new goal."""
        goal = Goal(
            id=goal_id, parent_id=parent_id, branch_id=branch_of(session_id), description=f"goal {goal_id}"
        )
        return GoalAdded(trace_id=session_id, time=self.time(), goal=goal, parent_id=parent_id)

    def focus(self, goal_id: str, session_id: str = TRACE) -> Event:
        """Work on a goal begins."""
        return GoalUpdated(
            trace_id=session_id,
            time=self.time(),
            goal_id=goal_id,
            updates={"status": "in_progress"},
            affected_goals=(AffectedGoal(goal_id=goal_id, cumulative_stats=GoalStats()),),
            current_id=goal_id,
        )

    def message(
        self, *parts: Part, role: Role = "assistant", goal_id: str | None = None, session_id: str = TRACE
    ) -> Event:
        """A message that is complete."""
        state = self.states[session_id]
        sequence = state.next_sequence()
        message = Message(
            message_id=f"msg_{sequence:06}_aaaaaa",
            trace_id=root_of(session_id),
            branch_id=branch_of(session_id),
            role=role,
            sequence=sequence,
            goal_id=goal_id,
            tool_call_id=next((p.tool_call_id for p in parts if isinstance(p, ToolResultPart)), None),
            content=parts,
            description="said",
            tokens=100,
            cost=0.01,
            created_at=self.time(),
            duration_ms=2500 if role == "assistant" else 400,
        )
        calls = [part.name for part in parts if isinstance(part, ToolCallPart)]
        affected = state.plan.count(
            goal_id, tokens=100, cost=0.01, tools=calls, time_of=lambda _: worked_ms(message)
        )
        return MessageAdded(
            trace_id=session_id, time=self.time(), message=message, affected_goals=tuple(affected)
        )

    def work(self, steps: int, session_id: str = TRACE) -> None:
        """The model reads files and talks about them; a goal for each ten steps."""
        for number in range(steps):
            goal_id = str(number // 10 + 1)
            if number % 10 == 0:
                self.emit(self.goal(goal_id, session_id=session_id), self.focus(goal_id, session_id))
            call = ToolCallPart(id=f"c{number}", name="read", input='{"path": "a.py"}')
            self.emit(
                self.message(TextPart(text=f"step {number}"), call, goal_id=goal_id, session_id=session_id)
            )
            result = ToolResultPart(tool_call_id=call.id, name="read", content="x = 1", title="a.py")
            self.emit(self.message(result, role="tool", goal_id=goal_id, session_id=session_id))

    def time(self) -> datetime:
        """Now, a second later each time."""
        self._ticks += 1
        return BEGIN + timedelta(seconds=self._ticks)

    def url(self, query: str = "", trace_id: str = TRACE) -> str:
        """Where to watch."""
        return f"ws://127.0.0.1:{self.port}/api/traces/{trace_id}/watch?{query}"

    def watch(self, query: str = "", trace_id: str = TRACE, **options: Any) -> connect:
        """A client; use it with ``async with``."""
        # One that is stalled does not read the answer to its goodbye either, and would wait ten seconds for it.
        known: dict[str, Any] = {"max_size": None, "ping_interval": None, "close_timeout": 1, **options}
        return connect(self.url(query, trace_id), **known)

    def _came(self) -> None:
        self.attached += 1

    def _went(self) -> None:
        self.attached -= 1


@asynccontextmanager
async def watched(
    store: TraceStore | None = None, limits: ClientLimits | None = None
) -> AsyncGenerator[Watched]:
    """A server that listens, with one trace."""
    limits = limits or ClientLimits()
    bench = Watched(store or MemoryTraceStore(), limits)

    async def serve(websocket: WebSocket) -> None:
        await bench.server.serve(websocket, websocket.path_params["trace_id"])

    app = IdleTimeout(Starlette(routes=[WebSocketRoute("/api/traces/{trace_id}/watch", serve)]))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        callback_notify=app.sweep,
        timeout_notify=0,
        **websocket_settings(limits),
    )
    server = uvicorn.Server(config)
    bench.connections = app.connections = server.server_state.connections
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        bench.port = listening.getsockname()[1]
        running = asyncio.create_task(server._serve([listening]))  # pyright: ignore[reportPrivateUsage] - no signals
        await until(lambda: server.started, "the server")
        try:
            bench.begin()
            yield bench
        finally:
            await bench.server.close()
            server.should_exit = True
            await running


async def hear(socket: ClientConnection, *, to: int | None = None, count: int | None = None) -> list[Json]:
    """The next frames: up to the event with the id ``to``, or ``count`` of them. Fails after a minute."""
    frames: list[Json] = []
    async with asyncio.timeout(60):
        while count is None or len(frames) < count:
            frames.append(json.loads(await socket.recv()))
            if to is not None and frames[-1].get("event_id", 0) >= to:
                break
    return frames


def ids(frames: Iterable[Json]) -> list[int]:
    """Ids of the events among some frames."""
    return [frame["event_id"] for frame in frames if "event_id" in frame]
