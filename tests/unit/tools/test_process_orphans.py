from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tools.process import programs as process
from tools.process import supervised_process
from tools.process.programs import Ended
from tools.process.supervised_process import MARK, ProcessTree
from tools.process.supervisor import Warden

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

HIDERS = [
    "sleep 300 & echo $! >> pids; wait",
    "setsid -f bash -c 'echo $$ >> pids; exec sleep 300'; sleep 300",
    "(env -i setsid -f /bin/bash -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 300; done'); sleep 300",
    "(env -i setsid -f /bin/bash -c 'exec -a harmless /bin/bash -c \"echo \\$\\$ >> pids; sleep 300; :\"'); sleep 300",
]


def pids(workspace: Path) -> list[int]:
    path = workspace / "pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def left(mark: str, workspace: Path) -> list[int]:
    """By mark, and those that cleared their environment by what they wrote down."""
    return ProcessTree(mark).members() + [pid for pid in pids(workspace) if alive(pid)]


def doomed(workspace: Path, mode: str, command: str, mark: str) -> subprocess.Popen[str]:
    workspace.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.programs.doomed_daemon", str(workspace), mode, command],
        cwd=ROOT,
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


async def killed(daemon: subprocess.Popen[str], workspace: Path, mark: str) -> None:
    daemon.kill()
    await asyncio.to_thread(daemon.wait)
    await until(lambda: not left(mark, workspace), "the end of all processes")


@pytest.mark.parametrize("mode", ["run", "job"])
@pytest.mark.parametrize("command", HIDERS)
async def test_no_process_outlives_a_killed_daemon(tmp_path: Path, mode: str, command: str) -> None:
    workspace, mark = tmp_path / "ws", uuid.uuid4().hex
    daemon = doomed(workspace, mode, command, mark)
    await until(lambda: pids(workspace), "the command's processes")
    await killed(daemon, workspace, mark)


@pytest.mark.parametrize("mode", ["ask", "start"])
async def test_a_daemon_killed_before_the_command_runs_leaves_nothing(tmp_path: Path, mode: str) -> None:
    workspace, mark = tmp_path / "ws", uuid.uuid4().hex
    daemon = doomed(workspace, mode, HIDERS[0], mark)
    assert daemon.stdout is not None
    assert await asyncio.to_thread(daemon.stdout.readline) == "ready\n"
    await killed(daemon, workspace, mark)


async def test_daemon_killed_during_a_grace_period_leaves_no_process(tmp_path: Path) -> None:
    workspace, mark = tmp_path / "ws", uuid.uuid4().hex
    stubborn = "trap 'echo asked > term' TERM; echo $$ >> pids; while :; do sleep 0.1; done"
    daemon = doomed(workspace, "grace", stubborn, mark)
    await until((workspace / "term").exists, "the signal")
    await killed(daemon, workspace, mark)


async def run(workspace: Path, command: str, timeout_s: float = 30) -> tuple[Ended, str]:
    out = bytearray()
    ended = await process.run(
        ["bash", "-c", command],
        cwd=workspace,
        env=os.environ,
        on_output=lambda fd, data: out.extend(data),
        timeout_s=timeout_s,
        merge_stderr=True,
        grace_s=0.2,
    )
    return ended, out.decode()


@pytest.mark.parametrize("command", HIDERS)
async def test_normal_end_kills_hidden_background_processes(tmp_path: Path, command: str) -> None:
    command = command.removesuffix("; sleep 300").removesuffix("; wait")
    ended, _ = await run(tmp_path, f"{command}\nuntil [ -s pids ]; do sleep 0.01; done")
    assert ended == Ended(0, stopped_background=True)
    assert pids(tmp_path)
    assert not any(alive(pid) for pid in pids(tmp_path))


async def test_command_that_kills_its_warden_is_killed_too(tmp_path: Path) -> None:
    await run(tmp_path, "echo $$ >> pids; kill -9 $PPID; sleep 300")
    await until(lambda: not any(alive(pid) for pid in pids(tmp_path)), "its end")


async def test_a_killed_reaper_is_replaced(tmp_path: Path) -> None:
    await run(tmp_path, "true")
    assert supervised_process._reaper._process is not None
    os.kill(supervised_process._reaper._process.pid, signal.SIGKILL)
    ended, out = await run(tmp_path, "echo again")
    assert (ended.exit_code, out) == (0, "again\n")


async def test_stopped_command_is_killed_too(tmp_path: Path) -> None:
    ended, _ = await run(tmp_path, "echo $$ > pids; kill -STOP $$", timeout_s=0.5)
    assert ended.timed_out
    assert not any(alive(pid) for pid in pids(tmp_path))


async def test_keys_are_not_in_the_environment_of_the_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "visible")
    supervised_process._reaper._forget()
    _, out = await run(tmp_path, "tr '\\0' '\\n' < /proc/$PPID/environ")
    assert out == "LC_ALL=C\n"


async def test_large_output_and_exit_codes_come_whole(tmp_path: Path) -> None:
    ended, out = await run(tmp_path, "seq 1 100000; exit 7")
    assert ended.exit_code == 7
    assert out == "".join(f"{number}\n" for number in range(1, 100001))


async def test_command_whose_supervisor_dies_early_runs_once(tmp_path: Path) -> None:
    # The command stops its warden before anything else, so nothing more is heard of it, however busy the machine is.
    program = "kill -9 $PPID; echo x >> runs; sleep 300"
    started = await supervised_process.start(
        ["bash", "-c", program],
        cwd=tmp_path,
        env=os.environ,
        on_output=lambda fd, data: None,
        merge_stderr=True,
        grace_s=0.2,
    )
    await started.ended.wait()
    await started.stop(0.2)
    assert not started.family.members()
    assert not (tmp_path / "runs").exists() or (tmp_path / "runs").read_text() == "x\n"


def test_warden_reports_a_command_before_running_it(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    null = os.open(os.devnull, os.O_RDWR)
    # It kills its parent, which is this warden, in its very first instruction.
    argv = ["bash", "-c", "kill -9 $PPID"]
    request = {"argv": argv, "cwd": str(tmp_path), "env": dict(os.environ), "grace": 0.2}
    for _ in range(in_full(20, 8)):
        pid = os.fork()
        if pid == 0:
            try:
                Warden(request, os.dup(theirs.fileno()), os.dup(null), os.dup(null), os.dup(null)).run()
            finally:
                os._exit(1)
        os.waitpid(pid, 0)
        assert ours.recv(6) == b"begun "
        ours.recv(4096)
    ours.close()
    theirs.close()
    os.close(null)
