from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from daemon.model.messages import Message, TextPart, Usage
from daemon.model.traces import Budget
from daemon.plan.tree import PlanTree
from daemon.state.children import Children
from daemon.state.spending import ExceededLimit, Spending, exceeded_limit
from tests.support.drivers.core import daemon
from tests.support.fakes.models import Call, End

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def planned() -> PlanTree:
    plan = PlanTree()
    for change in plan.plan_add(["outer", "other"], ""):
        plan.apply(change)
    for change in plan.plan_focus(plan.find("1")):
        plan.apply(change)
    for change in plan.plan_add(["inner"], ""):
        plan.apply(change)
    for change in plan.plan_focus(plan.find("1.1")):
        plan.apply(change)
    return plan


def answer(goal_id: str | None, usage: Usage | None, sequence: int = 1) -> Message:
    return Message(
        message_id=f"m{sequence}",
        trace_id="t",
        role="assistant",
        sequence=sequence,
        goal_id=goal_id,
        content=(TextPart(text="x"),),
        created_at=NOW,
        usage=usage,
        cost=0.0,
    )


def reached(budget: Budget, plan: PlanTree, spending: Spending, **raised: float) -> ExceededLimit | None:
    usage = Usage(input=900, output=100)
    return exceeded_limit(
        budget,
        usage=usage,
        cost=2.5,
        plan=plan,
        spending=spending,
        raised={key.replace("_", " "): value for key, value in raised.items()},
    )


def test_usage_counts_for_a_goal_and_its_ancestors() -> None:
    plan, spending = planned(), Spending()
    inner, outer, other = plan.find("1.1").id, plan.find("1").id, plan.find("2").id
    spending.add(answer(inner, Usage(input=10, output=1, cache_read=5)), plan)
    spending.add(answer(outer, Usage(input=1)), plan)
    spending.add(answer(None, Usage(input=99)), plan)
    spending.add(answer("gone", Usage(input=99)), plan)
    spending.add(answer(inner, None), plan)
    assert spending.usage(inner) == Usage(input=10, output=1, cache_read=5)
    assert spending.usage(outer) == Usage(input=11, output=1, cache_read=5)
    assert spending.usage(other) == Usage()


def test_counting_again_gives_the_same() -> None:
    plan, spending = planned(), Spending()
    messages = [answer(plan.find("1.1").id, Usage(input=n), n) for n in range(1, 5)]
    for message in messages:
        spending.add(message, plan)
    before = spending.usage(plan.find("1").id)
    spending.recount(messages, plan, Children())
    assert spending.usage(plan.find("1").id) == before == Usage(input=10)


def test_unset_limit_is_never_reached() -> None:
    assert reached(Budget(), planned(), Spending()) is None


def test_the_sessions_limits() -> None:
    plan, spending = planned(), Spending()
    money = reached(Budget(session_usd=2.5), plan, spending)
    assert money is not None
    assert money.words == "$2.50 of $2.50"
    tokens = reached(Budget(session_tokens=999), plan, spending)
    assert tokens is not None
    assert tokens.words == "1,000 of 999 tokens"
    assert reached(Budget(session_usd=2.51, session_tokens=1_001), plan, spending) is None


def test_raised_limit_is_reached_again_at_its_new_value() -> None:
    plan, spending = planned(), Spending()
    assert reached(Budget(session_usd=1), plan, spending, session_usd=3) is None
    again = reached(Budget(session_usd=1), plan, spending, session_usd=2)
    assert again is not None
    assert again.limit == 2


def test_goal_limit_also_holds_for_ancestors_but_not_for_others() -> None:
    plan, spending = planned(), Spending()
    inner, outer = plan.find("1.1").id, plan.find("1").id
    spending.add(answer(outer, Usage(input=80)), plan)
    spending.add(answer(inner, Usage(input=30)), plan)
    found = reached(Budget(goal_tokens=100), plan, spending)
    assert found is not None
    assert found.goal_id == outer
    for change in plan.plan_focus(plan.find("2")):
        plan.apply(change)
    assert reached(Budget(goal_tokens=100), plan, spending) is None


async def test_goal_and_unassigned_spending_add_up_to_the_session(tmp_path: Path) -> None:
    def step(number: int, *parts: object) -> list[object]:
        stop = "tool_use" if any(isinstance(part, Call) for part in parts) else "end_turn"
        return [*parts, End(stop, usage=Usage(input=100 * number, output=number, cache_read=7))]

    read = Call("read", {"file_path": "a.txt"})
    steps = [
        step(1, Call("goal", {"add": "look, change", "focus": "1"}), read, read),
        step(2, Call("goal", {"done": "seen", "focus": "2", "add": "part"}), read),
        step(3, Call("goal", {"focus": "2.1"})),
        step(4, Call("ls", {})),
        step(5, Call("goal", {"done": "all of it"})),
        step(6, "Done."),
    ]
    async with daemon(tmp_path, *steps, command_line={"permission": {"*": "allow"}}) as bench:  # type: ignore[arg-type]
        (bench.workspace / "a.txt").write_text("text\n")
        session = bench.session()
        await session.prompt("go")
        plan, messages = session.state.plan, session.state.messages
        goals = [plan.goals[i].cumulative_stats for i in ("1", "2")]
        unfocused = sum(m.usage.total for m in messages if m.usage and m.goal_id is None)
        assert sum(stats.total_tokens for stats in goals) + unfocused == session.state.trace.usage.total
        assert session.request_builder.meter().without_goal.total == unfocused > 0
        for goal_id in plan.goals:
            assert (
                plan.goals[goal_id].cumulative_stats.total_tokens
                == session.state.spending.usage(goal_id).total
            )
        # The calls that ran for a goal, though the answer that made them came before it had the focus.
        assert plan.goals["1"].self_stats.preview == "read × 2"
        assert (plan.goals["2"].self_stats.preview or "").startswith("read")
