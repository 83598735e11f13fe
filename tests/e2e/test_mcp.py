"""MCP servers of a real daemon: listed, used in a run, switched off, and gone with a daemon that was killed."""

from __future__ import annotations

import json
import os
import signal
import sys

import psutil

from tests.support.drivers.command_line import CommandLine, wait_until
from tests.support.programs import bad_mcp_server

WORK = [{"tool_calls": [{"name": "mcp__bad__work", "input": {"a": 1}}]}, {"text": "Done."}]


def listed(goalwright: CommandLine, *words: str) -> dict[str, object]:
    result = goalwright.run("mcp", *words, "--json")
    assert result.returncode == 0, result.stderr
    (server,) = json.loads(result.stdout)["servers"]
    return server


def test_servers_in_the_terminal_and_after_kill_9(goalwright: CommandLine) -> None:
    server = {"command": sys.executable, "args": [bad_mcp_server.__file__, "good"]}
    goalwright.configure(mcpServers={"bad": server})
    assert listed(goalwright)["state"] == "ready"
    result = goalwright.run("run", "work", "--yes", "--model", goalwright.script(WORK))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "✓ mcp__bad__work worked" in result.stdout
    shown = goalwright.run("mcp")
    assert "bad  ready  4 tools  (config.json)\n  mcp__bad__work  d\n" in shown.stdout
    assert "starting" in goalwright.run("mcp", "log", "bad").stdout
    assert listed(goalwright, "disable", "bad") | {"logFile": ""} == {
        "name": "bad", "source": "config.json", "state": "disabled", "error": "", "tools": [], "logFile": "",
    }  # fmt: skip
    assert listed(goalwright, "enable", "bad")["state"] == "ready"
    assert listed(goalwright, "restart", "bad")["state"] == "ready"
    assert "No MCP server other was started" in goalwright.run("mcp", "log", "other").stderr
    address = goalwright.paths.read_address()
    assert address is not None
    programs = [
        process
        for process in psutil.process_iter(["cmdline", "environ"])
        if bad_mcp_server.__file__ in (process.info["cmdline"] or ())
        and (process.info["environ"] or {}).get("HOME") == str(goalwright.home)
    ]
    assert len(programs) == 1
    os.kill(address.pid, signal.SIGKILL)
    wait_until(lambda: not programs[0].is_running(), "the end of the server")
