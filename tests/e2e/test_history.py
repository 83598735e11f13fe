"""Undo, redo and restore with real processes: the daemon, the terminal client, git, and a user's editor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from lsp_bridge.protocol.handshake import ErrorCode
from tests.support.drivers.command_line import CommandLine, wait_until

LINES = "".join(f"line {n}\n" for n in range(1, 21))


@pytest.fixture
def goalwright(goalwright: CommandLine) -> CommandLine:
    (goalwright.workspace / "a.py").write_text(LINES)
    return goalwright


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "input": arguments}


def edit(old: str, new: str) -> dict[str, Any]:
    path = "${workspace}/a.py"
    return {"tool_calls": [call("edit", file_path=path, old_string=old, new_string=new)]}


def bash(command: str) -> dict[str, Any]:
    return {"tool_calls": [call("bash", command=command)]}


READ = {"tool_calls": [call("read", file_path="${workspace}/a.py")]}


def text(goalwright: CommandLine) -> str:
    return (goalwright.workspace / "a.py").read_text()


def person_changes(goalwright: CommandLine, old: str, new: str) -> None:
    path = goalwright.workspace / "a.py"
    before = path.read_text()
    assert before.count(old) == 1
    path.write_text(before.replace(old, new))


def work(goalwright: CommandLine, *steps: dict[str, Any]) -> str:
    """Let the agent make these steps; the id of the session."""
    model = goalwright.script([*steps, {"text": "Done."}])
    done = goalwright.run("run", "do it", "--yes", "--json", "--model", model)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["stopReason"] == "end_turn"
    session_id: str = result["sessionId"]
    return session_id


def kill_the_daemon(goalwright: CommandLine) -> None:
    status = json.loads(goalwright.run("status", "--json").stdout)
    os.kill(status["pid"], signal.SIGKILL)
    goalwright.wait_until_gone()


def said(goalwright: CommandLine, *arguments: str) -> str:
    """Run a command that must succeed, and return its output."""
    done = goalwright.run(*arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_the_persons_edit_elsewhere_survives_undo_and_redo(goalwright: CommandLine) -> None:
    work(goalwright, READ, edit("line 10\n", "ten\n"))
    person_changes(goalwright, "line 2\n", "mine\n")
    mine = LINES.replace("line 2\n", "mine\n")
    assert "-ten\n+line 10\n" in said(goalwright, "undo", "--dry-run")
    assert "ten\n" in text(goalwright)
    assert "Undone: edit of a.py" in said(goalwright, "undo")
    assert text(goalwright) == mine
    person_changes(goalwright, "line 18\n", "")
    assert "Redone: edit of a.py" in said(goalwright, "redo")
    assert text(goalwright) == mine.replace("line 18\n", "").replace("line 10\n", "ten\n")


def test_a_conflict_is_refused_with_both_sides(goalwright: CommandLine) -> None:
    work(goalwright, READ, edit("line 10\n", "ten\n"))
    person_changes(goalwright, "ten\n", "dix\n")
    before = text(goalwright)
    refused = goalwright.run("undo")
    assert refused.returncode == 1
    for words in ("a.py:10", "- ten", "+ dix", "+ line 10"):
        assert words in refused.stderr
    error = json.loads(goalwright.run("undo", "--json").stdout)["error"]
    assert error["code"] == ErrorCode.HISTORY_CONFLICT
    assert text(goalwright) == before


@pytest.mark.parametrize("with_git", [True, False], ids=["git", "no git"])
def test_a_command_is_undone(goalwright: CommandLine, with_git: bool) -> None:
    w = goalwright.workspace
    (w / "src").mkdir()
    (w / "src" / "gone.py").write_text("gone\n")
    if with_git:
        script = "git init -q && git add -A && git -c user.name=t -c user.email=t commit -qm one"
        subprocess.run(["sh", "-c", script], cwd=w, env=goalwright.env, check=True)
    work(goalwright, bash("sed -i 's/line 10$/ten/' a.py; rm -r src; mkdir made; echo x > made/new.txt"))
    assert "ten\n" in text(goalwright)
    person_changes(goalwright, "line 2\n", "mine\n")
    listed = said(goalwright, "history")
    assert "a.py +1 -1, made/new.txt (new), src/gone.py (deleted)" in listed
    said(goalwright, "undo")
    assert text(goalwright) == LINES.replace("line 2\n", "mine\n")
    assert (w / "src" / "gone.py").read_text() == "gone\n"
    assert not (w / "made").exists()


def test_undo_works_after_the_daemon_was_killed(goalwright: CommandLine) -> None:
    session_id = work(
        goalwright, READ, edit("line 10\n", "ten\n"), bash("sed -i s/twenty/20/ a.py; echo b > b")
    )
    kill_the_daemon(goalwright)
    said(goalwright, "undo", session_id)
    assert not (goalwright.workspace / "b").exists()
    kill_the_daemon(goalwright)
    said(goalwright, "undo", session_id)
    assert text(goalwright) == LINES
    kill_the_daemon(goalwright)
    said(goalwright, "redo")
    said(goalwright, "redo")
    assert "ten\n" in text(goalwright)
    assert (goalwright.workspace / "b").read_text() == "b\n"
    assert "nothing to redo" in goalwright.run("redo").stderr


def test_a_turn_killed_after_its_write_can_be_undone(goalwright: CommandLine) -> None:
    model = goalwright.script(
        [READ, edit("line 10\n", "ten\n"), {"text": "word " * 4000, "chunk": 5, "delay_ms": 20}]
    )
    running = goalwright.popen("run", "do it", "--yes", "--model", model)
    wait_until(lambda: "ten\n" in text(goalwright), "the edit")
    kill_the_daemon(goalwright)
    running.communicate(timeout=60)
    said(goalwright, "undo")
    assert text(goalwright) == LINES


def test_a_goal_and_a_message_are_restored(goalwright: CommandLine) -> None:
    session_id = work(
        goalwright,
        READ,
        {"tool_calls": [call("goal", add="first, second", reason="asked")]},
        {"tool_calls": [call("goal", focus="1")]},
        edit("line 5\n", "five\n"),
        {
            "tool_calls": [
                call(
                    "goal",
                    done="you can read it, but nothing in it is run or allowed in your name.",
                    focus="2",
                )
            ]
        },
        edit("line 15\n", "fifteen\n"),
    )
    assert "There is no goal 7. Goals: 1, 2." in goalwright.run("restore", session_id, "--goal", "7").stderr
    assert "Would be reverted" in said(goalwright, "restore", session_id, "--goal", "1", "--dry-run")
    said(goalwright, "restore", session_id, "--goal", "1")
    assert text(goalwright) == LINES.replace("line 15\n", "fifteen\n")
    changes = json.loads(said(goalwright, "history", "--json"))["changes"]
    assert [change["state"] for change in changes] == ["undone", "applied"]
    said(goalwright, "restore", session_id, "--message", changes[0]["messageId"])
    assert text(goalwright) == LINES
