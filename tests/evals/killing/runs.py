"""One kill -9 of a real daemon in the middle of a session, and everything that must hold afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from daemon.model.events import Event, MessageAdded, Notice
from daemon.runtime import Address, RuntimePaths
from daemon.store.files import FileTraceStore
from lsp_bridge.cli.client import Client, ConnectionLostError, Greeting
from tests.support.drivers.forker import Forker, shared_forker
from tests.support.drivers.waiting import until

DEADLINE_S = 60.0
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_AGAIN, _DONE = "Here I am again.", "Done."
_LONG = "A long answer that comes in many pieces. " * 40

_CALLS: list[dict[str, Any]] = [
    {"reasoning": "A plan first.", "text": "I plan.", "tool_calls": [("goal", {"add": "read it, change it, run it"})]},
    {"tool_calls": [("goal", {"focus": "1"}), ("read", {"file_path": "a.txt"})]},
    {"text": _LONG, "tool_calls": [("goal", {"done": "it says old", "focus": "2"})]},
    {"tool_calls": [
        ("edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}),
        ("write", {"file_path": "b.txt", "content": "made\n"}),
    ]},
    {"tool_calls": [("goal", {"abandon": "another way", "add": "do it better"}), ("bash", {"command": "cat a.txt"})]},
    {"text": _LONG, "tool_calls": [("ls", {"path": "."}), ("glob", {"pattern": "*.txt"})]},
    {"tool_calls": [("write", {"file_path": "c.txt", "content": "x" * 50_000})]},
    {"text": _DONE},
]  # fmt: skip
_FIRST = "Do it"
_ALLOWED = {"permission": {"*": "allow"}}


def script() -> dict[str, Any]:
    """Return the model's script: one long turn, and a short answer to every later prompt."""
    turn = [
        {
            **step,
            "tool_calls": [{"name": name, "input": value} for name, value in step.get("tool_calls", [])],
            "chunk": 60,
        }
        for step in _CALLS
    ]
    return {"name": "killed", "turns": [turn, [{"text": _AGAIN}]], "repeat_last_turn": True}


@dataclass
class Killed:
    """The outcome of one run. ``problems`` is empty after a success."""

    number: int
    after: int
    """The kill came when the client had heard so many events,"""
    wait_us: int
    """and so many microseconds more."""
    acknowledged: int = 0
    """Events that had reached the client."""
    messages: int = 0
    """Messages among them."""
    logged: int = 0
    """Events in the log."""
    torn: int = 0
    """Bytes of a torn line."""
    last: str = ""
    """The last event in the log."""
    resumed: bool = False
    problems: list[str] = field(default_factory=list[str])


