"""The window: pairing, goal compaction and what outlives it, step by step and word for word."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from daemon.context.window import CLEARED, INTERRUPTED, Window, WindowCache, build_window
from daemon.context.windowing.blocks import Block
from daemon.context.windowing.goals import GoalCompaction
from daemon.context.windowing.notes import BEGINS, GO_ON, IN_SUMMARY
from daemon.model.goals import Goal
from daemon.model.messages import (
    CompactionPart,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from daemon.plan.tree import Added, Moved
from tests.support.scenarios.sessions import FINISH
from tests.support.scenarios.told_sessions import Told, rules

# -- pairing --


def test_plain_history_is_sent_unchanged() -> None:
    s = Told()
    s.user()
    s.asks("1", "2", text="let me see")
    s.answer("1", "a")
    s.answer("2", "b")
    s.says("done")
    s.user("more")
    assert s.lines() == [
        "u: do it", "a: let me see", "a: call 1", "a: call 2", "t: 1=a", "t: 2=b", "a: done", "u: more",
    ]  # fmt: skip
    assert [entry.kind for entry in s.window().entries] == ["message"] * 5
    assert s.window().tokens == sum(entry.tokens for entry in s.window().entries) > 0


def test_results_are_in_the_order_of_their_calls() -> None:
    s = Told()
    s.user()
    s.asks("1", "2")
    s.answer("2", "b")
    s.answer("1", "a")
    assert s.lines()[-2:] == ["t: 1=a", "t: 2=b"]


def test_call_without_a_result_gets_an_interrupted_one() -> None:
    s = Told()
    s.user()
    s.asks("1", "2")
    s.answer("1")
    result = s.window().messages[-1].content[1]
    assert isinstance(result, ToolResultPart)
    assert (result.tool_call_id, result.content, result.is_error) == ("2", INTERRUPTED, True)


def test_orphan_and_duplicate_results_and_empty_text_are_dropped() -> None:
    s = Told()
    s.user()
    s.user(" ")
    s.answer("9")
    s.step("1", "first")
    s.answer("1", "second")
    s.add("assistant", TextPart(text=" \n"), FINISH)
    s.add("assistant", ReasoningPart(text="hm", signature="s"), FINISH)
    s.add("assistant", FINISH)
    assert s.lines() == ["u: do it", "a: call 1", "t: 1=first"]


def test_reasoning_is_sent_unchanged() -> None:
    s = Told()
    s.user()
    thought = ReasoningPart(text="hm", signature="sig")
    s.add("assistant", thought, TextPart(text="x"), FINISH)
    assert s.window().messages[1].content == (thought, TextPart(text="x"))


def test_repeated_call_ids_across_answers_are_kept_apart() -> None:
    s = Told()
    s.user()
    s.step("call_0", "first")
    s.step("call_0", "second")
    assert s.lines() == [
        "u: do it",
        "a: call call_0",
        "t: call_0=first",
        "a: call call_0",
        "t: call_0=second",
    ]


def test_duplicate_call_id_in_a_message_keeps_the_first() -> None:
    s = Told()
    s.user()
    s.asks("1", "1")
    s.answer("1", "a")
    s.answer("1", "b")
    assert s.lines() == ["u: do it", "a: call 1", "t: 1=a"]


def test_result_after_a_user_message_moves_to_its_call() -> None:
    # A damaged or foreign log; the session itself never writes one in this order.
    s = Told()
    s.user()
    s.asks("1")
    s.user("wait")
    s.answer("1", "late")
    assert s.lines() == ["u: do it", "a: call 1", "t: 1=late", "u: wait"]


def test_a_subtask_is_sent_as_text() -> None:
    s = Told()
    s.add("user", SubtaskPart(agent="explore", prompt="find it"))
    assert s.lines() == ["u: find it"]


def test_window_starts_with_user_and_never_ends_with_the_model() -> None:
    s = Told()
    assert s.lines() == []
    s.says("hello")
    assert s.lines() == [f"u: {BEGINS}", "a: hello", f"u: {GO_ON}"]
    blank = Told()
    blank.user(" ")
    assert blank.lines() == [f"u: {GO_ON}"]


# -- goal compaction --


def test_finished_goal_becomes_one_summary_at_its_first_message() -> None:
    s = Told()
    s.user()
    s.asks("g", text="a plan", name="goal")
    s.answer("g", "added")
    goal = s.goal("Find the cause")
    s.step("1", "much text", text="I look")
    s.user("hurry")
    s.step("2", "more text")
    s.done("It is in cart.py.")
    s.says("Found it.")
    s.user("good")
    summary = '<goal_summary status="completed" goal="Find the cause">\nIt is in cart.py.\n</goal_summary>'
    assert s.lines() == [
        "u: do it", "a: a plan", "a: call g", "t: g=added", f"u: {summary}", "u: hurry", "a: Found it.", "u: good",
    ]  # fmt: skip
    assert [(e.kind, e.goal_id) for e in s.window().entries][3] == ("goal_summary", goal)


def test_sub_goals_are_summarized_by_depth_in_the_parent_message() -> None:
    s = Told()
    s.user()
    s.goal("Build it")
    s.goal("Design")
    s.plan.apply(Added(Goal(id="9", parent_id="1", description="Write"), None))
    s.step("1")
    s.done("Two tables.\nOne index.")
    s.goal("Try a cache")
    s.plan.apply(Moved("9", "1", None))
    s.step("2")
    s.abandon("too slow")
    s.focus("9")
    s.goal("Parser")
    s.step("3")
    s.done("parser.py")
    (note,) = [line for line in s.lines() if "<goal_summary" in line]
    assert note == (
        'u: <goal_summary status="completed" goal="Build it">\n- Design: Two tables.\n  One index.\n- Try '
        "a cache: abandoned: too slow\n- Write\n  - Parser: parser.py\n</goal_summary>"
    )
    # The cascade joined what the children say; that is not said twice.
    assert s.plan.goals["1"].summary == "Two tables.\nOne index.; parser.py"


def test_own_summary_precedes_those_of_sub_goals() -> None:
    s = Told()
    s.user()
    parent = s.goal("Build it")
    s.goal("Design")
    s.step("1")
    s.done("Two tables.")
    s.plan.goals[parent] = s.plan.goals[parent].model_copy(
        update={"summary": "All built.", "status": "completed"}
    )
    assert "\nAll built.\n- Design: Two tables.\n" in s.lines()[-1]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("completed", "It was completed without a summary."),
        ("abandoned", "It was abandoned without a reason."),
    ],
)
def test_missing_goal_summary_gets_a_placeholder(status: str, words: str) -> None:
    s = Told()
    s.user()
    goal = s.goal("Build it")
    s.step("1")
    s.plan.goals[goal] = s.plan.goals[goal].model_copy(update={"status": status})
    assert s.lines()[-1] == f'u: <goal_summary status="{status}" goal="Build it">\n{words}\n</goal_summary>'


def test_no_description_or_summary_can_close_the_tag_early() -> None:
    s = Told()
    s.user()
    s.goal('Say "</goal_summary>" & more')
    s.step("1")
    s.done('if a < b: print("</goal_summary>")')
    (note,) = [line for line in s.lines() if "goal_summary" in line]
    assert note.count("</goal_summary>") == 1
    assert note.startswith(
        'u: <goal_summary status="completed" goal="Say \'‹/goal_summary>\' & more">\nif a < b: print('
    )


def test_summaries_below_are_cut_when_they_are_many_and_long() -> None:
    s = Told()
    s.user()
    top = s.goal("All")
    s.plan.apply(Added(Goal(id="99", parent_id=top, description="stays open"), None))
    for number in range(60):
        s.goal(f"part {number}")
        s.step(str(number))
        s.done(f"first words {number} " + "x" * 2_000)
    s.plan.goals[top] = s.plan.goals[top].model_copy(update={"summary": "the end", "status": "completed"})
    text = s.lines()[-1]
    assert len(text) < 26_000
    assert "\nthe end\n" in text
    assert all(f"first words {number} " in text for number in range(60))


def test_call_belongs_to_the_goal_it_ran_for_not_its_message() -> None:
    s = Told()
    s.user()
    s.goal("A")
    s.step("1")
    s.add(
        "assistant",
        ReasoningPart(text="thought", signature="s"),
        TextPart(text="A is done"),
        ToolCallPart(id="2", name="goal", input="{}"),
        ToolCallPart(id="3", name="read", input="{}"),
        FINISH,
        goal_id="1",
    )
    s.answer("2", "done")
    s.done("summary of A")
    s.goal("B")
    s.answer("3", "for B")
    assert s.lines()[1:] == [
        'u: <goal_summary status="completed" goal="A">\nsummary of A\n</goal_summary>', "a: call 3", "t: 3=for B",
    ]  # fmt: skip
    # And the other way round: B's call leaves, the rest of the message stays with its goal.
    t = Told()
    t.user()
    outer = t.goal("outer")
    t.asks("1", "2", text="both")
    t.answer("1", "own")
    t.goal("B")
    t.answer("2", "for B")
    t.done("summary of B")
    assert t.plan.goals[outer].status == "completed"
    t.plan.goals[outer] = t.plan.goals[outer].model_copy(update={"status": "in_progress"})
    assert t.lines()[1:] == [
        "a: both", "a: call 1", "t: 1=own",
        'u: <goal_summary status="completed" goal="B">\nsummary of B\n</goal_summary>',
    ]  # fmt: skip


def test_text_whose_calls_were_summarized_gets_a_note() -> None:
    s = Told()
    s.user()
    s.goal("A")
    s.step("1")
    s.add("assistant", TextPart(text="by the way"), ToolCallPart(id="2", name="read", input="{}"), FINISH)
    s.answer("2", "for A")
    s.done("summary of A")
    assert s.lines()[2:] == ["a: by the way", f"u: {IN_SUMMARY}"]


def test_messages_of_unknown_goals_are_nobodys() -> None:
    s = Told()
    s.user()
    s.asks("1", text="x", goal_id="77")
    s.answer("1", "y", goal_id="78")
    assert s.lines() == ["u: do it", "a: x", "a: call 1", "t: 1=y"]


def test_abandoned_goal_leaves_reason_and_successor_mentions_it() -> None:
    # Seed 000, "After 回溯": one message in the place of plan A's, and plan B begins with what failed.
    s = Told()
    s.user()
    s.goal("方案 A")
    s.step("1", "lots")
    s.abandon("依赖问题")
    s.goal("方案 B")
    s.step("2", "b")
    s.abandon("同样")
    s.goal("方案 C")
    assert s.lines()[1:] == [
        'u: <goal_summary status="abandoned" goal="方案 A">\n依赖问题\n</goal_summary>',
        'u: <goal_summary status="abandoned" goal="方案 B">\n同样\n</goal_summary>',
    ]
    s.step("3", "c")
    told = "Earlier attempts at this that were abandoned:\n- 方案 A: 依赖问题\n- 方案 B: 同样"
    told = f"u: <earlier_attempts>\n{told}\n</earlier_attempts>"
    assert s.lines()[3:] == [told, "a: call 3", "t: 3=c"]
    s.done("C works")
    assert s.lines()[3:] == ['u: <goal_summary status="completed" goal="方案 C">\nC works\n</goal_summary>']


# -- instructions --


def test_instructions_outlive_their_goal_once() -> None:
    s = Told()
    s.user()
    s.goal("A")
    for call_id, text in (("1", "old"), ("2", "tabs")):
        s.asks(call_id)
        s.answer(call_id, **rules(src=text, lib="x"))
    s.done("done")
    s.goal("B")
    s.asks("3")
    s.answer("3", **rules(src="tabs"))
    s.done("done too")
    first, second = [line for line in s.lines() if "goal_summary" in line]
    assert first.endswith(
        '</goal_summary>\n\n<instructions file="src/AGENTS.md">\ntabs\n</instructions>\n\n'
        '<instructions file="lib/AGENTS.md">\nx\n</instructions>'
    )
    assert "instructions" not in second


def test_instructions_outlive_pruning_history_and_compaction() -> None:
    def session() -> Told:
        s = Told()
        s.user()
        s.asks("1")
        s.answer("1", **rules(src="tabs"))
        for number in range(2, 6):
            s.step(str(number))
        s.says("done")
        return s

    block = '<instructions file="src/AGENTS.md">\ntabs\n</instructions>'
    pruned = session()
    pruned.mark(pruned=[3])
    assert pruned.lines()[2] == f"t: 1={CLEARED}\n\n{block}"
    past = session()
    past.mark(history=True)
    assert past.lines()[:2] == ["u: do it", f"u: {block}"]
    compacted = session()
    compacted.compact()
    assert compacted.lines()[3] == f"u: {block}"
    # Carried over already: not twice.
    twice = session()
    mark = CompactionPart(keep_from=8)
    for kind, text in (("request", "?"), ("summary", "{}"), ("carried", f"rules: {block}")):
        role = "assistant" if kind == "summary" else "user"
        twice.add(role, TextPart(text=text), mark.model_copy(update={"kind": kind}))
    assert sum("<instructions" in line for line in twice.lines()) == 1


def test_ended_goals_are_looked_for_only_in_new_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    s, cache = Told(), WindowCache()
    s.user()
    s.goal("one")
    s.step("1")
    s.done("It is done.")
    s.goal("two")
    s.step("2")

    def window() -> Window:
        return build_window(s.messages, s.plan, s.marks, s.profile, cache=cache)

    before, looked = window(), list[int]()
    pass_over = GoalCompaction._pass_over

    def counted(self: GoalCompaction, blocks: Sequence[Block]) -> None:
        looked.append(len(blocks))
        pass_over(self, blocks)

    monkeypatch.setattr(GoalCompaction, "_pass_over", counted)
    s.step("3")
    after = window()
    assert after == s.window()
    assert after.entries[: len(before.entries)] == before.entries
    assert looked[0] == 1
    s.done("This, too.")  # another plan: all of them
    assert window() == s.window()
    assert looked[2] == len(s.messages) - 3  # a block is a step with its result
