from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.explore.test_command import agree_on_test, run_test
from daemon.loop.children import close_child, open_child
from daemon.loop.session import Session
from daemon.model import notice_codes
from daemon.model.branches import CheckRun
from daemon.model.events import Notice, PermissionAsked
from daemon.permission.service import CallInfo
from tests.support.drivers.core import Bench, daemon
from tests.support.drivers.waiting import until
from tests.support.scenarios.explored import FolderCopy
from tools.sandbox.policy import UnavailableError
from tools.sandbox.prepare import available
from tools.tool import BranchCommands, PermissionAsk


def hostile(bench: Bench) -> Path:
    """A workspace that would like to be tested; returns what would be there if it was."""
    tripwire = bench.workspace.parent / "tripped"
    touch = f"touch {tripwire}"
    (bench.workspace / "package.json").write_text(json.dumps({"scripts": {"pretest": touch, "test": touch}}))
    (bench.workspace / "Makefile").write_text(f"test:\n\t{touch}\n")
    (bench.workspace / "pytest.ini").write_text("[pytest]\n")
    (bench.workspace / "conftest.py").write_text(f"import os; os.system('{touch}')\n")
    (bench.workspace / ".goalwright").mkdir()
    (bench.workspace / ".goalwright/config.json").write_text(
        json.dumps({"test_command": touch, "permission": {"*": "allow", "bash": "allow"}})
    )
    return tripwire


async def agreed(bench: Bench, session: Session) -> tuple[str | None, bool]:
    """Return the command, and whether the user was asked."""
    task = asyncio.create_task(agree_on_test(session, "call_1"))
    await until(lambda: task.done() or bool(bench.core.permissions.pending()))
    asked = not task.done()
    if asked:
        await bench.answer("once")
    told = await task
    assert (told.command is None) == bool(told.why_not)
    return told.command, asked


def copy_of(tmp_path: Path, **environment: str) -> FolderCopy:
    root = (tmp_path / "copy").resolve()
    root.mkdir(exist_ok=True)
    return FolderCopy(root, environment)


async def ran(bench: Bench, copy: FolderCopy, command: str, timeout_s: float = 60) -> CheckRun:
    return await run_test(command, copy, at_work(bench, copy), timeout_s, approved=True)


def at_work(bench: Bench, copy: FolderCopy) -> Session:
    session = bench.session()
    session.services = replace(session.services, workspace=copy.root)
    return session


async def test_untrusted_folder_never_runs_a_test_command(tmp_path: Path) -> None:
    async with daemon(tmp_path, trusted=False) as bench:
        tripwire = hostile(bench)
        for settings in (
            None,
            {"test_command": f"touch {tripwire}"},
            {"mode": "auto"},
            {"permission": {"*": "allow"}},
        ):
            session = bench.session(settings=settings)
            assert await agreed(bench, session) == (None, False)
            session.policy.use(trust="restricted")
            assert await agreed(bench, session) == (None, False)
        assert not tripwire.exists()
        assert not bench.events(PermissionAsked)


async def test_imported_session_runs_no_tests(tmp_path: Path) -> None:
    async with daemon(tmp_path, command_line={"test_command": "true"}) as bench:
        session = bench.session()
        session.record.foreign = True
        assert await agreed(bench, session) == (None, False)


async def test_approval_of_the_test_command_is_asked_once(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / "Makefile").write_text("test:\n\ttrue\n")
        session = bench.session()
        task = asyncio.create_task(agree_on_test(session, "call_1"))
        (request,) = await bench.asked()
        assert (request.permission, request.tool, request.tool_call_id) == ("bash", "explore", "call_1")
        assert request.targets == ("make test",)
        assert "make test" in request.title and "copy of each branch" in request.notes[0]
        assert request.detail == "make test"
        assert session.status == "waiting"
        await bench.answer("once")
        assert (await task).command == "make test"


