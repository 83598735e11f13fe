"""Prompts that wait, prompts that steer, and what is stopped by a cancel."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from daemon.loop.queue import TurnResult
from daemon.loop.session import BusyError, Session
from daemon.model.events import (
    QueueChanged,
    TurnStarted,
)
from daemon.model.messages import (
    TextPart,
)
from daemon.provider.model_calls import TextDelta, ToolCallDelta, ToolCallStart
from daemon.store.replay import replayed
from tests.support.drivers.core import ALLOW_ALL, daemon, finish, prompted, results, roles
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold, Think
from tools.bash import BashInput, BashTool
from tools.tool import ToolContext, ToolResult

WRITE = Call("write", {"file_path": "a.txt", "content": "hello\n"})

# -- the queue --


async def two_prompts(
    session: Session, hold: Hold
) -> tuple[asyncio.Task[TurnResult], asyncio.Task[TurnResult]]:
    """Send a prompt that is at work, and one that waits in the queue."""
    first = prompted(session, "first")
    await hold.reached.wait()
    second = prompted(session, "second")
    await until(session.queued)
    return first, second


async def test_a_prompt_while_busy_waits_its_turn(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "one"], "two", "three") as bench:
        session = bench.session()
        first = prompted(session, "first", prompt_id="p1")
        await hold.reached.wait()
        second = prompted(session, "second", prompt_id="p2")
        third = prompted(session, "third", prompt_id="p3")
        await until(lambda: len(session.queued()) == 2)
        assert [p.text for p in bench.events(QueueChanged)[-1].queue] == ["second", "third"]
        hold.go.set()
        assert [(await finish(t)).prompt_id for t in (first, second, third)] == ["p1", "p2", "p3"]
        assert [e.prompt_id for e in bench.events(TurnStarted)] == ["p1", "p2", "p3"]
        assert [m.text() for m in session.state.messages if m.role == "user"] == ["first", "second", "third"]
        assert session.state.queue == ()


async def test_a_waiting_prompt_can_be_changed_and_removed(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "one"], "two") as bench:
        session = bench.session()
        first = prompted(session, "first")
        await hold.reached.wait()
        second = prompted(session, "second", prompt_id="p2")
        third = prompted(session, "third", prompt_id="p3")
        await until(lambda: len(session.queued()) == 2)
        assert session.edit_queued("p2", "second, better")
        assert session.edit_queued("p3", None)
        assert not session.edit_queued("p3", None)
        assert not session.edit_queued("unknown", "x")
        assert await finish(third) == TurnResult("p3", "canceled", removed=True)
        hold.go.set()
        await finish(first)
        await finish(second)
        assert not session.edit_queued("p2", "too late")
        assert session.state.messages[2].text() == "second, better"


async def test_a_client_may_ask_to_be_refused_instead_of_waiting(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "one"]) as bench:
        session = bench.session()
        first = prompted(session, "first")
        await hold.reached.wait()
        with pytest.raises(BusyError, match="busy"):
            await session.prompt("second", when_busy="refuse")
        hold.go.set()
        await finish(first)
        assert session.queued() == ()


async def test_a_steering_prompt_is_delivered_between_two_steps(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, Call("ls", {"path": "."})], "As you say.") as bench:
        session = bench.session()
        first = prompted(session, "first", prompt_id="p1")
        await hold.reached.wait()
        steered = prompted(session, "look at b instead", prompt_id="p2", when_busy="steer")
        await until(session.queued)
        assert session.queued()[0].steer
        hold.go.set()
        assert (await finish(first)).stop == "end_turn"
        assert await finish(steered) == TurnResult("p2", "end_turn")
        assert roles(session.state.messages) == ["user", "assistant", "tool", "user", "assistant"]
        assert len(bench.events(TurnStarted)) == 1
        assert session.state.queue == ()


async def test_late_steering_prompt_becomes_its_own_turn(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "one"], "two") as bench:
        session = bench.session()
        first = prompted(session, "first", prompt_id="p1")
        await hold.reached.wait()
        late = prompted(session, "wait", prompt_id="p2", when_busy="steer")
        await until(session.queued)
        hold.go.set()
        await finish(first)
        assert (await finish(late)).stop == "end_turn"
        assert [e.prompt_id for e in bench.events(TurnStarted)] == ["p1", "p2"]


async def test_steering_an_idle_session_is_a_plain_prompt(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one") as bench:
        session = bench.session()
        assert (await session.prompt("first", when_busy="steer")).stop == "end_turn"


async def test_canceled_caller_does_not_stop_the_turn(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "one"]) as bench:
        session = bench.session()
        first = prompted(session, "first")
        await hold.reached.wait()
        first.cancel()
        await asyncio.wait({first})
        hold.go.set()
        await until(lambda: not session.running)
        assert session.state.messages[-1].text() == "one"


async def test_two_sessions_work_side_by_side(tmp_path: Path) -> None:
    one, two = Hold(), Hold()
    async with daemon(tmp_path, [one, "first response"], [two, "second answer"]) as bench:
        a, b = bench.session(), bench.session()
        turn_a = prompted(a, "a")
        await one.reached.wait()
        turn_b = prompted(b, "b")
        await two.reached.wait()
        assert len(bench.core.running) == 2
        two.go.set()
        assert (await finish(turn_b)).stop == "end_turn"
        assert a.running
        one.go.set()
        await finish(turn_a)
        assert [s.state.messages[-1].text() for s in (a, b)] == ["first response", "second answer"]


# -- cancel --


async def test_cancel_during_streaming_keeps_received_text(tmp_path: Path) -> None:
    hold = Hold()
    step = ["Complete part.", TextDelta(1, "half a sen"), hold, "never"]
    async with daemon(tmp_path, step, "Back again.") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        assert session.turn.received is not None
        assert session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert session.turn.received is None
        assert bench.models.open == 0
        answer = session.state.messages[-1]
        assert [p.text for p in answer.content if isinstance(p, TextPart)] == ["Complete part.", "half a sen"]
        assert answer.stop_reason() == "canceled"
        assert not session.cancel()
        assert (await session.prompt("go on")).stop == "end_turn"


async def test_cancel_in_a_half_received_call_answers_it(tmp_path: Path) -> None:
    hold = Hold()
    step = [
        Call("ls", {"path": "."}),
        ToolCallStart(1, "c2", "write"),
        ToolCallDelta(1, "c2", '{"file_path": "a.t'),
        hold,
    ]
    async with daemon(tmp_path, step, "Back again.") as bench:
        session = bench.session(settings=ALLOW_ALL)
        turn = prompted(session, "go")
        await hold.reached.wait()
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        calls = session.state.messages[1].tool_calls()
        assert [(c.name, c.finished) for c in calls] == [("ls", True), ("write", False)]
        assert all(r.is_error for r in results(session.state.messages))
        await session.prompt("go on")


async def test_cancel_before_any_text_leaves_no_empty_message(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"], [Think("only thought"), Hold()]) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert roles(session.state.messages) == ["user"]
        turn = prompted(session, "again")
        await until(lambda: bench.text("reasoning") == "only thought")
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert roles(session.state.messages) == ["user", "user"]


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For commands that ignore TERM: KILL comes soon."""
    monkeypatch.setattr(BashTool.__init__, "__defaults__", (0.3,))


