from __future__ import annotations

import pytest

from daemon.model.branches import BranchMeta, SubagentMeta
from daemon.model.events import (
    BranchMessageAdded,
    BranchStarted,
    Event,
    MessageAdded,
    ModelRetry,
    SessionCreated,
    SubagentCompleted,
    SubagentStarted,
    ToolStarted,
)
from daemon.model.messages import CompactionPart, FilePart, Message, TextPart, ToolResultPart, Usage
from daemon.model.traces import BranchTrace
from daemon.steps.fold import StepFold, StepUpdated
from tests.support.scenarios.step_events import BEGIN, Recorded, configuration_change
from tests.support.scenarios.step_sums import check_sums


def folded(events: list[Event], *, cut: int | None = None) -> StepFold:
    fold = StepFold(events[0].trace_id, cut=cut)
    for event in events:
        fold.apply(event)
    return fold


def drawn(fold: StepFold) -> list[str]:
    return [
        f"{'  ' * depth}{step.step_type} {step.status}: {step.description}"
        for depth, step in fold.tree.walk()
    ]


def test_example_log_folds_into_the_expected_step_tree() -> None:
    assert drawn(folded(configuration_change().events)) == [
        "goal completed: 探索代码库",
        "  thought completed: 需要先了解项目结构。",
        "  action completed: glob_files(**/*.py)",
        "    result completed: 找到 15 个文件",
        "  thought completed: 发现配置文件",
        "  action completed: read_file(config.yaml)",
        "    result completed: config.yaml",
        "  evaluation completed: 主配置在 /src/config.yaml,包含数据库连接配置",
        "goal in_progress: 修改配置",
        "  action completed: read_file(config.yaml)",
        "    result completed: config.yaml",
        "goal planned: 运行测试",
    ]


def test_ids_follow_from_goals_messages_and_calls() -> None:
    tree = folded(configuration_change().events).tree
    assert [step.step_id for step in tree.filter()] == [
        "goal_1", "msg_000004_0000abcd", "call_c1", "result_c1", "msg_000006_0000abcd", "call_c2", "result_c2",
        "goal_1_evaluation", "goal_2", "call_c3", "result_c3", "goal_3",
    ]  # fmt: skip


def test_call_belongs_to_the_goal_in_focus_when_it_runs() -> None:
    log = configuration_change()
    fold = StepFold(log.trace_id)
    parents = [
        change.updates["parent_id"]
        for event in log.events
        for change in fold.apply(event)
        if isinstance(change, StepUpdated) and change.step_id == "call_c3" and "parent_id" in change.updates
    ]
    assert parents == ["goal_2"]
    call = fold.tree.get("call_c3")
    assert call is not None
    assert call.parent_id == "goal_2"


def test_last_text_of_a_turn_is_the_response_others_are_thoughts() -> None:
    log = Recorded()
    log.begin()
    first = log.say("All is planned.")
    log.say("Now I look.", ("c1", "ls", "{}"))
    log.answer("c1", "ls", "a")
    last = log.say("Done. It works.")
    log.end()
    fold = folded(log.events)
    types = {step.step_id: step.step_type for step in fold.tree.filter()}
    assert types[first.message_id] == "thought"
    assert types[last.message_id] == "response"
    assert fold.tree.filter("response")[0].description == "Done."


def test_later_response_leaves_the_earlier_one_a_response() -> None:
    log = Recorded()
    for _ in range(2):
        log.begin()
        log.say("That is it.")
        log.end()
    assert len(folded(log.events).tree.filter("response")) == 2


@pytest.mark.parametrize("reason", ["canceled", "error"])
def test_a_text_that_was_broken_off_is_a_thought_that_failed(reason: str) -> None:
    log = Recorded()
    log.begin()
    log.say("I was about to", stop=reason)  # pyright: ignore[reportArgumentType]
    log.end()
    assert drawn(folded(log.events)) == ["thought failed: I was about to"]


