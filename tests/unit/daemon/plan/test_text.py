"""The plan as the model reads it, against the example of seed 000 ("Plan 注入")."""

from __future__ import annotations

from daemon.model.goals import Goal, GoalTree
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import PlanTree

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


def test_without_goals_only_the_mission_is_told() -> None:
    assert plan_to_prompt(PlanTree(GoalTree(mission="do it"))) == "## Current Plan\n\n**Mission**: do it"


def test_without_a_focus_there_is_no_current_line() -> None:
    tree = PlanTree(GoalTree(mission="do it", goals=[Goal(id="1", description="a")]))
    assert plan_to_prompt(tree) == ("## Current Plan\n\n**Mission**: do it\n\n**Progress**:\n[ ] 1. a")


def test_a_summary_of_several_lines_stays_on_one() -> None:
    goal = Goal(id="1", description="a", status="completed", summary="first\n\n  second")
    assert plan_to_prompt(PlanTree(GoalTree(goals=[goal]))).endswith("[✓] 1. a\n    → first second")


def test_a_goal_below_an_abandoned_one_is_never_current() -> None:
    tree = seed_tree().model_copy(update={"current_id": "8"})
    text = plan_to_prompt(PlanTree(tree))
    assert "**Current**" not in text
    assert "← current" not in text
