"""The real SDK sends the messages that a branch inherits to a server as strict as the real one."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.loop.session import Session
from daemon.loop.user_plan import UserPlan
from daemon.model.events import ContextMarked
from daemon.model.messages import FilePart, ReasoningPart, ToolResultPart
from daemon.provider.anthropic import AnthropicProvider
from tests.support.drivers.core import Bench
from tests.support.fakes.model_server import ModelServer
from tests.support.fakes.models import Call, Hold, Step, Think
from tests.support.scenarios.branches import EDITS, explore, exploring, scripts
from tests.support.scenarios.model_requests import anthropic_env, complete

PICTURE = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
    )
).decode()
READ, LOOK, NOW = Call("read", {"file_path": "README.md"}), Call("ls", {"path": "."}), explore("one", "two")
SUMMARY: dict[str, object] = {
    "current_work": "Reading.",
    "requests_and_rulings": [],
    "decisions": [],
    "findings": ["E42"],
    "files_changed": [],
    "failed_attempts": [],
    "pending_actions": [],
    "key_paths": {},
}
LONG = "All of this is worth to be summed up. " * 400
DONE: list[Step] = ["Done."]

HISTORIES: dict[str, list[Step]] = {
    "a goal that is done": [
        [Think("hm"), Call("goal", {"add": "look, work", "focus": "1"})],
        [READ],
        [Call("goal", {"done": "Looked."})],
        [NOW],
    ],
    "a compacted conversation": [
        *([Think("hm"), LONG, READ] for _ in range(8)),
        [LONG],
        [json.dumps(SUMMARY)],
        [NOW],
    ],
    "pruned results": [[READ], [LOOK], ["So."], [NOW]],
    "a steered prompt": [[Hold(), READ], [NOW]],
    "a note of the user's": [[Call("goal", {"add": "look, work", "focus": "1"})], ["Planned."], [NOW]],
    "a picture": [[READ], [NOW]],
    "calls before and after it": [[Think("three"), "At once.", READ, NOW, LOOK]],
    "two of them, and one between": [[NOW, READ, explore("three", "four")]],
    "an answer that was canceled": [["I will", Hold(), "see."], [NOW]],
}


async def played(bench: Bench, name: str, session: Session) -> None:
    pictures = (FilePart(media_type="image/png", data=PICTURE, name="p.png"),) if name == "a picture" else ()
    steps = bench.models
    items = [item for step in HISTORIES[name] if isinstance(step, list) for item in step]
    hold = next((item for item in items if isinstance(item, Hold)), None)
    turn = asyncio.create_task(session.prompt("go", pictures))
    if hold is not None:
        await hold.reached.wait()
        if name == "a steered prompt":
            steered = asyncio.create_task(session.prompt("faster", when_busy="steer"))
            await asyncio.sleep(0)
            hold.go.set()
            await steered
        else:
            session.cancel()
    await turn
    if name == "a compacted conversation":
        compacted = await session.compact()
        assert any(message.compaction() for message in session.state.messages), compacted
    elif name == "pruned results":
        tools = tuple(message.sequence for message in session.state.messages if message.role == "tool")
        session.emit(ContextMarked(trace_id=session.session_id, time=session.services.now(), pruned=tools))
    elif name == "a note of the user's":
        UserPlan(session, "me").add("another one")
    if steps.left:
        await session.prompt("and now?")


@pytest.mark.parametrize("name", HISTORIES)
async def test_what_a_branch_begins_with_is_a_request_that_is_taken(tmp_path: Path, name: str) -> None:
    branches: dict[str, list[Step]] = {branch: [[LOOK], "Works."] for branch in "ABCD"}
    async with exploring(tmp_path, [*HISTORIES[name], *DONE], branches) as bench:
        session = bench.session(settings={**EDITS, "keep_steps": 2, "permission": {"*": "allow"}})
        await played(bench, name, session)
        begun = list(session.state.children.branches)
        assert begun[:2] == ["A", "B"]
        requests = [request for branch in begun for request in scripts(bench).seen_by(branch)]
    assert len(requests) == 2 * len(begun)
    for request in requests:
        parts = [part for message in request.messages for part in message.content]
        first = request.messages[: len(request.messages) - 2]
        assert not [part for message in first for part in message.content if isinstance(part, ReasoningPart)]
        if name == "a picture":
            assert any(isinstance(part, FilePart) and part.data == PICTURE for part in parts)
        if name == "calls before and after it":
            called = [part.name for part in parts if isinstance(part, ToolResultPart)]
            assert called[0] == "read"
            assert "explore" not in called
    claude = AnthropicProvider()
    try:
        async with ModelServer(["ok"] * len(requests)) as server:
            for request in requests:
                sent = replace(request, env=anthropic_env(server), model="claude-sonnet-4-5")
                await complete(claude, sent)
            assert server.rejected == []
            assert len(server.requests) == len(requests)
    finally:
        await claude.aclose()
