"""The window: what is left of the past by the history rule, full compaction and pruning, at which limit."""

from __future__ import annotations

import pytest

from daemon.context.profiles import PRUNE_MINIMUM, PRUNE_PROTECT, RESULT_KEPT, RESULT_LIMIT
from daemon.context.window import CLEARED, keep_from, prunable
from daemon.model.events import Marks
from daemon.model.messages import FilePart, ToolResultPart
from tests.support.scenarios.told_sessions import Told

CLEARED_TOKENS = 10


# -- history --


def test_past_turns_keep_user_message_and_last_answer() -> None:
    s = Told()
    s.user("first")
    s.step("1", text="I look")
    s.says("it is 42")
    s.user("second")
    for number in range(2, 6):
        s.step(str(number), text=f"step {number}")
    s.mark(history=True)
    s.user("third")
    s.step("9")
    assert s.lines() == [
        "u: first", "a: it is 42", "u: second",
        "a: step 3", "a: call 3", "t: 3=result", "a: step 4", "a: call 4", "t: 4=result",
        "a: step 5", "a: call 5", "t: 5=result", "u: third", "a: call 9", "t: 9=result",
    ]  # fmt: skip
    assert s.window().entries[1].kind == "history"


def test_history_rule_keeps_live_goals_and_summaries() -> None:
    s = Told()
    s.user("first")
    s.says("a plan")
    s.goal("live")
    s.step("1", text="for it")
    s.goal("ended")
    s.step("2")
    s.abandon("no")
    s.says("that failed")
    for number in range(3, 7):
        s.step(str(number))
    s.mark(history=True)
    s.user("second")
    shown = s.lines()
    assert shown[:4] == ["u: first", "a: for it", "a: call 1", "t: 1=result"]
    assert "a: a plan" not in shown
    assert "a: that failed" in shown
    assert sum("goal_summary" in line for line in shown) == 1


def test_turn_running_at_the_history_mark_stays_whole() -> None:
    s = Told()
    s.user("first")
    for number in range(1, 6):
        s.step(str(number), text=f"step {number}")
    s.mark(history=True)
    for number in range(6, 12):
        s.step(str(number), text=f"step {number}")
    assert [line for line in s.lines() if "step" in line] == [f"a: step {number}" for number in range(3, 12)]


# -- full compaction --


def test_compaction_leaves_three_messages_and_the_kept_steps() -> None:
    s = Told()
    s.user("first")
    s.step("1")
    s.step("2")
    s.compacted(4)
    s.step("3")
    assert s.lines() == [
        "u: <request>", "a: <summary>", "u: <carried>", "a: call 2", "t: 2=result", "a: call 3", "t: 3=result",
    ]  # fmt: skip
    assert [entry.kind for entry in s.window().entries] == ["compaction"] * 3 + ["message"] * 4
    s.compacted(9)
    assert s.lines()[3:] == ["a: call 3", "t: 3=result"]


@pytest.mark.parametrize(
    "kinds", [("request",), ("request", "summary"), ("request", "carried"), ("carried",)]
)
def test_incomplete_compaction_is_ignored(kinds: tuple[str, ...]) -> None:
    s = Told()
    s.user("first")
    s.step("1")
    s.compacted(4, kinds=kinds)
    assert s.lines() == ["u: first", "a: call 1", "t: 1=result"]
    s.compacted(2)
    assert s.lines() == ["u: <request>", "a: <summary>", "u: <carried>", "a: call 1", "t: 1=result"]
    s.compacted(4, kinds=kinds)
    assert s.lines() == ["u: <request>", "a: <summary>", "u: <carried>", "a: call 1", "t: 1=result"]


def test_compaction_between_call_and_result_drops_both() -> None:
    s = Told()
    s.user("first")
    s.asks("1", "2")
    s.answer("1")
    s.answer("2")
    s.compacted(4)
    assert s.lines() == ["u: <request>", "a: <summary>", "u: <carried>"]


def test_messages_after_a_compaction_are_always_shown() -> None:
    s = Told()
    s.user("first")
    s.compacted(1_000)
    s.user("second")
    assert s.lines()[3:] == ["u: second"]


def test_long_results_are_truncated_by_a_cutting_compaction() -> None:
    s = Told()
    s.user("first")
    text = "a" * RESULT_LIMIT + "b"
    s.step("1", text)
    s.step("2", "c" * RESULT_LIMIT)
    s.compacted(2, cut=True)
    s.step("3", text)
    kept = RESULT_KEPT
    cut = f"{'a' * kept}\n\n[... {len(text) - 2 * kept} chars omitted ...]\n\n{'a' * (kept - 1)}b"
    assert [line for line in s.lines() if line.startswith("t:")] == [
        f"t: 1={cut}", f"t: 2={'c' * RESULT_LIMIT}", f"t: 3={text}",
    ]  # fmt: skip


