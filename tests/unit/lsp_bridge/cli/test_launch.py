from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from daemon.runtime import RuntimePaths
from lsp_bridge.cli.launch import (
    Clock,
    Greeting,
    Launcher,
    LaunchError,
    daemon_command,
    ensure_daemon,
    passed_on,
)
from tests.support.drivers.ports import bound_port
from tests.support.drivers.waiting import until
from tests.support.fakes import daemon_server
from tests.support.fakes.daemon_server import FakeDaemon

FAKE = (sys.executable, daemon_server.__file__)
HELLO = Greeting(client="test")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def launcher(tmp_path: Path, workspace: Path) -> Iterator[Launcher]:
    launcher = Launcher(home=tmp_path / "home", command=FAKE)
    yield launcher
    address = RuntimePaths.for_workspace(workspace, launcher.home).read_address()
    if address is not None and address.pid != os.getpid():
        kill(address.pid)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    # A child of this process: waiting also makes sure that the kernel has freed its lock.
    os.waitpid(pid, 0)


class Impatient(Clock):
    """A clock on which every look takes long."""

    def __init__(self, step_s: float) -> None:
        self.time = 0.0
        self.step_s = step_s

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += self.step_s
        await asyncio.sleep(0.005)


async def test_daemon_is_started_once_and_found_again(launcher: Launcher, workspace: Path) -> None:
    first = await ensure_daemon(workspace, launcher=launcher)
    assert await ensure_daemon(workspace, launcher=launcher) == first
    assert first.pid != os.getpid()


async def test_concurrent_clients_start_one_daemon(launcher: Launcher, workspace: Path) -> None:
    addresses = await asyncio.gather(*(ensure_daemon(workspace, launcher=launcher) for _ in range(5)))
    assert len({address.pid for address in addresses}) == 1


async def test_daemon_runs_outside_the_workspace_in_its_own_session(
    launcher: Launcher, workspace: Path
) -> None:
    address = await ensure_daemon(workspace, launcher=launcher)
    assert os.getsid(address.pid) == address.pid
    process = Path("/proc", str(address.pid))
    assert (process / "cwd").readlink() == RuntimePaths.for_workspace(workspace, launcher.home).folder
    assert (process / "fd" / "0").readlink() == Path(os.devnull)


async def test_daemon_that_was_killed_is_replaced(launcher: Launcher, workspace: Path) -> None:
    first = await ensure_daemon(workspace, launcher=launcher)
    kill(first.pid)
    paths = RuntimePaths.for_workspace(workspace, launcher.home)
    assert paths.address_file.exists()
    assert paths.socket_path.exists()
    second = await ensure_daemon(workspace, launcher=launcher)
    assert second.pid != first.pid
    assert second.token != first.token


async def test_address_file_of_another_program_s_process_is_stale(
    launcher: Launcher, workspace: Path
) -> None:
    paths = RuntimePaths.for_workspace(workspace, launcher.home)
    paths.prepare()
    stale = FakeDaemon(workspace, launcher.home).address._replace(pid=os.getpid(), protocol_version=99)
    paths.write_address(stale)
    address = await ensure_daemon(workspace, launcher=launcher)
    assert address.pid != os.getpid()


async def test_port_reused_by_another_program_is_never_contacted(launcher: Launcher, workspace: Path) -> None:
    contacted: list[str] = []

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        contacted.append("somebody")
        writer.close()

    # Programs of other tests may still look for theirs at an ephemeral port that is free again.
    stranger = await asyncio.start_server(accepted, sock=bound_port())
    paths = RuntimePaths.for_workspace(workspace, launcher.home)
    paths.prepare()
    killed = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", "")
    await killed.wait()
    here = FakeDaemon(workspace, launcher.home).address
    port = stranger.sockets[0].getsockname()[1]
    paths.write_address(here._replace(pid=killed.pid, socket=None, port=port))
    free = paths.take(paths.lock_file)  # as a daemon that has just begun, and has removed nothing yet
    assert free is not None
    with pytest.raises(LaunchError, match="No Goalwright daemon is running"):
        await launcher.connect_running(workspace, HELLO)
    free()
    await ensure_daemon(workspace, launcher=launcher)
    stranger.close()
    assert contacted == []


