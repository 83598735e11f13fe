"""``goalwright run`` and ``demo`` as users and scripts run them: real processes, real daemon, real tools."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from daemon.demo import PROMPT as DEMO_PROMPT
from daemon.demo import copy_workspace
from daemon.runtime import RuntimePaths
from lsp_bridge.cli.launch import Greeting, Launcher
from tests.support.drivers.command_line import AtTerminal, CommandLine, wait_until
from tests.support.fakes.model_server import ModelServer

QUESTION = "[f]eedback: "


@pytest.fixture
def goalwright(goalwright: CommandLine) -> CommandLine:
    (goalwright.workspace / "a.py").write_text("limit = 1\nprint(limit)\n")
    return goalwright


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "input": arguments}


def edit(old: str = "limit = 1", new: str = "limit = 2") -> dict[str, Any]:
    return call("edit", file_path="${workspace}/a.py", old_string=old, new_string=new)


READ = {"tool_calls": [call("read", file_path="${workspace}/a.py")]}
CHANGE = [READ, {"text": "I change it.", "tool_calls": [edit()]}, {"text": "Changed."}]
SLOW = [{"text": "word " * 4000, "chunk": 5, "delay_ms": 20}]


def content(goalwright: CommandLine) -> str:
    return (goalwright.workspace / "a.py").read_text()


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# -- from a script ---------------------------------------------------------------------------------------------


def test_run_yes_edits_the_file_and_prints_each_step(goalwright: CommandLine) -> None:
    result = goalwright.run("run", "change it", "--yes", "--model", goalwright.script(CHANGE))
    assert (result.returncode, result.stderr) == (0, "")
    assert content(goalwright) == "limit = 2\nprint(limit)\n"
    lines = result.stdout.splitlines()
    for line in ("✓ read a.py", "I change it.", "✓ edit a.py +1 -1", "Changed."):
        assert line in lines, result.stdout
    assert lines[-1].startswith("session ")


def test_problem_that_an_edit_makes_is_shown(goalwright: CommandLine) -> None:
    goalwright.configure(diagnostics=True)
    broken = [READ, {"tool_calls": [edit(new="limit = unknown_name")]}, {"text": "Oh."}]
    result = goalwright.run("run", "break it", "--yes", "--model", goalwright.script(broken))
    assert result.returncode == 0
    assert any(line.startswith("    ERROR a.py [1:9]") for line in result.stdout.splitlines()), result.stdout


def test_json_is_one_object_a_line_and_the_result_last(goalwright: CommandLine) -> None:
    model = goalwright.script(CHANGE)
    result = goalwright.run("run", "change it", "--yes", "--json", "--model", model)
    assert result.returncode == 0
    lines = json_lines(result.stdout)
    assert lines[-1]["type"] == "result"
    assert lines[-1]["stopReason"] == "end_turn"
    assert lines[-1]["usage"]["output"] > 0
    events = [line["event"]["event"] for line in lines if line["type"] == "event"]
    assert events.count("permission_asked") == events.count("permission_replied") == 1
    assert events[-1] == "turn_ended"
    ids = [line["event"]["eventId"] for line in lines if line["type"] == "event"]
    assert ids == sorted(set(ids))
    assert {line["sessionId"] for line in lines} == {lines[-1]["sessionId"]}


def test_run_without_terminal_writes_nothing_and_hints_at_yes(goalwright: CommandLine) -> None:
    result = goalwright.run("run", "change it", "--model", goalwright.script(CHANGE))
    assert result.returncode == 3
    assert "--yes" in result.stderr
    assert str(goalwright.home / ".goalwright" / "config.json") in result.stderr
    assert content(goalwright) == "limit = 1\nprint(limit)\n"


def test_a_call_that_a_rule_denies_does_not_end_the_run(goalwright: CommandLine) -> None:
    goalwright.configure(permission={"edit": {"*.py": "deny"}})
    model = goalwright.script(CHANGE)
    result = goalwright.run("run", "change it", "--yes", "--json", "--model", model)
    assert result.returncode == 0
    lines = json_lines(result.stdout)
    assert lines[-1]["stopReason"] == "end_turn"
    messages = [line["event"].get("message") for line in lines if line["type"] == "event"]
    parts = [part for message in messages if message for part in message["content"]]
    denied = [part for part in parts if part["type"] == "tool_result" and part.get("isError")]
    assert [part["content"].startswith("Permission denied.") for part in denied] == [True]
    assert content(goalwright) == "limit = 1\nprint(limit)\n"
    shown = goalwright.run("run", "change it", "--yes", "--model", model).stdout
    assert "✗ edit rejected: The user rule `edit: *.py → deny` of " in shown


def test_yes_does_not_let_a_command_read_a_denied_file(goalwright: CommandLine) -> None:
    goalwright.configure(permission={"read": {"secrets/*": "deny"}})
    (goalwright.workspace / "secrets").mkdir()
    (goalwright.workspace / "secrets" / "key.txt").write_text("K3Y\n")
    line = {"command": "cat $(echo sec)rets/key.txt"}
    command = {"name": "bash", "input": line}
    outside = {"name": "bash", "input": {**line, "unsandboxed": True, "reason": "it must"}}
    model = goalwright.script([{"tool_calls": [command]}, {"tool_calls": [outside]}, {"text": "Done."}])
    result = goalwright.run("run", "read it", "--yes", "--json", "--model", model)
    assert result.returncode == 0
    assert "K3Y" not in result.stdout
    assert result.stdout.count("nobody looked at the approval (--yes)") >= 2


def test_empty_answer_is_no_success(goalwright: CommandLine) -> None:
    result = goalwright.run(
        "run", "change it", "--yes", "--model", goalwright.script([{"text": " "}, {"text": "[]"}])
    )
    assert result.returncode == 4
    assert "returned an empty response" in result.stderr


def test_recommended_rule_allows_the_call(goalwright: CommandLine) -> None:
    refused = goalwright.run("run", "change it", "--model", goalwright.script(CHANGE))
    rule = refused.stderr.partition("a rule such as ")[2].partition(" to ")[0]
    goalwright.configure(**json.loads(rule))
    result = goalwright.run("run", "change it", "--model", goalwright.script(CHANGE))
    assert (result.returncode, result.stderr) == (0, "")
    assert content(goalwright) == "limit = 2\nprint(limit)\n"


def test_task_can_be_piped_in(goalwright: CommandLine) -> None:
    model = goalwright.script([{"choices": [{"when": {"prompt": "grüß mich"}, "go": {"text": "Hallo."}}]}])
    process = goalwright.popen("run", "--model", model, stdin=-1)
    out, err = process.communicate("grüß\u2028grüß mich\n", timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "Hallo." in out


def test_session_is_listed_and_continued(goalwright: CommandLine) -> None:
    two = goalwright.script([{"text": "First."}], [{"text": "Second."}])
    first = json_lines(goalwright.run("run", "one", "--json", "--model", two).stdout)[-1]["sessionId"]
    goalwright.stop()
    second = goalwright.run("run", "two", "--continue")
    assert "Second." in second.stdout
    assert f"session {first}" in second.stdout
    other = goalwright.run("run", "three", "--session", "nonsense")
    assert other.returncode == 1
    assert "nonsense" in other.stderr
    listed = goalwright.run("sessions")
    assert listed.stdout.startswith(first)
    assert len(json.loads(goalwright.run("sessions", "--json").stdout)["sessions"]) == 1


def test_continue_resumes_the_last_used_session_not_the_newest(goalwright: CommandLine) -> None:
    model = goalwright.script([{"text": "Hello."}], repeat=True)
    first = json_lines(goalwright.run("run", "one", "--json", "--model", model).stdout)[-1]["sessionId"]
    assert goalwright.run("run", "two", "--model", model).returncode == 0
    assert goalwright.run("run", "three", "--session", first, "--model", model).returncode == 0
    goalwright.stop()
    assert f"session {first}" in goalwright.run("run", "four", "--continue", "--model", model).stdout


def test_continue_skips_sessions_whose_first_prompt_was_refused(goalwright: CommandLine) -> None:
    model = goalwright.script([{"text": "Hello."}], repeat=True)
    first = json_lines(goalwright.run("run", "one", "--json", "--model", model).stdout)[-1]["sessionId"]
    (goalwright.workspace / "data.bin").write_bytes(b"\x00\x01\x02" * 50)
    for more in ((), ("--continue",)):
        refused = goalwright.run("run", "look", "--file", "data.bin", "--model", model, *more)
        assert refused.returncode == 1
        assert "data.bin is a binary file" in refused.stdout + refused.stderr
        went_on = goalwright.run("run", "two", "--continue", "--model", model)
        assert f"session {first}" in went_on.stdout
    listed = json.loads(goalwright.run("sessions", "--json").stdout)["sessions"]
    assert [one["trace"]["traceId"] for one in listed] == [first]
    assert goalwright.run("trace", "list").stdout.count("\n") == 1
    assert first in goalwright.run("trace", "show").stdout


def test_agent_mention_switches_agent_and_missing_file_warns(goalwright: CommandLine) -> None:
    model = goalwright.script([{"text": "Hello."}], repeat=True)
    assert goalwright.run("run", "one", "--model", model).returncode == 0
    switched = goalwright.run("run", "@plan", "--continue", "--model", model)
    assert (switched.returncode, "now uses the agent plan" in switched.stdout + switched.stderr) == (0, True)
    refused = goalwright.run("run", "@explore", "--continue", "--model", model)
    assert refused.returncode == 1
    assert "explore needs a task" in refused.stderr
    (goalwright.workspace / "notes.md").write_text("Notes.\n")
    (goalwright.workspace / "two words.md").write_text("Words.\n")
    missed = goalwright.run("run", "see @note.md", "--continue", "--model", model)
    assert "There is no file note.md: the text is sent as it is. Did you mean @notes.md?" in missed.stderr
    assert (
        goalwright.run("run", "(@notes.md) and @two\\ words.md", "--continue", "--model", model).stderr == ""
    )
    (messages,) = (goalwright.workspace / ".trace").glob("2*/messages")
    stored = [json.loads(one.read_text()) for one in sorted(messages.glob("*.json"))]
    last = [message for message in stored if message["role"] == "user"][-1]
    files = [part["name"] for part in last["content"] if part["type"] == "file"]
    assert files == ["notes.md", "two words.md"]


async def test_keys_are_those_of_the_client_and_are_never_logged(goalwright: CommandLine) -> None:
    goalwright.start()  # with no key in its environment
    async with ModelServer([{"text": "Hello from the wire."}], api_key="sk-secret-1") as server:
        goalwright.env |= {"ANTHROPIC_API_KEY": "sk-secret-1", "ANTHROPIC_BASE_URL": server.url}
        process = goalwright.popen("run", "hi", "--model", "anthropic/claude-sonnet-4-5")
        out, err = await communicate(process)
        assert (process.returncode, err) == (0, "")
        assert "Hello from the wire." in out
    assert "sk-secret-1" not in goalwright.log()
    stored = [p for p in (goalwright.workspace / ".trace").rglob("*") if p.is_file()]
    assert stored
    assert not [p for p in stored if b"sk-secret-1" in p.read_bytes()]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
async def test_daemon_that_a_run_starts_has_no_key_in_its_environment(goalwright: CommandLine) -> None:
    # Commands of the model run as the same user and can read it.
    async with ModelServer([{"text": "Hello from the wire."}], api_key="sk-secret-1") as server:
        goalwright.env |= {"ANTHROPIC_API_KEY": "sk-secret-1", "ANTHROPIC_BASE_URL": server.url}
        process = goalwright.popen("run", "hi", "--model", "anthropic/claude-sonnet-4-5")
        out, err = await communicate(process)
        assert (process.returncode, err) == (0, "")
        assert "Hello from the wire." in out
        address = goalwright.paths.read_address()
        assert address is not None
        assert b"serve" in Path(f"/proc/{address.pid}/cmdline").read_bytes()
        environ = Path(f"/proc/{address.pid}/environ").read_bytes()
    assert b"sk-secret-1" not in environ
    assert b"ANTHROPIC_" not in environ


async def communicate(process: Any) -> tuple[str, str]:
    return await asyncio.to_thread(process.communicate, timeout=60)


def test_model_server_that_is_down_is_a_clear_error(goalwright: CommandLine) -> None:
    goalwright.env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    (goalwright.home / ".goalwright").mkdir(exist_ok=True)
    process = goalwright.popen("run", "hi", "--model", "openai/gpt-5", "--json")
    try:
        # The retries with their growing pauses are tested elsewhere; here they only must be told.
        assert process.stdout is not None
        told = ""
        while "model_retry" not in told and '"type":"result"' not in told:
            told = process.stdout.readline()
            assert told, "the run ended without a word about the retry"
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert json_lines(out)[-1]["stopReason"] in ("canceled", "error"), err


# -- at a terminal ---------------------------------------------------------------------------------------------


def test_terminal_shows_the_diff_before_writing(goalwright: CommandLine) -> None:
    terminal = AtTerminal(goalwright, "run", "change it", "--model", goalwright.script(CHANGE))
    terminal.expect(QUESTION)
    assert content(goalwright) == "limit = 1\nprint(limit)\n"
    assert "\x1b[32m+limit = 2\x1b[0m" in terminal.screen
    assert "\x1b[31m-limit = 1\x1b[0m" in terminal.screen
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "Changed." in terminal.screen
    assert content(goalwright) == "limit = 2\nprint(limit)\n"


def test_always_is_not_asked_again(goalwright: CommandLine) -> None:
    back = {"tool_calls": [edit("limit = 2", "limit = 3")]}
    terminal = AtTerminal(
        goalwright, "run", "twice", "--model", goalwright.script([*CHANGE[:2], back, CHANGE[2]])
    )
    terminal.expect(QUESTION)
    terminal.type("a s\n")
    assert terminal.end() == 0
    assert terminal.screen.count(QUESTION) == 1
    assert content(goalwright) == "limit = 3\nprint(limit)\n"


def test_answering_no_ends_the_turn(goalwright: CommandLine) -> None:
    terminal = AtTerminal(goalwright, "run", "change it", "--model", goalwright.script(CHANGE))
    terminal.expect(QUESTION)
    terminal.type("n\n")
    assert terminal.end() == 3
    assert content(goalwright) == "limit = 1\nprint(limit)\n"


def test_feedback_reaches_the_model_and_the_turn_continues(goalwright: CommandLine) -> None:
    answers = {
        "choices": [{"when": {"last_result": "use three"}, "go": {"tool_calls": [edit(new="limit = 3")]}}]
    }
    model = goalwright.script([READ, {"tool_calls": [edit()]}, answers, {"text": "As you wish."}])
    terminal = AtTerminal(goalwright, "run", "change it", "--model", model)
    terminal.expect(QUESTION)
    terminal.type("f use three\n")
    terminal.expect("+limit = 3")
    # What is typed before a question is there answers nothing.
    wait_until(lambda: terminal.read().count(QUESTION) == 2, "the second question")
    terminal.type("y\n")
    assert terminal.end() == 0, terminal.screen
    assert content(goalwright) == "limit = 3\nprint(limit)\n"


async def test_question_disappears_when_the_editor_answers_first(goalwright: CommandLine) -> None:
    terminal = AtTerminal(goalwright, "run", "change it", "--model", goalwright.script(CHANGE))
    await asyncio.to_thread(terminal.expect, QUESTION)
    launcher = Launcher(home=goalwright.home / ".goalwright")
    editor, _ = await launcher.connect_running(goalwright.workspace, Greeting(client="VS Code"))
    (request,) = (await editor.request("goalwright/permission/list"))["requests"]
    reply = {"requestId": request["requestId"], "reply": "once"}
    assert await editor.request("goalwright/permission/reply", reply) == {"accepted": True, "by": "VS Code"}
    await editor.close()
    assert await asyncio.to_thread(terminal.end) == 0
    assert "(answered by VS Code: once)" in terminal.screen
    assert content(goalwright) == "limit = 2\nprint(limit)\n"


def test_no_color_is_honoured(goalwright: CommandLine) -> None:
    model = goalwright.script([{"text": "Plain."}], repeat=True)
    for extra, env in ((["--no-color"], {}), ([], {"NO_COLOR": "1"})):
        goalwright.env |= env
        terminal = AtTerminal(goalwright, "run", "x", "--model", model, *extra)
        assert terminal.end() == 0
        assert "Plain." in terminal.screen
        assert not any(f"\x1b[{code}m" in terminal.screen for code in (1, 2, 31, 32, 33, 36))


# -- leaving ---------------------------------------------------------------------------------------------------


def test_ctrl_c_cancels_the_turn_and_keeps_what_came(goalwright: CommandLine) -> None:
    terminal = AtTerminal(goalwright, "run", "talk", "--model", goalwright.script(SLOW))
    terminal.expect("word word")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "canceling" in terminal.screen
    sessions = json.loads(goalwright.run("sessions", "--json").stdout)["sessions"]
    assert sessions[0]["status"] == "idle"
    assert sessions[0]["trace"]["lastStopReason"] == "canceled"


def test_ctrl_c_ends_a_command_that_runs(goalwright: CommandLine) -> None:
    mark = goalwright.folder / "pid"
    command = f"echo $$ > {mark}; exec sleep 1000"
    model = goalwright.script([{"tool_calls": [call("bash", command=command)]}, {"text": "Never."}])
    process = goalwright.popen("run", "sleep", "--yes", "--model", model)
    wait_until(lambda: mark.exists() and mark.read_text().strip(), "the command")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    pid = int(mark.read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the command")


def test_ctrl_c_at_the_question_writes_nothing(goalwright: CommandLine) -> None:
    terminal = AtTerminal(goalwright, "run", "change it", "--model", goalwright.script(CHANGE))
    terminal.expect(QUESTION)
    terminal.interrupt()
    assert terminal.end() == 130
    assert content(goalwright) == "limit = 1\nprint(limit)\n"


def test_second_ctrl_c_exits_while_the_daemon_cancels(goalwright: CommandLine) -> None:
    ready = goalwright.folder / "ready"
    command = f"touch {ready}; exec sleep 1000"
    model = goalwright.script([{"tool_calls": [call("bash", command=command)]}, {"text": "Never."}])
    process = goalwright.popen("run", "sleep", "--yes", "--model", model)
    wait_until(ready.exists, "the command")
    address = goalwright.paths.read_address()
    assert address is not None
    os.kill(address.pid, signal.SIGSTOP)  # so that it cannot be done with canceling before the second one
    try:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert any("canceling" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    finally:
        os.kill(address.pid, signal.SIGCONT)
    wait_until(lambda: last_stop_reason(goalwright) == "canceled", "the end of the turn")


def last_stop_reason(goalwright: CommandLine) -> str | None:
    sessions = json.loads(goalwright.run("sessions", "--json").stdout)["sessions"]
    return sessions[0]["trace"]["lastStopReason"]


def test_run_reports_a_killed_daemon_and_session_resumes(goalwright: CommandLine) -> None:
    model = goalwright.script(SLOW, [{"text": "Here again."}])
    terminal = AtTerminal(goalwright, "run", "talk", "--model", model)
    terminal.expect("word word")
    address = goalwright.paths.read_address()
    assert address is not None
    os.kill(address.pid, signal.SIGKILL)
    assert terminal.end() == 1
    assert "connection to the daemon was lost" in terminal.screen
    result = goalwright.run("run", "go on", "--continue")
    assert result.returncode == 0, result.stderr
    assert "Here again." in result.stdout


def test_closed_stdout_cancels_the_turn(goalwright: CommandLine) -> None:
    model = goalwright.script(SLOW)
    process = goalwright.popen("run", "talk", "--model", model)
    assert process.stdout is not None
    process.stdout.read(20)
    process.stdout.close()
    assert process.wait(60) == 130
    assert last_stop_reason(goalwright) == "canceled"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_cancel_though_the_output_is_not_read(
    goalwright: CommandLine, number: signal.Signals
) -> None:
    reading, writing = os.pipe()
    # Each piece is longer than a pipe takes.
    model = goalwright.script([{"text": "word " * 400_000, "chunk": 200_000, "delay_ms": 2000}])
    process = goalwright.popen("run", "talk", "--yes", "--model", model, stdout=writing, stderr=writing)
    wait_until(lambda: not select.select([], [writing], [], 0)[1], "output that nobody reads")
    process.send_signal(number)
    assert process.wait(60) == 130
    wait_until(lambda: last_stop_reason(goalwright) == "canceled", "the end of the turn")
    os.close(reading)
    os.close(writing)


# -- a script can tell why a run ended -------------------------------------------------------------------------


def test_run_yes_stops_a_repeating_model(goalwright: CommandLine) -> None:
    result = goalwright.run("run", "look", "--yes", "--model", goalwright.script([READ] * 6))
    assert result.returncode == 5, result.stdout + result.stderr
    assert result.stdout.count("✓ read a.py") == 2
    assert "the model is asked to do something else." in result.stdout
    assert "the model repeated itself again." in result.stdout


def test_a_limit_on_model_calls_ends_a_run(goalwright: CommandLine) -> None:
    looks = [{"tool_calls": [call("ls", path=f"{'./' * at}.")]} for at in range(4)]
    model = goalwright.script(looks)
    result = goalwright.run("run", "look", "--yes", "--max-steps", "3", "--model", model)
    assert result.returncode == 5, result.stdout + result.stderr
    assert result.stderr.count("3 model calls (--max-steps, or the setting unattended_steps)") == 1


def test_tool_call_written_as_text_is_no_success(goalwright: CommandLine) -> None:
    written = {"text": f"```json\n{json.dumps({'name': 'edit', 'arguments': edit()['input']})}\n```"}
    result = goalwright.run("run", "change it", "--yes", "--model", goalwright.script([written, written]))
    assert result.returncode == 4, result.stdout + result.stderr
    assert "error: Nothing was done: the model " in result.stderr
    assert result.stderr.count("--jinja") == 1
    assert content(goalwright) == "limit = 1\nprint(limit)\n"


def test_server_without_a_model_is_no_success(goalwright: CommandLine) -> None:
    env = {**goalwright.env, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    result = goalwright.run("run", "--yes", "say hi", env=env)
    assert result.returncode == 4, result.stdout + result.stderr
    assert "--model openai/NAME" in result.stderr
    assert "error: nothing was done" in result.stderr


# -- the demo --------------------------------------------------------------------------------------------------


def test_demo_plays_in_the_terminal_and_leaves_nothing(goalwright: CommandLine) -> None:
    temporary = goalwright.folder / "tmp"
    temporary.mkdir()
    goalwright.env["TMPDIR"] = str(temporary)
    config = goalwright.configure(diagnostics=True)
    result = goalwright.run("demo")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "Demo: a scripted model answers" in result.stdout
    assert result.stdout.count("(demo: accepted)") >= 2
    assert "Changes:\n--- a/shop/cart.py" in result.stdout
    assert not [p for p in temporary.iterdir() if p.name.startswith("goalwright")]
    assert list(config.parent.iterdir()) == [config]


def test_demo_counts_its_work_per_goal(goalwright: CommandLine) -> None:
    copy_workspace(goalwright.folder / "shop")
    goalwright.workspace = goalwright.folder / "shop"
    goalwright.paths = RuntimePaths.for_workspace(goalwright.workspace, goalwright.home / ".goalwright")
    result = goalwright.run("run", DEMO_PROMPT, "--yes", "--model", "demo/demo")
    assert result.returncode == 0, result.stdout + result.stderr
    goals = json.loads(goalwright.run("goals", "--json").stdout)["goalTree"]["goals"]
    assert [goal["selfStats"]["preview"] for goal in goals] == ["read × 3", "edit × 2", "bash"]
    assert [goal["selfStats"]["messageCount"] for goal in goals] == [5, 5, 3]


ASKS = {
    "tool_calls": [call("question", questions=[{"question": "Which limit?", "options": ["two", "three"]}])]
}


@pytest.mark.parametrize(("flags", "told"), [(("--yes",), "nobody can answer (--yes)"), ((), "no terminal")])
def test_unanswerable_question_is_reported_to_the_model_at_once(
    goalwright: CommandLine, flags: tuple[str, ...], told: str
) -> None:
    model = goalwright.script([ASKS, {"text": "Then two."}])
    result = goalwright.run("run", "choose", *flags, "--model", model)
    assert result.returncode == 0, result.stderr
    assert told in result.stdout + result.stderr
    assert "Which limit?" in result.stdout + result.stderr
    assert "Then two." in result.stdout


def test_files_are_attached_by_option_and_by_name(goalwright: CommandLine) -> None:
    (goalwright.workspace / "my notes.txt").write_text("remember the milk\n")
    model = goalwright.script([{"text": "Read."}])
    arguments = ["run", 'see @a.py, @nobody and "x"', "--file", str(goalwright.workspace / "my notes.txt")]
    result = goalwright.run(*arguments, "--yes", "--model", model)
    assert result.returncode == 0, result.stderr
    stored = "".join(file.read_text() for file in goalwright.workspace.glob(".trace/*/messages/*.json"))
    assert '"name": "my notes.txt"' in stored.replace('"name":"', '"name": "')
    assert '"name": "a.py"' in stored.replace('"name":"', '"name": "')


def test_unattachable_file_ends_the_run_with_a_reason(goalwright: CommandLine) -> None:
    (goalwright.workspace / "lib.bin").write_bytes(b"\x00\x01\x02" * 100)
    (goalwright.workspace / ".env").write_text("PORT=80\n")
    model = goalwright.script([{"text": "Read."}])
    binary = goalwright.run("run", "see @lib.bin", "--yes", "--model", model)
    assert binary.returncode == 1
    assert "lib.bin is a binary file and cannot be attached" in binary.stderr
    # Without a terminal nobody can say yes to what rules ask about.
    asked = goalwright.run("run", "see it", "--file", str(goalwright.workspace / ".env"), "--model", model)
    assert asked.returncode == 1
    assert ".env is not attached" in asked.stderr