async def test_unseen_approval_keeps_tests_inside_if_files_are_denied(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        for denied, approved in (({}, True), ({"read": {"secret": "deny"}}, False)):
            session = bench.session(settings={"test_command": "true", "permission": denied})
            task = asyncio.create_task(agree_on_test(session, "call_1"))
            (request,) = await bench.asked()
            bench.core.permissions.reply(request.request_id, "once", None, "--yes", unseen=True)
            assert (await task).approved is approved


async def test_setting_beats_makefile_and_may_disable_tests(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / "Makefile").write_text("test:\n\ttrue\n")
        assert await agreed(bench, bench.session(settings={"test_command": " run-checks "})) == (
            "run-checks",
            True,
        )
        assert await agreed(bench, bench.session(settings={"test_command": ""})) == (None, False)
        allowed = {"test_command": "run-checks", "permission": {"bash": {"run-checks": "allow"}}}
        assert await agreed(bench, bench.session(settings=allowed)) == ("run-checks", False)


async def test_without_a_test_command_nothing_is_asked(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        assert await agreed(bench, bench.session()) == (None, False)


async def test_denied_tests_are_no_failure_and_the_user_is_notified(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        denied = {"test_command": "make x", "permission": {"bash": {"make *": "deny"}}}
        assert await agreed(bench, bench.session(settings=denied)) == (None, False)
        session = bench.session(settings={"test_command": "make x"})
        task = asyncio.create_task(agree_on_test(session, "call_2"))
        await bench.answer("reject", "too slow")
        assert (await task).why_not == "rejected by the user: too slow"
        notices = [event for event in bench.events(Notice) if event.code == notice_codes.TESTS_NOT_RUN]
        assert len(notices) == 2
        assert "too slow" in notices[1].text and notices[1].about == "call_2"
        planning = bench.session(settings={"test_command": "make x", "mode": "plan"})
        assert await agreed(bench, planning) == (None, False)


async def test_rejecting_the_tests_rejects_nothing_else(tmp_path: Path) -> None:
    async with daemon(tmp_path, command_line={"test_command": "make x"}) as bench:
        session = bench.session()
        child = open_child(session, "A", session.agent, explore_start_id="1")
        info = CallInfo("call_2", "bash")
        ask = PermissionAsk("bash", ("ls",), "Run ls")
        other = asyncio.create_task(bench.core.permissions.ask(child, info, ask))
        await bench.asked()
        task = asyncio.create_task(agree_on_test(session, "call_1"))
        request = (await bench.asked(2))[1]
        bench.core.permissions.reply(request.request_id, "reject", None, "test")
        assert (await task).why_not == "rejected by the user"
        await bench.answer("once")
        assert (await other).asked
        await close_child(child)


async def test_canceled_exploration_withdraws_its_request(tmp_path: Path) -> None:
    async with daemon(tmp_path, command_line={"test_command": "make x"}) as bench:
        task = asyncio.create_task(agree_on_test(bench.session(), "call_1"))
        await bench.asked()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not bench.core.permissions.pending()


async def test_tests_run_in_the_copy_with_its_environment_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with daemon(tmp_path) as bench:
        copy = copy_of(tmp_path, MINE="yes")
        run = await ran(bench, copy, 'pwd; echo "$MINE<$OPENAI_API_KEY>"; cat; touch made; exit 3')
        assert (run.exit_code, run.ok) == (3, False)
        assert run.detail.splitlines() == [str(copy.root), "yes<>"]
        assert (copy.root / "made").exists() and not (bench.workspace / "made").exists()


async def test_a_real_test_run_is_counted(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        copy = copy_of(tmp_path)
        (copy.root / "test_x.py").write_text(
            "def test_a(): pass\ndef test_b(): pass\ndef test_c(): assert False\n"
        )
        run = await ran(bench, copy, f"{sys.executable} -m pytest -q -p no:cacheprovider --rootdir .")
        assert (run.exit_code, run.passed, run.failed) == (1, 2, 1)
        assert "test_c" in run.detail
        (copy.root / "test_u.py").write_text(
            "import unittest\nclass T(unittest.TestCase):\n  def test_a(self): pass\n"
        )
        run = await ran(bench, copy, f"{sys.executable} -m unittest test_u")
        assert (run.exit_code, run.passed, run.failed) == (0, 1, 0)


async def test_timed_out_tests_are_killed_with_all_their_processes(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        copy = copy_of(tmp_path)
        run = await ran(bench, copy, "echo begun; sleep 600 & echo $! > pid; wait", timeout_s=1)
        assert run.exit_code is None and run.ok is None
        assert "did not end within 1 s" in run.detail and "begun" in run.detail
        await until(lambda: not _alive(int((copy.root / "pid").read_text())))


async def test_cancellation_kills_the_tests(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        copy = copy_of(tmp_path)
        task = asyncio.create_task(ran(bench, copy, "echo $$ > started; mv started pid; sleep 600"))
        await until(lambda: (copy.root / "pid").exists())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not _alive(int((copy.root / "pid").read_text()))


async def test_tests_run_in_the_sandbox_if_available(tmp_path: Path) -> None:
    async with daemon(tmp_path, command_line={"sandbox": "workspace-write"}) as bench:
        session, copy = bench.session(), copy_of(tmp_path)
        try:
            available(bench.workspace)
        except UnavailableError:
            sandboxed = False  # then it runs as bash would, and the question says so
        else:
            sandboxed = True
        folder = replace(session.services.folder, branch=BranchCommands(bench.workspace))
        own = replace(session.services, workspace=copy.root, folder=folder)
        child = open_child(session, "A", session.agent, services=own, explore_start_id="1")
        try:
            line = f"touch made {bench.workspace}/escaped; ls; exit 4"
            run = await run_test(line, copy, child, 60)
        finally:
            await close_child(child)
        assert run.exit_code == 4 and "made" in run.detail
        assert (bench.workspace / "escaped").exists() == (not sandboxed)


async def test_no_more_than_two_run_at_a_time(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        copy = copy_of(tmp_path)
        session = at_work(bench, copy)
        wait = "touch $$.run; while [ ! -e go ]; do sleep 0.05; done"
        tasks = [asyncio.create_task(run_test(wait, copy, session, 60, approved=True)) for _ in range(3)]
        running = lambda: len(list(copy.root.glob("*.run")))  # noqa: E731
        await until(lambda: running() == 2)
        (copy.root / "go").touch()
        assert [(await task).exit_code for task in tasks] == [0, 0, 0]
        assert running() == 3


async def test_a_flood_of_output_is_kept_in_bounds_and_its_end_is_read(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        copy = copy_of(tmp_path)
        run = await ran(
            bench, copy, "head -c 30000000 /dev/zero | tr '\\0' 'x'; echo; echo '7 passed in 0.1s'"
        )
        assert (run.exit_code, run.passed) == (0, 7)
        assert len(run.detail) <= 2000


async def test_tests_that_cannot_start_report_why(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        copy = copy_of(tmp_path)
        run = await ran(bench, copy, "no-such-program-here")
        assert run.exit_code is None and "no-such-program-here: command not found" in run.detail
        shutil.rmtree(copy.root)
        run = await ran(bench, copy, "true")
        assert run.exit_code is None and "could not be started" in run.detail


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
