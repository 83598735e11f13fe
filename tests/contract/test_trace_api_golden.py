from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.api.address import OpenApi
from tests.support.drivers.core import daemon
from tests.support.drivers.golden import check_golden_json
from tests.support.drivers.trace_api import client_of, normalised, story

PATHS = {
    "list": "/api/traces",
    "trace": "/api/traces/{id}",
    "messages": "/api/traces/{id}/messages",
    "messages-of-a-goal": "/api/traces/{id}/messages?number=1",
    "messages-of-a-branch": "/api/traces/{id}/messages?branch_id=A",
    "branch": "/api/traces/{id}/branches/A",
    "subagent": "/api/traces/{id}/branches/s1",
    "tree": "/api/traces/{id}/tree",
    "tree-of-a-branch": "/api/traces/{id}/tree?branch_id=A",
    "node-root": "/api/traces/{id}/node/root",
    "node-expanded": "/api/traces/{id}/node/goal_2?expand=true&max_depth=2",
}


@pytest.fixture
def place() -> Iterator[Path]:
    # Names of the folder stand in texts that are cut: it is of the same length everywhere.
    with tempfile.TemporaryDirectory(prefix="gw-golden-", dir="/tmp") as folder:
        yield Path(folder)


async def check_all(address: OpenApi, workspace: Path, trace_id: str) -> None:
    async with client_of(address) as client:
        for name, path in PATHS.items():
            answer = await client.get(path.format(id=trace_id))
            assert answer.status_code == 200, (name, answer.text)
            check_golden_json(f"rest-{name}.json", normalised(answer.json(), workspace, trace_id))


async def test_golden_responses_are_equal_for_live_and_stored_trace(
    place: Path,
) -> None:
    async with story(place) as (bench, session):
        await check_all(await bench.api.open(0), bench.workspace, session.session_id)
        trace_id = session.session_id
    async with daemon(place) as later:
        assert later.core.live(trace_id) is None
        await check_all(await later.api.open(0), later.workspace, trace_id)
        assert later.core.live(trace_id) is None, "reading opened the session"


async def test_a_goal_took_the_same_in_the_step_tree_and_in_the_plan(place: Path) -> None:
    async with story(place) as (bench, session):
        async with client_of(await bench.api.open(0)) as client:
            trace = (await client.get(f"/api/traces/{session.session_id}")).json()
            waiting = (await client.get(f"/api/traces/{session.session_id}/tree")).json()["root_nodes"]
        told: dict[str, int] = {}
        while waiting:
            step = waiting.pop()
            waiting += step["children"]
            if step["step_type"] == "goal":
                told[step["data"]["goal_id"]] = step["tokens"] or 0
        counted = {one["id"]: one["cumulative_stats"]["total_tokens"] for one in trace["goal_tree"]["goals"]}
        assert told == counted
        assert any(counted.values())
        assert {goal_id: session.state.spending.usage(goal_id).total for goal_id in told} == told


async def test_session_branches_and_sub_agents_share_message_numbers(place: Path) -> None:
    async with story(place) as (bench, session):
        address = await bench.api.open(0)
        own: list[tuple[int, str, str]] = []
        async with client_of(address) as client:
            for line in ("", "A", "B", "s1"):
                query = {"inherited": "false", "limit": "100"} | ({"branch_id": line} if line else {})
                answer = await client.get(f"/api/traces/{session.session_id}/messages", params=query)
                messages = answer.json()["messages"]
                assert messages, line
                own += [(one["sequence"], one["created_at"], line) for one in messages]
    numbers = [sequence for sequence, _, _ in own]
    assert len(set(numbers)) == len(numbers)
    assert max(own)[2] == "", "the main line ends the story"
    # What the branches and the sub-agent did stands between the call and its answer.
    calls = max(sequence for sequence, _, line in own if line == "" and sequence < min_of(own, "A", "B"))
    answer_of_explore = min(sequence for sequence, _, line in own if line == "" and sequence > calls)
    assert all(calls < sequence < answer_of_explore for sequence, _, line in own if line in ("A", "B"))
    assert answer_of_explore < min_of(own, "s1")


def min_of(messages: list[tuple[int, str, str]], *lines: str) -> int:
    return min(sequence for sequence, _, line in messages if line in lines)