def test_abandoned_goal_is_failed_if_worked_on_else_skipped() -> None:
    log = Recorded()
    log.begin()
    log.add("Worked on", "Never begun", "Dropped")
    log.add("Below", under="2")
    log.focus("1")
    log.say("Trying.", ("c1", "bash", '{"command": "false"}'))
    log.answer("c1", "bash", "no", is_error=True)
    log.abandon("It cannot work")
    log.focus("2")
    log.change(lambda plan: plan.plan_abandon("Not needed", plan.goal("2")))
    log.change(lambda plan: plan.plan_abandon("Nobody wants it", plan.goal("3")))
    tree = folded(log.events).tree
    assert {goal.step_id: goal.status for goal in tree.filter("goal")} == {
        "goal_1": "failed", "goal_2": "skipped", "goal_4": "skipped", "goal_3": "skipped",
    }  # fmt: skip
    assert [step.summary for step in tree.filter("evaluation")] == ["It cannot work", "Not needed"]
    assert [step.status for step in tree.filter("action")] == ["failed"]


def test_parent_completed_by_its_children_gets_an_evaluation() -> None:
    log = Recorded()
    log.begin()
    log.add("Parent")
    log.add("Child", under="1")
    log.focus("2")
    log.done("It is there")
    assert drawn(folded(log.events)) == [
        "goal completed: Parent",
        "  goal completed: Child",
        "    evaluation completed: It is there",
        "  evaluation completed: It is there",
    ]


def test_steps_follow_the_plan_order_after_replacement_and_move() -> None:
    log = Recorded()
    log.begin()
    log.add("Analyse", "Plan A", "Test")
    log.focus("2")
    log.say("Trying.", ("c1", "ls", "{}"))
    log.answer("c1", "ls", "a")
    log.abandon("A does not work")
    log.change(lambda plan: plan.plan_add(["Plan B"], ""))
    log.change(lambda plan: plan.plan_move(plan.goal("3"), None, "1"), by="person")
    fold = folded(log.events)
    assert [step.description for step in fold.tree.children(None)] == ["Test", "Analyse", "Plan A", "Plan B"]


def test_duration_of_a_goal_sums_its_messages_and_moves_with_it() -> None:
    log = Recorded()
    log.begin()
    log.add("One", "Two")
    log.add("Child", under="1")
    log.focus("3")
    log.say("Looking.", ("c1", "ls", "{}"), duration_ms=300)
    log.answer("c1", "ls", "a")
    tree = folded(log.events).tree
    assert {s.step_id: s.duration_ms for s in tree.filter("goal")} == {
        "goal_1": 350, "goal_3": 350, "goal_2": None,
    }  # fmt: skip
    log.change(lambda plan: plan.plan_move(plan.goal("3"), "2"), by="person")
    tree = folded(log.events).tree
    assert {s.step_id: s.duration_ms for s in tree.filter("goal")} == {
        "goal_1": 0, "goal_2": 350, "goal_3": 350,
    }  # fmt: skip
    child = tree.get("goal_3")
    assert child is not None
    assert (child.tokens, child.cost) == (110, 0.005)


def test_a_plan_call_that_failed_is_an_action_like_any_other() -> None:
    log = Recorded()
    log.begin()
    log.say("", ("g1", "goal", '{"focus": "7"}'))
    log.answer("g1", "goal", "There is no goal 7.", is_error=True)
    assert drawn(folded(log.events)) == [
        "action failed: goal(7)",
        "  result failed: There is no goal 7.",
    ]


def test_usage_of_a_message_is_on_its_first_step() -> None:
    log = Recorded()
    log.begin()
    log.say("", ("c1", "ls", "{}"), ("c2", "ls", "{}"), tokens=70)
    tree = folded(log.events).tree
    assert [step.tokens for step in tree.filter("action")] == [170, None]
    assert [step.cost for step in tree.filter("action")] == [0.005, None]


