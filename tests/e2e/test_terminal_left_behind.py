"""``goalwright run --continue`` after a kill -9: what a turn that was left behind asks, somebody answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.cli.client import Client
from lsp_bridge.cli.launch import Greeting, Launcher
from tests.support.drivers.command_line import AtTerminal, CommandLine, wait_until

QUESTION = "[f]eedback: "
OLD, NEW = "limit = 1\n", "limit = 2\n"
TURN = [
    {"tool_calls": [{"name": "read", "input": {"file_path": "${workspace}/a.py"}}]},
    {
        "tool_calls": [
            {
                "name": "edit",
                "input": {"file_path": "${workspace}/a.py", "old_string": "= 1", "new_string": "= 2"},
            }
        ]
    },
    {"text": "Changed."},
]


@pytest.fixture
def goalwright(goalwright: CommandLine) -> CommandLine:
    (goalwright.workspace / "a.py").write_text(OLD)
    return goalwright


def content(goalwright: CommandLine) -> str:
    return (goalwright.workspace / "a.py").read_text()


def left_behind(goalwright: CommandLine, *, daemon_too: bool) -> str:
    """A turn that waits for an answer, whose client was killed. Returns the model."""
    model = goalwright.script(TURN, [{"text": "Here again."}])
    terminal = AtTerminal(goalwright, "run", "change it", "--model", model)
    terminal.expect(QUESTION)
    address = goalwright.paths.read_address()
    assert address is not None
    if daemon_too:
        os.kill(address.pid, signal.SIGKILL)
    terminal.process.kill()
    terminal.process.wait()
    os.close(terminal.master)
    if daemon_too:
        goalwright.wait_until_gone()
    return model


@pytest.mark.parametrize("daemon_too", [True, False])
@pytest.mark.parametrize("as_json", [True, False])
def test_run_yes_answers_a_request_left_by_a_dead_client(
    goalwright: CommandLine, daemon_too: bool, as_json: bool
) -> None:
    model = left_behind(goalwright, daemon_too=daemon_too)
    how = ["--json"] if as_json else []
    result = goalwright.run("run", "go on", "--yes", "--continue", "--model", model, *how)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Here again." in result.stdout
    assert content(goalwright) == NEW


@pytest.mark.parametrize("daemon_too", [True, False])
def test_prompt_without_a_terminal_is_refused_with_advice(goalwright: CommandLine, daemon_too: bool) -> None:
    model = left_behind(goalwright, daemon_too=daemon_too)
    result = goalwright.run("run", "go on", "--continue", "--model", model)
    assert "Here again." in result.stdout, result.stdout + result.stderr
    assert "no terminal to ask on" in result.stderr
    assert "--yes" in result.stderr
    assert content(goalwright) == OLD


def test_terminal_asks_the_request_left_behind(goalwright: CommandLine) -> None:
    model = left_behind(goalwright, daemon_too=True)
    terminal = AtTerminal(goalwright, "run", "go on", "--continue", "--model", model)
    terminal.expect(QUESTION)
    terminal.type("y\n")
    assert terminal.end() == 0, terminal.screen
    assert "Here again." in terminal.screen
    assert content(goalwright) == NEW


async def editor_with_the_session(goalwright: CommandLine) -> tuple[Client, dict[str, Any]]:
    """An editor that shows the session, and the question that waits there."""
    launcher = Launcher(home=goalwright.home / ".goalwright")
    editor, _ = await launcher.connect(goalwright.workspace, Greeting(client="VS Code"))
    listed = await editor.request("goalwright/session/list")
    session = {"sessionId": listed["sessions"][0]["trace"]["traceId"]}
    asked: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def heard(_: str, params: dict[str, Any]) -> None:
        event: dict[str, Any] = params.get("event", {})
        if event.get("event") == "permission_asked" and not asked.done():
            asked.set_result(event["request"])

    editor.on_notification(heard)
    await editor.request("goalwright/session/load", session)  # has the turn go on, which asks anew
    async with asyncio.timeout(60):
        return editor, await asked


@pytest.mark.parametrize("leaves", [False, True])
async def test_question_open_in_an_editor_stays_with_that_editor(
    goalwright: CommandLine, leaves: bool
) -> None:
    model = await asyncio.to_thread(left_behind, goalwright, daemon_too=True)
    editor, request = await editor_with_the_session(goalwright)
    told = goalwright.folder / "told"
    with told.open("w") as stdout:
        process = goalwright.popen("run", "go on", "--yes", "--continue", "--model", model, stdout=stdout)
    await asyncio.to_thread(
        wait_until, lambda: "waiting for an answer from VS Code: " in told.read_text(), "who is waited for"
    )
    assert content(goalwright) == OLD
    if not leaves:
        reply = {"requestId": request["requestId"], "reply": "reject", "feedback": "Leave it."}
        assert (await editor.request("goalwright/permission/reply", reply))["accepted"] is True
    await editor.close()
    with contextlib.closing(process.stderr):  # type: ignore[arg-type]
        assert await asyncio.to_thread(process.wait, 60) == 0, told.read_text()
    assert "Here again." in told.read_text()
    assert content(goalwright) == (NEW if leaves else OLD)


# -- the newest session cannot be read -------------------------------------------------------------------------


def newer_format(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "format": 1000}))


def damaged(folder: Path) -> None:
    (folder / "meta.json").write_bytes(b"\0" * 100)
    (folder / "events.jsonl").write_bytes(b"\0" * 100)


@pytest.mark.parametrize("spoil", [newer_format, damaged])
def test_continue_does_not_skip_an_unreadable_last_session(
    goalwright: CommandLine, spoil: Callable[[Path], None]
) -> None:
    model = goalwright.script([{"text": "Hello."}], repeat=True)
    for task in ("one", "two"):
        assert goalwright.run("run", task, "--model", model).returncode == 0
    goalwright.stop()
    traces = goalwright.workspace / ".trace"
    first, second = sorted(entry.name for entry in traces.iterdir() if (entry / "meta.json").exists())
    spoil(traces / second)
    before = (traces / first / "events.jsonl").read_bytes()
    for command in (["run", "three", "--continue", "--model", model], ["goals"]):
        result = goalwright.run(*command)
        assert result.returncode == 1, result.stdout
        assert f"The last session used, {second}, cannot be continued: " in result.stderr
        assert f"--session {first}" in result.stderr
    listed = goalwright.run("sessions")
    assert f"cannot be listed: {second}: " in listed.stderr
    assert first in listed.stdout
    assert (traces / first / "events.jsonl").read_bytes() == before
    assert goalwright.run("run", "three", "--session", first, "--model", model).returncode == 0


def test_a_session_that_was_deleted_is_not_missed(goalwright: CommandLine) -> None:
    model = goalwright.script([{"text": "Hello."}], repeat=True)
    for task in ("one", "two"):
        assert goalwright.run("run", task, "--model", model).returncode == 0
    goalwright.stop()
    *_, newest = sorted((goalwright.workspace / ".trace").glob("2*"))
    shutil.rmtree(newest)
    result = goalwright.run("run", "three", "--continue", "--model", model)
    assert (result.returncode, result.stderr) == (0, "")


# -- looking at it before it is gone on with -------------------------------------------------------------------


@pytest.mark.parametrize("another", [False, True])
def test_session_of_a_killed_daemon_is_shown_as_failed(goalwright: CommandLine, another: bool) -> None:
    left_behind(goalwright, daemon_too=True)
    if another:
        goalwright.start()
    for command in ("show", "list"):
        told = goalwright.run("trace", command)
        assert "failed" in told.stdout, told.stdout + told.stderr
        assert "running" not in told.stdout
        assert "waiting" not in told.stdout
