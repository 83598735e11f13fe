"""A disk that fills up in the middle: an error in words, a daemon that lives, and a record without holes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from daemon.loop.session import Session
from daemon.model.events import MessageAdded, Notice, PermissionAsked, PermissionReplied, TurnEnded
from daemon.planner.driver import replan
from daemon.store.trace_store import StoreError
from tests.support.drivers.core import ALLOW_ALL, Bench, check_pairs, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold
from tests.support.scenarios.plans import plan

WRITE = Call("write", {"file_path": "a.txt", "content": "hello\n"})


class Disk:
    """Stands before the store's ``append``: fails when told to."""

    def __init__(self, bench: Bench) -> None:
        self._append = bench.core.store.append
        self.full = False
        self.calls = 0
        self.fail_at: int | None = None
        self.fail_on: type | None = None
        bench.core.store.append = self  # type: ignore[assignment,method-assign]  # that is the fake

    def __call__(self, event: Any) -> Any:
        self.calls += 1
        if self.calls == self.fail_at or (self.fail_on is not None and isinstance(event, self.fail_on)):
            self.full = True
        if self.full:
            raise StoreError("The session's log cannot be written: No space left on device.")
        return self._append(event)

    def make_room(self) -> None:
        self.full, self.fail_at, self.fail_on = False, None, None


async def whole_turn(session: Session) -> None:
    assert (await session.prompt("do it")).stop == "end_turn"


def statuses(session: Session) -> list[str]:
    """The statuses that clients are told from now on."""
    told: list[str] = []

    def heard(_: object) -> None:
        view = session.record.view
        if view is not None and view.status is not None:
            told.append(view.status)

    session.record.shown()
    session.services.bus.subscribe(session.session_id, heard)
    return told


STEPS = [
    ["I look.", Call("ls", {"path": "."}), Call("goal", {"add": "a"})],
    [WRITE, Call("goal", {"focus": "1"})],
    "Done.",
]


async def test_full_disk_at_any_event_is_an_error_and_session_recovers(
    tmp_path: Path,
) -> None:
    (tmp_path / "count").mkdir()
    async with daemon(tmp_path / "count", *STEPS) as bench:
        disk = Disk(bench)
        await whole_turn(bench.session(settings=ALLOW_ALL))
        total = disk.calls
    assert total > 15
    for fail_at in range(2, total + 1):  # the first is the session itself
        folder = tmp_path / f"at{fail_at}"
        folder.mkdir()
        async with daemon(folder, *STEPS) as bench:
            disk = Disk(bench)
            session = bench.session(settings=ALLOW_ALL)
            disk.fail_at = fail_at
            told = statuses(session)
            result = await finish(prompted(session, "do it"))
            assert result.stop == "error", fail_at
            assert "No space left" in result.detail
            assert (session.running, session.status, told[-1:]) == (False, "idle", ["failed"])
            assert any("No space left" in notice.text for notice in bench.events(Notice))
            assert bench.events(TurnEnded)[-1].stop_reason == "error"
            # Still full: refused in words again, and nothing is lost.
            again = await finish(prompted(session, "still full"))
            assert again.stop == "error"
            disk.make_room()
            bench.models.then("Back again.")
            while bench.models.left > 1:
                bench.models._steps.pop(0)
            assert (await session.prompt("go on")).stop == "end_turn"
            check_pairs(session.state)
            assert session.state.messages[-1].text() == "Back again."


async def test_transient_store_error_still_ends_the_turn(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("ls", {"path": "."}), "ok") as bench:
        disk = Disk(bench)
        session = bench.session()
        appended = disk._append

        def fails_once(event: Any) -> Any:
            if isinstance(event, MessageAdded) and event.message.role == "tool":
                disk._append = appended
                raise StoreError("The session's log cannot be written: No space left on device.")
            return appended(event)

        disk._append = fails_once
        result = await session.prompt("look")
        assert result.stop == "error"
        # The call was closed, and the end of the turn is stored.
        check_pairs(session.state)
        ended = bench.events(TurnEnded)
        assert len(ended) == 1
        assert ended[0].event_id > 0
        assert session.state.turn is None


async def test_missing_message_file_is_rewritten_when_session_opens(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, Call("ls", {"path": "."}), "ok") as bench:
        session = bench.session()
        assert (await session.prompt("look")).stop == "end_turn"
        (lost, *_) = (bench.core.store.folder(session.session_id) / "messages").iterdir()
    content = lost.read_bytes()
    lost.unlink()
    async with daemon(tmp_path) as bench:
        again = await bench.opened(session.session_id)
        assert again.state.messages == session.state.messages
        assert lost.read_bytes() == content


