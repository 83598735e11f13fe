"""The planner as users run it: ``goalwright run --planner``, and a real daemon killed within a step."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from tests.support.drivers.command_line import CommandLine, wait_until


def plan(*steps: dict[str, str]) -> dict[str, Any]:
    return {"text": json.dumps({"steps": steps})}


def does(**arguments: str) -> dict[str, Any]:
    return {"name": "goal", "input": arguments}


def write(name: str) -> dict[str, Any]:
    return {"name": "write", "input": {"file_path": "${workspace}/" + name, "content": "x\n"}}


TWO = plan({"goal": "Make a"}, {"goal": "Make b"})


def goals(goalwright: CommandLine) -> list[tuple[str, str]]:
    found = json.loads(goalwright.run("goals", "--json").stdout)["goalTree"]["goals"]
    return [(goal["description"], goal["status"]) for goal in found]


def run(goalwright: CommandLine, *arguments: str) -> Any:
    return goalwright.run("run", *arguments, "--yes", "--planner", "layered")


def test_failed_step_is_replanned_with_a_scripted_model(goalwright: CommandLine) -> None:
    failing = {
        "choices": [
            {"when": {"note": "The model is away"}, "go": plan({"goal": "Make c"})},
            {"go": {"error": {"kind": "server", "message": "The model is away."}}},
        ]
    }
    made = [{"tool_calls": [write("a"), does(done="a is there")]}, {"text": "Made a."}]
    rest = [{"tool_calls": [write("c"), does(done="c is there")]}, {"text": "Made c."}]
    result = run(goalwright, "make it", "--model", goalwright.script([TWO, *made, failing, *rest]))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Made c." in result.stdout
    assert [(goalwright.workspace / name).exists() for name in "abc"] == [True, False, True]
    assert [goal for goal in goals(goalwright) if goal[1] == "completed"] == [
        ("Make a", "completed"),
        ("Make c", "completed"),
    ]


def test_next_prompt_after_kill_resumes_open_planner_goals(goalwright: CommandLine) -> None:
    slow = {"text": "word " * 4000, "chunk": 5, "delay_ms": 20}
    first = [TWO, {"tool_calls": [write("a"), does(done="a is there")]}, {"text": "Made a."}, slow]
    then = [plan({"keep": "2"}), {"tool_calls": [write("b"), does(done="b is there")]}, {"text": "Made b."}]
    model = goalwright.script(first, then)
    address = goalwright.start()
    process = goalwright.popen("run", "make it", "--yes", "--planner", "layered", "--model", model)
    log = goalwright.workspace / ".trace"
    wait_until(
        lambda: any(b"Work on goal 2" in path.read_bytes() for path in log.glob("*/events.jsonl")),
        "the second step",
    )
    os.kill(address.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode != 0
    result = run(goalwright, "go on", "--continue", "--model", model)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Made b." in result.stdout
    assert goals(goalwright) == [("Make a", "completed"), ("Make b", "completed")]
    assert (goalwright.workspace / "b").read_text() == "x\n"
