"""A session at work in a real daemon, watched from outside by its API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from daemon.api.address import OpenApi
from tests.support.drivers.core import ALLOW_ALL, daemon
from tests.support.drivers.waiting import until
from tests.support.drivers.watched import hear, ids
from tests.support.fakes.models import Call
from tests.support.scenarios.branches import EDITS


def watching(address: OpenApi, trace_id: str, query: str = "", *, token: bool = True) -> connect:
    url = f"ws{address.url.removeprefix('http')}/api/traces/{trace_id}/watch?{query}"
    headers = {"authorization": f"Bearer {address.token}"} if token else {}
    return connect(url, additional_headers=headers)


async def ended(socket: ClientConnection) -> int:
    async with asyncio.timeout(60):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as error:
            assert error.rcvd is not None
            return error.rcvd.code


SCRIPT = [
    [Call("goal", {"add": "look, tell", "focus": "1"})],
    ["I will read it.", Call("read", {"file_path": "a.py"})],
    [Call("goal", {"done": "x is 1", "focus": "2"})],
    "It says that x is 1.",
]


async def test_watched_turn_is_live_and_equals_the_log(tmp_path: Path) -> None:
    async with daemon(tmp_path, *SCRIPT) as bench:
        (bench.workspace / "a.py").write_text("x = 1\n")
        session = bench.session(settings=ALLOW_ALL)
        address = await bench.api.open(0)
        async with watching(address, session.session_id) as socket:
            (first,) = await hear(socket, count=1)
            await session.prompt("What is x?")
            last = session.state.trace.last_event_id
            frames = await hear(socket, to=last)
            assert ids(frames) == list(range(first["current_event_id"] + 1, last + 1))
            stored = {event.event_id: event.event for event in bench.core.store.events(session.session_id)}
            assert {f["event_id"]: f["event"] for f in frames if "event_id" in f}.items() <= stored.items()
            assert frames[-1]["event"] == "trace_completed"
            assert "delta" in {frame["event"] for frame in frames}
            kinds = [frame["step"]["step_type"] for frame in frames if frame["event"] == "step_added"]
            assert kinds == ["goal", "goal", "thought", "action", "result", "evaluation", "response"]


async def test_watching_client_keeps_daemon_up_and_is_closed_at_stop(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=EDITS)
        address = await bench.api.open(0)
        before = bench.core.presence.clients
        async with watching(address, session.session_id) as socket:
            await hear(socket, count=1)
            assert bench.core.presence.clients == before + 1
            await bench.api.close()
            assert await ended(socket) == 1001
            assert bench.core.presence.clients == before


async def test_watching_requires_the_token(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=EDITS)
        address = await bench.api.open(0)
        with pytest.raises(InvalidStatus):
            await watching(address, session.session_id, token=False)
        async with watching(address, session.session_id, f"token={address.token}", token=False) as socket:
            await hear(socket, count=1)
        await until(lambda: bench.core.presence.clients == 0, "it is gone")
