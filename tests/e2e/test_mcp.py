"""MCP servers of a real daemon: listed, used in a run, switched off, and gone with a daemon that was killed."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from typing import Any

import psutil

from tests.support.drivers.command_line import CommandLine, wait_until
from tests.support.programs import asking_mcp_server, bad_mcp_server, guarded_mcp_server, mcp_server

WORK = [{"tool_calls": [{"name": "mcp__bad__work", "input": {"a": 1}}]}, {"text": "Done."}]


def listed(goalwright: CommandLine, *words: str) -> dict[str, Any]:
    result = goalwright.run("mcp", *words, "--json")
    assert result.returncode == 0, result.stderr
    (server,) = json.loads(result.stdout)["servers"]
    return server


def ready(goalwright: CommandLine) -> None:
    """Wait for the server: on a busy machine it takes longer than the list waits."""
    wait_until(lambda: listed(goalwright)["state"] == "ready", "the server")


def test_servers_in_the_terminal_and_after_kill_9(goalwright: CommandLine) -> None:
    server = {"command": sys.executable, "args": [bad_mcp_server.__file__, "good"]}
    config = goalwright.configure(mcpServers={"bad": server})
    ready(goalwright)
    result = goalwright.run("run", "work", "--yes", "--model", goalwright.script(WORK))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "✓ mcp__bad__work worked" in result.stdout
    shown = goalwright.run("mcp")
    assert "bad  ready  4 tools  2 prompts  1996 resources  (config.json)\n" in shown.stdout
    assert "\n  mcp__bad__work  d\n" in shown.stdout and "\n  /mcp__bad__hostile <a b]>  Read" in shown.stdout
    assert "starting" in goalwright.run("mcp", "log", "bad").stdout
    wrong = goalwright.run("mcp", "disable", "bda/tool")
    assert (wrong.returncode, "There is no MCP server bda. There are: bad" in wrong.stderr) == (1, True)
    wrong = goalwright.run("mcp", "disable", "bad/mcp__bad__nope")
    assert "The MCP server bad has no tool mcp__bad__nope. It has: " in wrong.stderr
    assert "mcp_disabled" not in config.read_text()
    for action, off in (("disable", True), ("enable", False)):
        tools = listed(goalwright, action, "bad/mcp__bad__work")["tools"]
        assert [tool["disabled"] for tool in tools if tool["tool"] == "work"] == [off]
    assert listed(goalwright, "disable", "bad") | {"logFile": ""} == {
        "name": "bad", "source": "config.json", "state": "disabled", "error": "", "tools": [], "prompts": [],
        "resources": 0, "logFile": "", "signedIn": False,
    }  # fmt: skip
    enabled = goalwright.run("mcp", "enable", "bad").stdout
    assert enabled.startswith("bad is used again.\nbad  "), enabled
    assert goalwright.run("mcp", "restart", "bad").stdout.startswith("Started bad again.\nbad  ")
    ready(goalwright)
    for action in ("log", "restart", "login", "logout"):
        unknown = goalwright.run("mcp", action, "other")
        assert (unknown.returncode, "There is no MCP server other. There are: bad." in unknown.stderr) == (
            1,
            True,
        )
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


def test_prompts_and_resources_from_the_terminal(goalwright: CommandLine) -> None:
    goalwright.configure(mcpServers={"sample": {"command": sys.executable, "args": [mcp_server.__file__]}})
    model = goalwright.script([{"text": "Done."}])
    wrong = goalwright.run("run", "/mcp__sample__review", "--model", model)
    assert wrong.returncode == 1
    assert "The prompt review needs: path. Write it after the name: <path> [style]" in wrong.stderr
    text = "/mcp__sample__review 'a b.md' as in @sample:docs://guide.md"
    assert "Unknown resource: docs://guide.md" in goalwright.run("run", text, "--model", model).stderr
    result = goalwright.run("run", text.removesuffix(".md"), "--model", model)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    (session,) = json.loads(goalwright.run("sessions", "--json").stdout)["sessions"][:1]
    (log,) = goalwright.workspace.glob(f".trace/{session['trace']['traceId']}/events.jsonl")
    sent = [part for line in log.read_text().splitlines() for part in user_parts(json.loads(line))]
    assert [part.get("name") for part in sent if part["type"] == "file"] == [
        "/mcp__sample__review",
        "sample:docs://guide",
    ]
    assert b"<mcp_prompt>\nReview a b.md in a as in @sample" in base64.b64decode(sent[1]["data"])


def user_parts(event: dict[str, Any]) -> list[dict[str, Any]]:
    message = event.get("message") or {}
    return message["content"] if message.get("role") == "user" else []


def test_questions_of_servers_when_nobody_can_answer(goalwright: CommandLine) -> None:
    goalwright.configure(
        mcpServers={"asking": {"command": sys.executable, "args": [asking_mcp_server.__file__]}}
    )
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    steps = [
        {"tool_calls": [{"name": "mcp__asking__form", "input": {"schema": schema}}]},
        {"text": "Done."},
    ]
    ready(goalwright)  # the first request does not wait long for a server
    result = goalwright.run("run", "go", "--yes", "--model", goalwright.script(steps))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The MCP server asking asks you, but nobody can answer (--yes)" in result.stdout
    assert '✓ mcp__asking__form ["decline", null]' in result.stdout


def test_sign_in_with_a_browser(goalwright: CommandLine) -> None:
    browser = goalwright.folder / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1])\n"
    )
    browser.chmod(0o700)
    server = subprocess.Popen(
        [sys.executable, guarded_mcp_server.__file__], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        goalwright.configure(
            mcpServers={"guarded": {"url": f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"}}
        )
        wait_until(lambda: listed(goalwright)["state"] == "signed_out", "the server")
        assert "goalwright mcp login guarded" in goalwright.run("mcp").stdout
        env = {**goalwright.env, "BROWSER": str(browser)}
        result = goalwright.run("mcp", "login", "guarded", env=env)
        assert result.stdout.startswith("You are signed in to guarded.\nguarded  "), (
            result.stdout + result.stderr
        )
        assert "/authorize?response_type=code" in result.stderr
        assert (goalwright.home / ".goalwright" / "mcp-tokens.json").stat().st_mode & 0o077 == 0
        out = goalwright.run("mcp", "logout", "guarded").stdout
        assert out.startswith("The sign-in to guarded is forgotten.\nguarded  "), out
        assert "You are not signed in to guarded." in goalwright.run("mcp", "logout", "guarded").stderr
    finally:
        server.kill()
        server.wait()
