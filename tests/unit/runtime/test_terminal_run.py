from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import signal
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.provider.variables import provider_env
from lsp_bridge.cli.console import Console
from lsp_bridge.cli.launch import Launcher
from lsp_bridge.cli.run.approval import TtyReader
from lsp_bridge.cli.run.turn import RunOptions, run
from tests.support.drivers.waiting import until
from tests.support.fakes.daemon_server import Connection, FakeDaemon, RefuseError, Turn


class Terminal:
    """A run against the fake, with what it wrote."""

    def __init__(self, fake: FakeDaemon, home: Path) -> None:
        self.fake = fake
        self.launcher = Launcher(home=home, command=("/bin/false",))
        self.out, self.err = io.StringIO(), io.StringIO()
        self.console = Console(out=self.out, err=self.err)
        self.options = RunOptions(workspace=fake.paths.workspace, task="do it")

    async def run(self, **options: Any) -> int:
        return await run(replace(self.options, **options), self.launcher, self.console)

    @property
    def text(self) -> str:
        return self.out.getvalue()

    @property
    def told(self) -> str:
        return self.err.getvalue()

    @property
    def json_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncGenerator[FakeDaemon]:
    async with FakeDaemon(tmp_path, tmp_path / "home") as fake:
        yield fake


@pytest.fixture
def terminal(fake: FakeDaemon, tmp_path: Path) -> Terminal:
    return Terminal(fake, tmp_path / "home")


async def wait_for_cancel(turn: Turn) -> str:
    await turn.canceled.wait()
    return "canceled"


async def edit_with_permission(turn: Turn) -> str:
    reply = await turn.ask(files=[{"path": "a.py", "diff": "-old\n+new\n"}])
    if reply["reply"] == "reject" and not reply.get("feedback"):
        return "permission_denied"
    turn.say("Done: " + str(reply.get("feedback") or reply["reply"]))
    return "end_turn"


# -- the way of a prompt ---------------------------------------------------------------------------------------


async def test_answer_and_totals_are_printed(terminal: Terminal) -> None:
    assert await terminal.run() == 0
    assert terminal.text.splitlines() == [
        "Hello.",
        "session s1 · 1,120 tokens (91 % of the input from the cache) · $0.0010",
    ]
    assert terminal.told == ""


