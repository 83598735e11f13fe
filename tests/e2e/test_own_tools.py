"""The user's own tools in the terminal: listed with their problems, and used in a run."""

from __future__ import annotations

import json

from tests.support.drivers.command_line import CommandLine

COUNT = [{"tool_calls": [{"name": "tool__count", "input": {"text": "a b"}}]}, {"text": "Done."}]


def test_own_tools_in_the_terminal(goalwright: CommandLine) -> None:
    assert "There are no tools of your own here." in goalwright.run("tools").stdout
    folder = goalwright.home / ".goalwright" / "tools"
    folder.mkdir(parents=True)
    definition = {"description": "Count words.\nMore.", "command": ["wc", "-w"]}
    (folder / "count.json").write_text(json.dumps(definition))
    (folder / "bad.json").write_text("{")
    result = goalwright.run("tools")
    assert result.stdout.startswith("tool__count  ready  Count words.\n"), result.stdout + result.stderr
    assert "count.json: /" in result.stdout and "/wc -w\n" in result.stdout
    assert "bad.json: it is not valid JSON" in result.stderr
    (tool,) = json.loads(goalwright.run("tools", "--json").stdout)["tools"]
    assert (tool["name"], tool["runs"][1:]) == ("tool__count", ["-w"])
    ran = goalwright.run("run", "count", "--yes", "--model", goalwright.script(COUNT))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "✓ tool__count 3" in ran.stdout
    (log,) = goalwright.workspace.glob(".trace/*/events.jsonl")
    assert "bad.json: it is not valid JSON" in log.read_text("utf-8"), "the session has a notice"
