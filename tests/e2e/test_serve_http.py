"""``goalwright serve --http``, ``trace page`` and the setting ``api_port``, as a script meets them: real processes."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest

from tests.support.drivers.command_line import CommandLine
from tests.support.drivers.ports import free_port


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait(30)


def line_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The one line that a script waits for."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 60)
    assert ready, "nothing was printed"
    return cast("dict[str, Any]", json.loads(process.stdout.readline()))


def traces(found: dict[str, Any]) -> httpx.Response:
    headers = {"authorization": f"Bearer {found['token']}"}
    return httpx.get(f"{found['url']}/api/traces", headers=headers, timeout=60)


def test_serve_http_prints_one_line_and_stops_on_a_signal(
    goalwright: CommandLine, processes: list[subprocess.Popen[str]]
) -> None:
    port = free_port()
    process = goalwright.popen("serve", "--http", str(port))
    processes.append(process)
    found = line_of(process)
    assert set(found) == {"url", "token"}
    assert found["url"] == f"http://127.0.0.1:{port}"
    assert traces(found).json() == {"traces": [], "more": False, "next": None}
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")
    assert found["token"] not in goalwright.paths.log_file.read_text()


def test_serve_http_returns_the_running_api_and_refuses_new_port(goalwright: CommandLine) -> None:
    address = goalwright.start()
    first = goalwright.run("serve", "--http", "0")
    assert (first.returncode, first.stdout.count("\n")) == (0, 1)
    found = json.loads(first.stdout)
    assert traces(found).status_code == 200
    assert json.loads(goalwright.run("serve", "--http", "0").stdout) == found
    page = goalwright.run("trace", "page")
    assert page.stdout.strip() == f"{found['url']}/?token={found['token']}"
    assert json.loads(goalwright.run("trace", "page", "--json").stdout)["token"] == found["token"]
    other = goalwright.run("serve", "--http", str(free_port()))
    assert (other.returncode, other.stdout) == (1, "")
    assert found["url"] in other.stderr
    assert goalwright.start() == address


def test_many_at_once_get_one_daemon_and_one_api(
    goalwright: CommandLine, processes: list[subprocess.Popen[str]]
) -> None:
    processes += [goalwright.popen("serve", "--http", "0") for _ in range(3)]
    lines = [line_of(process) for process in processes]
    assert len({json.dumps(line) for line in lines}) == 1


def test_taken_port_is_an_error(goalwright: CommandLine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = goalwright.run("serve", "--http", str(port))
    assert (result.returncode, result.stdout) == (1, "")
    assert f"port {port}" in result.stderr and "0 for any free one" in result.stderr
    wrong = goalwright.run("serve", "--http", "70000")
    assert wrong.returncode == 2


def test_api_port_setting_opens_the_port_with_the_daemon(goalwright: CommandLine) -> None:
    port = free_port()
    goalwright.configure(api_port=port)
    goalwright.start()
    page = json.loads(goalwright.run("trace", "page", "--json").stdout)
    assert page["url"] == f"http://127.0.0.1:{port}"
    assert traces(page).status_code == 200


def test_taken_api_port_setting_falls_back_to_another_port(goalwright: CommandLine) -> None:
    with socket.socket() as taken:  # the daemon of another workspace, which has the setting, too
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        goalwright.configure(api_port=port)
        goalwright.start()
        page = json.loads(goalwright.run("trace", "page", "--json").stdout)
        assert page["url"] != f"http://127.0.0.1:{port}"
        assert traces(page).status_code == 200
        status = goalwright.run("status").stdout
        assert page["url"] in status and f"Port {port} of the setting api_port" in status
        assert page["token"] not in status
        named = goalwright.run("serve", "--http", str(port))
        assert (named.returncode, named.stdout) == (1, "")


def test_status_shows_whether_the_api_is_open(goalwright: CommandLine) -> None:
    goalwright.start()
    assert "not open" in goalwright.run("status").stdout
    assert json.loads(goalwright.run("status", "--json").stdout)["apiUrl"] is None
    url = json.loads(goalwright.run("serve", "--http", "0").stdout)["url"]
    assert json.loads(goalwright.run("status", "--json").stdout)["apiUrl"] == url


BROKEN = """
import sys
import daemon.core
from daemon.__main__ import main

def broken(*_, **__):
    raise ZeroDivisionError("a bug, with the key sk-ant-api03-Zq8Wx7Cv6Bn5Mm4Ll3Kk2Jj1")

daemon.core.Daemon.__init__ = broken
sys.exit(main())
"""


@pytest.mark.parametrize("arguments", [["serve", "--http", "0"], ["serve"]])
def test_failed_daemon_start_is_reported_with_its_log(goalwright: CommandLine, arguments: list[str]) -> None:
    result = goalwright.run(*arguments, program=(sys.executable, "-I", "-c", BROKEN))
    assert (result.returncode, result.stdout) == (1, "")
    assert "ZeroDivisionError" in result.stderr and str(goalwright.paths.log_file) in result.stderr
    log = goalwright.paths.log_file.read_text()
    assert "not caught" in log
    assert "sk-ant" not in result.stderr + log


def test_the_folder_cannot_open_a_port(goalwright: CommandLine) -> None:
    port = free_port()
    (goalwright.workspace / ".goalwright").mkdir(exist_ok=True)
    (goalwright.workspace / ".goalwright/config.json").write_text(json.dumps({"api_port": port}))
    goalwright.start()
    assert json.loads(goalwright.run("trace", "page", "--json").stdout)["url"] != f"http://127.0.0.1:{port}"
