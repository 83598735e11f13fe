from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from daemon.provider.variables import provider_env
from lsp_bridge.cli.command_line import parse, run_command
from lsp_bridge.cli.console import Console
from lsp_bridge.cli.run import command
from tests.support.drivers.terminal_run import (
    ASKED,
    Person,
    TerminalRun,
    wait_for_cancel,
)
from tests.support.drivers.waiting import until
from tests.support.fakes.daemon_server import Connection, FakeDaemon, RefuseError, Turn

# -- the way of a prompt ---------------------------------------------------------------------------------------


async def test_answer_and_totals_are_printed(terminal: TerminalRun) -> None:
    assert await terminal.run() == 0
    assert terminal.text.splitlines() == [
        "Hello.",
        "session s1 · 1,120 tokens (91 % of the input from the cache) · $0.001",
    ]
    assert terminal.told == ""


async def test_prompt_reaches_the_daemon_with_model_and_keys(
    terminal: TerminalRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    monkeypatch.setenv("SECRET_OF_ANOTHER_KIND", "x")
    await terminal.run(model="ollama/qwen3")
    options = terminal.fake.params("initialize")[0]["initializationOptions"]
    assert options["client"] == "terminal"
    assert options["settings"] == {"model": "ollama/qwen3"}
    assert options["env"]["ANTHROPIC_API_KEY"] == "key"
    assert "SECRET_OF_ANOTHER_KIND" not in options["env"]
    assert terminal.fake.params("goalwright/session/new") == [{"model": "ollama/qwen3"}]
    assert terminal.fake.params("goalwright/session/prompt")[0]["text"] == "do it"


def test_variables_of_the_providers_are_recognised() -> None:
    names = [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ]
    names += ["OPENAI_API_BASE", "OLLAMA_HOST", "GROQ_API_KEY", "AZURE_API_BASE"]
    names += ["AWS_SECRET_ACCESS_KEY", "AWS_REGION", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_API_VERSION"]
    environ = dict.fromkeys([*names, "PATH", "API_KEYS", "GITHUB_TOKEN", "AWS_PAGER"], "x")
    assert sorted(provider_env(environ)) == sorted(names)


async def test_known_session_is_continued(terminal: TerminalRun) -> None:
    await terminal.run()
    await terminal.run(resume_last=True)
    await terminal.run(session="s1")
    assert len(terminal.fake.params("goalwright/session/new")) == 1
    assert [p["sessionId"] for p in terminal.fake.params("goalwright/session/prompt")] == ["s1"] * 3


async def test_model_of_a_known_session_is_changed_on_request(terminal: TerminalRun) -> None:
    async def set_model(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    terminal.fake.handlers["goalwright/session/set"] = set_model
    await terminal.run()
    await terminal.run(session="s1", model="a/b")
    assert terminal.fake.params("goalwright/session/set") == [{"sessionId": "s1", "model": "a/b"}]


async def test_unknown_session_error_of_the_daemon_is_printed(terminal: TerminalRun) -> None:
    assert await terminal.run(session="nope") == 1
    assert terminal.told == "error: There is no session nope.\n"
    assert terminal.text == ""
    assert await terminal.run(session="nope", json=True) == 1
    assert [(line["type"], line["sessionId"]) for line in terminal.json_lines] == [("result", None)]


async def test_continue_skips_imported_sessions(terminal: TerminalRun) -> None:
    def session(number: int, foreign: bool) -> dict[str, Any]:
        return {"trace": {"traceId": f"x{number}", "title": ""}, "status": "idle", "foreign": foreign}

    async def listed(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        ids = [s["trace"]["traceId"] for s in terminal.fake.sessions]
        start = ids.index(params["before"]) + 1 if "before" in params else 0
        return {
            "sessions": terminal.fake.sessions[start : start + params["limit"]],
            "more": start + params["limit"] < len(ids),
        }

    terminal.fake.handlers["goalwright/session/list"] = listed
    terminal.fake.sessions[:] = [session(number, foreign=True) for number in range(120)]
    assert await terminal.run(resume_last=True) == 1
    assert "There is no session in" in terminal.told
    assert "120 came with the folder" in terminal.told
    terminal.fake.sessions.append(session(120, foreign=False))
    assert await terminal.run(resume_last=True) == 0
    assert [p["sessionId"] for p in terminal.fake.params("goalwright/session/prompt")] == ["x120"]
    assert await terminal.run(session="x3") == 0


async def test_continue_uses_the_last_used_session_not_the_highest_id(
    terminal: TerminalRun,
) -> None:
    sessions = [{"trace": {"traceId": name}, "status": "idle", "foreign": False} for name in ("s9", "s1")]
    listed: dict[str, Any] = {"sessions": sessions, "more": False, "lastUsed": "s1"}

    async def list_sessions(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return listed

    terminal.fake.handlers["goalwright/session/list"] = list_sessions
    await terminal.run()
    assert await terminal.run(resume_last=True) == 0
    assert [p["sessionId"] for p in terminal.fake.params("goalwright/session/prompt")] == ["s1"] * 2
    listed["unreadable"] = [{"sessionId": "s1", "why": "it is torn"}]
    listed["sessions"] = sessions[:1]
    assert await terminal.run(resume_last=True) == 1
    assert "The last session used, s1, cannot be continued: it is torn" in terminal.told
    assert "--session s9" in terminal.told


async def test_notices_go_to_stderr_and_into_the_json(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        turn.event("notice", level="warning", text="config.json: \x1b[2Jno such setting", kind="config")
        turn.say("Hello.")
        return "end_turn"

    terminal.fake.script = script
    assert await terminal.run() == 0
    assert terminal.told == "config.json: no such setting\n"
    assert terminal.text.splitlines()[0] == "Hello."
    assert len(terminal.text.splitlines()) == 2
    terminal.out.truncate(0)
    terminal.out.seek(0)
    assert await terminal.run(json=True) == 0
    assert [line["event"]["level"] for line in terminal.json_lines if line.get("event", {}).get("level")] == [
        "warning"
    ]


async def test_reason_of_a_declining_model_is_printed(terminal: TerminalRun) -> None:
    async def declined(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "promptId": params["promptId"],
            "stopReason": "end_turn",
            "detail": "The model declined to continue.",
        }

    terminal.fake.handlers["goalwright/session/prompt"] = declined
    assert await terminal.run() == 0
    assert terminal.told == "The model declined to continue.\n"


async def test_continue_without_a_session_is_an_error(terminal: TerminalRun) -> None:
    assert await terminal.run(resume_last=True) == 1
    assert "There is no session in" in terminal.told


@pytest.mark.parametrize(
    ("reason", "code"),
    [("end_turn", 0), ("error", 1), ("max_tokens", 1), ("permission_denied", 3), ("canceled", 130)],
)
async def test_exit_code_follows_the_stop_reason(terminal: TerminalRun, reason: str, code: int) -> None:
    async def script(turn: Turn) -> str:
        return reason

    terminal.fake.script = script
    assert await terminal.run() == code


async def test_daemon_that_cannot_be_started_is_an_error_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    fake = FakeDaemon(tmp_path / "work", tmp_path / "home")  # not listening
    terminal = TerminalRun(fake, tmp_path / "home")
    assert await terminal.run() == 1
    assert "The daemon exited at once (exit code 1):" in terminal.told
    assert await terminal.run(json=True) == 1
    assert terminal.json_lines[-1]["stopReason"] == "error"


async def test_daemon_death_ends_the_run_with_an_error(terminal: TerminalRun) -> None:
    async def die(turn: Turn) -> str:
        turn.delta("text", "Hel")
        for connection in terminal.fake.connections:
            connection.writer.close()
        await asyncio.Event().wait()
        return ""

    terminal.fake.script = die
    assert await terminal.run() == 1
    assert "connection to the daemon was lost" in terminal.told
    assert terminal.text.startswith("Hel\n")


async def test_events_after_the_answer_to_the_prompt_are_still_shown(terminal: TerminalRun) -> None:
    late: list[asyncio.Task[None]] = []

    async def prompt(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        turn = Turn(terminal.fake, "s1", params)
        turn.event("turn_started", promptId=turn.prompt_id)

        async def finish() -> None:
            turn.say("Late.")
            turn.event("turn_ended", promptId=turn.prompt_id, stopReason="end_turn")

        late.append(asyncio.create_task(finish()))
        return {"promptId": turn.prompt_id, "stopReason": "end_turn"}

    terminal.fake.handlers["goalwright/session/prompt"] = prompt
    assert await terminal.run() == 0
    assert terminal.text.startswith("Late.\n")


async def test_events_of_other_sessions_are_not_shown(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        terminal.fake.event("another", "notice", level="info", text="not for you")
        return "end_turn"

    terminal.fake.script = script
    await terminal.run()
    assert "not for you" not in terminal.text


async def test_demo_is_labelled(terminal: TerminalRun) -> None:
    session = {"trace": {"traceId": "s1"}, "status": "idle", "demo": True}
    terminal.fake.sessions.append(session)
    await terminal.run(session="s1")
    assert terminal.text.startswith("Demo: a scripted model answers")


async def test_json_has_only_json_on_stdout_and_the_result_last(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        turn.delta("text", "Hi")
        turn.say("Hi")
        return "end_turn"

    terminal.fake.script = script
    assert await terminal.run(json=True) == 0
    lines = terminal.json_lines
    assert lines[0]["type"] == "session"
    assert {line["type"] for line in lines[1:-1]} == {"event", "delta"}
    assert lines[-1] == {
        "type": "result",
        "sessionId": "s1",
        "stopReason": "end_turn",
        "detail": "",
        "exitCode": 0,
        "usage": {
            "input": 100,
            "output": 20,
            "cacheRead": 1000,
            "cacheWrite": 0,
            "unpriced": 0,
            "cost": 0.001,
        },
    }


async def test_closed_stdout_cancels_the_turn(terminal: TerminalRun, tmp_path: Path) -> None:
    async def script(turn: Turn) -> str:
        turn.say("Hi")
        return await wait_for_cancel(turn)

    terminal.fake.script = script
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        terminal.console = Console(out=out, err=terminal.err)
        assert await terminal.run() == 130


async def test_output_that_fails_cancels_the_turn_and_is_told(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        turn.say("Hi")
        return await wait_for_cancel(turn)

    terminal.fake.script = script
    args = parse(["run", "do it"])
    args.workspace = terminal.options.workspace
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "w") as out:
        console = Console(out=out, err=terminal.err)
        assert await run_command(args, console, terminal.launcher) == 1
    assert terminal.fake.turns[0].canceled.is_set()
    assert terminal.told.endswith("The output cannot be written: No space left on device\n")


async def test_a_file_may_be_called_like_an_unknown_user(terminal: TerminalRun) -> None:
    args = parse(["run", "do it", "--file", "~nobody-here"])
    args.workspace = terminal.options.workspace
    assert await run_command(args, terminal.console, terminal.launcher) == 0
    (sent,) = terminal.fake.params("goalwright/session/prompt")
    assert [Path(one["name"]).name for one in sent["attachments"]] == ["~nobody-here"]


# -- leaving ---------------------------------------------------------------------------------------------------


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


async def test_first_ctrl_c_cancels_and_waits_for_the_end(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        press_ctrl_c()
        await turn.canceled.wait()
        turn.say("What was received so far.")
        return "canceled"

    terminal.fake.script = script
    assert await terminal.run() == 130
    assert "canceling" in terminal.text
    assert "What was received so far." in terminal.text


async def test_second_ctrl_c_exits_at_once_and_daemon_continues(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        press_ctrl_c()
        await turn.canceled.wait()
        press_ctrl_c()
        await asyncio.Event().wait()  # cancelling takes forever
        return ""

    terminal.fake.script = script
    assert await terminal.run() == 130
    assert not terminal.fake.params("$/cancelRequest")


async def test_ctrl_c_during_a_question_withdraws_it(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        asking = asyncio.create_task(turn.ask())
        await until(lambda: terminal.text.endswith(ASKED))
        press_ctrl_c()
        await asking
        return "canceled"

    terminal.fake.script = script
    Person(terminal)
    assert await terminal.run() == 130
    assert "(canceled)" in terminal.text
    assert terminal.fake.params("goalwright/permission/reply") == []


async def test_steered_task_joins_the_running_turn_and_ends_with_it(
    terminal: TerminalRun,
) -> None:
    async def prompt(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        queue = [{"promptId": params["promptId"], "text": params["text"], "steer": True}]
        terminal.fake.event("s1", "queue_changed", queue=queue)
        terminal.fake.event("s1", "queue_changed", queue=[])
        return {"promptId": params["promptId"], "stopReason": "end_turn"}

    terminal.fake.handlers |= {"goalwright/session/prompt": prompt}
    assert await terminal.run(steer=True) == 0
    assert "waiting for the session's running turn to reach its next step" in terminal.text
    assert terminal.fake.params("goalwright/session/prompt")[0]["whenBusy"] == "steer"


async def test_ctrl_c_on_a_queued_prompt_leaves_the_other_turn_alone(
    terminal: TerminalRun,
) -> None:
    removed = asyncio.Event()

    async def prompt(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        queue = [{"promptId": params["promptId"], "text": params["text"]}]
        terminal.fake.event("s1", "queue_changed", queue=queue)
        press_ctrl_c()
        await removed.wait()
        return {"promptId": params["promptId"], "stopReason": "canceled", "removed": True}

    async def edit(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        removed.set()
        return {}

    terminal.fake.handlers |= {"goalwright/session/prompt": prompt, "goalwright/queue/edit": edit}
    assert await terminal.run() == 130
    assert "waiting for the session's running turn" in terminal.text
    assert terminal.fake.params("goalwright/session/cancel") == []
    assert terminal.fake.params("goalwright/queue/edit")[0]["text"] is None


async def test_ctrl_c_before_a_prompt_is_queued_removes_it_later(terminal: TerminalRun) -> None:
    queued, removed = asyncio.Event(), asyncio.Event()

    async def prompt(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        press_ctrl_c()
        await until(lambda: terminal.fake.params("goalwright/queue/edit"))
        queued.set()
        queue = [{"promptId": params["promptId"], "text": params["text"]}]
        terminal.fake.event("s1", "queue_changed", queue=queue)
        await removed.wait()
        return {"promptId": params["promptId"], "stopReason": "canceled", "removed": True}

    async def edit(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        if not queued.is_set():
            raise RefuseError(-32602, "no such prompt")
        removed.set()
        return {}

    terminal.fake.handlers |= {"goalwright/session/prompt": prompt, "goalwright/queue/edit": edit}
    assert await terminal.run() == 130
    assert terminal.fake.params("goalwright/session/cancel") == []


async def test_second_ctrl_c_leaves_a_prompt_that_never_begins(terminal: TerminalRun) -> None:
    async def edit(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        press_ctrl_c()
        raise RefuseError(-32602, "no such prompt")

    async def prompt(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        press_ctrl_c()
        await asyncio.Event().wait()
        return {}

    terminal.fake.handlers |= {"goalwright/session/prompt": prompt, "goalwright/queue/edit": edit}
    assert await terminal.run() == 130
    assert terminal.fake.params("goalwright/session/cancel") == []


async def test_ctrl_c_cancels_the_turn_that_has_taken_up_the_prompt(terminal: TerminalRun) -> None:
    async def edit(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        raise RefuseError(-32602, "no such prompt")

    async def prompt(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        turn = Turn(terminal.fake, "s1", params)
        terminal.fake.turns.append(turn)
        turn.event("queue_changed", queue=[{"promptId": turn.prompt_id, "text": turn.text}])
        turn.event("queue_changed", queue=[])
        await until(lambda: "waiting for" in terminal.text)
        press_ctrl_c()
        return {"promptId": turn.prompt_id, "stopReason": await wait_for_cancel(turn)}

    terminal.fake.handlers |= {"goalwright/session/prompt": prompt, "goalwright/queue/edit": edit}
    assert await terminal.run(steer=True) == 130


async def test_turn_that_starts_while_being_removed_is_canceled(terminal: TerminalRun) -> None:
    async def edit(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        raise RefuseError(-32602, "no such prompt")

    async def prompt(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        turn = Turn(terminal.fake, "s1", params)
        terminal.fake.turns.append(turn)
        press_ctrl_c()
        await until(lambda: terminal.fake.params("goalwright/queue/edit"))
        turn.event("turn_started", promptId=turn.prompt_id)
        return {"promptId": turn.prompt_id, "stopReason": await wait_for_cancel(turn)}

    terminal.fake.handlers |= {"goalwright/session/prompt": prompt, "goalwright/queue/edit": edit}
    assert await terminal.run() == 130


async def test_sigterm_cancels_and_leaves(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()
        return ""

    terminal.fake.script = script
    assert await terminal.run() == 130
    assert terminal.fake.turns[0].canceled.is_set()


async def test_ctrl_c_before_the_prompt_just_leaves(terminal: TerminalRun) -> None:
    async def new(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        press_ctrl_c()
        await asyncio.Event().wait()
        return {}

    terminal.fake.handlers["goalwright/session/new"] = new
    assert await terminal.run() == 130
    assert terminal.fake.params("goalwright/session/cancel") == []


async def test_ctrl_c_while_the_rest_is_imported_cancels(
    terminal: TerminalRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    pressed: list[str] = []

    def imported(name: str) -> None:
        if terminal.fake.turns and not pressed:
            pressed.append(name)
            press_ctrl_c()

    monkeypatch.setattr(command, "import_module", imported)
    monkeypatch.setattr(command, "_ROUNDS", 60)
    terminal.fake.script = wait_for_cancel
    assert await terminal.run() == 130
    assert pressed
    assert terminal.fake.turns[0].canceled.is_set()


async def test_signal_handlers_are_restored(terminal: TerminalRun) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    await terminal.run()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
