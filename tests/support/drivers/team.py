"""A shared server over a database with the sessions of two users, and clients that are signed in."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from daemon.api.team_server import TeamServer, serve_team
from daemon.model.branches import BranchMeta
from daemon.model.events import BranchStarted, GoalAdded, SessionCreated
from daemon.model.goals import Goal, GoalTree
from daemon.model.messages import TextPart, ToolCallPart, Usage
from daemon.store.sql.store import SqlTraceStore
from daemon.store.sql.tokens import issue
from tests.support.scenarios.stores import (
    NOW,
    added,
    branch_trace,
    created,
    file_changed,
    message,
    started,
    trace,
)

ANN, BOB = "20260101-000000-aaaaaa", "20260101-000001-bbbbbb"
"""The sessions of the users ann and bob. Each has a branch A."""
SECRET = "geheimnis"
"""A word of everything that bob's session has."""


def tell(store: SqlTraceStore, trace_id: str, owner: str, said: str) -> None:
    """Store a session of a user with a branch: title, goal, messages, changed file and attachment have ``said``."""
    own = SqlTraceStore(store.engine, owner)
    goal = Goal(id="1", description=f"goal {said}")
    for session_id in (trace_id, f"{trace_id}:A"):
        first = trace(trace_id, title=said, workspace=f"/{said}", agent=said)
        own.create(first if session_id == trace_id else branch_trace(session_id))
        if session_id == trace_id:
            own.append(created(session_id).model_copy(update={"trace": first}))
        else:
            begun = branch_trace(session_id)
            own.append(SessionCreated(trace_id=session_id, time=NOW, trace=begun))
        own.append(started(trace_id=session_id))
        own.append(GoalAdded(trace_id=session_id, time=NOW, goal=goal))
        own.append(added(message(1, f"please {said}", trace_id, goal_id="1"), session_id))
        call = ToolCallPart(id="call_1", name="read", input=f'{{"path": "{said}"}}')
        answer = message(2, f"answer {said}", trace_id, goal_id="1", role="assistant")
        counted: dict[str, Any] = {
            "content": (TextPart(text=f"answer {said}"), call),
            "usage": Usage(input=90, output=10, cache_read=10),
            "cost": 0.5,
            "model": f"fake/{said}",
            "duration_ms": 2000,
        }
        own.append(added(answer.model_copy(update=counted), session_id))
        own.append(file_changed(f"src/{said}.py", session_id))
    branch = BranchMeta(id="A", explore_start_id="1", description=said)
    own.append(BranchStarted(trace_id=trace_id, time=NOW, explore_start_id="1", branch=branch))
    own.save_snapshot(
        trace(trace_id, title=said, workspace=f"/{said}", agent=said, last_event_id=6),
        GoalTree(mission=f"mission {said}", goals=[goal]),
    )
    own.put_attachment(trace_id, "output/call_1", said.encode())


@dataclass
class Team:
    """A running server."""

    server: TeamServer
    tokens: dict[str, str]
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.port

    @functools.cached_property
    def client(self) -> httpx.AsyncClient:
        """A client without a token."""
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=60)

    async def get(self, user: str, path: str, **query: Any) -> httpx.Response:
        """The answer to a user."""
        return await self.client.get(path, params=query, headers=self.bearer(user))

    def bearer(self, user: str) -> dict[str, str]:
        """The header with the token of a user."""
        return {"authorization": f"Bearer {self.tokens[user]}"}


@asynccontextmanager
async def team(store: SqlTraceStore, **options: Any) -> AsyncGenerator[Team]:
    """Serve a database. Users: ann and bob see their own sessions, boss those of all."""
    now = datetime.now(UTC)
    tokens = {
        "ann": issue(store, "ann", ["own"], now),
        "bob": issue(store, "bob", ["own"], now),
        "boss": issue(store, "boss", ["all"], now),
    }
    server = await serve_team(store, "127.0.0.1", 0, **options)
    found = Team(server, tokens)
    try:
        yield found
    finally:
        await found.client.aclose()
        await server.close()
