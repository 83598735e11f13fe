"""A turn that waits for the user continues after the daemon was stopped or killed; nothing else is done twice."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from daemon.loop.interrupted_turn import waits_for_answer
from daemon.loop.session import BusyError
from daemon.model.events import FileChanged, MessageAdded, PermissionAsked, PermissionReplied, TurnEnded
from daemon.model.messages import ToolResultPart
from daemon.model.permissions import PermissionRequest
from daemon.store.files import FileTraceStore
from daemon.store.replay import replayed
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Step
from tests.support.scenarios.subagents import task, with_subagents

WRITE = Call("write", {"file_path": "a.txt", "content": "hello"})
OTHER = Call("write", {"file_path": "b.txt", "content": "other"})
READ = Call("read", {"file_path": "first.txt"})
_UNDONE = "Interrupted: The turn was stopped. It had not started: nothing was done."


async def waiting_turn(folder: Path, *steps: Step, check: bool = True) -> str:
    """A session whose turn waits for an answer, as a killed daemon would leave it."""
    copy = folder.with_name("copy")
    folder.mkdir()
    async with daemon(folder, *steps, check=check) as bench:
        (bench.workspace / "first.txt").write_text("first\n")
        session = bench.session()
        turn = prompted(session, "go", prompt_id="p1")
        await bench.asked()
        shutil.copytree(folder, copy)
        session.cancel()
        await turn
    shutil.rmtree(folder)
    copy.rename(folder)
    return session.session_id


async def resumed(bench: Bench, session_id: str) -> PermissionRequest:
    """The question that is asked again."""
    session = await bench.opened(session_id)
    session.policy.use(default_model="fake/model")
    assert session.status == "waiting"
    assert not session.running
    assert session.resume()
    assert not session.resume()
    return (await bench.asked())[0]


def ended(bench: Bench) -> TurnEnded:
    return bench.events(TurnEnded)[-1]


def results(bench: Bench, session_id: str) -> list[ToolResultPart]:
    session = bench.core.live(session_id)
    assert session is not None
    found = [message.tool_result() for message in session.state.messages]
    return [part for part in found if part is not None]


async def test_a_killed_turn_that_waited_asks_again_and_goes_on(tmp_path: Path) -> None:
    session_id = await waiting_turn(tmp_path / "one", [READ, WRITE, OTHER])
    async with daemon(tmp_path / "one", "All done.") as bench:
        request = await resumed(bench, session_id)
        canceled = bench.events(PermissionReplied)[0]
        assert canceled.reply == "canceled"
        assert canceled.request_id != request.request_id
        assert request.targets == ("a.txt",)
        assert not (bench.workspace / "a.txt").exists()
        await bench.answer("once")
        await bench.answer("once")
        await until(lambda: bench.events(TurnEnded) != [])
        assert (ended(bench).prompt_id, ended(bench).stop_reason) == ("p1", "end_turn")
        assert (bench.workspace / "a.txt").read_text() == "hello"
        assert (bench.workspace / "b.txt").read_text() == "other"
        assert [result.name for result in results(bench, session_id)] == ["read", "write", "write"]
        session = bench.core.live(session_id)
        assert session is not None
        assert session.state.messages[-1].text() == "All done."


async def test_a_turn_that_waits_survives_an_orderly_stop_too(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITE) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
    result = await finish(turn)
    assert result.stop == "canceled"
    assert "asks again" in result.detail
    async with daemon(tmp_path):
        pass  # and one more daemon that nobody asked for the session
    async with daemon(tmp_path, "ok") as bench:
        await resumed(bench, session.session_id)
        await bench.answer("once")
        await until(lambda: bench.events(TurnEnded) != [])
        assert (bench.workspace / "a.txt").read_text() == "hello"


async def test_turn_canceled_before_it_goes_on_answers_its_calls(tmp_path: Path) -> None:
    session_id = await waiting_turn(tmp_path / "one", [READ, WRITE, OTHER])
    async with daemon(tmp_path / "one", "ok") as bench:
        session = await bench.opened(session_id)
        session.policy.use(default_model="fake/model")
        assert session.resume()
        assert session.cancel()
        await session.rest()
        assert ended(bench).stop_reason == "canceled"
        _, write, other = results(bench, session_id)
        assert write.content == other.content == _UNDONE
        assert (await session.prompt("go on")).stop == "end_turn"


async def test_the_person_may_refuse_what_is_asked_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITE) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
    await turn
    async with daemon(tmp_path) as bench:
        await resumed(bench, session.session_id)
        await bench.answer("reject")
        await until(lambda: bench.events(TurnEnded) != [])
        assert ended(bench).stop_reason == "permission_denied"
        assert not (bench.workspace / "a.txt").exists()


async def test_what_a_rule_forbids_by_now_is_not_asked_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITE) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
    await turn
    async with daemon(tmp_path, "I see.") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        again.policy.use(config=again.config.overlaid({"permission": {"edit": "deny"}}, "editor", "test"))
        assert again.resume()
        await until(lambda: bench.events(TurnEnded) != [])
        assert bench.core.permissions.pending() == []
        assert not (bench.workspace / "a.txt").exists()


async def test_a_file_that_changed_meanwhile_is_planned_anew(tmp_path: Path) -> None:
    edit = Call("edit", {"file_path": "f.txt", "old_string": "old", "new_string": "new"})
    async with daemon(tmp_path, Call("read", {"file_path": "f.txt"}), edit) as bench:
        (bench.workspace / "f.txt").write_text("old\n")
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
    await turn
    (tmp_path / "workspace" / "f.txt").write_text("something else\n")
    async with daemon(tmp_path, "I look again.") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        assert again.resume()
        await until(lambda: bench.events(TurnEnded) != [])
        assert results(bench, session.session_id)[-1].is_error
        assert (bench.workspace / "f.txt").read_text() == "something else\n"


async def test_what_was_allowed_before_the_kill_is_never_run_again(tmp_path: Path) -> None:
    """Cut the log behind each event of an approved write: only while the question is open it may be asked again."""
    (tmp_path / "one").mkdir()
    async with daemon(tmp_path / "one", [WRITE, OTHER], "done") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.answer("once")
        await bench.answer("once")
        await finish(turn)
        log = bench.core.store.root / session.session_id / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    store = FileTraceStore(tmp_path / "one" / "workspace" / ".trace")
    events = store.events(session.session_id)
    may: list[int] = []
    for count in range(2, len(lines)):
        cut = tmp_path / f"cut{count}"
        folder = cut / session.session_id
        folder.mkdir(parents=True)
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]))
        if waits_for_answer(replayed(FileTraceStore(cut), session.session_id)):
            may.append(count)
    # The second question comes before or after the first write: that no allowed call is without a result counts.
    asking: dict[str, str | None] = {}
    allowed: set[str | None] = set()
    unfinished = ["call_1", "call_2"]
    expected: list[int] = []
    for number, event in enumerate(events, 1):
        if isinstance(event, PermissionAsked):
            asking[event.request.request_id] = event.request.tool_call_id
        elif isinstance(event, PermissionReplied):
            allowed.add(asking.pop(event.request_id))
        elif isinstance(event, MessageAdded):
            for part in event.message.content:
                if isinstance(part, ToolResultPart):
                    unfinished.remove(part.tool_call_id)
                    allowed.remove(part.tool_call_id)
        if not allowed and unfinished and unfinished[0] in asking.values():
            expected.append(number)
    assert expected
    assert may == expected
    assert any(isinstance(event, FileChanged) for event in events)


async def test_a_yes_to_the_repetition_alone_allowed_nothing_yet(tmp_path: Path) -> None:
    # The loop's own question comes before the tool runs, so the tool's question may be asked again.
    same = Call("bash", {"command": "touch made-here"})
    rules = {"permission": {"bash": "ask"}}
    async with daemon(tmp_path, [same, same, same]) as bench:
        session = bench.session(settings=rules)
        turn = prompted(session, "go")
        await bench.answer("once")
        await bench.answer("once")
        assert (await bench.asked())[0].permission == "doom_loop"
        await bench.answer("once")
        assert (await bench.asked())[0].permission == "bash"
        assert waits_for_answer(session.state)
    await turn
    async with daemon(tmp_path, "ok") as bench:
        request = await resumed(bench, session.session_id)
        assert request.permission == "doom_loop"
        await bench.answer("once")
        await bench.answer("once")
        await until(lambda: bench.events(TurnEnded) != [])
        assert ended(bench).stop_reason == "end_turn"


async def test_a_budget_question_is_asked_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, READ, "done") as bench:
        session = bench.session(settings={"budget_tokens": 1000})
        turn = prompted(session, "go")
        assert (await bench.asked())[0].permission == "budget"
    await turn
    async with daemon(tmp_path, "done") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        again.policy.use(config=again.config.overlaid({"budget_tokens": 1000}, "editor", "test"))
        assert again.resume()
        (request,) = await bench.asked()
        assert request.permission == "budget"
        await bench.answer("once")
        await until(lambda: bench.events(TurnEnded) != [])
        assert again.state.messages[-1].text() == "done"


async def test_an_approval_for_a_sub_agent_keeps_the_turn_waiting(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "b.txt", "content": "other"}, id="call_of_the_child")
    async with with_subagents(tmp_path, [task("write b"), WRITE], {"s1": [write, "ok"]}) as (bench, _):
        session = bench.session()
        turn = prompted(session, "go")
        await bench.answer("once")
        await until(lambda: [one.branch_id for one in bench.core.permissions.pending()] == [None])
    await turn
    async with daemon(tmp_path, "done") as bench:
        assert (await resumed(bench, session.session_id)).targets == ("a.txt",)
        await bench.answer("once")
        await until(lambda: bench.events(TurnEnded) != [])
        assert (bench.workspace / "a.txt").read_text() == "hello"


@pytest.mark.parametrize("prompt", ["@explore find it", "/look it"])
async def test_a_task_that_waits_for_the_budget_starts_later(tmp_path: Path, prompt: str) -> None:
    commands = tmp_path / "home" / "commands"
    commands.mkdir(parents=True)
    (commands / "look.md").write_text("---\nagent: explore\nmodel: fake/other\n---\nfind $1")
    async with daemon(tmp_path, "One.") as bench:
        session = bench.session(settings={"budget_usd": 0.01})
        await session.prompt("go")
        turn = prompted(session, prompt)
        assert (await bench.asked())[0].permission == "budget"
    await turn
    async with with_subagents(tmp_path, ["Two."], {"s1": ["Found."]}) as (bench, models):
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        assert again.resume()
        await until(lambda: bench.events(TurnEnded) != [])
        assert [result.content for result in results(bench, session.session_id)] == ["Found."]
        assert again.state.messages[-1].text() == "Two."
        assert models.models == ["fake/other" if prompt.startswith("/") else "fake/model"]


async def test_a_session_that_came_with_the_folder_never_goes_on(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITE) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
    await turn
    shutil.rmtree(tmp_path / "home" / "sessions")
    async with daemon(tmp_path, check=False) as bench:
        again = await bench.opened(session.session_id)
        assert again.foreign
        assert not again.resume()
        assert again.state.turn is None
        assert results(bench, session.session_id)[-1].title == "interrupted"
        assert not (bench.workspace / "a.txt").exists()


async def test_arguments_whose_secret_is_not_stored_are_not_run(tmp_path: Path) -> None:
    secret = Call("write", {"file_path": "a.txt", "content": "TOKEN=ghp_" + "a1B2c3D4e5" * 4})
    session_id = await waiting_turn(tmp_path / "one", secret, check=False)
    async with daemon(tmp_path / "one", check=False) as bench:
        again = await bench.opened(session_id)
        assert not again.resume()
        assert again.state.turn is None
        assert "check before you repeat it." in results(bench, session_id)[-1].content


async def test_a_new_prompt_closes_the_turn_that_was_not_resumed(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITE) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
    await turn
    async with daemon(tmp_path, "Something else, then.") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        with pytest.raises(BusyError):
            await again.compact()
        assert (await again.prompt("something else")).stop == "end_turn"
        assert [event.stop_reason for event in bench.events(TurnEnded)] == ["error", "end_turn"]
        assert results(bench, session.session_id)[-1].title == "interrupted"


async def test_a_resumed_turn_can_be_canceled(tmp_path: Path) -> None:
    async with daemon(tmp_path, [WRITE, OTHER]) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await bench.asked()
    await turn
    async with daemon(tmp_path) as bench:
        await resumed(bench, session.session_id)
        again = bench.core.live(session.session_id)
        assert again is not None
        assert again.cancel()
        async with asyncio.timeout(20):
            await until(lambda: not again.running)
        assert ended(bench).stop_reason == "canceled"
        assert [result.title for result in results(bench, session.session_id)] == ["canceled", "canceled"]