async def test_connect_running_starts_nothing(launcher: Launcher, workspace: Path) -> None:
    with pytest.raises(LaunchError, match="No Goalwright daemon is running") as caught:
        await launcher.connect_running(workspace, HELLO)
    assert caught.value.code == "notRunning"
    assert not (launcher.home or Path()).exists()


async def test_missing_workspace_and_file_are_clear_errors(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, words in (("missing", "does not exist"), ("file", "is not a folder")):
        with pytest.raises(LaunchError, match=words) as caught:
            await launcher.connect(tmp_path / name, HELLO)
        assert caught.value.code == "workspace"


async def test_daemon_that_exits_at_once_shows_its_last_log_lines(
    launcher: Launcher, workspace: Path
) -> None:
    failing = launcher._replace(serve_args=("--fail", "the disk is full"))
    paths = RuntimePaths.for_workspace(workspace, launcher.home)
    paths.prepare()
    paths.log_file.write_text("words of an older run\n")
    with pytest.raises(LaunchError, match="the disk is full") as caught:
        await failing.connect(workspace, HELLO)
    assert caught.value.code == "startFailed"
    assert "older run" not in str(caught.value)
    assert str(paths.log_file) in str(caught.value)


async def test_program_that_is_missing_is_a_clear_error(launcher: Launcher, workspace: Path) -> None:
    with pytest.raises(LaunchError, match="/no/such/python"):
        await launcher._replace(command=("/no/such/python",)).connect(workspace, HELLO)


async def test_daemon_that_never_answers_times_out(launcher: Launcher, workspace: Path) -> None:
    deaf = launcher._replace(serve_args=("--deaf",), deadline_s=15, clock=Impatient(5.0))
    with pytest.raises(LaunchError, match="did not answer within 15 s") as caught:
        await deaf.connect(workspace, HELLO)
    assert caught.value.code == "startTimeout"
    kill_daemons(workspace)


async def test_daemon_that_is_still_starting_is_not_called_damaged(
    launcher: Launcher, workspace: Path
) -> None:
    starts = (
        "import pathlib, signal, sys; from daemon.runtime import RuntimePaths; "
        "paths = RuntimePaths.for_workspace(pathlib.Path(sys.argv[3])); "
        "held = paths.hold_lock(); held.__enter__(); signal.pause()"
    )
    slow = launcher._replace(command=(sys.executable, "-c", starts), deadline_s=15, clock=Impatient(0.05))
    with pytest.raises(LaunchError, match="did not answer within 15 s") as caught:
        await slow.connect(workspace, HELLO)
    assert caught.value.code == "startTimeout"
    assert RuntimePaths.for_workspace(workspace, launcher.home).is_locked()
    kill_daemons(workspace)


async def test_client_that_never_gets_the_start_lock_times_out(launcher: Launcher, workspace: Path) -> None:
    import filelock

    paths = RuntimePaths.for_workspace(workspace, launcher.home)
    paths.prepare()
    with filelock.FileLock(paths.start_lock_file), pytest.raises(LaunchError, match="did not answer"):
        await launcher._replace(clock=Impatient(5.0)).connect(workspace, HELLO)


async def test_daemon_holding_its_lock_while_stopping_is_awaited(launcher: Launcher, workspace: Path) -> None:
    paths = RuntimePaths.for_workspace(workspace, launcher.home)
    with paths.hold_lock():
        starting = asyncio.create_task(ensure_daemon(workspace, launcher=launcher))
        # At least one daemon was started in vain.
        await until(lambda: paths.log_file.exists() and b"already running" in paths.log_file.read_bytes())
    assert (await starting).pid != os.getpid()


async def test_unresponsive_daemon_is_reported_after_the_timeout(launcher: Launcher, workspace: Path) -> None:
    fake = FakeDaemon(workspace, launcher.home)

    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    fake.handlers["initialize"] = silent
    async with fake:
        with pytest.raises(LaunchError, match=r"does not answer.*stop --force") as caught:
            await launcher._replace(answer_s=0.05).connect(workspace, HELLO)
    assert caught.value.code == "unresponsive"


async def test_daemon_of_another_protocol_is_reported_and_kept(launcher: Launcher, workspace: Path) -> None:
    fake = FakeDaemon(workspace, launcher.home)
    fake.protocol_version = 99
    async with fake:
        with pytest.raises(LaunchError, match=r"protocol 99.*goalwright stop") as caught:
            await launcher.connect(workspace, HELLO)
    assert caught.value.code == "incompatible"


async def test_refused_token_is_reported(launcher: Launcher, workspace: Path) -> None:
    async with FakeDaemon(workspace, launcher.home) as fake:
        fake.paths.write_address(fake.address._replace(token="wrong"))
        with pytest.raises(LaunchError, match="does not accept the token") as caught:
            await launcher.connect(workspace, HELLO)
    assert caught.value.code == "unauthorized"


async def test_folder_that_cannot_be_created_is_an_error(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(LaunchError, match="GOALWRIGHT_HOME") as caught:
        await Launcher(home=tmp_path / "home", command=FAKE).connect(workspace, HELLO)
    assert caught.value.code == "runtimeFolder"


async def test_long_log_is_moved_away_and_private(
    launcher: Launcher, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lsp_bridge.cli.launch.LOG_LIMIT", 10)
    paths = RuntimePaths.for_workspace(workspace, launcher.home)
    paths.prepare()
    paths.log_file.write_text("a long log of yesterday")
    await ensure_daemon(workspace, launcher=launcher)
    assert paths.log_file.with_suffix(".log.1").read_text() == "a long log of yesterday"
    assert paths.log_file.stat().st_mode & 0o077 == 0


async def test_relative_home_is_resolved_for_the_daemon(
    launcher: Launcher, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOALWRIGHT_HOME", "home")
    await ensure_daemon(workspace, launcher=launcher._replace(home=None))


def test_daemon_runs_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert daemon_command() == [sys.executable, "-I", "-m", "goalwright"]


def test_daemon_is_found_when_this_code_came_by_pythonpath(monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(Path(daemon_server.__file__).parents[3])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/elsewhere", root]))
    program, isolated, _, bootstrap = daemon_command()
    assert (program, isolated) == (sys.executable, "-I")
    assert json.dumps(root)[1:-1] in bootstrap
    compile(bootstrap, "bootstrap", "exec")


def kill_daemons(workspace: Path) -> None:
    """Kill what was started for a workspace; this process has other children, too."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if str(workspace) in child.cmdline():
                child.kill()
                child.wait()


async def test_a_daemon_is_started_without_secrets_in_its_environment(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Launcher(home=tmp_path / "home", command=FAKE)
    (tmp_path / "home").mkdir()
    elsewhere = tmp_path / "dotfiles.json"
    elsewhere.write_text(json.dumps({"environment": ["MINE", "OUR_*", 3], "mode": "no mode"}))
    (tmp_path / "home" / "config.json").symlink_to(elsewhere)
    given = ("GITHUB_TOKEN", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "OUR_TOKEN")
    for name in (*given, "MINE", "OUR_SHOP", "NODE_ENV"):
        monkeypatch.setenv(name, f"value-of-{name}")
    client, address = await launcher.connect(workspace, HELLO)
    try:
        entries = Path(f"/proc/{address.pid}/environ").read_bytes().split(b"\0")
        names = {entry.partition(b"=")[0].decode() for entry in entries}
        assert not names & set(given)
        assert {"PATH", "MINE", "OUR_SHOP", "NODE_ENV", "GOALWRIGHT_HOME"} <= names
    finally:
        await client.close()
        kill(address.pid)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"environment": "A"}', "{" * 100_000, '{"environment": {"A": 1}}']
)
def test_unreadable_setting_passes_no_variables(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert passed_on(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_the_memory_of_a_daemon_is_private() -> None:
    program = """
import ctypes, os, subprocess
from daemon.runtime import keep_memory_private
if os.getuid() == 0:  # nothing is kept from root
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a process that was started by this user
def tried(command):
    return subprocess.run(["sh", "-c", command], stdout=-3, stderr=-3).returncode == 0
looks = [f"cat /proc/{os.getpid()}/environ", f"ls /proc/{os.getpid()}/fd", f"readlink /proc/{os.getpid()}/cwd"]
print([tried(look) for look in looks])
keep_memory_private()
print([tried(look) for look in looks])
# What the daemon itself can do, and what it starts.
print(len(open("/proc/self/statm").read().split()), os.path.realpath(f"/proc/self/fd/{os.open('/', os.O_RDONLY)}"))
print(tried("cat /proc/$$/environ && ls /proc/$$/fd"))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["[True, True, True]", "[False, False, False]", "7 /", "True"], (
        done.stderr
    )
