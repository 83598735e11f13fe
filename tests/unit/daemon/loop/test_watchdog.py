from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from daemon.loop import watchdog
from daemon.loop.watchdog import WorkspaceGuard, watched
from daemon.model.events import TurnEnded
from tests.support.drivers.core import daemon
from tests.support.drivers.waiting import until
from tests.support.fakes.hooks import is_alive
from tests.support.fakes.models import Call, Hold
from tools.files.regular_files import make_folder
from tools.process.background import Background
from tools.tool import PermissionDeniedError, ToolResult

DONE = ToolResult("done")


def remove(workspace: Path) -> None:
    shutil.rmtree(workspace)


def rename(workspace: Path) -> None:
    workspace.rename(workspace.with_name("renamed"))


def replace(workspace: Path) -> None:
    rename(workspace)
    workspace.mkdir()
    (workspace / "theirs").write_text("x")


@pytest.mark.parametrize("how", [remove, rename, replace])
async def test_deleted_workspace_ends_the_turn(tmp_path: Path, how: object) -> None:
    assert callable(how)
    command = "sh hold.sh"
    step = [
        Call("bash", {"command": command, "background": True}),
        Call("bash", {"command": command}),
        Call("write", {"file_path": "made/by.txt", "content": "x\n"}),
    ]
    async with daemon(tmp_path, step, check=False) as bench:
        # Outside of the sandbox, where processes have the numbers that the test sees.
        allowed = {"permission": {"*": "allow", "bash": {"sh hold.sh": "allow"}}}
        session = bench.session(settings={**allowed, "sandbox": "off"})
        (bench.workspace / "hold.sh").write_text("sleep 300 & echo $! >> pids; wait\n")
        turn = asyncio.create_task(session.prompt("go"))
        waiting = asyncio.create_task(session.prompt("and then"))
        pids = bench.workspace / "pids"
        await until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "both commands")
        running = [int(pid) for pid in pids.read_text().split()]
        how(bench.workspace)
        async with asyncio.timeout(30):
            ended = await turn
            dropped = await waiting
        assert ended.stop == "error"
        assert "Restore the" in ended.detail
        assert dropped.removed or dropped.stop != "end_turn"
        assert bench.events(TurnEnded)[-1].detail == ended.detail
        await until(lambda: not any(map(is_alive, running)), "their end")
        left = [path.name for path in bench.workspace.rglob("*")] if bench.workspace.exists() else []
        assert left == (["theirs"] if how is replace else [])
    assert bench.workspace.exists() == (how is replace)


async def test_prompts_dropped_by_a_failure_leave_the_queue(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "never"]) as bench:
        session = bench.session()
        turn = asyncio.create_task(session.prompt("go"))
        await hold.reached.wait()
        waiting = asyncio.create_task(session.prompt("and then"))
        await until(session.queued)
        session.fail("The workspace is gone.")
        assert ((await turn).stop, (await waiting).stop) == ("error", "canceled")
        assert session.state.queue == ()


async def test_turn_waiting_for_approval_ends_if_workspace_is_moved(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "made/by.txt", "content": "x\n"})
    async with daemon(tmp_path, [write], check=False) as bench:
        session = bench.session()
        turn = asyncio.create_task(session.prompt("go"))
        await bench.asked()
        rename(bench.workspace)
        async with asyncio.timeout(30):
            assert (await turn).stop == "error"
        assert bench.core.permissions.pending() == []
        assert not bench.workspace.exists()


async def test_nothing_is_written_into_a_workspace_moved_unnoticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_LOOK_S", 3600)
    write = Call("write", {"file_path": "made/by.txt", "content": "x\n"})
    async with daemon(tmp_path, [write], "Done.", check=False) as bench:
        session = bench.session()
        turn = asyncio.create_task(session.prompt("go"))
        await bench.asked()
        rename(bench.workspace)
        await bench.answer("once")
        async with asyncio.timeout(30):
            await turn
        assert not bench.workspace.exists()
        assert "deleted or renamed" in bench.core.workspace_problem()


def test_workspace_moved_back_is_accepted(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    guard = WorkspaceGuard(workspace, Background("a test"))
    guard.begin()
    assert guard.problem() == ""
    replace(workspace)
    assert (
        "is not the folder in which this session started, so the session has ended and nothing more is "
        "written there. Restore the original folder, or start a new session for this one."
    ) in guard.problem()
    shutil.rmtree(workspace)
    assert "deleted or renamed" in guard.problem()
    workspace.with_name("renamed").rename(workspace)
    assert guard.problem() == ""
    guard.end()
    replace(workspace)
    assert guard.problem() == ""  # nothing was at work


def test_deleted_traces_folder_is_not_recreated(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "w" / ".trace").mkdir(parents=True)
    make_folder(tmp_path / "w" / ".trace" / "one" / "files")
    shutil.rmtree(tmp_path / "w")
    with pytest.raises(FileNotFoundError):
        make_folder(tmp_path / "w" / ".trace" / "one" / "files" / "blobs")
    assert not (tmp_path / "w").exists()


# -- calls --


async def test_call_without_progress_is_stopped() -> None:
    cleaned = asyncio.Event()

    async def hang() -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return DONE

    result = await watched("edit", hang(), lambda: False, limit_s=0.02)
    assert result.is_error
    assert "edit tool made no progress for 0.02 seconds" in result.content
    assert cleaned.is_set()


async def test_uncancellable_call_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_GRACE_S", 0.02)
    release = threading.Event()

    async def stuck() -> ToolResult:
        work = asyncio.create_task(asyncio.to_thread(release.wait))
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                continue  # as what must not be broken off half-way
        raise OSError("the disk is gone")

    result = await watched("read", stuck(), lambda: False, limit_s=0.02)
    assert result.is_error
    release.set()


async def test_waiting_for_the_user_is_not_a_stall() -> None:
    answered = asyncio.Event()
    looks = 0

    def busy() -> bool:
        nonlocal looks
        looks += 1
        if looks == 50:
            answered.set()
        return True

    async def ask() -> ToolResult:
        await answered.wait()
        return DONE

    assert await watched("edit", ask(), busy, limit_s=0.02) is DONE
    assert looks == 50


async def test_failures_and_cancellations_pass_through() -> None:
    async def refused() -> ToolResult:
        raise PermissionDeniedError("no")

    async def hang() -> ToolResult:
        await asyncio.Event().wait()
        return DONE

    async def finishes() -> ToolResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return DONE

    with pytest.raises(PermissionDeniedError):
        await watched("edit", refused(), lambda: False)
    # Also where the call ends by itself all the same: the turn is to end.
    for call in (hang(), finishes()):
        running = asyncio.create_task(watched("edit", call, lambda: False))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()


async def test_cancel_at_the_moment_a_call_ends_is_not_lost() -> None:
    ends = asyncio.Event()

    async def call() -> ToolResult:
        await ends.wait()
        return DONE

    running = asyncio.create_task(watched("edit", call(), lambda: False))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    ends.set()
    await asyncio.sleep(0)  # the call has ended, and nobody has heard of it yet
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
