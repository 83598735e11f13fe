"""A fork holds what was said before a message: the model is sent the same, and nothing counts twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.loop.forking import ForkError
from daemon.loop.session import Session
from daemon.loop.undo import Restorer
from daemon.loop.user_plan import UserPlan
from daemon.model import notice_codes
from daemon.model.events import Notice
from daemon.model.messages import Message, Usage
from daemon.store.pruning import STAGING
from daemon.store.trace_store import StoreError
from daemon.trace_maintenance import InUseError
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold

PLANNED = Call("goal", {"add": "Look, Change", "focus": "1"})
READ = Call("read", {"file_path": "a.txt"})
EDIT = Call("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
FOCUS = Call("goal", {"done": "It says one.", "focus": "2"})


def prompts(session: Session) -> list[Message]:
    return [message for message in session.state.messages if message.role == "user"]


async def worked(bench: Bench) -> Session:
    """Two prompts: the first one plans and reads, the second one edits."""
    (bench.workspace / "a.txt").write_text("one\n")
    bench.models.then([PLANNED, READ], "It says one.", [FOCUS, EDIT], "Changed.")
    session = bench.session(settings=ALLOW_ALL)
    await session.prompt("What does a.txt say?")
    await session.prompt("Make it two.")
    return session


async def forked(bench: Bench, session: Session, message: str | None) -> Session:
    fork = await bench.opened(await bench.core.trace_maintenance.fork(session, message))
    fork.policy.use(config=session.config)
    fork.policy.use(default_model="fake/model")
    return fork


async def test_fork_sends_the_same_request_up_to_the_message(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench)
        first, second = prompts(session)
        before = bench.models.requests[2]
        fork = await forked(bench, session, second.message_id)
        assert [message.sequence for message in fork.state.messages] == [
            message.sequence for message in session.state.messages if message.sequence < second.sequence
        ]
        (bench.workspace / "a.txt").write_text("one\n")
        bench.models.then("Done.")
        await fork.prompt("Make it two.")
        again = bench.models.requests[-1]
        assert again.system == before.system
        assert again.tools == before.tools
        assert again.messages == before.messages
        assert again.tail == before.tail
        bench.models.then("Else.")
        other = await forked(bench, session, str(second.sequence))
        await other.prompt("Make it three.")
        assert bench.models.requests[-1].messages[:-1] == before.messages[:-1]
        # The session itself has nothing of it.
        assert [message.text() for message in prompts(session)] == [first.text(), second.text()]


async def test_fork_keeps_the_plan_but_not_the_usage(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench)
        spent = session.state.trace.usage
        fork = await forked(bench, session, prompts(session)[1].message_id)
        one, two = fork.state.plan.snapshot().goals
        assert (one.description, one.status, two.status) == ("Look", "in_progress", "pending")
        assert fork.state.plan.current_id == one.id
        assert one.self_stats.message_count > 0
        assert (one.cumulative_stats.total_tokens, one.cumulative_stats.total_cost) == (0, 0.0)
        assert (fork.state.trace.usage, fork.state.trace.total_cost) == (Usage(), 0.0)
        assert fork.state.trace.title == "Fork: What does a.txt say?"
        bench.models.then("Done.")
        await fork.prompt("Go on.")
        assert 0 < fork.state.trace.usage.total < spent.total
        assert session.state.trace.usage == spent
        one, _ = fork.state.plan.snapshot().goals
        assert one.cumulative_stats.total_tokens == fork.state.trace.usage.total


async def test_goals_that_moved_keep_their_place_and_their_messages(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench)
        plan = session.state.plan
        two = plan.snapshot().goals[1]
        hand = UserPlan(session, "test")
        hand.add("Above")
        above = next(goal for goal in plan.snapshot().goals if goal.description == "Above")
        hand.move(two.id, above.id)
        fork = await forked(bench, session, None)
        assert fork.state.plan.numbers() == plan.numbers()
        counts = {goal.id: goal.cumulative_stats.message_count for goal in fork.state.plan.snapshot().goals}
        assert counts == {goal.id: goal.cumulative_stats.message_count for goal in plan.snapshot().goals}
        assert fork.state.notes == session.state.notes


async def test_fork_survives_a_restart_and_names_its_source(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench)
        fork = await forked(bench, session, None)
        assert [message.message_id for message in fork.state.messages] == [
            message.message_id for message in session.state.messages
        ]
        messages, plan = fork.state.messages, fork.state.plan.snapshot()
        session_id, source = fork.session_id, session.session_id
    async with daemon(tmp_path, "Going on.") as bench:
        assert not bench.core.is_foreign(session_id)
        again = await bench.opened(session_id)
        again.policy.use(default_model="fake/model")
        assert (again.state.messages, again.state.plan.snapshot()) == (messages, plan)
        notices = [event for event in bench.core.store.events(session_id) if isinstance(event, Notice)]
        assert (notices[-1].code, notices[-1].about) == (notice_codes.FORKED, source)
        assert [trace.trace_id for trace in await bench.core.traces(limit=9)] == [session_id, source]
        await again.prompt("Go on.")
        assert bench.models.requests[-1].messages[0].content[-1] == messages[0].content[-1]


async def test_fork_gets_no_grants_and_no_undo_history(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / "a.txt").write_text("one\n")
        bench.models.then([READ, EDIT], "Changed.")
        session = bench.session()
        turn = prompted(session, "Make it two.")
        await bench.answer("always")
        await finish(turn)
        assert session.state.granted
        bench.core.update_session(session, {"mode": "plan"})
        fork = await forked(bench, session, None)
        assert fork.state.granted == []
        assert fork.mode == "plan"
        assert fork.state.given.files == session.state.given.files
        assert (await Restorer(session).overview()).undo is not None
        assert (await Restorer(fork).overview()).changes == ()


async def test_the_first_message_leaves_an_empty_conversation(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench)
        fork = await forked(bench, session, prompts(session)[0].message_id)
        assert fork.state.messages == []
        assert (fork.state.trace.title, fork.state.plan.mission) == ("", "")
        bench.models.then("Hello.")
        await fork.prompt("Something else.")
        assert fork.state.trace.title == "Something else."


async def test_a_running_session_is_forked_from_a_message_only(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench)
        hold = Hold()
        bench.models.then([hold, "Late."])
        turn = prompted(session, "And now?")
        await until(hold.reached.is_set)
        with pytest.raises(InUseError):
            await bench.core.trace_maintenance.fork(session)
        fork = await forked(bench, session, prompts(session)[2].message_id)
        assert fork.state.messages[-1].text() == "Changed."
        assert not fork.running
        hold.go.set()
        await finish(turn)


async def test_fork_at_a_steered_message_ends_the_turn_there(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / "a.txt").write_text("one\n")
        hold = Hold()
        bench.models.then([hold, READ], "As you say.")
        session = bench.session(settings=ALLOW_ALL)
        turn = prompted(session, "Look.")
        await until(hold.reached.is_set)
        steered = prompted(session, "At a.txt only.", when_busy="steer")
        hold.go.set()
        await finish(turn)
        await finish(steered)
        fork = await forked(bench, session, prompts(session)[1].message_id)
        assert [message.role for message in fork.state.messages] == ["user", "assistant", "tool"]
        assert fork.state.turn is None


async def test_fork_gets_no_notes_about_jobs_of_its_source(tmp_path: Path) -> None:
    lasting = Call("bash", {"command": "exec sleep 300", "background": True})
    async with daemon(tmp_path, lasting, "Started.", "Going on.", command_line=ALLOW_ALL) as bench:
        session = bench.session()
        await session.prompt("Start it.")
        await session.commands.stop_job("job_1", "VS Code")
        session.notice("warning", "This session has cost $5.00 so far.", notice_codes.COST)
        session.notice("info", "Choose a branch.", notice_codes.CHOICE_AWAITED, about="1")
        fork = await forked(bench, session, None)
        # A job that the fork starts is job_1 again: the end of the other one is not its end.
        codes = [
            event.code for event in bench.core.store.events(fork.session_id) if isinstance(event, Notice)
        ]
        assert codes == [notice_codes.FORKED]
        assert fork.state.notes == ()
        await fork.prompt("Go on.")
        assert "See its output with the job tool" not in str(bench.models.requests[-1].messages[-1])


async def test_impossible_fork_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench)
        answer = session.state.messages[1]
        for message in (answer.message_id, "msg_999999_00000000"):
            with pytest.raises(ForkError, match="no user message"):
                await bench.core.trace_maintenance.fork(session, message)
        session.record.foreign = True
        with pytest.raises(ForkError, match="not started by you"):
            await bench.core.trace_maintenance.fork(session)
        assert bench.core.store.trace_ids() == [session.session_id]
        assert not list(bench.core.store.root.glob(f"{STAGING}*"))


async def test_disk_error_leaves_no_partial_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench)

        def refuse(*_: object, **__: object) -> None:
            raise StoreError("The disk is full.")

        with monkeypatch.context() as patched:
            patched.setattr("daemon.store.files.FileTraceStore.append", refuse)
            with pytest.raises(StoreError, match="full"):
                await bench.core.trace_maintenance.fork(session)
        assert bench.core.store.trace_ids() == [session.session_id]
        assert not list(bench.core.store.root.glob(f"{STAGING}*"))
