"""The daemon as a real process: starting, finding, killing, stopping, and what it must never do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lsp_bridge.protocol.handshake import ErrorCode, preamble
from tests.support.drivers.command_line import PROGRAM, WITHOUT_PRIVILEGES, CommandLine

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = (str(Path(sys.executable).with_name("goalwright")),)
"""The console script."""
UNSAFE = (sys.executable, "-m", "goalwright")
FOLLOWED = """
import fcntl, os, pathlib, signal, sys
def have(folder):
    folder.mkdir(parents=True)
    lock = (folder / "daemon.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / "daemon.pid").write_text(str(os.getpid()))
    return lock
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
run = pathlib.Path(sys.argv[1])
first = have(run / "first")
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
second = have(run / "second")
first.close()
signal.sigwait([signal.SIGTERM])
"""
"""A daemon that starts another one while it ends, as one does that has just begun with the preloader."""


@pytest.fixture
def goalwright(goalwright: CommandLine) -> CommandLine:
    """Return the product, started as users start it."""
    goalwright.forker = None
    return goalwright


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


# -- start -----------------------------------------------------------------------------------------------------


def test_start_prints_the_address_and_starts_only_once(goalwright: CommandLine) -> None:
    first = goalwright.start()
    assert first == goalwright.paths.read_address()
    assert first.workspace == str(goalwright.workspace)
    assert goalwright.start() == first


def test_daemon_started_by_hand_has_loaded_its_http_client(goalwright: CommandLine) -> None:
    assert goalwright.run("start").returncode == 0
    address = goalwright.paths.read_address()
    assert address is not None
    assert any("aiohttp" in place.path for place in psutil.Process(address.pid).memory_maps())


def test_two_starts_at_once_make_one_daemon(goalwright: CommandLine) -> None:
    processes = [goalwright.popen("start", "--json") for _ in range(4)]
    answers = [process.communicate(timeout=60)[0] for process in processes]
    assert len({json.loads(answer)["pid"] for answer in answers}) == 1


def test_second_daemon_refuses_and_names_the_first(goalwright: CommandLine) -> None:
    address = goalwright.start()
    result = goalwright.run("serve", "--foreground")
    assert result.returncode == 3
    assert f"already running (process {address.pid})" in result.stderr
    assert goalwright.start() == address


def test_everything_of_the_daemon_is_only_for_the_user(goalwright: CommandLine) -> None:
    old = os.umask(0)
    try:
        address = goalwright.start()
    finally:
        os.umask(old)
    folder = goalwright.paths.folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()} == {
        "daemon.json": 0o600,
        "daemon.lock": 0o600,
        "daemon.log": 0o600,
        "daemon.pid": 0o600,
        "daemon.sock": 0o600,
        "start.lock": 0o600,
    }
    assert address.token not in goalwright.log()


def test_deep_home_still_gets_a_socket(goalwright: CommandLine) -> None:
    goalwright.env["GOALWRIGHT_HOME"] = str(goalwright.home / ("deep" * 15) / ("deep" * 15))
    address = goalwright.start()
    assert address.socket is not None
    assert len(os.fsencode(address.socket)) < 100
    assert goalwright.run("stop").returncode == 0
    assert not Path(address.socket).parent.exists()


def test_missing_workspace_is_an_error_in_text_and_json(goalwright: CommandLine) -> None:
    result = goalwright.run("start", "--json", "--workspace", "/no/such/folder")
    assert result.returncode == 1
    assert json.loads(result.stdout)["error"]["code"] == "workspace"
    result = goalwright.run("run", "x", "--workspace", "/no/such/folder")
    assert (result.returncode, result.stdout) == (1, "")
    assert "does not exist" in result.stderr


def test_workspace_that_may_not_be_entered_is_an_error(goalwright: CommandLine) -> None:
    goalwright.workspace.chmod(0)
    for command in (("run", "x"), ("doctor",)):
        result = goalwright.run(
            *command,
            "--workspace",
            str(goalwright.workspace),
            program=(*WITHOUT_PRIVILEGES, *PROGRAM),
            cwd=goalwright.folder,
        )
        assert result.returncode == 1
        assert "cannot be entered by this user" in result.stderr
    goalwright.workspace.chmod(0o700)


@pytest.mark.parametrize("read_only", [True, False])
def test_home_that_is_closed_is_an_error_or_no_obstacle(goalwright: CommandLine, read_only: bool) -> None:
    home = goalwright.home / ".goalwright"
    goalwright.paths.prepare()
    goalwright.paths.lock_file.touch()
    if not read_only:
        home.chmod(0)
    bound = ("--ro-bind", str(home), str(home), "--") if read_only else ("--",)
    for command, words in (
        (["start"], "set GOALWRIGHT_HOME to a folder that you own"),
        (["preload"], "set GOALWRIGHT_HOME to a folder that you own"),
        (["status"], "No Goalwright daemon is running"),
        (["stop"], "No Goalwright daemon is running"),
        (["stop", "--all"], "No Goalwright daemon is running"),
        (["trace", "list"], "There are no traces"),
        (["doctor"], "not running; it starts when needed"),
    ):
        result = goalwright.run(*command, program=(*WITHOUT_PRIVILEGES[:-1], *bound, *PROGRAM))
        assert words in result.stdout + result.stderr
        assert "Traceback" not in result.stderr
    home.chmod(0o700)


# -- being killed, stopping, idling ----------------------------------------------------------------------------


def test_daemon_is_replaced_after_kill_9(goalwright: CommandLine) -> None:
    first = goalwright.start()
    kill(first.pid)
    goalwright.wait_until_gone()
    assert goalwright.paths.address_file.exists()
    assert Path(first.socket or "").exists()
    status = goalwright.run("status", "--json")
    assert status.returncode == 1
    assert json.loads(status.stdout)["error"]["code"] == "notRunning"
    second = goalwright.start()
    assert second.pid != first.pid


def test_stale_files_of_other_kinds_do_not_prevent_a_start(goalwright: CommandLine) -> None:
    goalwright.paths.prepare()
    goalwright.paths.address_file.write_text("{ this is no JSON")
    goalwright.paths.socket_path.write_text("this is no socket")
    assert goalwright.start().pid


@pytest.mark.parametrize("content", ["{ this is no JSON", "{}", None])
def test_damaged_daemon_address_is_reported_and_fixed_by_stop(
    goalwright: CommandLine, content: str | None
) -> None:
    first = goalwright.start()
    if content is None:
        goalwright.paths.address_file.unlink()
    else:
        goalwright.paths.address_file.write_text(content)
        told = goalwright.run("run", "hi", "--model", "demo/demo")
        assert told.returncode == 1
        for words in (f"process {first.pid}", "is damaged", "`goalwright stop --force`"):
            assert words in told.stderr
        assert "is damaged" in goalwright.run("status").stderr
    stopped = goalwright.run("stop", "--force")
    assert (stopped.returncode, stopped.stdout) == (
        0,
        "Stopped. It did not answer, so its process was ended (SIGTERM).\n",
    )
    assert goalwright.start().pid != first.pid


def test_stop_ends_the_daemon_and_leaves_nothing_stale(goalwright: CommandLine) -> None:
    address = goalwright.start()
    result = goalwright.run("stop")
    assert (result.returncode, result.stdout) == (0, "Stopped.\n")
    assert not goalwright.paths.is_locked()
    assert not goalwright.paths.address_file.exists()
    assert not Path(address.socket or "").exists()
    result = goalwright.run("stop")
    assert result.returncode == 0
    assert "No Goalwright daemon is running" in result.stdout


def test_stop_all_ends_what_a_daemon_has_just_started(goalwright: CommandLine) -> None:
    program, run = goalwright.folder / "goalwright", goalwright.home / ".goalwright" / "run"
    program.write_text(FOLLOWED)
    with subprocess.Popen([sys.executable, program, run], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        try:
            result = goalwright.run("stop", "--all")
            assert (result.returncode, result.stdout) == (0, "Stopped.\n" * 2), result.stderr
        finally:
            process.kill()


@pytest.mark.parametrize("force", [True, False])
def test_stop_signals_no_stranger_with_a_daemons_process_id(goalwright: CommandLine, force: bool) -> None:
    paths = goalwright.paths
    paths.prepare()
    free = paths.take(paths.lock_file)
    assert free is not None
    with subprocess.Popen(["sleep", "60"]) as stranger:
        paths.pid_file.write_text(str(stranger.pid))
        for every in ((), ("--all",)):
            result = goalwright.run("stop", *every, *(["--force"] if force else []))
            assert result.returncode == 1
            assert f"(process {stranger.pid}) runs elsewhere" in result.stderr
        assert stranger.poll() is None
        stranger.kill()
    free()


def test_stop_ends_the_daemon_of_a_folder_that_was_deleted(goalwright: CommandLine) -> None:
    goalwright.start()
    shutil.rmtree(goalwright.workspace)
    command = ("stop", "--workspace", str(goalwright.workspace))
    result = goalwright.run(*command, cwd=goalwright.home)
    assert (result.returncode, result.stdout) == (0, "Stopped.\n")
    assert "does not exist" in goalwright.run(*command, cwd=goalwright.home).stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_daemon_and_leaves_nothing_stale(
    goalwright: CommandLine, number: signal.Signals
) -> None:
    address = goalwright.start()
    os.kill(address.pid, number)
    goalwright.wait_until_gone()
    assert not goalwright.paths.address_file.exists()
    assert not Path(address.socket or "").exists()
    assert "Traceback" not in goalwright.log()


def test_stop_force_ends_a_daemon_that_hangs(goalwright: CommandLine) -> None:
    address = goalwright.start()
    os.kill(address.pid, signal.SIGSTOP)
    result = goalwright.run("stop", "--force")
    assert (result.returncode, result.stdout) == (
        0,
        "Stopped. It did not answer, so its process was ended (SIGKILL).\n",
    )
    assert goalwright.start().pid != address.pid


def test_unused_daemon_exits_after_the_idle_timeout(goalwright: CommandLine) -> None:
    goalwright.start(
        "--idle-timeout", "2"
    )  # less, and on a busy machine it is over before ``start`` gets there
    goalwright.wait_until_gone()
    assert not goalwright.paths.address_file.exists()
    assert goalwright.start().pid


# -- the socket ------------------------------------------------------------------------------------------------


def test_wrong_token_gets_one_error_and_the_connection_closes(goalwright: CommandLine) -> None:
    address = goalwright.start()
    for first_line in (preamble("wrong"), b"GET / HTTP/1.1\r\n", b"Content-Length: 2\r\n\r\n{}\n", b"\n"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address.socket or "")
            connection.sendall(first_line)
            head, _, body = read_all(connection).partition(b"\r\n\r\n")
        assert head == b"Content-Length: %d" % len(body)
        answer = json.loads(body)
        assert (answer["id"], answer["error"]["code"]) == (None, ErrorCode.UNAUTHORIZED)
        assert address.token not in body.decode()
    assert goalwright.run("status").returncode == 0


def test_editor_can_use_it_as_a_server_on_stdio(goalwright: CommandLine) -> None:
    params = {"processId": None, "rootUri": goalwright.workspace.as_uri(), "capabilities": {}}
    editor = goalwright.popen("connect", "--stdio", stdin=-1)
    assert editor.stdin is not None
    assert editor.stdout is not None
    send(editor.stdin, {"id": 1, "method": "initialize", "params": params})
    send(editor.stdin, {"method": "initialized", "params": {}})
    send(editor.stdin, {"id": 2, "method": "shutdown"})
    send(editor.stdin, {"method": "exit"})
    out, err = editor.communicate(timeout=60)
    assert editor.returncode == 0
    assert err == ""
    assert out.startswith("Content-Length: ")
    assert '"capabilities"' in out


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while chunk := connection.recv(65536):
        data += chunk
    return data


def send(pipe: object, message: dict[str, object]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message})
    pipe.write(f"Content-Length: {len(body)}\r\n\r\n{body}")  # type: ignore[attr-defined] # text mode pipe
    pipe.flush()  # type: ignore[attr-defined]


# -- an untrusted workspace ------------------------------------------------------------------------------------

SHADOWED = (
    "json.py asyncio.py logging.py argparse.py pathlib.py socket.py typing.py sitecustomize.py usercustomize.py "
    "pydantic/__init__.py pygls/__init__.py anthropic.py litellm.py filelock.py tools/__init__.py "
    "tools/edit.py lsp_bridge/__init__.py lsp_bridge/cli/__init__.py"
)


def make_hostile(goalwright: CommandLine, *more: str) -> Path:
    """Fill the workspace with modules that leave a mark when they are imported."""
    mark = goalwright.folder / "imported"
    for name in (*SHADOWED.split(), *more):
        path = goalwright.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(mark)!r}, 'a').write({name!r} + '\\n')\n")
    return mark


@pytest.mark.parametrize("program", [SCRIPT, PROGRAM], ids=["console script", "python -I -m daemon"])
def test_hostile_workspace_modules_are_never_imported(
    goalwright: CommandLine, program: tuple[str, ...]
) -> None:
    mark = make_hostile(goalwright, "daemon/__init__.py", "daemon/__main__.py", "daemon/core.py", "runpy.py")
    model = goalwright.script([{"tool_calls": [{"name": "ls", "input": {"path": "."}}]}, {"text": "Done."}])
    result = goalwright.run("run", "look around", "--model", model, program=program)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Done." in result.stdout
    assert goalwright.run("status", program=program).returncode == 0
    assert not mark.exists(), mark.read_text()


def test_python_m_in_hostile_workspace_imports_only_the_runner(goalwright: CommandLine) -> None:
    # Without -I this program cannot keep `runpy` or `goalwright` itself from being shadowed; but all the rest.
    mark = make_hostile(goalwright)
    result = goalwright.run("status", program=UNSAFE)
    assert "No Goalwright daemon is running" in result.stderr
    assert not mark.exists(), mark.read_text()


def test_daemon_ignores_a_pythonpath_to_the_workspace(goalwright: CommandLine) -> None:
    mark = make_hostile(goalwright)
    goalwright.start()
    goalwright.stop()
    goalwright.env["PYTHONPATH"] = str(goalwright.workspace)
    # The first process is the one that a person started with this variable; what it starts must be clean.
    process = goalwright.run("start", "--json", program=PROGRAM)
    assert process.returncode == 0, process.stderr
    assert not mark.exists(), mark.read_text()


def test_source_checkout_on_the_path_is_refused_as_workspace(
    goalwright: CommandLine,
) -> None:
    result = goalwright.run("status", program=UNSAFE, cwd=ROOT)
    assert result.returncode == 1
    assert "Start it as `goalwright`" in result.stderr


def test_own_checkout_can_be_worked_on(goalwright: CommandLine) -> None:
    for program in (SCRIPT, PROGRAM):
        result = goalwright.run("status", "--workspace", str(ROOT), program=program, cwd=ROOT)
        assert f"No Goalwright daemon is running for {ROOT}" in result.stderr


# -- the command line ------------------------------------------------------------------------------------------


def test_wrong_arguments_are_a_usage_error(goalwright: CommandLine) -> None:
    for arguments in (["run", "x", "--model", "gpt"], ["fly"], []):
        result = goalwright.run(*arguments)
        assert result.returncode == 2
        assert result.stderr.startswith("usage: goalwright")
        assert "Traceback" not in result.stderr


def test_version_is_printed(goalwright: CommandLine) -> None:
    said = [goalwright.run(asked) for asked in ("version", "--version")]
    assert [result.returncode for result in said] == [0, 0]
    assert [result.stdout.split()[0] for result in said] == ["goalwright", "goalwright"]


def test_deleted_current_folder_is_an_error(goalwright: CommandLine) -> None:
    gone = goalwright.folder / "gone"
    shell = ("/bin/sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone))
    gone.mkdir()
    result = goalwright.run("status", program=(*shell, *SCRIPT))
    assert result.returncode == 1
    assert "The current folder" in result.stderr
