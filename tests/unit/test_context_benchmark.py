"""The benchmark of the context measures what it says: its cache, its counts, its script and its rules."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from daemon.model.messages import Message, TextPart, ToolCallPart, ToolResultPart, Usage
from daemon.provider.pricing import cost
from tests.evals.benchmarks.context import cache, opencode
from tests.evals.benchmarks.context.cache import PrefixCache, request_blocks, request_tokens
from tests.evals.benchmarks.context.goals import GoalTree
from tests.evals.benchmarks.context.linear import Linear
from tests.evals.benchmarks.context.opencode import OpenCode, prunable
from tests.evals.benchmarks.context.play import Player
from tests.evals.benchmarks.context.report import DEFAULT, LINEAR, OPENCODE, compare, table, to_json
from tests.evals.benchmarks.context.requests import MODEL, frame, wire
from tests.evals.benchmarks.context.runs import Run, run
from tests.evals.benchmarks.context.script import Prompt, Script, Step, build_script
from tests.evals.benchmarks.context.story import KINDS, RULES, planted

SHORT = 90


@pytest.fixture(scope="module")
def short() -> Script:
    return build_script(calls=SHORT)


@pytest.fixture(scope="module")
def runs(short: Script) -> dict[str, Run]:
    return {one.name: one for one in asyncio.run(compare(short))}


# -- the cache --


def request(*texts: str, marks: tuple[int, ...] = (-1,)) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    for mark in marks:
        blocks[mark]["cache_control"] = {"type": "ephemeral"}
    return {"messages": [{"role": "user", "content": blocks}]}


def long(word: str, tokens: int = 1_500) -> str:
    return word * (tokens * 34 // 10 // len(word))


def test_a_prefix_is_written_once_and_then_read() -> None:
    model = PrefixCache()
    first = model.send(request(long("a")), 0)
    assert first.cache_read == first.input == 0
    assert first.cache_write == request_tokens(request(long("a")))
    second = model.send(request(long("a"), long("b")), 10)
    assert second.cache_read == first.cache_write
    assert second.cache_write == request_tokens(request(long("b")))


def test_prefix_that_differs_in_one_byte_reads_nothing() -> None:
    model = PrefixCache()
    model.send(request(long("a"), long("b")), 0)
    assert model.send(request(long("c"), long("b")), 1).cache_read == 0


def test_cache_entry_expires_five_minutes_after_its_last_use() -> None:
    model = PrefixCache()
    sent = request(long("a"))
    model.send(sent, 0)
    assert model.send(sent, 300).cache_read > 0
    assert model.send(sent, 600).cache_read > 0
    assert model.send(sent, 901).cache_read == 0
    assert model.again == request_tokens(sent)


def test_tokens_after_the_last_breakpoint_are_never_cached() -> None:
    model = PrefixCache()
    sent = request(long("a"), long("plan"), marks=(0,))
    tail = request_tokens(request(long("plan")))
    assert model.send(sent, 0).input == tail
    assert model.send(sent, 1).input == tail


def test_only_breakpoints_write() -> None:
    model = PrefixCache()
    model.send(request(long("a"), long("b")), 0)
    assert model.send(request(long("a"), long("c")), 1).cache_read == 0
    model.send(request(long("a"), long("d"), marks=(0, 1)), 2)
    assert model.send(request(long("a"), long("e")), 3).cache_read > 0


def test_cache_lookup_goes_back_twenty_blocks() -> None:
    near, far = PrefixCache(), PrefixCache()
    for model, more in ((near, cache.LOOKBACK - 1), (far, cache.LOOKBACK)):
        model.send(request(long("a")), 0)
        sent = request(long("a"), *(f"block {number}" for number in range(more)))
        assert (model.send(sent, 1).cache_read > 0) is (model is near)


def test_short_prefixes_are_not_cached() -> None:
    model = PrefixCache()
    for now in (0, 1):
        sent = model.send(request(long("a", cache.MINIMUM // 2)), now)
        assert sent.cache_read == sent.cache_write == 0
        assert sent.input > 0


def test_shorter_cache_entry_lives_on_only_with_a_breakpoint() -> None:
    for refreshes_all in (False, True):
        model = PrefixCache(refreshes_all=refreshes_all)
        model.send(request(long("a")), 0)
        for now in (200, 400, 600):
            model.send(request(long("a"), long("b")), now)
        assert (model.send(request(long("a")), 601).cache_read > 0) is refreshes_all


def test_the_model_has_the_ratios_of_the_issue() -> None:
    million = {name: cost(MODEL, Usage(**{name: 1_000_000})) for name in Usage.model_fields}
    assert million["input"]
    share = {name: (money or 0) / million["input"] for name, money in million.items()}
    assert share == pytest.approx(
        {"input": 1, "output": 5, "cache_read": 0.1, "cache_write": 1.25, "unpriced": 0}
    )


# -- the script --


def test_the_script_is_the_session_that_the_issue_asks_for() -> None:
    script = build_script()
    assert script.calls == 300
    prompts = [action for action in script.actions if isinstance(action, Prompt)]
    assert len(prompts) == 5
    assert sum(prompt.changes_plan for prompt in prompts) == 1
    assert sum(prompt.pause_s > 300 for prompt in prompts) == 1
    steps = [action for action in script.actions if isinstance(action, Step)]
    assert sum(len(step.uses) > 1 for step in steps) > 10
    uses = [use for step in steps for use in step.uses]
    assert sum("abandon" in use.input for use in uses) == 2
    assert max(len(use.result) for use in uses) <= 52_000
    facts = planted()
    assert {kind: sum(fact.kind == kind for fact in facts) for kind in KINDS} == dict.fromkeys(KINDS, 10)
    assert len({fact.text for fact in facts}) == 40
    assert build_script() == script


async def test_benchmark_plan_has_twelve_goals_on_three_levels(short: Script) -> None:
    player = Player(short, full_plan=False)
    async for _ in player.play():
        pass
    plan = player.state.plan
    numbers = plan.numbers()
    assert len(numbers) == 12
    assert max(number.count(".") for number in numbers.values()) == 2
    assert [goal.status for goal in plan.goals.values()].count("abandoned") == 2
    assert len(plan.replaced) == 2
    current = plan.goals[plan.current_id or ""]
    assert (numbers[current.id], current.status) == ("4", "in_progress")


async def test_benchmark_result_belongs_to_the_goal_of_its_call(short: Script) -> None:
    player = Player(short, full_plan=False)
    async for _ in player.play():
        pass
    messages = player.state.messages
    mixed = 0
    for message in messages:
        ids = {call.id for call in message.tool_calls()}
        goals = {m.goal_id for m in messages if m.tool_call_id in ids}
        mixed += len(goals) > 1
    assert mixed == 1


async def test_every_planted_fact_appears_in_the_session(short: Script) -> None:
    player = Player(short, full_plan=False)
    async for _ in player.play():
        pass
    said = [
        part.content if isinstance(part, ToolResultPart) else part.text
        for message in player.state.messages
        for part in message.content
        if isinstance(part, TextPart | ToolResultPart)
    ]
    text = "\n".join(said)
    assert [fact.text for fact in planted() if fact.text not in text] == []


# -- the runs --


def test_all_variants_answer_the_same_and_pay_for_all_they_send(runs: dict[str, Run]) -> None:
    linear = runs[LINEAR]
    for one in runs.values():
        usage = one.meter.usage
        assert one.input_tokens == usage.input + usage.cache_read + usage.cache_write
        if one.meter.compactions == 0:
            assert usage.output == linear.meter.usage.output
            assert one.meter.calls == linear.meter.calls


async def test_the_sum_of_the_meter_is_that_of_its_requests(short: Script) -> None:
    total = 0
    variant = Linear("a", frame())
    player = Player(short, full_plan=True)
    async for _ in player.play():
        total += request_tokens(wire(variant.request(player)))
    assert (await run(variant, short)).input_tokens == total


def test_linear_history_has_every_fact_in_the_end(runs: dict[str, Run]) -> None:
    assert runs[LINEAR].missing == ()
    assert runs[LINEAR].recalled == dict.fromkeys(KINDS, (10, 10))


def test_goal_compaction_keeps_rules_and_the_live_goal(runs: dict[str, Run]) -> None:
    found = runs[DEFAULT]
    assert found.recalled["rule"] == (10, 10)
    assert found.live == (3, 3)
    assert found.money < runs[LINEAR].money


async def test_rules_and_the_live_goal_outlive_full_compactions(short: Script) -> None:
    found = await run(GoalTree("d", frame(), "last_message", compact_at=8_000), short)
    assert found.meter.compactions > 0
    assert found.recalled["rule"] == (10, 10)


async def test_opencode_compacts_above_its_limit_and_continues(
    short: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencode, "USABLE", 30_000)
    found = await run(OpenCode("b", frame()), short)
    assert found.meter.compactions > 1
    kinder = await run(OpenCode("b", frame(), shares_prefix=True), short)
    assert kinder.meter.compactions == found.meter.compactions
    assert kinder.meter.usage.cache_read > found.meter.usage.cache_read


def test_opencode_prunes_only_old_and_large_results() -> None:
    def session(results: int) -> list[Message]:
        player = Player(Script((), ()), full_plan=False)
        player.add("user", (TextPart(text="first"),), None)
        for number in range(results):
            call = ToolCallPart(id=f"c{number}", name="read", input="{}")
            player.add("assistant", (call,), None)
            content = ToolResultPart(tool_call_id=call.id, name="read", content=long("x", 10_000))
            player.add("tool", (content,), None)
        player.add("user", (TextPart(text="second"),), None)
        player.add("user", (TextPart(text="third"),), None)
        return player.state.messages

    assert prunable(session(6), set()) == set()
    many = session(8)
    found = prunable(many, set())
    assert found == {message.sequence for message in many if message.role == "tool" and message.sequence <= 9}
    assert prunable(many, found) == set()


def test_blocks_come_in_the_order_of_prefixes() -> None:
    body: dict[str, Any] = {
        "system": [{"type": "text", "text": "system"}],
        "tools": [{"name": "read", "description": "reads", "input_schema": {}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }
    blocks = request_blocks(body)
    changed = request_blocks(body | {"system": [{"type": "text", "text": "other"}]})
    assert [one.prefix == other.prefix for one, other in zip(blocks, changed, strict=True)] == [
        True,
        False,
        False,
    ]


def test_the_table_has_a_line_for_each_variant(short: Script, runs: dict[str, Run]) -> None:
    lines = table(list(runs.values())).splitlines()
    assert len(lines) == 2 + len(runs)
    assert len({line.count("|") for line in lines}) == 1
    found = to_json(short, list(runs.values()))
    assert [one["name"] for one in found["variants"]][:2] == [LINEAR, OPENCODE]
    assert sum(map(len, RULES)) == found["variants"][0]["recalled"]["rule"][1]
