"""What a run took is what the daemon counts of it, branches and sub-agents among it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsp_bridge.cli.run.totals import Totals
from tests.support.fakes.models import Call
from tests.support.scenarios.branches import explore, exploring, ran
from tests.support.scenarios.subagents import task


async def test_what_a_run_counts_by_its_events_is_the_total_of_the_session(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "x.py", "content": "x = 1\n"})
    main = [[task("Look.", "explore")], explore("one", "two"), "Done."]
    branches = {
        "s1": ["Nothing there."],
        "A": [[task("Think.", "explore")], [write], "A is done."],
        "A.s1": [[Call("ls", {})], "Thought."],
        "B": [[write], "B is done."],
    }
    async with exploring(tmp_path, main, branches) as bench:
        session = await ran(bench)
        counted = Totals()
        for event in bench.core.store.events(session.session_id):
            counted.count(event.wire())
        trace = session.state.trace
        assert counted.to_json() == {
            "input": trace.usage.input,
            "output": trace.usage.output,
            "cacheRead": trace.usage.cache_read,
            "cacheWrite": trace.usage.cache_write,
            "cost": pytest.approx(trace.total_cost),
        }
        own = sum(m.usage.total for m in session.state.messages if m.usage is not None)
        assert own < trace.usage.total


def test_where_no_price_is_known_no_cost_is_told() -> None:
    counted = Totals()
    counted.count({"event": "message_added", "message": {"content": [], "usage": {"input": 5}, "cost": None}})
    counted.count({"event": "subagent_completed", "subagent": {"usage": {"input": 7}, "cost": 0.0}})
    assert (counted.to_json()["input"], counted.to_json()["cost"]) == (12, None)
