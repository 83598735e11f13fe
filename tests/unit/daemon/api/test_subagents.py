"""The API's reports about sub-agents: while they work, when they have ended, and from the store."""

from __future__ import annotations

import asyncio
from pathlib import Path

from daemon.api.reader import TraceReader
from daemon.api.serving import reader_of
from daemon.api.session_summary import JsonObject
from tests.support.drivers.core import ALLOW_ALL, finish
from tests.support.fakes.models import Call, Hold
from tests.support.scenarios.subagents import task, with_subagents


async def told(reader: TraceReader, trace_id: str, name: str = "s1") -> tuple[JsonObject, JsonObject]:
    """Return the reports about it: by the session above, in its details and in ``connected``, and on its own."""
    above, _, last = name.rpartition(".")
    seen = await reader.seen(f"{trace_id}:{above}" if above else trace_id)
    meta: JsonObject = seen.children()["subagents"][last]
    assert seen.connected()["subagents"][last] == meta
    itself = await reader.branch(trace_id, name)
    assert meta.items() <= itself.items()
    return meta, itself["cumulative_stats"]


async def test_sub_agent_stats_are_live_and_equal_the_stored_ones(
    tmp_path: Path,
) -> None:
    outer, inner = Hold(), Hold()
    main = [task("Find it.")], "It is main.py."
    agents = {
        "s1": [[Call("ls", {}), Call("ls", {})], [task("Look deeper.", "explore")], [outer, "main.py."]],
        "s1.s1": [[Call("glob", {"pattern": "*"})], [inner, "It is there."]],
    }
    async with with_subagents(tmp_path, main, agents, command_line=ALLOW_ALL) as (bench, _):
        session = bench.session()
        reader, trace_id = reader_of(bench.core), session.session_id
        working = asyncio.ensure_future(session.prompt("Where does it start?"))
        await inner.reached.wait()
        deep, deep_stats = await told(reader, trace_id, "s1.s1")
        assert (deep["status"], deep["message_count"], deep_stats["preview"]) == ("running", 3, "glob")
        assert deep["usage"]["output"] > 0
        meta, stats = await told(reader, trace_id)
        assert (meta["message_count"], stats["message_count"]) == (5, 5)
        assert stats["preview"] == "ls × 2"  # the task still runs
        own = reader.live(f"{trace_id}:s1")
        assert own is not None
        # With what works for it, as it is told at its end.
        assert meta["usage"]["input"] == own.trace.usage.input + deep["usage"]["input"]
        assert stats["total_tokens"] == sum(message.usage.total for message in own.messages if message.usage)
        inner.go.set()
        await outer.reached.wait()
        outer.go.set()
        await finish(working)
        meta, stats = await told(reader, trace_id)
        assert (meta["status"], meta["message_count"]) == ("completed", 7)
        assert stats["preview"] == "ls × 2 → task"
        messages = bench.core.store.messages(f"{trace_id}:s1")
        assert stats["message_count"] == len(messages) == 7
        assert stats["total_tokens"] == sum(message.usage.total for message in messages if message.usage)
        stored = TraceReader(bench.core.store, lambda _: None)
        assert await told(stored, trace_id) == (meta, stats)
