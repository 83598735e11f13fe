"""Init and execute, plan and build, as users run them: the installed program, its daemon, and kill -9."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from tests.support.drivers.command_line import CommandLine, wait_until
from tests.support.scenarios import design_task as task


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "input": arguments}


def script(goalwright: CommandLine, text: str) -> str:
    path = goalwright.folder / "script.json"
    path.write_text(text)
    return f"scripted/{path}"


def stored(goalwright: CommandLine, name: str = "") -> list[dict[str, Any]]:
    """The log of the one session, or of a child of it."""
    (folder,) = (
        path for path in (goalwright.workspace / ".trace").iterdir() if (path / "meta.json").exists()
    )
    log = folder / (f"agents/{name}/" if name else "") / "events.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def test_small_project_is_designed_and_built_from_the_terminal(goalwright: CommandLine) -> None:
    goalwright.configure(success_target=0.9, permission={"*": "allow"}, mode="auto")
    model = script(goalwright, task.script(refused=False))
    result = goalwright.run("run", "Recognise postal codes.", "--agent", "init", "--yes", "--model", model)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 of 4 samples pass" in result.stdout
    assert (goalwright.workspace / "design/rules.md").read_text() == task.RULES_2
    assert (goalwright.workspace / "out/iteration_2/checker.py").read_text() == task.CHECKER_2
    events = stored(goalwright)
    asked = [event["request"]["targets"] for event in events if event["event"] == "permission_asked"]
    assert asked == [["design/rules.md"], ["design/format.md"], ["design/rules.md"]]
    ended = [event["subagent"] for event in events if event["event"] == "subagent_completed"]
    assert [(end["iteration"], end["success_rate"]) for end in ended] == [(1, 0.5), (2, 1.0)]


def test_without_a_user_to_approve_no_design_is_written(goalwright: CommandLine) -> None:
    goalwright.configure(permission={"*": "allow"}, mode="accept-edits")
    model = script(goalwright, task.script(refused=False))
    result = goalwright.run("run", "Recognise postal codes.", "--agent", "init", "--model", model)
    assert result.returncode != 0
    assert not (goalwright.workspace / "design").exists()


def test_next_prompt_resumes_an_iteration_after_a_kill(goalwright: CommandLine) -> None:
    goalwright.configure(success_target=0.9, permission={"*": "allow"})

    def made(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "input": arguments}

    write = {"tool_calls": [call("write", file_path="out/early.py", content="x = 1\n")]}
    slow = {"text": "word " * 4000, "chunk": 5, "delay_ms": 20}
    again = [{"tool_calls": [call("hand_over", report="Go on.")]}, {"text": "4 of 4 samples pass."}]
    design = [
        {"tool_calls": [call("write", file_path="design/rules.md", content=task.RULES_2)]},
        {"tool_calls": [call("write", file_path="design/format.md", content=task.FORMAT)]},
        {"tool_calls": [call("hand_over", report=task.DESIGNED)]},
    ]
    second = [{"tool_calls": step} for step in task.execute_steps(made, 2)]
    played = {"name": "killed", "turns": [design, again], "branches": {"s1": [[write, slow]], "s2": [second]}}
    model = script(goalwright, json.dumps(played))
    address = goalwright.start()
    first = goalwright.popen("run", "Recognise postal codes.", "--agent", "init", "--yes", "--model", model)
    try:
        wait_until(
            lambda: (
                kinds(stored(goalwright, "s1")).count("message_added") >= 3 if _begun(goalwright) else False
            ),
            "the first file of the iteration",
        )
        os.kill(address.pid, signal.SIGKILL)
    finally:
        first.communicate(timeout=60)
    result = goalwright.run("run", "go on", "--continue", "--yes", "--model", model)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 of 4 samples pass" in result.stdout
    events = stored(goalwright)
    ended = [event["subagent"] for event in events if event["event"] == "subagent_completed"]
    assert [(end["id"], end["status"], end["iteration"]) for end in ended] == [
        ("s1", "failed", 1),
        ("s2", "completed", 2),
    ]
    given = next(event for event in stored(goalwright, "s2") if event["event"] == "message_added")
    text = given["message"]["content"][0]["text"]
    for words in ("This is iteration 2", "it is not complete", "- out/early.py"):
        assert words in text


def _begun(goalwright: CommandLine) -> bool:
    folder = goalwright.workspace / ".trace"
    return folder.exists() and any((path / "meta.json").exists() for path in folder.iterdir())


def test_plan_is_built_after_approval_in_the_terminal(goalwright: CommandLine) -> None:
    turn = [
        {"tool_calls": [call("goal", add=["Write a.txt"])]},
        {"tool_calls": [call("hand_over", report="One file.")]},
        {"tool_calls": [call("write", file_path="a.txt", content="a\n")]},
        {"text": "Built."},
    ]
    model = goalwright.script(turn)
    result = goalwright.run("run", "write it", "--agent", "plan", "--yes", "--model", model)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (goalwright.workspace / "a.txt").read_text() == "a\n"
    assert "Build this plan?" in result.stdout
    assert any(event.get("updates", {}).get("agent") == "build" for event in stored(goalwright))