async def test_prompt_reaches_the_daemon_with_model_and_keys(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
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


async def test_known_session_is_gone_on_with(terminal: Terminal) -> None:
    await terminal.run()
    await terminal.run(resume_last=True)
    await terminal.run(session="s1")
    assert len(terminal.fake.params("goalwright/session/new")) == 1
    assert [p["sessionId"] for p in terminal.fake.params("goalwright/session/prompt")] == ["s1"] * 3


async def test_model_of_a_known_session_is_changed_when_asked(terminal: Terminal) -> None:
    async def set_model(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    terminal.fake.handlers["goalwright/session/set"] = set_model
    await terminal.run()
    await terminal.run(session="s1", model="a/b")
    assert terminal.fake.params("goalwright/session/set") == [{"sessionId": "s1", "model": "a/b"}]


async def test_unknown_session_is_an_error_in_the_words_of_the_daemon(terminal: Terminal) -> None:
    assert await terminal.run(session="nope") == 1
    assert terminal.told == "error: There is no session nope.\n"
    assert terminal.text == ""
    assert await terminal.run(session="nope", json=True) == 1
    assert [(line["type"], line["sessionId"]) for line in terminal.json_lines] == [("result", None)]


async def test_session_that_came_with_the_folder_is_not_gone_on_with_unasked(terminal: Terminal) -> None:
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


async def test_the_session_used_last_is_gone_on_with_though_another_has_a_later_id(
    terminal: Terminal,
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
    assert "The session used last, s1, cannot be gone on with: it is torn" in terminal.told
    assert "--session s9" in terminal.told


async def test_notices_are_told_on_stderr_and_passed_on_as_json(terminal: Terminal) -> None:
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


async def test_why_a_model_declined_is_told(terminal: Terminal) -> None:
    async def declined(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "promptId": params["promptId"],
            "stopReason": "end_turn",
            "detail": "The model declined to go on.",
        }

    terminal.fake.handlers["goalwright/session/prompt"] = declined
    assert await terminal.run() == 0
    assert terminal.told == "The model declined to go on.\n"


async def test_nothing_to_go_on_with_is_said(terminal: Terminal) -> None:
    assert await terminal.run(resume_last=True) == 1
    assert "There is no session in" in terminal.told


@pytest.mark.parametrize(
    ("reason", "code"),
    [("end_turn", 0), ("error", 1), ("max_tokens", 1), ("permission_denied", 3), ("canceled", 130)],
)
async def test_exit_code_follows_the_stop_reason(terminal: Terminal, reason: str, code: int) -> None:
    async def script(turn: Turn) -> str:
        return reason

    terminal.fake.script = script
    assert await terminal.run() == code


async def test_daemon_that_cannot_be_started_is_an_error_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    fake = FakeDaemon(tmp_path / "work", tmp_path / "home")  # not listening
    terminal = Terminal(fake, tmp_path / "home")
    assert await terminal.run() == 1
    assert "ended at once (exit code 1)" in terminal.told
    assert await terminal.run(json=True) == 1
    assert terminal.json_lines[-1]["stopReason"] == "error"


async def test_death_of_the_daemon_ends_the_run_with_words(terminal: Terminal) -> None:
    async def die(turn: Turn) -> str:
        turn.delta("text", "Hel")
        for connection in terminal.fake.connections:
            connection.writer.close()
        await asyncio.Event().wait()
        return ""

    terminal.fake.script = die
    assert await terminal.run() == 1
    assert "broke off" in terminal.told
    assert terminal.text.startswith("Hel\n")


async def test_events_after_the_answer_to_the_prompt_are_still_shown(terminal: Terminal) -> None:
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


async def test_events_of_other_sessions_are_not_shown(terminal: Terminal) -> None:
    async def script(turn: Turn) -> str:
        terminal.fake.event("another", "notice", level="info", text="not for you")
        return "end_turn"

    terminal.fake.script = script
    await terminal.run()
    assert "not for you" not in terminal.text


async def test_demo_is_labelled(terminal: Terminal) -> None:
    session = {"trace": {"traceId": "s1"}, "status": "idle", "demo": True}
    terminal.fake.sessions.append(session)
    await terminal.run(session="s1")
    assert terminal.text.startswith("Demo: a scripted model answers")


async def test_json_has_only_json_on_stdout_and_the_result_last(terminal: Terminal) -> None:
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
        "usage": {"input": 100, "output": 20, "cacheRead": 1000, "cacheWrite": 0, "cost": 0.001},
    }


async def test_reader_that_goes_away_cancels_the_turn(terminal: Terminal, tmp_path: Path) -> None:
    async def script(turn: Turn) -> str:
        turn.say("Hi")
        return await wait_for_cancel(turn)

    terminal.fake.script = script
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        terminal.console = Console(out=out, err=terminal.err)
        assert await terminal.run() == 130


# -- permission ------------------------------------------------------------------------------------------------


async def test_without_a_terminal_requests_are_refused_and_it_is_said_how_to_allow(
    terminal: Terminal,
) -> None:
    terminal.fake.script = edit_with_permission
    assert await terminal.run() == 3
    assert terminal.fake.params("goalwright/permission/reply") == [{"requestId": "r1", "reply": "reject"}]
    assert "no terminal to ask on: edit a.py" in terminal.told
    assert "--yes" in terminal.told
    assert '{"permission": {"edit": {"src/**": "allow"}}}' in terminal.told


async def test_yes_allows_everything_once(terminal: Terminal) -> None:
    async def script(turn: Turn) -> str:
        for number in range(3):
            assert (await turn.ask(f"r{number}"))["reply"] == "once"
        return "end_turn"

    terminal.fake.script = script
    assert await terminal.run(yes=True) == 0
    assert terminal.text.count("accepted (--yes): edit a.py") == 3


BUDGET: dict[str, Any] = {
    "permission": "budget",
    "title": "This session has used $5.02 of $5.00. Go on?",
    "targets": ["session"],
    "suggestions": [{"permission": "budget", "pattern": "session"}],
}


async def over_budget(turn: Turn) -> str:
    reply = await turn.ask(**BUDGET)
    return "permission_denied" if reply["reply"] == "reject" else "end_turn"


@pytest.mark.parametrize("yes", [True, False])
async def test_a_limit_stops_a_script_even_with_yes_and_tells_what_to_do(
    terminal: Terminal, yes: bool
) -> None:
    terminal.fake.script = over_budget
    assert await terminal.run(yes=yes) == 5
    said = terminal.text + terminal.told
    assert "$5.02 of $5.00" in said
    assert "goalwright budget" in said
    assert "to allow everything" not in said


def loop(command: str = "ls") -> dict[str, Any]:
    return {
        "permission": "doom_loop",
        "title": "The agent seems stuck: it made the same bash call three times.",
        "targets": ["bash"],
        "detail": json.dumps({"command": command}),
        "suggestions": [],
    }


async def test_a_repeated_call_is_refused_with_words_and_then_ends_the_run(terminal: Terminal) -> None:
    replies: list[dict[str, Any]] = []

    async def script(turn: Turn) -> str:
        for at, command in enumerate(["ls", "pwd", "ls"]):
            replies.append(await turn.ask(f"r{at}", **loop(command)))
            if not replies[-1].get("feedback"):
                return "permission_denied"
        return "end_turn"

    terminal.fake.script = script
    assert await terminal.run(yes=True) == 5
    assert [reply["reply"] for reply in replies] == ["reject"] * 3
    assert "do something else" in replies[0]["feedback"]
    assert "do something else" in replies[1]["feedback"]
    assert not replies[2].get("feedback")
    assert "the model repeats itself" in terminal.text


async def test_a_model_that_finds_ever_new_loops_is_stopped(terminal: Terminal) -> None:
    async def script(turn: Turn) -> str:
        for at in range(50):
            if not (await turn.ask(f"r{at}", **loop(str(at)))).get("feedback"):
                return "permission_denied"
        return "end_turn"

    terminal.fake.script = script
    assert await terminal.run(yes=True) == 5
    assert len(terminal.fake.params("goalwright/permission/reply")) == 6


async def test_a_repeated_call_ends_a_run_without_a_terminal(terminal: Terminal) -> None:
    async def script(turn: Turn) -> str:
        reply = await turn.ask(**loop())
        return "end_turn" if reply.get("feedback") else "permission_denied"

    terminal.fake.script = script
    assert await terminal.run() == 5
    assert "the model repeats itself" in terminal.told


@pytest.mark.parametrize(
    ("stop", "notice", "code"),
    [
        ("end_turn", None, 0),
        ("end_turn", ("written_call", "info"), 0),
        ("error", ("written_call", "error"), 4),
        ("error", ("written_call", "warning"), 1),
        ("error", None, 1),
        ("permission_denied", ("run_limit", "warning"), 5),
        ("permission_denied", None, 3),
        ("max_tokens", None, 1),
    ],
)
async def test_the_exit_code_tells_why_a_run_ended(
    terminal: Terminal, stop: str, notice: tuple[str, str] | None, code: int
) -> None:
    async def script(turn: Turn) -> str:
        if notice is not None:
            turn.event("notice", code=notice[0], level=notice[1], text="What happened.")
        return stop

    terminal.fake.script = script
    assert await terminal.run(json=True) == code
    assert terminal.json_lines[-1]["exitCode"] == code
    # What is said as the error at the end is not said twice.
    terminal.err.truncate(0)
    terminal.out.truncate(0)
    assert await terminal.run() == code
    assert ("What happened." in terminal.told) == (notice == ("written_call", "info"))


@pytest.mark.parametrize(("chosen", "code"), [(None, 4), ("demo/demo", 0)])
async def test_the_demo_is_no_success_unless_it_was_chosen(
    terminal: Terminal, chosen: str | None, code: int
) -> None:
    terminal.fake.demo = True
    assert await terminal.run(model=chosen) == code
    assert ("nothing was done: no model is set up" in terminal.told) == (code == 4)


async def test_limits_of_a_run_go_to_the_daemon_as_settings(terminal: Terminal) -> None:
    await terminal.run(limits={"unattended_steps": 7})
    options = terminal.fake.params("initialize")[0]["initializationOptions"]
    assert options["settings"] == {"unattended_steps": 7}
    assert options["unattended"] is True


async def test_a_person_is_asked_whether_to_go_on_beyond_a_limit(terminal: Terminal) -> None:
    terminal.fake.script = over_budget
    assert await answering(Person(terminal), ("y\n", ASKED)) == 0
    assert "Go on? [y]es, with the same amount again / [a]lways, without this limit / [n]o" in terminal.text


async def test_script_never_answers_for_the_turn_of_another_client(terminal: Terminal) -> None:
    await terminal.run()
    terminal.fake.pending = [{"requestId": "other", "title": "rm -rf /", "permission": "bash"}]
    assert await terminal.run(session="s1", yes=True) == 0
    assert terminal.fake.params("goalwright/permission/reply") == []


class Person:
    """A terminal at which somebody types; ``answers`` are the lines."""

    def __init__(self, terminal: Terminal) -> None:
        self.master, self.slave = pty.openpty()
        terminal.console = Console(out=terminal.out, err=terminal.err, tty=self.slave, live=True)
        self.terminal = terminal

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    async def answer(self, text: str, after: str = "[f]eedback: ") -> None:
        """Type ``text`` when the question is on the screen once more than it was answered."""
        await until(lambda: self.terminal.text.endswith(after), f"the question {after!r}")
        self.terminal.out.write("<typed>")
        self.type(text)


async def answering(person: Person, *answers: tuple[str, str]) -> int:
    running = asyncio.create_task(person.terminal.run())
    for text, after in answers:
        await person.answer(text, after)
    return await running


ASKED = "[f]eedback: "


async def test_person_sees_the_diff_and_the_rule_and_accepts(terminal: Terminal) -> None:
    terminal.fake.script = edit_with_permission
    assert await answering(Person(terminal), ("y\n", ASKED)) == 0
    assert "? edit a.py\n-old\n+new\n  asked because of the built-in rule edit: * → ask\n" in terminal.text
    assert "Apply? [y]es once / [a]lways (src/**) / [n]o / [f]eedback: " in terminal.text
    assert "Done: once" in terminal.text


@pytest.mark.parametrize(
    ("typed", "reply"),
    [
        ("YES\n", {"reply": "once"}),
        (
            "a w\n",
            {
                "reply": "always",
                "grants": [{"permission": "edit", "pattern": "src/**"}],
                "scope": "workspace",
            },
        ),
        ("n\n", {"reply": "reject"}),
        ("\x04", {"reply": "reject"}),
        ("f use a set\n", {"reply": "reject", "feedback": "use a set"}),
    ],
)
async def test_each_answer_has_its_reply(terminal: Terminal, typed: str, reply: dict[str, str]) -> None:
    terminal.fake.script = edit_with_permission
    await answering(Person(terminal), (typed, ASKED))
    assert terminal.fake.params("goalwright/permission/reply") == [{"requestId": "r1", **reply}]


@pytest.mark.parametrize(
    ("pattern", "where", "grants", "scope"),
    [
        ("\n", "\n", ["src/**"], "session"),
        ("src/a.py\n", "e\n", ["src/a.py"], "user"),
        ("  \n", "nowhere\n", ["src/**"], None),
    ],
)
async def test_what_always_remembers_can_be_edited(
    terminal: Terminal, pattern: str, where: str, grants: list[str], scope: str | None
) -> None:
    terminal.fake.script = edit_with_permission
    answers = [("a\n", ASKED), (pattern, "edit: src/** ▸ "), (where, "(Enter: session): ")]
    if scope is None:
        answers.append(("w\n", "(Enter: session): "))
    await answering(Person(terminal), *answers)
    assert terminal.fake.params("goalwright/permission/reply") == [
        {
            "requestId": "r1",
            "reply": "always",
            "grants": [{"permission": "edit", "pattern": pattern} for pattern in grants],
            "scope": scope or "workspace",
        }
    ]


async def test_to_remember_nothing_is_to_be_asked_again(terminal: Terminal) -> None:
    terminal.fake.script = edit_with_permission
    await answering(Person(terminal), ("a\n", ASKED), ("-\n", "edit: src/** ▸ "), ("y\n", ASKED))
    assert terminal.fake.params("goalwright/permission/reply") == [{"requestId": "r1", "reply": "once"}]


async def test_feedback_is_asked_for_and_the_turn_goes_on(terminal: Terminal) -> None:
    terminal.fake.script = edit_with_permission
    code = await answering(
        Person(terminal), ("what?\n", ASKED), ("f\n", ASKED), ("über 9\n", "What instead? ")
    )
    assert code == 0
    assert "Done: über 9" in terminal.text


async def test_what_was_typed_before_the_question_is_no_answer(terminal: Terminal) -> None:
    person = Person(terminal)
    person.type("y\ny\n")
    terminal.fake.script = edit_with_permission
    assert await answering(person, ("n\n", ASKED)) == 3


async def test_question_disappears_when_another_client_answers(terminal: Terminal) -> None:
    async def script(turn: Turn) -> str:
        asking = asyncio.create_task(turn.ask())
        await until(lambda: terminal.text.endswith(ASKED))
        terminal.fake.requests_pending["r1"].set_result({"reply": "once", "by": "VS Code"})
        await asking
        turn.say("Done.")
        return "end_turn"

    terminal.fake.script = script
    Person(terminal)
    assert await terminal.run() == 0
    assert "(answered by VS Code: once)" in terminal.text
    assert terminal.fake.params("goalwright/permission/reply") == []


async def test_answer_that_came_second_is_told(terminal: Terminal) -> None:
    async def reply(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        terminal.fake.requests_pending["r1"].set_result({"reply": "reject", "by": "VS Code"})
        return {"accepted": False, "by": "VS Code"}

    terminal.fake.script = edit_with_permission
    terminal.fake.handlers["goalwright/permission/reply"] = reply
    assert await terminal.run(yes=True) == 3
    assert "(already answered by VS Code)" in terminal.text


async def test_answer_to_a_request_that_is_gone_ends_nothing(terminal: Terminal) -> None:
    async def reply(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        terminal.fake.requests_pending["r1"].set_result({"reply": "once"})
        raise RefuseError(-32012, "gone")

    terminal.fake.script = edit_with_permission
    terminal.fake.handlers["goalwright/permission/reply"] = reply
    assert await terminal.run(yes=True) == 0
    assert "the request is gone" in terminal.text


async def test_person_may_answer_what_waits_in_a_loaded_session(terminal: Terminal) -> None:
    await terminal.run()
    loop = asyncio.get_running_loop()
    terminal.fake.requests_pending["old"] = loop.create_future()
    terminal.fake.pending = [{"requestId": "old", "title": "bash ls", "permission": "bash"}]

    async def script(turn: Turn) -> str:
        await asyncio.wait([terminal.fake.requests_pending["old"]])
        return "end_turn"

    terminal.fake.script = script
    person = Person(terminal)
    running = asyncio.create_task(terminal.run(session="s1"))
    await person.answer("y\n")
    assert await running == 0
    assert "Apply? [y]es once / [n]o / [f]eedback: " in terminal.text  # no pattern was suggested


async def test_with_json_the_person_is_asked_on_stderr(terminal: Terminal) -> None:
    terminal.fake.script = edit_with_permission
    master, slave = pty.openpty()
    terminal.console = Console(out=terminal.out, err=terminal.err, tty=slave)
    running = asyncio.create_task(terminal.run(json=True))
    await until(lambda: terminal.told.endswith(ASKED))
    os.write(master, b"y\n")
    assert await running == 0
    assert "+new" in terminal.told
    assert terminal.json_lines[-1]["stopReason"] == "end_turn"


async def test_terminal_that_is_gone_is_a_refusal(terminal: Terminal) -> None:
    master, slave = pty.openpty()
    reader = TtyReader(slave, lambda text: None)
    asking = asyncio.create_task(reader.ask("?"))
    await asyncio.sleep(0)
    os.close(master)
    assert await asking is None
    os.close(slave)


# -- leaving ---------------------------------------------------------------------------------------------------


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


async def test_first_ctrl_c_cancels_and_waits_for_the_end(terminal: Terminal) -> None:
    async def script(turn: Turn) -> str:
        press_ctrl_c()
        await turn.canceled.wait()
        turn.say("What was received so far.")
        return "canceled"

    terminal.fake.script = script
    assert await terminal.run() == 130
    assert "canceling" in terminal.text
    assert "What was received so far." in terminal.text


async def test_second_ctrl_c_leaves_at_once_and_the_daemon_goes_on(terminal: Terminal) -> None:
    async def script(turn: Turn) -> str:
        press_ctrl_c()
        await turn.canceled.wait()
        press_ctrl_c()
        await asyncio.Event().wait()  # cancelling takes forever
        return ""

    terminal.fake.script = script
    assert await terminal.run() == 130
    assert not terminal.fake.params("$/cancelRequest")


async def test_ctrl_c_while_a_question_is_open_takes_it_back(terminal: Terminal) -> None:
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


async def test_a_steered_task_is_given_to_the_running_turn_and_its_end_ends_the_run(
    terminal: Terminal,
) -> None:
    async def prompt(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        queue = [{"promptId": params["promptId"], "text": params["text"], "steer": True}]
        terminal.fake.event("s1", "queue_changed", queue=queue)
        terminal.fake.event("s1", "queue_changed", queue=[])
        return {"promptId": params["promptId"], "stopReason": "end_turn"}

    terminal.fake.handlers |= {"goalwright/session/prompt": prompt}
    assert await terminal.run(steer=True) == 0
    assert "waiting for the session's running turn to take it at its next step" in terminal.text
    assert terminal.fake.params("goalwright/session/prompt")[0]["whenBusy"] == "steer"


async def test_ctrl_c_on_a_waiting_prompt_leaves_the_turn_of_the_other_client_alone(
    terminal: Terminal,
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


async def test_turn_that_began_just_when_it_was_to_be_removed_is_canceled(terminal: Terminal) -> None:
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


async def test_sigterm_cancels_and_leaves(terminal: Terminal) -> None:
    async def script(turn: Turn) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()
        return ""

    terminal.fake.script = script
    assert await terminal.run() == 130
    assert terminal.fake.turns[0].canceled.is_set()


async def test_ctrl_c_before_the_prompt_just_leaves(terminal: Terminal) -> None:
    async def new(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        press_ctrl_c()
        await asyncio.Event().wait()
        return {}

    terminal.fake.handlers["goalwright/session/new"] = new
    assert await terminal.run() == 130
    assert terminal.fake.params("goalwright/session/cancel") == []


async def test_signal_handlers_are_put_back(terminal: Terminal) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    await terminal.run()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