class Daemons:
    """Starts daemons that are going to be killed."""

    def __init__(self, forker: Forker, model: Path) -> None:
        self._forker = forker
        self._model = model
        self.alive: set[int] = set()

    async def start(self, folder: Path) -> tuple[int, Address]:
        """A daemon on ``folder/w`` with the home ``folder/h``; when it can be reached."""
        arguments = ["--model", f"scripted/{self._model}", "--idle-timeout", "120"]
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        home = str(folder / "h")
        pid = self._forker.daemon(folder / "w", {**kept, "HOME": home, "GOALWRIGHT_HOME": home}, arguments)
        self.alive.add(pid)
        paths = RuntimePaths.for_workspace(folder / "w", folder / "h")

        def ready() -> bool:
            address = paths.read_address()
            return address is not None and address.pid == pid

        await until(ready, "the daemon", within_s=DEADLINE_S)
        address = paths.read_address()
        assert address is not None
        return pid, address

    async def kill(self, pid: int) -> None:
        """Kill -9, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await until(lambda: _gone(pid), "the end of the killed", within_s=DEADLINE_S)
        self.alive.discard(pid)


@asynccontextmanager
async def daemons(folder: Path) -> AsyncGenerator[Daemons]:
    """The process that forks them, for as long as the block lasts; none outlives it."""
    model = folder / "script.json"
    model.write_text(json.dumps(script()))
    made = Daemons(shared_forker(), model)
    try:
        yield made
    finally:
        for pid in list(made.alive):
            await made.kill(pid)


async def _connect(address: Address, workspace: Path) -> tuple[Client, list[Event]]:
    client = await Client.connect(address, timeout=DEADLINE_S)
    heard: list[Event] = []

    def hear(method: str, params: dict[str, Any]) -> None:
        if method == "goalwright/session/update":
            heard.append(_EVENT.validate_python(params["event"]))

    client.on_notification(hear)
    greeting = Greeting(client="killing", settings=_ALLOWED, trusted=True)
    await client.initialize(workspace, greeting, DEADLINE_S)
    return client, heard


async def _begin(client: Client) -> str:
    """A new session, of which the client hears everything from now on."""
    made = await client.request("goalwright/session/new", {}, DEADLINE_S)
    session_id: str = made["session"]["trace"]["traceId"]
    await client.request("goalwright/session/load", {"sessionId": session_id}, DEADLINE_S)
    return session_id


async def whole_run(daemons: Daemons, folder: Path) -> int:
    """How many events a client hears of a session that nobody disturbs."""
    _prepare(folder)
    pid, address = await daemons.start(folder)
    client, heard = await _connect(address, folder / "w")
    session_id = await _begin(client)
    answer = await client.request(
        "goalwright/session/prompt", {"sessionId": session_id, "text": _FIRST}, DEADLINE_S
    )
    assert answer["stopReason"] == "end_turn", answer
    await client.close()
    await daemons.kill(pid)
    return len(heard)


async def killed_run(
    daemons: Daemons, folder: Path, number: int, total: int, chance: random.Random
) -> Killed:
    """Kill a daemon at a random point of its session, look at what it left, and go on with the session."""
    run = Killed(
        number, after=chance.randrange(1, total), wait_us=chance.choice((0, 0, chance.randrange(3000)))
    )
    _prepare(folder)
    pid, address = await daemons.start(folder)
    client, heard = await _connect(address, folder / "w")
    session_id = await _begin(client)

    def strike(method: str, params: dict[str, Any]) -> None:
        if len(heard) == run.after:
            deadline = time.perf_counter() + run.wait_us / 1e6
            while time.perf_counter() < deadline:
                pass
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    client.on_notification(strike)
    with contextlib.suppress(ConnectionLostError):
        await client.request(
            "goalwright/session/prompt", {"sessionId": session_id, "text": _FIRST}, DEADLINE_S
        )
    await daemons.kill(pid)
    await client.close()
    _look(run, folder, session_id, heard)
    await _resume(run, daemons, folder, session_id, heard)
    return run


async def kill_at(
    points: int, seed: int, say: Callable[[str], None] = lambda _: None
) -> tuple[int, list[Killed]]:
    """Events of a whole run, and what came of each kill."""
    chance = random.Random(seed)
    # Socket paths below a folder of pytest's would be too long.
    folder = Path(tempfile.mkdtemp(prefix="gwk-")).resolve()
    runs: list[Killed] = []
    try:
        async with daemons(folder) as made:
            total = await whole_run(made, folder / "whole")
            for number in range(1, points + 1):
                run = await killed_run(made, folder / f"r{number}", number, total, chance)
                runs.append(run)
                shutil.rmtree(folder / f"r{number}", ignore_errors=True)
                say(f"{number}/{points} {run.last}" + "".join(f"\n  {problem}" for problem in run.problems))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return total, runs


def _look(run: Killed, folder: Path, session_id: str, heard: list[Event]) -> None:
    """Read what the killed one left, as anybody would: before any daemon has touched it again."""
    log = folder / "w" / ".trace" / session_id / "events.jsonl"
    content = log.read_bytes()
    whole, _, torn = content.rpartition(b"\n")
    run.torn = len(torn)
    ids = [json.loads(line)["event_id"] for line in whole.split(b"\n")]
    store = FileTraceStore(folder / "w" / ".trace")
    events = {event.event_id: event for event in store.events(session_id)}
    run.logged, run.last = len(ids), events[max(events)].event
    run.acknowledged = len(heard)
    said = [event.message for event in heard if isinstance(event, MessageAdded)]
    run.messages = len(said)
    if ids != list(range(1, len(ids) + 1)) or list(events) != ids:
        run.problems.append("the ids of the log have gaps")
    if any(events.get(event.event_id) != event for event in heard):
        run.problems.append("an event that the client had is not in the log")
    stored = {message.message_id: message for message in store.messages(session_id)}
    if any(stored.get(message.message_id) != message for message in said):
        run.problems.append("a message that the client had is not there")
    if [trace.trace_id for trace in store.traces(limit=5)] != [session_id]:
        run.problems.append("the session is not listed")
    store.close()


async def _resume(run: Killed, daemons: Daemons, folder: Path, session_id: str, heard: list[Event]) -> None:
    """A new daemon opens the session, and a prompt is worked on."""
    pid, address = await daemons.start(folder)
    client, now = await _connect(address, folder / "w")
    params = {"sessionId": session_id, "messages": 1000}
    loaded = await client.request("goalwright/session/load", params, DEADLINE_S)
    there = {message["messageId"] for message in loaded["messages"]}
    lost = [e for e in heard if isinstance(e, MessageAdded) and e.message.message_id not in there]
    if lost:
        run.problems.append(f"{len(lost)} messages are not in the session that was opened again")
    answer = await client.request(
        "goalwright/session/prompt", {"sessionId": session_id, "text": "go on"}, DEADLINE_S
    )
    # Killed before its prompt was stored, the session is at its first turn still.
    words = _AGAIN if any(message["role"] == "user" for message in loaded["messages"]) else _DONE
    run.resumed = answer["stopReason"] == "end_turn" and any(
        isinstance(event, MessageAdded) and event.message.text() == words for event in now
    )
    if not run.resumed:
        run.problems.append(f"the session did not go on: {answer}")
    ids = [event.event_id for event in now]
    if ids != sorted(set(ids)) or (ids and ids[0] <= max(event.event_id for event in heard)):
        run.problems.append("ids were given twice")
    store = FileTraceStore(folder / "w" / ".trace")
    notices = [e for e in store.events(session_id) if isinstance(e, Notice) and e.code == "torn"]
    if bool(run.torn) != bool(notices):
        run.problems.append(f"{run.torn} torn bytes, but {len(notices)} notices of them")
    await client.close()
    await daemons.kill(pid)


def _prepare(folder: Path) -> None:
    (folder / "w").mkdir(parents=True)
    (folder / "w" / "a.txt").write_text("old\n")
    (folder / "h").mkdir(mode=0o700)


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
