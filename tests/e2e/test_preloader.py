"""The preloader: daemons forked from it are as those that start by themselves, and nothing needs it. Linux only.

Starting one takes more than a second of processor time, so tests that leave it as it is share one.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.runtime import Address, RuntimePaths
from lsp_bridge.cli import preloader as preloading
from lsp_bridge.cli.preloaded import HEADER, Forked, fork, preloader_paths
from tests.e2e.conftest import ROOT
from tests.support.drivers.command_line import PROGRAM, CommandLine, fresh_account, wait_until

NOBODY = 65534
SECRET = "sk-ant-api03-of-the-shell"


@pytest.fixture(scope="module")
def account() -> Iterator[CommandLine]:
    """Started as a person starts it; its preloader ends with the tests."""
    with fresh_account() as account:
        yield account
        end_preloader(account)


@pytest.fixture
def goalwright(account: CommandLine) -> Iterator[CommandLine]:
    """The account of all tests, without a daemon."""
    env = dict(account.env)
    account.configure(environment=["LIKED"], preload=False)
    yield account
    account.env = env
    account.end()


def preloader(goalwright: CommandLine) -> RuntimePaths:
    return preloader_paths(goalwright.home / ".goalwright")


def pid_of(paths: RuntimePaths) -> int | None:
    return paths.read_pid() if paths.is_locked() else None


def end_preloader(goalwright: CommandLine) -> None:
    """Have none, and nothing of an earlier one."""
    paths = preloader(goalwright)
    if (pid := pid_of(paths)) is not None:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not paths.is_locked(), "the end of the preloader")
    shutil.rmtree(paths.folder, ignore_errors=True)


def ready(goalwright: CommandLine) -> int:
    """Wait until there is a preloader, and return its process."""
    paths = preloader(goalwright)
    wait_until(lambda: paths.read_address() is not None and paths.is_locked(), "the preloader")
    address = paths.read_address()
    assert address is not None
    return address.pid


def preload(goalwright: CommandLine) -> int:
    """Have a preloader, started in an environment of which it must keep nothing."""
    if pid_of(preloader(goalwright)) is None:
        end_preloader(goalwright)
        env = {
            **goalwright.env,
            "LIKED": "no",
            "CI": "of the preloader",
            "ANTHROPIC_API_KEY": SECRET,
            "LD_SDK_KEY": SECRET,
        }
        result = goalwright.run("preload", env=env)
        assert result.returncode == 0, result.stderr
    return ready(goalwright)


def status(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


def forked_command(goalwright: CommandLine, command: str, *, answer_s: float = 60.0) -> Forked | None:
    """Have a command forked, whose output goes to the file ``out``."""
    home = goalwright.home / ".goalwright"
    with (goalwright.folder / "out").open("a+b") as out, Path(os.devnull).open("r+b") as nothing:
        streams = (nothing.fileno(), out.fileno(), out.fileno())
        return fork((command,), goalwright.env, goalwright.workspace, streams, home, answer_s=answer_s)


def end(forked: Forked) -> int | None:
    wait_until(lambda: forked.poll() is not None, "the end of the fork")
    return forked.poll()


def is_forked(daemon: Address, preloader_pid: int) -> bool:
    return int(status(daemon.pid, "PPid")) == preloader_pid


def open_files(goalwright: CommandLine, daemon: Address) -> list[str]:
    """The files of a process that do not come and go with sessions, or with modules that are being loaded."""
    links: list[str] = []
    for one in Path(f"/proc/{daemon.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(one.readlink()))
    passing = ("socket:", str(goalwright.workspace))
    return sorted(
        link for link in links if not link.startswith(passing) and not link.endswith((".pyc", ".py", ".so"))
    )


def circumstances(goalwright: CommandLine, daemon: Address) -> dict[str, object]:
    """What a process has from the one that started it, and the environment that its commands see."""
    process = Path(f"/proc/{daemon.pid}")
    files = open_files(goalwright, daemon)
    command = "env -0 > environment"
    model = goalwright.script(
        [{"tool_calls": [{"name": "bash", "input": {"command": command}}]}, {"text": "!"}]
    )
    result = goalwright.run("run", "Look.", "--yes", "--model", model)
    assert result.returncode == 0, result.stdout + result.stderr
    seen = (goalwright.workspace / "environment").read_text().split("\0")
    return {
        "files": files,
        "folder": (process / "cwd").readlink(),
        "command": (process / "cmdline").read_bytes().replace(b"\0", b" ").strip(),
        "session": os.getsid(daemon.pid) == os.getpgid(daemon.pid) == daemon.pid,
        "limits": (process / "limits").read_text(),
        "status": {
            name: status(daemon.pid, name) for name in ("Umask", "SigIgn", "SigBlk", "SigCgt", "Groups")
        },
        "priority": (os.getpriority(os.PRIO_PROCESS, daemon.pid), os.sched_getscheduler(daemon.pid)),
        "environment": sorted(
            one for one in seen if not one.startswith(("GOALWRIGHT_CALL", "GOALWRIGHT_MARK"))
        ),
    }


def test_preloader_has_no_secrets_and_its_files_are_private(goalwright: CommandLine) -> None:
    pid = preload(goalwright)
    goalwright.env["ANTHROPIC_API_KEY"] = SECRET
    assert is_forked(goalwright.start(), pid)
    for file in ("environ", "cmdline"):
        assert SECRET not in Path(f"/proc/{pid}/{file}").read_text()
    assert "LIKED" not in Path(f"/proc/{pid}/environ").read_text()
    folder = preloader(goalwright).folder
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes.pop(folder.name) == 0o700
    assert set(modes.values()) == {0o600}, modes
    assert sorted(Path(f"/proc/{pid}/task").iterdir()) == [Path(f"/proc/{pid}/task/{pid}")]


def test_temporary_folder_of_a_fork_is_that_of_its_client(goalwright: CommandLine) -> None:
    # So long that the sockets are in temporary folders.
    home = goalwright.home / ("x" * 60) / ("y" * 60)
    goalwright.env["GOALWRIGHT_HOME"] = str(home)
    temporary = [goalwright.folder / name for name in ("of the preloader", "of the client")]
    for folder in temporary:
        folder.mkdir()
    assert goalwright.run("preload", env={**goalwright.env, "TMPDIR": str(temporary[0])}).returncode == 0
    paths = preloader_paths(home)
    wait_until(lambda: paths.read_address() is not None, "the preloader")
    result = goalwright.run("start", "--json", env={**goalwright.env, "TMPDIR": str(temporary[1])})
    address = Address.from_json(json.loads(result.stdout))
    forked = is_forked(address, paths.read_pid() or 0)
    assert goalwright.run("stop", "--all").returncode == 0
    assert (forked, Path(address.socket or "").parents[1]) == (True, temporary[1])


def test_stopped_preloader_is_not_waited_for(goalwright: CommandLine) -> None:
    pid = preload(goalwright)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert not is_forked(goalwright.start(), pid)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_wrong_token_and_garbage_get_nothing(goalwright: CommandLine) -> None:
    pid = preload(goalwright)
    address = preloader(goalwright).read_address()
    assert address is not None and address.socket is not None
    order = {"token": "wrong", "arguments": ["stop"], "env": {}, "cwd": "/"}
    for data in (json.dumps(order).encode(), b"[]", b"{"):
        with socket.socket(socket.AF_UNIX) as connection, Path(os.devnull).open("r+b") as nothing:
            connection.connect(address.socket)
            socket.send_fds(connection, [HEADER.pack(len(data))], [nothing.fileno()] * 3)
            connection.sendall(data)
            assert b"".join(iter(lambda: connection.recv(64), b"")) == b"1\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address.socket)
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert "wrong token" in preloader(goalwright).log_file.read_text()
    assert is_forked(goalwright.start(), pid)


def test_other_user_is_refused(goalwright: CommandLine) -> None:
    pid = preload(goalwright)
    paths = preloader(goalwright)
    address = paths.read_address()
    assert address is not None and address.socket is not None
    assert paths.folder.stat().st_mode & 0o777 == 0o700
    if os.geteuid() != 0:
        return  # nobody else to be
    # Somebody who got past all folders.
    folders = (goalwright.folder / path for path in paths.folder.relative_to(goalwright.folder).parents)
    opened = {path: path.stat().st_mode for path in (*folders, paths.folder, Path(address.socket))}
    for path in opened:
        path.chmod(0o777)
    child = os.fork()
    if child == 0:
        code = 9
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(address.socket)
                code = len(connection.recv(64))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # hung up without a word
    for path, mode in opened.items():
        path.chmod(mode)
    assert is_forked(goalwright.start(), pid)


def test_fork_whose_client_has_gone_does_nothing(goalwright: CommandLine) -> None:
    preload(goalwright)
    assert forked_command(goalwright, "start", answer_s=0.0) is None
    assert not goalwright.paths.is_locked()


def test_exit_code_of_a_fork_comes_back(goalwright: CommandLine) -> None:
    preload(goalwright)
    for command, code in (("version", 0), ("nonsense", 2)):
        forked = forked_command(goalwright, command)
        assert forked is not None
        assert end(forked) == code
    assert "goalwright 0" in (goalwright.folder / "out").read_text()


def test_status_and_doctor_tell_of_it_and_stop_all_ends_it(goalwright: CommandLine) -> None:
    pid = preload(goalwright)
    goalwright.start()
    assert f"preloader: process {pid}" in goalwright.run("status").stdout
    assert f"process {pid}: the daemons of other folders start at once" in goalwright.run("doctor").stdout
    result = goalwright.run("stop", "--all")
    assert result.returncode == 0, result.stderr
    assert set(result.stdout.splitlines()) == {
        f"Stopped the daemon of {goalwright.workspace}.",
        "Stopped the preloader.",
    }
    assert not goalwright.paths.is_locked()
    assert not preloader(goalwright).is_locked()
    assert "No Goalwright daemon is running." in goalwright.run("stop", "--all").stdout
    assert "preloader" not in goalwright.run("doctor").stdout.lower()


def test_forked_daemon_is_as_any_other_also_without_preloader(goalwright: CommandLine) -> None:
    pid = preload(goalwright)
    old, (soft, hard) = os.umask(0o027), resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        goalwright.env |= {"LIKED": "yes", "TZ": "Asia/Tokyo", "ANTHROPIC_API_KEY": SECRET}
        forked = goalwright.start()
        assert is_forked(forked, pid)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_forked(forked, pid), "the end of the preloader")
        assert goalwright.start() == forked
        found = circumstances(goalwright, forked)
        goalwright.stop()
        assert preloader(goalwright).socket_path.exists()
        direct = goalwright.start()
        assert direct.pid != forked.pid
        # It still reads certificates and the like, beside answering.
        wait_until(lambda: open_files(goalwright, direct) == found["files"], "the same open files")
        expected = circumstances(goalwright, direct)
    finally:
        os.umask(old)
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert found == expected
    assert "LIKED=yes" in str(found) and "TZ=Asia/Tokyo" in str(found)
    assert SECRET not in str(found)


def test_daemon_leaves_a_preloader_for_the_next_one(goalwright: CommandLine) -> None:
    end_preloader(goalwright)
    goalwright.configure(preload=True)
    first = goalwright.start()
    pid = ready(goalwright)
    assert int(status(pid, "PPid")) != first.pid  # it does not end with the daemon, and is no zombie of it
    goalwright.stop()
    assert is_forked(goalwright.start(), pid)
    assert os.sched_getscheduler(pid) == os.SCHED_OTHER
    again = goalwright.run("preload")
    assert (again.returncode, again.stdout) == (0, "A preloader runs already.\n")


def test_client_with_another_priority_starts_its_daemon_itself(goalwright: CommandLine) -> None:
    pid = preload(goalwright)
    result = goalwright.run("start", "--json", program=("nice", "-n", "3", *PROGRAM))
    daemon = Address.from_json(json.loads(result.stdout))
    assert os.getpriority(os.PRIO_PROCESS, daemon.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3
    # Else clients like this one would never have a preloader.
    wait_until(lambda: pid_of(preloader(goalwright)) is None, "the end of the preloader")
    assert "the client differs in priority" in preloader(goalwright).log_file.read_text()
    assert not is_forked(daemon, pid)


@pytest.mark.parametrize(("name", "value"), [("LC_ALL", "C.ISO-8859-1"), ("MALLOC_ARENA_MAX", "1")])
def test_variables_that_count_at_the_start_of_a_process(
    goalwright: CommandLine, name: str, value: str
) -> None:
    preload(goalwright)
    goalwright.env[name] = value
    assert forked_command(goalwright, "version") is None
    wait_until(lambda: pid_of(preloader(goalwright)) is None, "the end of the preloader")


def test_update_of_the_installation_ends_the_preloader(goalwright: CommandLine) -> None:
    end_preloader(goalwright)
    for package in ("daemon", "goalwright", "lsp_bridge", "tools"):
        shutil.copytree(ROOT / package, goalwright.folder / "own" / package)
    own = str(goalwright.folder / "own")
    code = f"import sys; sys.path.insert(0, {own!r}); import goalwright; sys.exit(goalwright.main())"
    program = (sys.executable, "-I", "-c", code)
    minimal = {name: goalwright.env[name] for name in ("PATH", "HOME")}
    assert goalwright.run("preload", program=program, env=minimal).returncode == 0
    run = goalwright.home / ".goalwright" / "run"
    (folder,) = run.glob("preloader-*")
    paths = RuntimePaths(run, folder, folder.name)
    wait_until(lambda: paths.read_address() is not None, "the preloader")
    pid = paths.read_pid()
    assert pid is not None

    def start() -> Address:
        result = goalwright.run("start", "--json", program=program)
        return Address.from_json(json.loads(result.stdout))

    assert is_forked(start(), pid)
    goalwright.stop()
    with (goalwright.folder / "own" / "tools" / "read.md").open("a") as file:
        file.write("new")
    assert not is_forked(start(), pid)
    wait_until(lambda: not paths.is_locked(), "the end of the preloader")


def test_idle_preloader_ends_and_leaves_nothing(goalwright: CommandLine) -> None:
    end_preloader(goalwright)
    result = goalwright.run("preload", "--idle-timeout", "0.2")
    assert result.returncode == 0
    paths = preloader(goalwright)
    wait_until(lambda: not paths.is_locked(), "the end of the preloader")
    assert sorted(path.name for path in paths.folder.iterdir()) == ["daemon.lock", "daemon.log"]
    assert paths.log_file.read_text() == ""


def test_preloader_that_nobody_can_reach_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preloading, "_LOOK_S", 0.01)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        (tmp_path / "socket").unlink()
        assert preloading._wait(listener, preloading._Code(), None) is None
