"""The messages behind an edge of the graph: a call and its result belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daemon.api.message_query import MessageQuery
from daemon.api.reader import TraceReader
from daemon.api.serving import reader_of
from tests.support.drivers.core import ALLOW_ALL, daemon
from tests.support.fakes.models import Call


@pytest.mark.parametrize("stored", [False, True])
async def test_tool_results_are_listed_with_their_call_across_goals(tmp_path: Path, stored: bool) -> None:
    steps = (
        [Call("goal", {"add": "look, change", "focus": "1"}), Call("ls", {}), Call("glob", {"pattern": "*"})],
        [Call("goal", {"done": "Seen.", "focus": "2"}), Call("ls", {"path": "."})],
        "Done.",
    )
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("go")
        reader = reader_of(bench.core)
        if stored:
            reader = TraceReader(bench.core.store, lambda _: None)

        async def roles(**query: Any) -> list[str]:
            page = await reader.messages(session.session_id, MessageQuery(**query))
            shown = [
                message["role"] if message["role"] == "tool" else f"{message['role']} {message['sequence']}"
                for message in page["messages"]
            ]
            return [*shown, "…"] if page["has_earlier"] else shown

        assert await roles(goal_id="1") == ["assistant 2", "tool", "tool", "assistant 6", "tool"]
        assert await roles(goal_id="2") == ["assistant 6", "tool", "assistant 9"]
        # A page that begins between two results leaves the answer to the page before.
        assert await roles(goal_id="1", limit=3) == ["tool", "assistant 6", "tool", "…"]
        assert await roles(goal_id="2", role="tool") == ["tool"]