async def test_a_question_that_cannot_be_stored_is_not_asked(tmp_path: Path) -> None:
    async with daemon(tmp_path, WRITE, "ok") as bench:
        disk = Disk(bench)
        session = bench.session()
        disk.fail_on = PermissionAsked
        result = await finish(prompted(session, "write"))
        assert result.stop == "error"
        assert bench.core.permissions.pending() == []
        assert not (bench.workspace / "a.txt").exists()
        disk.make_room()
        bench.models._steps.clear()
        bench.models.then("ok")
        assert (await session.prompt("again")).stop == "end_turn"


@pytest.mark.parametrize("reply", ["once", "reject"])
async def test_unstorable_reply_does_not_count_and_ends_the_turn(tmp_path: Path, reply: str) -> None:
    async with daemon(tmp_path, WRITE, "ok") as bench:
        disk = Disk(bench)
        session = bench.session()
        turn = prompted(session, "write")
        (request,) = await bench.asked()
        disk.fail_on = PermissionReplied
        with pytest.raises(StoreError, match="No space"):
            bench.core.permissions.reply(request.request_id, reply, None, "test")  # type: ignore[arg-type]
        assert (await finish(turn)).stop == "error"
        assert bench.core.permissions.pending() == []
        assert not (bench.workspace / "a.txt").exists()
        disk.make_room()
        bench.models._steps.clear()
        bench.models.then("ok")
        assert (await session.prompt("again")).stop == "end_turn"
        assert session.state.pending == {}


async def test_cancel_with_a_full_disk_ends_the_turn(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, ["I begin", hold], "ok") as bench:
        disk = Disk(bench)
        session = bench.session()
        turn = prompted(session, "go")
        await hold.reached.wait()
        disk.full = True
        session.cancel()
        assert (await finish(turn)).stop in ("error", "canceled")
        assert bench.models.open == 0
        disk.make_room()
        assert (await session.prompt("again")).stop == "end_turn"


async def test_prompt_that_cannot_be_queued_is_refused_for_good(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, ["x", hold]) as bench:
        disk = Disk(bench)
        session = bench.session()
        first = prompted(session, "first")
        await hold.reached.wait()
        disk.full = True
        with pytest.raises(StoreError):
            await session.prompt("second")
        disk.make_room()
        hold.go.set()
        await finish(first)
        assert not session.running
        assert session.queued() == ()


async def test_other_sessions_are_not_touched(tmp_path: Path) -> None:
    one = Hold()
    async with daemon(tmp_path, ["x", one], "fine") as bench:
        disk = Disk(bench)
        a, b = bench.session(), bench.session()
        turn = prompted(a, "a")
        await one.reached.wait()
        append = disk._append

        def only_a(event: Any) -> Any:
            if event.trace_id == a.session_id:
                raise StoreError("no room for a")
            return append(event)

        disk._append = only_a
        one.go.set()
        assert (await finish(turn)).stop == "error"
        assert (await b.prompt("b")).stop == "end_turn"
        disk._append = append
        bench.models.then("again")
        assert (await a.prompt("again")).stop == "end_turn"


async def test_waiting_prompts_are_answered_also_when_the_disk_is_full(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, ["x", hold]) as bench:
        disk = Disk(bench)
        session = bench.session()
        turns = [prompted(session, "first")]
        await hold.reached.wait()
        turns += [prompted(session, text) for text in ("second", "third")]
        steered = prompted(session, "steer", when_busy="steer")
        await until(lambda: len(session.queued()) == 3)
        disk.full = True
        hold.go.set()
        async with asyncio.timeout(30):
            results = await asyncio.gather(*turns, steered)
        assert [r.stop for r in results] == ["error"] * 4
        disk.make_room()
        bench.models.then("ok")
        assert (await session.prompt("again")).stop == "end_turn"


async def test_session_that_cannot_be_created_leaves_nothing(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, "one", check=False) as bench:
        session = bench.session()
        await finish(prompted(session, "do it"))
        disk = Disk(bench)
        disk.full = True
        with pytest.raises(StoreError, match="No space left"):
            bench.core.new_session(model="fake/model")
        assert bench.core.store.trace_ids() == [session.session_id]
        assert bench.core.open_sessions == [session]
        disk.make_room()
        assert bench.core.new_session(model="fake/model").session_id in bench.core.store.trace_ids()


async def test_wish_for_a_plan_is_answered_when_the_disk_is_full_then(tmp_path: Path) -> None:
    async with daemon(tmp_path, plan("A"), check=False) as bench:
        session, disk = bench.session(settings=ALLOW_ALL), Disk(bench)
        disk.fail_on = Notice
        async with asyncio.timeout(5):
            assert (await replan(session)).detail == "Replanned: 1 step left."
        disk.make_room()
