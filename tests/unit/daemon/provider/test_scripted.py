"""The model that plays a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart, Usage
from daemon.provider.model_calls import (
    ModelRequest,
    PartStop,
    PromptMessage,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from daemon.provider.scripted import AGENT, BRANCH, WORKSPACE, ScriptedProvider, load_script, position
from tests.support.scenarios.model_requests import (
    assistant,
    call,
    collect,
    complete,
    failure,
    request,
    result,
    user,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def write(folder: Path, *turns: list[Any], **fields: Any) -> Path:
    path = folder.parent / "script.json"
    path.write_text(json.dumps({"name": "test", "turns": turns, **fields}), "utf-8")
    return path


def ask(root: Path, *messages: PromptMessage) -> ModelRequest:
    return request(*messages, env={WORKSPACE: str(root)})


async def said(path: Path, root: Path, *messages: PromptMessage) -> str:
    end = await complete(ScriptedProvider(path), ask(root, *messages))
    return "".join(part.text for part in end.parts if isinstance(part, TextPart))


def test_position_is_read_from_the_messages() -> None:
    assert position([user("a")]) == (0, 0)
    assert position([user("a"), assistant(call("c")), result("c")]) == (0, 1)
    assert position([user("a"), assistant("b"), user("c")]) == (1, 0)
    assert position([user("a"), user("b")]) == (1, 0)


async def test_a_step_is_streamed_part_by_part(root: Path) -> None:
    step = {
        "reasoning": "why",
        "text": "hello",
        "tool_calls": [{"name": "ls", "input": {"path": "x"}}],
        "chunk": 3,
    }
    events = await collect(ScriptedProvider(write(root, [step])).stream(ask(root)))
    assert events[:2] == [ReasoningDelta(0, "why"), PartStop(0, ReasoningPart(text="why"))]
    assert events[2:5] == [TextDelta(1, "hel"), TextDelta(1, "lo"), PartStop(1, TextPart(text="hello"))]
    assert events[5] == ToolCallStart(2, "call_1_1_1", "ls")
    assert "".join(event.json for event in events if isinstance(event, ToolCallDelta)) == '{"path": "x"}'


async def test_scripted_position_follows_from_the_conversation(root: Path) -> None:
    path = write(root, [{"text": "1.1"}, {"text": "1.2"}], [{"text": "2.1"}])
    assert await said(path, root, user("a")) == "1.1"
    assert await said(path, root, user("a"), assistant(call("c")), result("c")) == "1.2"
    assert await said(path, root, user("a"), assistant("b"), user("c")) == "2.1"
    assert await said(path, root, user("a")) == "1.1"


async def test_scripted_call_ids_are_unique_and_reproducible(root: Path) -> None:
    calls = {"tool_calls": [{"name": "ls"}, {"name": "ls"}]}
    provider = ScriptedProvider(write(root, [calls, calls]))
    first = await complete(provider, ask(root, user("a")))
    again = await complete(provider, ask(root, user("a")))
    second = await complete(provider, ask(root, user("a"), assistant(*first.parts)))
    ids = [part.id for part in (*first.parts, *second.parts) if isinstance(part, ToolCallPart)]
    assert len(set(ids)) == 4
    assert first == again


async def test_missing_script_step_is_an_error(root: Path) -> None:
    path = write(root, [{"text": "only"}])
    beyond = await failure(ScriptedProvider(path), ask(root, user("a"), assistant("only")))
    assert str(beyond) == "the script test has no step 2 for turn 1"
    next_turn = await failure(ScriptedProvider(path), ask(root, user("a"), assistant("only"), user("b")))
    assert str(next_turn) == "the script test has no step 1 for turn 2"
    assert next_turn.kind == "bad_request"


async def test_the_last_turn_can_be_played_again_and_again(root: Path) -> None:
    path = write(root, [{"text": "a"}], [{"text": "over"}], repeat_last_turn=True)
    talk = [user("1"), assistant("a"), user("2"), assistant("over"), user("3")]
    assert await said(path, root, *talk) == "over"


async def test_choices_match_the_last_result(root: Path) -> None:
    step = {
        "choices": [
            {"when": {"last_result": "ERROR \\["}, "go": {"text": "mend"}},
            {"when": {"is_error": True}, "go": {"text": "failed"}},
            {"go": {"text": "fine"}},
        ]
    }
    path = write(root, [{"tool_calls": [{"name": "edit"}]}, step])
    start = [user("a"), assistant(call("c1"), call("c2"))]
    assert await said(path, root, *start, result("c1"), result("c2", "x\nERROR [1:2] y")) == "mend"
    assert await said(path, root, *start, result("c1", "no", is_error=True), result("c2")) == "failed"
    assert await said(path, root, *start, result("c1"), result("c2")) == "fine"


async def test_choices_look_only_at_results_of_the_last_step(root: Path) -> None:
    step = {"choices": [{"when": {"last_result": "old"}, "go": {"text": "old"}}, {"go": {"text": "new"}}]}
    path = write(root, [{"text": "a"}, {"text": "b"}, step])
    talk = [user("a"), assistant(call("c1")), result("c1", "old"), assistant(call("c2")), result("c2", "new")]
    assert await said(path, root, *talk) == "new"


async def test_choices_match_the_prompt_and_the_workspace(root: Path) -> None:
    (root / "there.py").touch()
    step = {
        "choices": [
            {"when": {"exists": "there.py", "prompt": "(?i)discount"}, "go": {"text": "both"}},
            {"when": {"not_exists": "gone.py"}, "go": {"text": "missing"}},
        ]
    }
    path = write(root, [step])
    assert await said(path, root, user("Add DISCOUNT codes")) == "both"
    assert await said(path, root, user("else")) == "missing"
    (root / "gone.py").touch()
    error = await failure(ScriptedProvider(path), ask(root, user("else")))
    assert "no choice fits in the script test, turn 1, step 1" in str(error)


async def test_choices_can_be_nested(root: Path) -> None:
    inner = {"choices": [{"go": {"text": "deep"}}]}
    assert await said(write(root, [{"choices": [{"go": inner}]}]), root, user("a")) == "deep"


async def test_the_workspace_is_filled_in_everywhere(root: Path) -> None:
    calls = [
        {"name": "read", "input": {"paths": ["${workspace}/a"]}},
        {"name": "x", "input": '{"p": "${workspace}'},
    ]
    path = write(root, [{"text": "in ${workspace}", "tool_calls": calls}])
    end = await complete(ScriptedProvider(path), ask(root))
    text, first, second = end.parts
    assert isinstance(text, TextPart)
    assert isinstance(first, ToolCallPart)
    assert isinstance(second, ToolCallPart)
    assert text.text == f"in {root.as_posix()}"
    assert first.arguments() == {"paths": [f"{root.as_posix()}/a"]}
    assert second.input == f'{{"p": "{root.as_posix()}'


async def test_missing_workspace_is_named_in_the_error(root: Path) -> None:
    path = write(root, [{"text": "in ${workspace}"}])
    assert WORKSPACE in str(await failure(ScriptedProvider(path), request()))


async def test_a_scripted_error_is_raised(root: Path) -> None:
    scripted = {"kind": "rate_limit", "message": "slow", "retryable": True, "retry_after_s": 3}
    error = await failure(ScriptedProvider(write(root, [{"error": scripted}])), ask(root))
    assert (error.kind, str(error), error.retryable, error.retry_after_s) == ("rate_limit", "slow", True, 3)


async def test_each_piece_waits_its_time(root: Path) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    path = write(root, [{"text": "abcdef", "chunk": 2, "delay_ms": 50}])
    await complete(ScriptedProvider(path, sleep=sleep), ask(root))
    assert slept == [0.05] * 3


async def test_usage_is_given_or_estimated(root: Path) -> None:
    path = write(
        root, [{"text": "a" * 40}, {"text": "b", "usage": {"input": 5, "output": 6, "cache_read": 7}}]
    )
    estimated = (await complete(ScriptedProvider(path), ask(root, user("x" * 400)))).usage
    assert estimated.output == 10
    assert estimated.input > 100
    given = (await complete(ScriptedProvider(path), ask(root, user("a"), assistant("a")))).usage
    assert given == Usage(input=5, output=6, cache_read=7)


async def test_stop_reasons(root: Path) -> None:
    path = write(root, [{"tool_calls": [{"name": "ls"}]}, {"text": "a", "stop_reason": "max_tokens"}])
    assert (await complete(ScriptedProvider(path), ask(root))).stop_reason == "tool_use"
    assert (
        await complete(ScriptedProvider(path), ask(root, user("a"), assistant("b")))
    ).stop_reason == "max_tokens"


WRONG: list[tuple[list[Any], str]] = [
    ([[{"text": "a", "error": {"kind": "server", "message": "b"}}]], "either an answer"),
    ([[{}]], "either an answer"),
    ([[{"txt": "a"}]], "turns.0.0.txt"),
    ([[{"choices": [{"when": {"last_result": "("}, "go": {"text": "a"}}]}]], "not a regular expression"),
    ([[{"choices": [{"when": {"exists": "../x"}, "go": {"text": "a"}}]}]], "inside the workspace"),
    ([], "turns"),
]


@pytest.mark.parametrize(("turns", "where"), WRONG)
async def test_invalid_script_error_names_the_place(root: Path, turns: list[Any], where: str) -> None:
    error = await failure(ScriptedProvider(write(root, *turns)), ask(root))
    assert where in str(error)
    assert "script.json" in str(error)


async def test_missing_script_is_an_error(root: Path) -> None:
    error = await failure(ScriptedProvider(root / "none.json"), ask(root))
    assert "cannot be read" in str(error)


async def test_a_script_that_changed_is_read_again(root: Path) -> None:
    import os

    provider = ScriptedProvider(write(root, [{"text": "old"}]))
    await complete(provider, ask(root))
    os.utime(write(root, [{"text": "new"}]), ns=(1, 1))
    end = await complete(provider, ask(root))
    assert end.parts == (TextPart(text="new"),)


def test_the_demo_is_a_valid_script() -> None:
    from daemon.demo import script_path

    assert load_script(script_path()).repeat_last_turn


async def said_by(path: Path, root: Path, branch: str, agent: str) -> str:
    who = {WORKSPACE: str(root), AGENT: agent} | ({BRANCH: branch} if branch else {})
    end = await complete(ScriptedProvider(path), request(user("go"), env=who))
    return "".join(part.text for part in end.parts if isinstance(part, TextPart))


async def test_branches_and_agents_have_their_own_turns(root: Path) -> None:
    path = write(
        root,
        [{"text": "main"}],
        branches={"A": [[{"text": "branch A"}]], "A.s1": [[{"text": "its agent"}]]},
        agents={"explore": [[{"text": "explorer"}]], "plan": [[{"text": "planner"}]]},
    )
    said = {
        ("", "build"): "main",
        ("", "plan"): "planner",
        ("A", "build"): "branch A",
        ("A", "plan"): "branch A",
        ("A.s1", "explore"): "its agent",
        ("s1", "explore"): "explorer",
    }
    assert {who: await said_by(path, root, *who) for who in said} == said
    error = await failure(
        ScriptedProvider(path), request(user("go"), env={WORKSPACE: str(root), BRANCH: "B", AGENT: "build"})
    )
    assert "has nothing for B (agent build)" in str(error)


async def test_script_without_sections_serves_every_agent(root: Path) -> None:
    assert await said_by(write(root, [{"text": "all"}]), root, "s1", "explore") == "all"