def test_inherited_messages_are_no_steps_of_a_branch() -> None:
    log = Recorded(f"{Recorded().trace_id}:A")
    trace = BranchTrace(
        trace_id=log.trace_id, workspace="/copy", created_at=BEGIN, updated_at=BEGIN,
        id="A", explore_start_id="1", inherited=2,
    )  # fmt: skip
    log.events[0] = SessionCreated(event_id=1, trace_id=log.trace_id, time=BEGIN, trace=trace)
    log.message("user", TextPart(text="main line"))
    log.say("main line")
    log.begin("Do it your way")
    log.say("My way.")
    fold = folded(log.events)
    assert drawn(fold) == ["response completed: My way."]
    assert fold.tree.filter()[0].trace_id == Recorded().trace_id


def test_compaction_summary_is_a_marked_thought() -> None:
    log = Recorded()
    log.begin()
    log.say("Looking.", ("c1", "ls", "{}"))
    log.answer("c1", "ls", "a")
    log.message("user", CompactionPart(kind="request"), TextPart(text="Sum up"))
    log.message("assistant", CompactionPart(kind="summary"), TextPart(text='{"goal": "…"}'))
    log.message("user", CompactionPart(kind="carried"), TextPart(text="carried"))
    step = folded(log.events).tree.filter("thought")[-1]
    assert step.data["compaction"] == "summary"
    assert not folded(log.events).tree.filter("response")


def test_sub_agents_are_named_by_the_call_that_started_them() -> None:
    log = Recorded()
    log.begin()
    log.say("", ("c1", "task", '{"description": "Look around"}'))
    for name in ("s1", "s2"):
        meta = SubagentMeta(id=name, agent="explore", prompt="look", tool_call_id="c1", started_at=BEGIN)
        log.emit(SubagentStarted(trace_id=log.trace_id, time=log.now(), subagent=meta))
    call = folded(log.events).tree.get("call_c1")
    assert call is not None
    assert call.data["subagent_ids"] == ["s1", "s2"]


def test_sub_agent_usage_counts_for_its_call_and_the_goals_above() -> None:
    log = Recorded()
    log.begin()
    log.add("One")
    log.add("Below", under="1")
    log.focus("2")
    log.say("", ("c1", "task", '{"prompt": "Look around"}'))
    meta = SubagentMeta(id="s1", agent="explore", prompt="look", tool_call_id="c1", started_at=BEGIN)
    log.emit(SubagentStarted(trace_id=log.trace_id, time=log.now(), subagent=meta))
    ended = meta.model_copy(update={"usage": Usage(input=1000, output=500), "cost": 0.02})
    log.emit(SubagentCompleted(trace_id=log.trace_id, time=log.now(), subagent=ended))
    log.answer("c1", "task", "found")
    fold = folded(log.events)
    took = {step.step_id: (step.tokens, step.cost) for step in fold.tree.filter()}
    assert took["call_c1"] == took["goal_2"] == took["goal_1"] == (1610, 0.025)
    assert took["result_c1"] == (None, None)
    assert (fold.head.trace.usage.total, fold.head.trace.total_cost) == (1610, 0.025)


def test_branch_usage_counts_for_the_goal_of_its_exploration() -> None:
    log = Recorded()
    log.begin()
    log.add("Compare")
    log.focus("1")
    branch = BranchMeta(id="A", explore_start_id="1", description="one way")
    log.emit(BranchStarted(trace_id=log.trace_id, time=log.now(), explore_start_id="1", branch=branch))
    message = Message(
        message_id="m", trace_id=log.trace_id, branch_id="A", role="assistant", sequence=1,
        content=(TextPart(text="tried"),), cost=0.01, usage=Usage(input=20, output=5), created_at=BEGIN,
    )  # fmt: skip
    log.emit(BranchMessageAdded(trace_id=log.trace_id, time=log.now(), branch_id="A", message=message))
    goal = folded(log.events).tree.get("goal_1")
    assert goal is not None
    assert (goal.tokens, goal.cost) == (25, 0.01)