@pytest.mark.usefixtures("short_grace")
async def test_cancel_in_a_command_kills_it_with_its_children(tmp_path: Path) -> None:
    command = "trap '' TERM; sleep 300 & echo $! > child; echo started; wait"
    step = [Call("bash", {"command": command}), Call("ls", {"path": "."})]
    async with daemon(tmp_path, step, "Back again.") as bench:
        session = bench.session(settings={**ALLOW_ALL, "sandbox": "off"})
        turn = prompted(session, "run")
        await bench.answer("once")  # without a sandbox no rule lets a line with a trap pass
        await until(lambda: "started" in bench.text("tool_output"))
        child = int((bench.workspace / "child").read_text())
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        await until(
            lambda: not Path(f"/proc/{child}/cmdline").exists() or dead(child), "the end of the child"
        )
        ran, waited = results(session.state.messages)
        assert ran.is_error
        assert "not run" not in ran.content.lower()
        assert ran.metadata.get("not_run") is None
        assert waited.metadata.get("not_run") is True
        took = [message.duration_ms for message in session.state.messages if message.role == "tool"]
        assert took[0] is not None
        assert took[1] is None  # what was not run took no time
        await session.prompt("go on")


async def test_stopping_one_command_keeps_its_output_and_the_turn(tmp_path: Path) -> None:
    step = [Call("bash", {"command": "echo started; sleep 300"}), Call("ls", {"path": "."})]
    async with daemon(tmp_path, step, "Without it, then.") as bench:
        session = bench.session(settings={**ALLOW_ALL, "sandbox": "off"})
        turn = prompted(session, "run")
        await until(lambda: "started" in bench.text("tool_output"))
        call = session.state.messages[-1].tool_calls()[0]
        assert session.commands.under_way.stop(call.id)
        assert (await finish(turn)).stop == "end_turn"
        ran, listed = results(session.state.messages)
        assert ran.content.startswith("Stopped by the user after")
        assert "started" in ran.content
        assert (ran.is_error, ran.metadata["canceled"]) == (True, True)
        assert not listed.is_error
        assert not session.commands.under_way.stop(call.id)
        assert not session.commands.under_way.stop("unknown")


def dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


async def test_cancel_during_an_approval_withdraws_the_request(tmp_path: Path) -> None:
    async with daemon(tmp_path, [WRITE, WRITE], "Back again.") as bench:
        session = bench.session()
        turn = prompted(session, "write it")
        (request,) = await bench.asked()
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert bench.core.permissions.pending() == []
        assert session.state.pending == {}
        with pytest.raises(KeyError):
            bench.core.permissions.reply(request.request_id, "once", None, "late")
        assert not (bench.workspace / "a.txt").exists()
        assert len(results(session.state.messages)) == 2
        await session.prompt("go on")


@pytest.mark.usefixtures("short_grace")
async def test_a_second_cancel_does_not_disturb_the_first(tmp_path: Path) -> None:
    step = [Call("bash", {"command": "trap '' TERM; echo started; sleep 300"})]
    async with daemon(tmp_path, step, "Back again.") as bench:
        session = bench.session(settings={**ALLOW_ALL, "sandbox": "off"})
        turn = prompted(session, "run")
        await bench.answer("once")  # without a sandbox no rule lets a line with a trap pass
        await until(lambda: "started" in bench.text("tool_output"))
        assert session.cancel()
        await asyncio.sleep(0)
        assert session.cancel()
        await asyncio.sleep(0)
        assert session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert len(results(session.state.messages)) == 1
        await session.prompt("go on")


async def test_a_tool_that_loses_a_cancel_does_not_keep_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = asyncio.Event()

    async def run(self: BashTool, args: BashInput, ctx: ToolContext) -> ToolResult:
        with contextlib.suppress(asyncio.CancelledError):
            started.set()
            await asyncio.Event().wait()
        return ToolResult("done")

    monkeypatch.setattr(BashTool, "run", run)
    async with daemon(tmp_path, [Call("bash", {"command": "true"})], "It went on.") as bench:
        session = bench.session(settings=ALLOW_ALL)
        turn = prompted(session, "run")
        await started.wait()
        assert session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert [result.content for result in results(session.state.messages)] == ["done"]
        assert (await session.prompt("go on")).stop == "end_turn"


