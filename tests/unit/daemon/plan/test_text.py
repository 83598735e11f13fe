"""The plan as the model reads it, against the example of seed 000 ("Plan 注入")."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.model.goals import Goal, GoalStats, GoalStatus, GoalTree
from daemon.plan.text import MAX_PLAN, MAX_PROGRESS, plan_to_prompt, progress_text, todo_text
from daemon.plan.tree import MAX_DEPTH, MAX_DESCRIPTION, MAX_SUMMARY, PlanTree
from tests.support.examples import examples

SEED = """\
## Current Plan

**Mission**: 实现用户认证功能
**Current**: 2.2 实现登录接口

**Progress**:
[✓] 1. 分析代码
    → 用户模型在 models/user.py,使用 bcrypt 加密
[→] 2. 实现功能
    [✓] 2.1 设计接口
    [→] 2.2 实现登录接口  ← current
    [ ] 2.3 实现注册接口
[ ] 3. 测试"""


def seed_tree() -> GoalTree:
    return GoalTree(
        mission="实现用户认证功能",
        current_id="6",
        goals=[
            Goal(
                id="1",
                description="分析代码",
                status="completed",
                summary="用户模型在 models/user.py,使用 bcrypt 加密",
            ),
            Goal(id="2", description="实现功能", status="in_progress"),
            Goal(id="3", description="测试"),
            Goal(id="4", parent_id="2", description="设计接口", status="completed"),
            Goal(id="5", parent_id="2", description="接口草稿", status="abandoned", summary="不行"),
            Goal(id="6", parent_id="2", description="实现登录接口", status="in_progress"),
            Goal(id="7", parent_id="2", description="实现注册接口"),
            Goal(id="8", parent_id="5", description="草稿的一部分", status="completed", summary="x"),
        ],
    )


def test_the_text_is_that_of_the_seed_byte_by_byte() -> None:
    assert plan_to_prompt(PlanTree(seed_tree())).encode() == SEED.encode()


def test_plan_without_goals_shows_the_mission_only() -> None:
    assert plan_to_prompt(PlanTree(GoalTree(mission="do it"))) == "## Current Plan\n\n**Mission**: do it"


def test_plan_without_a_focus_has_no_current_line() -> None:
    tree = PlanTree(GoalTree(mission="do it", goals=[Goal(id="1", description="a")]))
    assert plan_to_prompt(tree) == ("## Current Plan\n\n**Mission**: do it\n\n**Progress**:\n[ ] 1. a")


def test_a_summary_of_several_lines_stays_on_one() -> None:
    goal = Goal(id="1", description="a", status="completed", summary="first\n\n  second")
    assert plan_to_prompt(PlanTree(GoalTree(goals=[goal]))).endswith("[✓] 1. a\n    → first second")


def test_goal_below_an_abandoned_one_is_never_current() -> None:
    tree = seed_tree().model_copy(update={"current_id": "8"})
    text = plan_to_prompt(PlanTree(tree))
    assert "**Current**" not in text
    assert "← current" not in text


def test_the_progress_lists_all_goals_without_their_summaries() -> None:
    assert progress_text(PlanTree(seed_tree())) == (
        "[✓] 1. 分析代码\n"
        "[→] 2. 实现功能\n"
        "    [✓] 2.1 设计接口\n"
        "    [-] 接口草稿\n"
        "        [✓] 草稿的一部分\n"
        "    [→] 2.2 实现登录接口  ← current\n"
        "    [ ] 2.3 实现注册接口\n"
        "[ ] 3. 测试"
    )
    assert progress_text(PlanTree()) == "The plan is empty."


def test_progress_lists_abandoned_goals_without_numbers() -> None:
    tried = GoalStats(message_count=2)
    goals = [
        Goal(id="1", description="a", status="abandoned", summary="no", cumulative_stats=tried),
        Goal(id="2", description="below", parent_id="1", status="completed", summary="s"),
        Goal(id="3", description="b"),
        Goal(id="4", description="never begun", parent_id="3", status="abandoned", summary="no"),
        Goal(id="5", description="c", parent_id="3"),
    ]
    tree = PlanTree(GoalTree(goals=goals))
    assert progress_text(tree) == "[✗] a\n    [✓] below\n[ ] 1. b\n    [-] never begun\n    [ ] 1.1 c"
    assert todo_text(tree) == "[✗] a\n    [✓] below\n[ ] b\n    [-] never begun\n    [ ] c"
    assert "never begun" not in plan_to_prompt(tree)
    assert progress_text(PlanTree(GoalTree(goals=goals[:1]))) == "[✗] a"


def test_abandoned_goals_are_dropped_first_from_a_long_plan() -> None:
    goals = [Goal(id=str(n), description="x" * 200, status="abandoned", summary="s") for n in range(200)]
    assert progress_text(PlanTree(GoalTree(goals=[*goals, Goal(id="a", description="b")]))) == "[ ] 1. b"


def test_long_summary_is_truncated_to_one_line() -> None:
    goal = Goal(id="1", description="a", status="completed", summary="word \n" * 1000)
    (line,) = [line for line in plan_to_prompt(PlanTree(GoalTree(goals=[goal]))).splitlines() if "→" in line]
    assert line.startswith("    → word word")
    assert line.endswith("…")
    assert len(line) <= 250


def test_summary_length_shrinks_with_the_size_of_the_plan() -> None:
    def plan(count: int) -> str:
        goals = [
            Goal(id=str(n), description=f"goal {n}", status="completed", summary=f"{n} " + "word " * 200)
            for n in range(count)
        ]
        return plan_to_prompt(PlanTree(GoalTree(goals=goals)))

    lengths = {
        count: {len(line.strip()) - 2 for line in plan(count).splitlines() if "→" in line}
        for count in (5, 40, 55)
    }
    assert max(lengths[5]) in range(230, 241)
    assert max(lengths[40]) in range(110, 121)
    assert max(lengths[55]) in range(70, 81)
    assert all(len(plan(count)) <= MAX_PLAN for count in (5, 40, 55, 400))


class Watched(PlanTree):
    """Counts the goals that are looked at."""

    looked = 0

    def live_children(self, goal_id: str | None) -> list[Goal]:
        found = super().live_children(goal_id)
        self.looked += len(found)
        return found


def grown(fans: tuple[int, ...], *, done: float, words: int = 3, tree: type[PlanTree] = PlanTree) -> PlanTree:
    """A tree with so many goals below each, of whose leaves a share is done; the next one has the focus."""
    goals: list[Goal] = []

    def grow(parent: str | None, fans: tuple[int, ...]) -> None:
        for _ in range(fans[0]):
            goal_id = str(len(goals) + 1)
            goals.append(
                Goal(
                    id=goal_id,
                    parent_id=parent,
                    description=f"goal-{goal_id} {'word ' * words}"[:500].strip(),
                )
            )
            if fans[1:]:
                grow(goal_id, fans[1:])

    grow(None, fans)
    plan = tree(GoalTree(mission="a large work", goals=goals))
    parents = {goal.parent_id for goal in goals}
    leaves = [goal.id for goal in goals if goal.id not in parents]
    count = int(len(leaves) * done)
    for leaf in leaves[:count]:
        for change in plan.plan_done(f"summary-{leaf} {'word ' * 60}", plan.goals[leaf]):
            plan.apply(change)
    for change in plan.plan_focus(plan.goals[leaves[count]]):
        plan.apply(change)
    return plan


SHAPES = [
    pytest.param((10, 8, 8, 7), id="4 levels"),
    pytest.param((3000,), id="flat"),
    pytest.param((1, 1, 2000), id="many at the bottom"),
    pytest.param((1,) * MAX_DEPTH, id="deep"),
    pytest.param((2,) * 10, id="halves"),
    pytest.param((70, 70), id="wide"),
]


@pytest.mark.parametrize("done", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("words", [3, 100])
@pytest.mark.parametrize("fans", SHAPES)
def test_large_plan_stays_in_bounds_and_shows_the_current_goal(
    fans: tuple[int, ...], words: int, done: float
) -> None:
    tree = grown(fans, done=done, words=words)
    current = tree.goals[tree.current_id or ""]
    text = plan_to_prompt(tree)
    assert len(text) <= MAX_PLAN
    lines = text.splitlines()
    assert f"**Current**: {tree.number_of(current.id)} {current.description}" in lines
    (here,) = [line for line in lines if line.endswith("← current")]
    assert f"goal-{current.id} " in here
    way = [current, *tree.ancestors(current.id)][:4]
    siblings = [goal.id for goal in tree.children(current.parent_id)]
    place = siblings.index(current.id)
    near = siblings[max(0, place - 1) : place + 2] if words == 3 else []
    for goal_id in [*(goal.id for goal in way), *near]:
        assert re.search(rf"] [0-9.]+ goal-{goal_id} ", text), goal_id
    assert len(progress_text(tree)) <= MAX_PROGRESS


@pytest.mark.parametrize("fans", SHAPES)
def test_omitted_goals_are_counted(fans: tuple[int, ...]) -> None:
    tree = grown(fans, done=0.5)
    for text in (plan_to_prompt(tree), progress_text(tree)):
        top = [line for line in text.splitlines() if line.startswith("[")]
        told = sum(1 for line in top if not line.startswith("[…]"))
        folded = sum(int(match[1]) for line in top if (match := re.search(r"] [0-9–]+: (\d+) ", line)))
        assert told + folded == fans[0]
        spans = [match for line in top if (match := re.match(r"\[…] (\d+)–(\d+): (\d+) ", line))]
        assert all(int(m[2]) - int(m[1]) + 1 == int(m[3]) for m in spans)


def test_goals_far_away_are_folded_with_their_numbers() -> None:
    tree = grown((60,), done=0.5, words=20)
    lines = plan_to_prompt(tree).splitlines()
    assert any(re.fullmatch(r"\[…] 1–\d+: \d+ more goals done", line) for line in lines)
    assert any(re.fullmatch(r"\[…] \d+–60: \d+ more goals to do", line) for line in lines)


def test_the_children_of_the_current_goal_are_shown() -> None:
    tree = grown((60, 3), done=0.5, words=20)
    above = next(tree.ancestors(tree.current_id or ""))
    for change in tree.plan_focus(above):
        tree.apply(change)
    text = plan_to_prompt(tree)
    for child in tree.children(above.id):
        assert f"goal-{child.id} " in text


@pytest.mark.parametrize("fans", [(10, 8, 8, 7), (20, 16, 16)])
def test_rendering_a_large_plan_visits_few_goals(fans: tuple[int, ...]) -> None:
    tree = grown(fans, done=0.5, tree=Watched)
    assert isinstance(tree, Watched)
    tree.looked = 0
    plan_to_prompt(tree)
    assert len(tree.goals) > 5_000
    assert tree.looked < 500


@st.composite
def plans(draw: st.DrawFn) -> PlanTree:
    """Any tree, with texts of any length, and the focus anywhere."""
    statuses: list[GoalStatus] = ["pending", "in_progress", "completed", "abandoned"]
    goals: list[Goal] = []
    for number in range(1, draw(st.integers(1, 120)) + 1):
        parent = draw(st.integers(max(0, number - draw(st.sampled_from([1, 3, 40]))), number - 1))
        goals.append(
            Goal(
                id=str(number),
                parent_id=str(parent) if parent else None,
                description="d" * draw(st.sampled_from([1, 40, MAX_DESCRIPTION])),
                status=draw(st.sampled_from(statuses)),
                summary=draw(st.sampled_from([None, "short", "s" * MAX_SUMMARY])),
            )
        )
    mission = "m" * draw(st.sampled_from([0, 10, 100_000]))
    return PlanTree(GoalTree(mission=mission, current_id=draw(st.sampled_from(goals)).id, goals=goals))


@given(plans())
@settings(deadline=None, max_examples=examples(60))
def test_no_plan_is_longer_than_its_bounds(tree: PlanTree) -> None:
    text = plan_to_prompt(tree)
    assert len(text) <= MAX_PLAN
    assert len(progress_text(tree)) <= MAX_PROGRESS
    assert len([line for line in text.splitlines() if line.endswith("← current")]) <= 1
    assert "[✗]" not in text