def test_planning_call_without_a_focus_belongs_to_no_goal() -> None:
    log = Recorded()
    log.begin()
    log.say("", ("g1", "goal", '{"add": "One, Two"}'))
    log.add("One", "Two")
    log.answer("g1", "goal", "Added")
    fold = folded(log.events)
    assert [(goal.tokens, goal.cost) for goal in fold.tree.filter("goal")] == [(None, None)] * 2
    assert (fold.unshown.tokens, fold.head.trace.usage.total) == (110, 110)


def test_call_that_moves_the_focus_belongs_to_the_former_goal() -> None:
    log = Recorded()
    log.begin()
    log.add("One", "Two")
    log.focus("1")
    log.say("", ("g1", "goal", '{"done": "it is", "focus": 2}'))
    log.done("it is")
    log.focus("2")
    log.answer("g1", "goal", "Two has the focus")
    tree = folded(log.events).tree
    assert [goal.tokens for goal in tree.filter("goal")] == [110, None]


def test_concurrent_calls_count_once_for_the_goal_duration() -> None:
    log = Recorded()
    log.begin()
    log.add("One")
    log.focus("1")
    log.say("", ("c1", "task", "{}"), ("c2", "task", "{}"), ("c3", "ls", "{}"), duration_ms=0)
    for call, took, overlap in (("c1", 2000, None), ("c2", 2100, 2000)):
        part = ToolResultPart(tool_call_id=call, name="task", content="found")
        log.message("tool", part, call_id=call, duration_ms=took, overlap_ms=overlap)
    log.answer("c3", "ls", "a")
    tree = folded(log.events).tree
    assert [step.duration_ms for step in tree.filter("action")] == [2000, 2100, 50]
    assert [step.duration_ms for step in tree.filter("goal")] == [2150]
    assert log.plan.goals["1"].cumulative_stats.duration_ms == 2150


def test_parallel_goals_keep_own_time_and_parent_counts_it_once() -> None:
    log = Recorded()
    log.begin()
    log.add("All")
    log.add("Server", "Page", under="1")
    log.say("", ("c1", "task", "{}"), ("c2", "task", "{}"), duration_ms=0)
    for goal, call, took, overlap in (("3", "c1", 1000, None), ("2", "c2", 1400, 1000)):
        part = ToolResultPart(tool_call_id=call, name="task", content="found")
        log.message("tool", part, goal_id=goal, call_id=call, duration_ms=took, overlap_ms=overlap)
    log.say("Done.", duration_ms=7)
    fold = folded(log.events)
    goals = log.plan.goals
    assert [goals[one].cumulative_stats.duration_ms for one in "123"] == [1400, 1400, 1000]
    assert [goals[one].self_stats.duration_ms for one in "123"] == [0, 1400, 1000]
    assert [step.duration_ms for step in fold.tree.filter("goal")] == [1400, 1400, 1000]
    check_sums(fold)


def test_broken_off_call_is_failed_until_its_result_arrives() -> None:
    log = configuration_change()
    log.say("", ("c8", "bash", '{"command": "sleep 30"}'))
    log.emit(ToolStarted(trace_id=log.trace_id, time=log.now(), tool_call_id="c8", name="bash"))
    fold = folded(log.events)
    changes = fold.break_off()
    assert changes == [StepUpdated("call_c8", {"status": "failed"})]
    assert (fold.head.status, bool(fold.head.detail)) == ("failed", True)
    assert fold.break_off() == []
    known = len(log.events)
    log.answer("c8", "bash", "done")
    for event in log.events[known:]:
        fold.apply(event)
    call = fold.tree.get("call_c8")
    assert call is not None
    assert call.status == "completed"


def test_overlong_call_ids_are_shortened_to_unique_step_ids() -> None:
    log = Recorded()
    log.begin()
    for end in "xy":
        log.say("", ("c" * 5000 + end, "ls", "{}"))
        log.answer("c" * 5000 + end, "ls", "a")
    tree = folded(log.events).tree
    ids = [step.step_id for step in tree.filter()]
    assert len(set(ids)) == 4
    assert max(map(len, ids)) < 200
    assert [tree.get(step.parent_id or "") is not None for step in tree.filter("result")] == [True, True]


