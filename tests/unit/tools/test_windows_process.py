"""Programs as on Windows, where nothing supervises them; ``taskkill`` is a script here."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.support.drivers.waiting import until
from tools.process import programs, server_process, windows_process
from tools.process.programs import Ended
from tools.process.server_process import ServerProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has the real taskkill")

TASKKILL = """#!/bin/sh
for word; do pid=$word; done
echo "$@" >> "$(dirname "$0")/calls"
case "$*" in */F*) kill -9 "$pid";; *) kill -TERM "$pid";; esac
"""


@pytest.fixture(autouse=True)
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ``taskkill`` writes its arguments."""
    program = tmp_path / "bin" / "taskkill"
    program.parent.mkdir()
    program.write_text(TASKKILL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    for module in (programs, server_process):
        monkeypatch.setattr(module, "sys", _Windows)
    return program.with_name("calls")


class _Windows:
    platform = "win32"


async def run(tmp_path: Path, command: str, grace_s: float = 5) -> tuple[Ended, str]:
    """Run a command to its end, or until it says that it is ready."""
    out = bytearray()

    def heard(fd: int, data: bytes) -> bool:
        out.extend(data)
        return b"ready" not in out

    ended = await programs.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=os.environ,
        on_output=heard,
        timeout_s=60,
        merge_stderr=True,
        grace_s=grace_s,
        feed=lambda stdin: (stdin.write(b"asked\n"), stdin.close())[1],
    )
    return ended, out.decode()


async def test_a_program_is_fed_and_heard_to_its_end(tmp_path: Path, calls: Path) -> None:
    assert await run(tmp_path, "cat; echo wrong >&2; exit 3") == (Ended(3), "asked\nwrong\n")
    assert not calls.exists()


async def test_a_program_is_asked_to_end_first(tmp_path: Path, calls: Path) -> None:
    ended, _ = await run(tmp_path, "trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done")
    assert ended == Ended(4)
    assert "/F" not in calls.read_text()


async def test_a_program_that_does_not_react_is_killed(tmp_path: Path, calls: Path) -> None:
    ended, _ = await run(tmp_path, "trap '' TERM; echo ready; while :; do sleep 0.05; done", grace_s=0.2)
    assert ended == Ended(-9)
    assert calls.read_text().splitlines()[-1].startswith("/F /T /PID ")


async def test_a_program_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    ended = await programs.run(
        ["sleep", "300"], cwd=tmp_path, env=os.environ, on_output=lambda fd, data: None, timeout_s=0.5
    )
    assert ended == Ended(-15, timed_out=True)


async def test_a_child_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    ended, out = await run(tmp_path, "sleep 300 & echo $!")
    assert ended == Ended(0, stopped_background=True)
    os.kill(int(out), 9)


async def test_a_cancellation_while_it_starts_leaves_no_process(tmp_path: Path) -> None:
    starting = asyncio.create_task(
        windows_process.start(
            ["sleep", "300"],
            cwd=tmp_path,
            env=os.environ,
            on_output=lambda fd, data: None,
            merge_stderr=False,
            grace_s=5,
        )
    )
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_a_server_answers_is_paused_and_ends(tmp_path: Path) -> None:
    complaints: list[bytes] = []
    server = await ServerProcess.start(
        ["sh", "-c", "echo why >&2; read line; echo $line; yes"],
        cwd=tmp_path,
        environment=os.environ,
        grace_s=5,
        on_stderr=complaints.append,
    )
    server.write(b"hello\n")
    assert await server.stdout.readline() == b"hello\n"
    await until(lambda: b"".join(complaints) == b"why\n", "its complaint")
    # What it writes on and on is not read ahead without end.
    assert await server.stdout.readline() == b"y\n"
    await server.end(5)
    assert server.exited.is_set()
    assert server.exit_code == -15
    assert server.stderr_tail == "why"