def keep(s: Told) -> int:
    return keep_from(s.messages, s.plan, s.marks, s.profile)


def test_last_steps_are_kept_with_the_preceding_user_messages() -> None:
    s = Told()
    s.user("first")
    for number in range(5):
        s.step(str(number))
    assert keep(s) == 6  # steps 2, 3 and 4
    s.user("second")
    s.user("third")
    for number in range(5, 8):
        s.step(str(number))
    assert keep(s) == 12


def test_a_compaction_of_the_first_message_keeps_it() -> None:
    # Seed 001, "情况1": nothing was done yet.
    s = Told()
    assert keep(s) == 1
    s.user("a very long first message")
    assert keep(s) == 1


def test_answered_first_message_is_not_kept() -> None:
    s = Told()
    s.user("a very long first message")
    s.step("1")
    assert keep(s) == 2
    s.user("and this")
    assert keep(s) == 2


def test_compactions_one_after_the_other_keep_the_same_steps() -> None:
    # Seed 001, "情况2".
    s = Told()
    s.user("first")
    for number in range(5):
        s.step(str(number))
    first = keep(s)
    s.compacted(first)
    assert keep(s) == first
    s.compacted(first)
    s.step("9")
    assert keep(s) == first + 2


def test_steps_of_ended_goals_are_not_counted() -> None:
    s = Told()
    s.user("first")
    s.step("1")
    s.goal("A")
    for number in range(2, 9):
        s.step(str(number))
    s.done("done")
    s.step("9")
    s.user("second")
    assert keep(s) == 2
    s.compacted(18)
    assert keep(s) == 18


def test_with_no_step_left_only_unanswered_messages_are_kept() -> None:
    s = Told()
    s.user("first")
    s.goal("A")
    s.step("1")
    s.done("done")
    assert keep(s) == 4
    s.user("second")
    s.user("third")
    assert keep(s) == 4


# -- pruning --


def big(tokens: int) -> str:
    return "x" * (tokens * 340 // 100)  # as estimated


def turns(*sizes: int) -> Told:
    """One turn for each size, each with one tool result of so many tokens; then two turns without tools."""
    s = Told()
    for number, tokens in enumerate(sizes):
        s.user()
        s.step(str(number), big(tokens + CLEARED_TOKENS))
        s.says("ok")
    for _ in range(2):
        s.user()
        s.says("ok")
    return s


def to_prune(s: Told) -> tuple[tuple[int, ...], int]:
    return prunable(s.messages, s.plan, s.marks, s.profile)


def test_old_results_beyond_the_protected_tokens_are_pruned() -> None:
    s = turns(25_000, PRUNE_PROTECT)
    assert to_prune(s) == ((3,), 25_000)
    s.mark(pruned=(3,))
    assert [line for line in s.lines() if line.startswith("t: 0")] == [f"t: 0={CLEARED}"]
    assert to_prune(s) == ((), 0)


def test_pruning_below_the_minimum_does_nothing() -> None:
    assert to_prune(turns(PRUNE_MINIMUM - 1, PRUNE_PROTECT)) == ((), 0)
    assert to_prune(turns(PRUNE_MINIMUM, PRUNE_PROTECT)) == ((3,), PRUNE_MINIMUM)


def test_the_result_that_crosses_the_protected_amount_is_pruned() -> None:
    assert to_prune(turns(PRUNE_PROTECT + 1)) == ((3,), PRUNE_PROTECT + 1)
    assert to_prune(turns(PRUNE_PROTECT)) == ((), 0)


def test_results_of_the_last_two_turns_are_never_pruned() -> None:
    s = Told()
    s.user()
    s.step("0", big(200_000))
    s.user()
    s.step("1", big(200_000))
    assert to_prune(s) == ((), 0)
    s.user()
    assert to_prune(s)[0] == (3,)


def test_pruning_skips_protected_tools_and_hidden_results() -> None:
    s = Told()
    s.user()
    s.goal("A")
    s.step("0", big(100_000))
    s.done("done")
    s.asks("1", name="goal")
    s.answer("1", big(100_000))
    s.step("2", big(100_000))
    for _ in range(2):
        s.user()
    assert to_prune(s)[0] == (7,)


def test_a_cleared_result_loses_its_images_and_keeps_its_error() -> None:
    s = Told()
    s.user()
    s.asks("1")
    s.answer("1", "no", images=(FilePart(name="a", media_type="image/png", data="AAAA"),), is_error=True)
    s.marks = Marks(frozenset([3]))
    result = s.window().messages[-1].content[0]
    assert isinstance(result, ToolResultPart)
    assert (result.content, result.images, result.is_error) == (CLEARED, (), True)
    assert s.messages[2].tool_result() != result