async def test_cancel_lets_queued_prompts_run(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"], "two") as bench:
        session = bench.session()
        first, second = await two_prompts(session, hold)
        session.cancel()
        assert (await finish(first)).stop == "canceled"
        assert (await finish(second)).stop == "end_turn"


async def test_cancel_with_hold_queue_sends_nothing_until_send_queue(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"], "two") as bench:
        session = bench.session()
        first, second = await two_prompts(session, hold)
        session.cancel(hold_queue=True)
        assert (await finish(first)).stop == "canceled"
        await session.rest()
        assert [prompt.text for prompt in session.queued()] == ["second"]
        assert session.status == "idle"
        session.send_queue()
        assert (await finish(second)).stop == "end_turn"
        assert session.queued() == ()


async def test_held_prompts_survive_an_orderly_stop(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"]) as bench:
        session = bench.session()
        first, second = await two_prompts(session, hold)
        session.cancel(hold_queue=True)
        await finish(first)
    assert (await finish(second)).stop == "canceled"
    async with daemon(tmp_path, "two") as bench:
        again = await bench.opened(session.session_id)
        assert [(prompt.text, prompt.held) for prompt in again.queued()] == [("second", True)]
        again.send_queue()
        await again.rest()
        assert again.state.messages[-1].text() == "two"


@pytest.mark.parametrize("held", [True, False])
async def test_prompt_during_a_compaction_is_stored_and_stopped(tmp_path: Path, held: bool) -> None:
    hold = Hold()
    async with daemon(tmp_path, *["ok"] * 4, [hold, "x"], "two", "one") as bench:
        session = bench.session(settings={"keep_steps": 1})
        for _ in range(4):
            await session.prompt("words " * 2000)
        compacting = asyncio.create_task(session.compact())
        await hold.reached.wait()
        first = prompted(session, "first")
        await until(session.queued)
        stored = replayed(bench.core.store, session.session_id).queue
        assert [prompt.text for prompt in stored] == ["first"]
        assert session.cancel(hold_queue=held)
        assert (await session.prompt("second")).stop == "end_turn"
        with pytest.raises(asyncio.CancelledError):
            await compacting
        assert [prompt.text for prompt in session.state.queue] == ["first"] * held
        session.send_queue()
        assert (await finish(first)).stop == ("end_turn" if held else "canceled")


async def test_compactions_that_wait_for_their_turn_are_canceled(tmp_path: Path) -> None:
    async with daemon(tmp_path, *["ok"] * 4) as bench:
        session = bench.session(settings={"keep_steps": 1})
        for _ in range(4):
            await session.prompt("words " * 2000)
        async with session.files.lock:  # as while the user reviews a branch to merge
            compacting = [asyncio.create_task(session.compact()) for _ in range(2)]
            await until(session.cancel, "something to cancel", within_s=5)
        for one in compacting:
            with pytest.raises(asyncio.CancelledError):
                await one
        assert not session.compacting


async def test_compaction_is_refused_when_a_prompt_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, begun, go = Hold(), asyncio.Event(), asyncio.Event()

    async def prepare() -> None:
        begun.set()
        await go.wait()

    async with daemon(tmp_path, [hold, "ok"]) as bench:
        session = bench.session()
        with monkeypatch.context() as slow:
            slow.setattr(session.request_builder, "prepare", prepare)
            compacting = asyncio.create_task(session.compact())
            await begun.wait()
        turn = prompted(session, "go")
        await hold.reached.wait()
        go.set()
        await until(compacting.done, within_s=5)
        with pytest.raises(BusyError, match="then compact"):
            await compacting
        hold.go.set()
        assert (await finish(turn)).stop == "end_turn"


@pytest.mark.parametrize("ended", [True, False], ids=["after the stop", "while it stops"])
async def test_held_prompt_waits_for_send_queue_despite_other_prompts(tmp_path: Path, ended: bool) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"], "three", "two") as bench:
        session = bench.session()
        first, second = await two_prompts(session, hold)
        session.cancel(hold_queue=True)
        if ended:
            await finish(first)
            await session.rest()
        third = prompted(session, "third")
        await finish(third)
        await session.rest()
        assert [(prompt.text, prompt.held) for prompt in session.queued()] == [("second", True)]
        assert session.state.queue == session.queued()
        session.send_queue()
        await finish(second)
        said = [message.text() for message in session.state.messages if message.role == "user"]
        assert said == ["first", "third", "second"]


async def test_queued_prompt_being_edited_is_sent_only_after_the_edit(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"], "three", "two") as bench:
        session = bench.session()
        first = prompted(session, "first")
        await hold.reached.wait()
        second, third = prompted(session, "second"), prompted(session, "third")
        await until(lambda: len(session.queued()) == 2)
        edited = session.queued()[0].prompt_id
        assert session.hold_queued(edited, True)
        hold.go.set()
        await finish(first)
        await finish(third)
        await session.rest()
        assert [prompt.text for prompt in session.queued()] == ["second"]
        assert session.edit_queued(edited, "second, better")
        assert (await finish(second)).stop == "end_turn"
        said = [message.text() for message in session.state.messages if message.role == "user"]
        assert said == ["first", "third", "second, better"]
        assert not session.hold_queued(edited, True)


async def test_cancel_also_ends_steering_prompts_of_the_turn(tmp_path: Path) -> None:
    hold, later = Hold(), Hold()
    async with daemon(tmp_path, [hold, Call("ls", {"path": "."})], [later, "x"]) as bench:
        session = bench.session()
        first = prompted(session, "first")
        await hold.reached.wait()
        steered = prompted(session, "instead", when_busy="steer")
        await until(session.queued)
        hold.go.set()
        await later.reached.wait()
        session.cancel()
        assert (await finish(first)).stop == "canceled"
        assert (await finish(steered)).stop == "canceled"


async def test_cancel_right_after_the_prompt_stops_it(tmp_path: Path) -> None:
    async with daemon(tmp_path, "never played") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        await asyncio.sleep(0)  # the prompt is taken, its turn not begun
        assert session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert roles(session.state.messages) == ["user"]
        assert bench.models.left == 1


async def test_cancel_of_an_idle_session_is_no_error(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        assert not bench.session().cancel()


async def test_closing_the_daemon_ends_every_prompt(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"]) as bench:
        session = bench.session()
        first, second = await two_prompts(session, hold)
        await bench.core.close()
        assert (await finish(first)).stop == "canceled"
        assert (await finish(second)).stop == "canceled"
        assert session.state.queue == ()


async def test_prompt_whose_turn_cannot_begin_leaves_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("a bug")

    hold = Hold()
    async with daemon(tmp_path, [hold, "one"]) as bench:
        session = bench.session()
        first, second = await two_prompts(session, hold)
        monkeypatch.setattr("daemon.loop.session.names_after", broken)
        hold.go.set()
        assert ((await finish(first)).stop, (await finish(second)).stop) == ("end_turn", "error")
        assert session.state.queue == ()
