"""Sessions whose plan is kept by the ``step`` tool of seed 003: the real loop, a model that plays a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from daemon.agents.loader import BUILTIN, load_agent
from daemon.loop.session import Session
from daemon.model.events import Event, GoalUpdated, Notice
from daemon.model.messages import NotePart, ToolResultPart
from daemon.plan.text import todo_text
from daemon.provider.model_calls import ModelRequest
from daemon.steps.fold import StepFold
from daemon.steps.history import to_history_string as history_of_messages
from daemon.steps.texts import to_history_string, to_todo_string
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon
from tests.support.fakes.models import Call
from tests.support.scenarios.branches import explore, exploring, ran
from tests.support.scenarios.subagents import task, with_subagents

STEP = {"plan_front": "step", **ALLOW_ALL}


def step(**arguments: Any) -> Call:
    return Call("step", arguments)


def results(session: Session) -> list[ToolResultPart]:
    found = (message.tool_result() for message in session.state.messages)
    return [result for result in found if result is not None]


def offered(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def system(request: ModelRequest) -> str:
    return "\n".join(block.text for block in request.system)


def statuses(session: Session) -> dict[str, str]:
    return {goal.description: goal.status for goal in session.state.plan.goals.values()}


@pytest.mark.parametrize(("front", "other"), [("goal", "step"), ("step", "goal")])
@pytest.mark.parametrize("agent", BUILTIN)
async def test_model_sees_only_one_of_the_two_plan_tools(
    tmp_path: Path, agent: str, front: str, other: str
) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        await bench.session(agent=agent, settings=STEP | {"plan_front": front}).prompt("hello")
        (request,) = bench.models.requests
        assert offered(request)[:2] == [front, "read_progress"]
        assert other not in offered(request)
        assert f"`{front}`" in system(request)
        assert f"`{other}`" not in system(request)
        assert "[goal]" not in system(request)
        assert "[step]" not in system(request)


async def test_a_session_by_the_example_of_the_seed(tmp_path: Path) -> None:
    steps = [
        [step(plan=["探索代码库", "修改配置", "运行测试"])],
        [step(focus="探索代码库")],
        ["需要先了解项目结构", Call("read", {"file_path": "config.yaml"})],
        [step(complete=True, summary="主配置在 /src/config.yaml", focus="修改配置")],
        [step(plan=["备份配置"])],
        [Call("read_progress")],
        [step(complete=True, summary="改好了", focus="运行测试"), step(complete=True, summary="全绿")],
        "Done.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        (bench.workspace / "config.yaml").write_text("db_host: prod.db.com\n" * 40)
        session = bench.session(settings=STEP)
        await session.prompt("修改配置文件")
        assert [result.is_error for result in results(session)] == [False] * 8
        assert results(session)[5].content == ("[✓] 探索代码库\n[→] 修改配置\n    [ ] 备份配置\n[ ] 运行测试")
        assert statuses(session) == {
            "探索代码库": "completed",
            "修改配置": "completed",
            "备份配置": "pending",
            "运行测试": "completed",
        }
        ended = [
            (e.goal_id, e.updates["summary"]) for e in bench.events(GoalUpdated) if "summary" in e.updates
        ]
        assert ended == [("1", "主配置在 /src/config.yaml"), ("2", "改好了"), ("3", "全绿")]
        # 000: what belongs to a goal that is done gives way to its summary.
        last = str(bench.models.requests[-1].messages)
        assert "db_host" not in last
        assert "主配置在 /src/config.yaml" in last
        assert "[✓] 1. 探索代码库" in bench.models.requests[-1].tail
        session_id = session.session_id
    async with daemon(tmp_path, "Hello again.") as bench:
        again = await bench.opened(session_id)
        assert statuses(again)["备份配置"] == "pending"


async def test_plan_text_is_equal_in_tool_compaction_and_step_tree(
    tmp_path: Path,
) -> None:
    steps = [
        [step(plan=["探索代码库", "修改配置", "运行测试"], focus="探索代码库")],
        [Call("read", {"file_path": "config.yaml"}), Call("glob", {"pattern": "**/*.yaml"})],
        [Call("bash", {"command": "echo found", "description": "look"}), Call("read_progress")],
        [
            step(complete=True, summary="主配置在 config.yaml", focus="修改配置"),
            step(plan=["备份配置"], focus="备份配置"),
        ],
        [Call("read", {"file_path": "nothing.yaml"}), step(focus="nothing like it")],
        "Done.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        (bench.workspace / "config.yaml").write_text("db_host: prod.db.com\n")
        session = bench.session(settings=STEP)
        await session.prompt("修改配置文件")
        fold = StepFold(session.session_id)
        for event in bench.core.store.events(session.session_id):
            fold.apply(event)
        plan = session.state.plan
        assert todo_text(plan) == to_todo_string(fold.tree)
        compacted = history_of_messages(plan, session.state.messages, 100_000, workspace=str(bench.workspace))
        assert compacted == to_history_string(fold.tree)
        assert "→ bash(echo found): found" in compacted
        assert "→ glob: **/*.yaml (1 file)" in compacted
        assert "→ read(nothing.yaml): error: " in compacted


async def test_abandoned_goals_read_equal_in_tool_compaction_and_steps(
    tmp_path: Path,
) -> None:
    steps = [
        [Call("goal", {"add": ["a", "b"], "focus": "1"})],
        [Call("goal", {"add": ["below", "never begun"], "focus": "1.1"}), Call("ls", {"path": "."})],
        [Call("goal", {"focus": "1"}), Call("goal", {"abandon": "no way", "focus": "2"})],
        "Done.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("go")
        fold = StepFold(session.session_id)
        for event in bench.core.store.events(session.session_id):
            fold.apply(event)
        plan = session.state.plan
        assert todo_text(plan) == to_todo_string(fold.tree)
        assert todo_text(plan).startswith("[✗] a\n    [✗] below\n    [-] never begun\n[→] b")
        history = history_of_messages(plan, session.state.messages, 100_000)
        assert to_history_string(fold.tree) in history
        assert "[failed] a\n  Summary: no way\n" in history


async def test_the_work_belongs_to_the_goal_in_focus(tmp_path: Path) -> None:
    look = Call("ls", {"path": "."})
    steps = [
        [step(plan=["a", "b"], focus="a"), look],
        [step(complete=True, summary="s", focus="b"), look],
        "Done.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=STEP)
        await session.prompt("go")
        found = {
            result.tool_call_id: message.goal_id
            for message in session.state.messages
            if (result := message.tool_result()) is not None and result.name == "ls"
        }
        assert list(found.values()) == ["1", "2"]


async def test_missing_plan_tool_error_names_the_available_one(tmp_path: Path) -> None:
    async with daemon(tmp_path, [Call("goal", {"add": "a"})], [step(plan=["a"])], "Done.") as bench:
        session = bench.session(settings=STEP)
        await session.prompt("go")
        first, second = results(session)
        assert first.content == "There is no tool named 'goal' here: use step for the plan."
        assert not second.is_error
        session.policy.use(config=session.config.overlaid({"plan_front": "goal"}, "editor", "test"))
        assert statuses(session) == {"a": "pending"}


async def test_the_front_may_change_within_a_session(tmp_path: Path) -> None:
    steps = [
        [Call("goal", {"add": "a, b", "focus": "1"})],
        "One.",
        [step(complete=True, summary="s", focus="b")],
        "Two.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("go")
        session.policy.use(config=session.config.overlaid({"plan_front": "step"}, "editor", "test"))
        await session.prompt("go on")
        assert statuses(session) == {"a": "completed", "b": "in_progress"}
        assert offered(bench.models.requests[-1])[0] == "step"


@pytest.mark.parametrize("denied", ["goal", "step"])
async def test_plan_rules_hold_for_either_tool(tmp_path: Path, denied: str) -> None:
    async with daemon(tmp_path, [step(plan=["a"])], "Well.") as bench:
        session = bench.session(settings={"plan_front": "step", "permission": {"*": "allow", denied: "deny"}})
        await session.prompt("go")
        assert {"step", "goal", "read_progress"}.isdisjoint(offered(bench.models.requests[0]))
        assert results(session)[0].metadata["denied"] is True
        assert not session.state.plan.goals


@pytest.mark.parametrize(
    ("tools", "has"),
    [("read, goal", True), ("read, step", True), ("'*', '!step'", False), ("'*', '!goal'", False)],
)
@pytest.mark.parametrize("front", ["goal", "step"])
async def test_agent_with_the_plan_gets_the_configured_plan_tool(
    tmp_path: Path, tools: str, has: bool, front: str
) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        folder = bench.workspace / ".goalwright" / "agents"
        folder.mkdir(parents=True)
        (folder / "mine.md").write_text(
            f"---\ndescription: mine\ntools: [{tools}]\n---\nKeep to it: [step] `goal`.\n"
        )
        session = bench.session(agent="mine", settings=STEP | {"plan_front": front})
        await session.prompt("hello")
        names = offered(bench.models.requests[0])
        assert (front in names) is has
        assert {"goal", "step"} & set(names) == ({front} if has else set())
        # Its words are the person's own.
        assert "Keep to it: [step] `goal`." in system(bench.models.requests[0])


async def test_sub_agents_use_the_step_tool(tmp_path: Path) -> None:
    child = [[step(plan=["look"], focus="look")], [step(complete=True, summary="found")], "Found it."]
    async with with_subagents(tmp_path, [[task("look around")], "Done."], {"s1": child}) as (bench, models):
        session = bench.session(settings=STEP)
        await session.prompt("go")
        assert "Found it." in results(session)[0].content
        assert all("step" in offered(request) for request in models.branches["s1"].requests)
        assert all("goal" not in offered(request) for request in models.branches["s1"].requests)


async def test_branches_use_the_step_tool(tmp_path: Path) -> None:
    way = [step(plan=["try"], focus="try"), Call("write", {"file_path": "x.py", "content": "x = 1\n"})]
    branch = [*way, step(complete=True, summary="tried"), "It works."]
    main = [
        [step(plan=["find a way"], focus="find a way")],
        explore("use a list", "use a dict"),
        "I choose A.",
    ]
    async with exploring(
        tmp_path, main, {"A": branch, "B": branch}, command_line={"plan_front": "step", **ALLOW_ALL}
    ) as bench:
        session = await ran(bench)
        events: list[Event] = list(bench.core.store.events(f"{session.session_id}:A"))
        assert [
            e.updates.get("status") for e in events if isinstance(e, GoalUpdated) and "status" in e.updates
        ] == [
            "in_progress",
            "completed",
        ]


async def test_hand_over_without_goals_is_refused_naming_the_step_tool(tmp_path: Path) -> None:
    async with daemon(tmp_path, [Call("hand_over", {"report": "r"})], "I see.") as bench:
        session = bench.session(agent="plan", settings={"plan_front": "step"})
        await session.prompt("mend the cart")
        assert "Write the plan with the step tool first" in results(session)[0].content


# -- planned ahead --


def plan(*goals: str) -> str:
    return json.dumps({"steps": [{"goal": goal} for goal in goals]})


def planned(bench: Bench, mode: str = "layered") -> Session:
    return bench.session(settings=STEP | {"planner": mode})


def notes(session: Session) -> list[str]:
    texts = [p.text for m in session.state.messages for p in m.content if isinstance(p, NotePart)]
    return [text for text in texts if text.startswith("<planning>\n")]


async def test_step_completes_the_steps_of_the_planner(tmp_path: Path) -> None:
    steps = [
        plan("one", "two"),
        [step(complete=True, summary="one is done")],
        "Next.",
        [step(complete=True, summary="two is done")],
        "All done.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench)
        assert (await session.prompt("do it")).stop == "end_turn"
        assert statuses(session) == {"one": "completed", "two": "completed"}
        assert "call step(complete=true, summary=...)" in notes(session)[1]
        assert not any("goal(" in note for note in notes(session))


async def test_step_left_open_causes_a_replan(tmp_path: Path) -> None:
    steps = [
        plan("one"),
        "It cannot be reached: no network.",
        "It still cannot be reached.",
        plan("another way"),
        [step(complete=True, summary="that way")],
        "Done.",
    ]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench)
        assert (await session.prompt("do it")).stop == "end_turn"
        assert statuses(session) == {"one": "abandoned", "another way": "completed"}
        assert not any("goal(" in note for note in notes(session))
        assert not [notice for notice in bench.events(Notice) if notice.level == "error"]


async def test_plan_given_as_a_step_call_is_accepted(tmp_path: Path) -> None:
    steps = [[step(plan=["one", "two"])], "Working by it."]
    async with daemon(tmp_path, *steps) as bench:
        session = planned(bench, "signposts")
        await session.prompt("do it")
        assert list(statuses(session)) == ["one", "two"]
        assert any("Follow them with the step tool;" in note for note in notes(session))


def test_agents_without_a_plan_have_the_same_prompt() -> None:
    for name in ("explore", "general", "compaction"):
        assert load_agent(name).prompt_for("step") == load_agent(name).prompt_for("goal")
