"""Circles: equal calls in a row, two calls in turn; and repeated work of an abandoned goal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.loop.loop_detection import LoopDetector, same_call
from daemon.model.messages import Message, ToolCallPart, ToolResultPart
from daemon.plan.tree import PlanTree
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.fakes.models import Call, Step

NOW = datetime(2025, 1, 1, tzinfo=UTC)
A = Call("ls", {"path": "."})
B = Call("glob", {"pattern": "*"})


def call(number: int, name: str = "read", arguments: str = '{"file_path": "a"}') -> ToolCallPart:
    return ToolCallPart(id=f"c{number}", name=name, input=arguments)


def message(sequence: int, role: str, *parts: object) -> Message:
    fields = {"message_id": f"m{sequence}", "trace_id": "t", "role": role, "sequence": sequence}
    return Message.model_validate({**fields, "content": parts, "created_at": NOW})


@pytest.mark.parametrize(
    ("calls", "asked"),
    [
        ("aaa", [3]),
        ("aaaaaaa", [3, 6]),
        ("aaaaaaaaa", [3, 6, 9]),
        ("abab", [4]),
        ("ababababab", [4, 8]),
        ("cabab", [5]),
        ("aabab", [5]),
        ("abba", []),
        ("abcabcabc", []),
        ("aabbaabb", []),
        ("abaab", []),
        ("ababa", [4]),
        ("abaaa", [5]),
        ("ababb", [4]),
        ("aba", []),
    ],
)
def test_after_approval_the_repeat_count_starts_again(calls: str, asked: list[int]) -> None:
    memory = LoopDetector()
    messages: list[Message] = []
    found: list[int] = []
    for number, letter in enumerate(calls, 1):
        one = call(number, arguments=f'{{"x": "{letter}"}}')
        messages.append(message(len(messages) + 1, "assistant", one))
        if memory.starting(one, messages, PlanTree()).title:
            found.append(number)
        result = ToolResultPart(tool_call_id=one.id, name=one.name, content="")
        messages.append(message(len(messages) + 1, "tool", result))
    assert found == asked


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ("", "{}", True),
        ('{"a": 1}', '{"a": 2}', False),
        ("{broken", "{broken", True),
        ("{broken", "{broken ", False),
        ("[" * 100_000, "[" * 100_000, True),
        ('{"a": "日"}', '{"a": "\\u65e5"}', True),
    ],
    ids=["order", "empty", "value", "broken", "broken-other", "deep", "escapes"],
)
def test_equal_input_is_equal_json(one: str, other: str, same: bool) -> None:
    assert same_call(call(1, arguments=one), call(2, arguments=other)) is same


def test_another_tool_with_the_same_input_is_another_call() -> None:
    assert not same_call(call(1), call(2, "ls"))


# -- in a session --


async def test_calls_of_one_step_count_one_by_one(tmp_path: Path) -> None:
    async with daemon(tmp_path, [A, A, A, B], "ok") as bench:
        turn = prompted(bench.session(), "go")
        (request,) = await bench.asked()
        assert (request.permission, request.targets, request.tool_call_id) == ("doom_loop", ("ls",), "call_3")
        assert "same ls call three times" in request.title
        assert [(s.permission, s.pattern) for s in request.suggestions] == [("doom_loop", "ls")]
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"


async def test_a_repeated_command_is_asked_about_as_the_command(tmp_path: Path) -> None:
    again = Call("bash", {"description": "Run the unit tests", "command": "git status"})
    async with daemon(tmp_path, [again, again, again], "ok") as bench:
        turn = prompted(bench.session(settings={"permission": {"bash": "allow"}}), "go")
        (request,) = await bench.asked()
        assert (request.permission, request.detail) == ("doom_loop", "git status")
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"


async def test_alternating_calls_ask_and_are_named(tmp_path: Path) -> None:
    async with daemon(tmp_path, A, B, A, B, "ok") as bench:
        turn = prompted(bench.session(), "go")
        (request,) = await bench.asked()
        assert request.tool_call_id == "call_4"
        assert "ls and glob in turn" in request.title
        await bench.answer("always")
        assert (await finish(turn)).stop == "end_turn"


async def test_user_prompt_resets_the_repeat_count(tmp_path: Path) -> None:
    async with daemon(tmp_path, A, A, "one", A, A, "two") as bench:
        session = bench.session()
        assert (await session.prompt("go")).stop == "end_turn"
        assert (await session.prompt("again")).stop == "end_turn"


async def test_after_a_rejection_the_next_equal_call_asks_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, A, A, A, A, "I stop.") as bench:
        turn = prompted(bench.session(), "go")
        await bench.answer("reject", "not again")
        assert (await bench.asked())[0].tool_call_id == "call_4"
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"


async def test_always_allows_equal_calls_for_the_session(tmp_path: Path) -> None:
    async with daemon(tmp_path, *[A] * 7, "ok") as bench:
        turn = prompted(bench.session(), "go")
        await bench.answer("always")
        assert (await finish(turn)).stop == "end_turn"


WRITE = Call("write", {"file_path": "a.txt", "content": "one way"})
PLAN = Call("goal", {"add": "the one way, another way", "reason": "asked"})
FOCUS = Call("goal", {"focus": "1"})
GIVE_UP = Call("goal", {"abandon": "it broke the build", "focus": "2"})
READ = Call("read", {"file_path": "a.txt"})
RULES = {"permission": {"*": "allow", "doom_loop": "ask"}}


def results(bench: Bench, session_id: str) -> dict[str, ToolResultPart]:
    session = bench.core.live(session_id)
    assert session is not None
    found = [m.tool_result() for m in session.state.messages if m.role == "tool"]
    return {part.tool_call_id: part for part in found if part is not None}


async def test_call_of_an_abandoned_goal_asks_and_explains_why(
    tmp_path: Path,
) -> None:
    steps: list[Step] = [[PLAN, FOCUS], WRITE, GIVE_UP, READ, WRITE, WRITE, "ok"]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=RULES)
        turn = prompted(session, "go")
        (request,) = await bench.asked()
        assert (request.permission, request.targets) == ("doom_loop", ("write",))
        assert "the one way" in request.title
        assert "it broke the build" in request.title
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"  # and the second one of the kind asks nothing
        found = results(bench, session.session_id)
        note = (
            "<earlier_attempts>\nThe same call was made for the goal "
            '"the one way", which was abandoned: it broke the build\n</earlier_attempts>'
        )
        assert found["call_6"].content.endswith(note)
        assert found["call_7"].content.endswith(note)
        assert not any("earlier_attempts" in found[f"call_{n}"].content for n in (3, 5))


async def test_abandoned_attempt_note_is_added_even_if_rules_allow(tmp_path: Path) -> None:
    async with daemon(tmp_path, [PLAN, FOCUS], WRITE, GIVE_UP, READ, WRITE, "ok") as bench:
        session = bench.session(settings=ALLOW_ALL)
        assert (await session.prompt("go")).stop == "end_turn"
        assert "it broke the build" in results(bench, session.session_id)["call_6"].content


@pytest.mark.parametrize(
    "command", ["ls -l", "git status", "pytest -q", "cd . && npm test", "cat a.txt | grep x"]
)
async def test_looking_and_testing_again_is_everyday_work(tmp_path: Path, command: str) -> None:
    again = Call("bash", {"command": command, "timeout_ms": 5000})
    async with daemon(tmp_path, [PLAN, FOCUS], again, GIVE_UP, again, "ok") as bench:
        session = bench.session(settings=RULES)
        assert (await session.prompt("go")).stop == "end_turn"
        assert "earlier_attempts" not in results(bench, session.session_id)["call_5"].content


async def test_changing_command_of_abandoned_goal_asks_after_a_restart(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5" * 4
    touch = Call("bash", {"command": f"touch made; : {key}"})
    async with daemon(tmp_path, [PLAN, FOCUS], touch, GIVE_UP, "ok", check=False) as bench:
        session = bench.session(settings=RULES)
        assert (await session.prompt("go")).stop == "end_turn"
    async with daemon(tmp_path, touch, "ok", check=False) as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(config=again.config.overlaid(RULES, "editor", "test"))
        turn = prompted(again, "more")
        assert "it broke the build" in (await bench.asked())[0].title
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"


async def test_rejected_call_does_not_count_as_an_attempt(tmp_path: Path) -> None:
    rules = {"permission": {"*": "allow", "doom_loop": "ask", "edit": "ask"}}
    async with daemon(tmp_path, [PLAN, FOCUS], WRITE, GIVE_UP, WRITE, "ok") as bench:
        turn = prompted(bench.session(settings=rules), "go")
        await bench.answer("reject", "not yet")
        assert (await bench.asked())[0].permission == "edit"
        await bench.answer("once")
        assert (await finish(turn)).stop == "end_turn"


async def test_completed_goal_causes_no_attempt_warning(tmp_path: Path) -> None:
    done = Call("goal", {"done": "it says one way", "focus": "2"})
    async with daemon(tmp_path, [PLAN, FOCUS], WRITE, done, READ, WRITE, "ok") as bench:
        session = bench.session(settings=RULES)
        assert (await session.prompt("go")).stop == "end_turn"
        assert "earlier_attempts" not in results(bench, session.session_id)["call_6"].content


def test_same_call_ignores_description_and_timeout() -> None:
    one = call(1, "bash", '{"command": "make", "description": "build"}')
    assert same_call(one, call(2, "bash", '{"command": " make ", "timeout": 9}'))
    assert not same_call(one, call(3, "bash", '{"command": "make", "background": true}'))