def test_events_that_were_applied_already_do_nothing() -> None:
    log = configuration_change()
    fold = folded(log.events)
    before = [step.stored() for step in fold.tree.filter()]
    assert [fold.apply(event) for event in log.events] == [[] for _ in log.events]
    assert [step.stored() for step in fold.tree.filter()] == before


def test_cutting_fold_keeps_no_long_texts_or_images() -> None:
    log = Recorded()
    log.begin()
    log.say("word " * 1000, ("c1", "read", '{"path": "a.png"}'))
    image = FilePart(name="a.png", media_type="image/png", data="iVBORw0KGgo" + "A" * 100_000)
    log.answer("c1", "read", "x" * 5000, images=(image,))
    tree = folded(log.events, cut=50).tree
    result = tree.get("result_c1")
    assert result is not None
    assert result.data["output"] == "x" * 50 + "… (4950 more characters)"
    assert len(str(tree.filter("thought")[0].data)) < 300
    assert len(str(result.data)) < 500
    whole = folded(log.events).tree.get("result_c1")
    assert whole is not None
    assert whole.data["images"][0]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgoAAA")


def test_totals_and_state_of_the_head_are_those_of_the_events() -> None:
    log = configuration_change()
    fold = folded(log.events)
    head = fold.head
    assert (head.task, head.status, head.trace.message_count) == ("修改配置文件", "running", 10)
    assert (head.trace.usage.total, round(head.trace.total_cost, 4)) == (4 * 110, 0.02)
    log.end()
    assert folded(log.events).head.status == "completed"


@pytest.mark.parametrize(
    "arguments",
    ["{", "[1]", '{"a": NaN}', '{"a": ' + "[" * 400 + "]" * 400 + "}", '{"a": 1e999}'],
    ids=["torn", "a list", "NaN", "deep", "infinite"],
)
def test_invalid_json_arguments_are_kept_as_text(arguments: str) -> None:
    log = Recorded()
    log.begin()
    log.say("", ("c1", "ls", arguments))
    step = folded(log.events).tree.get("call_c1")
    assert step is not None
    assert step.data["arguments"] == arguments
    assert step.stored()["data"]["arguments"] == arguments


def test_duplicate_calls_and_messages_of_a_damaged_log_are_kept() -> None:
    log = Recorded()
    log.begin()
    for _ in range(2):
        log.say("", ("call_0", "ls", "{}"))
        log.answer("call_0", "ls", "a")
    log.answer("nobody", "ls", "b")
    doubled = [e for e in log.events if isinstance(e, MessageAdded) and e.message.role == "assistant"]
    log.say("Again.")
    log.emit(log.events[-1])
    tree = folded([*log.events, *(e.model_copy(update={"event_id": 99}) for e in doubled[:1])]).tree
    assert len(tree.filter("result")) == 3
    assert len({step.step_id for step in tree.filter()}) == tree.total_steps == 8
    results = [(tree.get(step.parent_id or ""), step) for step in tree.filter("result")]
    assert [parent and parent.step_type for parent, _ in results] == ["action", "action", None]


def test_released_copy_does_not_affect_the_original() -> None:
    fold = folded(configuration_change().events)
    whole = drawn(fold)
    copy = fold.copy()
    copy.tree.let_go()
    assert (copy.tree.total_steps, copy.tree.children(None)) == (0, [])
    assert drawn(fold) == whole


def test_model_retry_is_a_failed_action_of_the_current_goal() -> None:
    record = Recorded()
    record.add("Look")
    record.focus("1")
    record.emit(
        ModelRetry(trace_id=record.trace_id, time=record.now(), attempt=1, delay_s=2.0, reason="overloaded")
    )
    fold = folded(record.events)
    assert drawn(fold) == [
        "goal in_progress: Look",
        "  action failed: model request failed (overloaded), again after 2 s",
    ]
    (step,) = fold.tree.filter(step_type="action")
    assert step.data["arguments"] == {"attempt": 1, "delay_s": 2.0, "reason": "overloaded"}
