"""Questions of the terminal before an action, and answers of scripts and users."""

from __future__ import annotations

import asyncio
import json
import os
import pty
from collections.abc import Callable
from typing import Any

import pytest

from lsp_bridge.cli.console import Console
from lsp_bridge.cli.run.approval import TtyReader
from tests.support.drivers.terminal_run import (
    ASKED,
    Person,
    TerminalRun,
    answering,
    edit_with_permission,
)
from tests.support.drivers.waiting import until
from tests.support.fakes.daemon_server import Connection, RefuseError, Turn

# -- permission ------------------------------------------------------------------------------------------------


async def test_without_terminal_requests_are_rejected_with_a_hint(
    terminal: TerminalRun,
) -> None:
    terminal.fake.script = edit_with_permission
    assert await terminal.run() == 3
    assert terminal.fake.params("goalwright/permission/reply") == [{"requestId": "r1", "reply": "reject"}]
    assert "no terminal to ask on: edit a.py" in terminal.told
    assert "--yes" in terminal.told
    assert '{"permission": {"edit": {"src/**": "allow"}}}' in terminal.told


async def test_yes_allows_everything_once(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        for number in range(3):
            assert (await turn.ask(f"r{number}"))["reply"] == "once"
        return "end_turn"

    terminal.fake.script = script
    assert await terminal.run(yes=True) == 0
    assert terminal.text.count("accepted (--yes): edit a.py") == 3


BUDGET: dict[str, Any] = {
    "permission": "budget",
    "title": "This session has used $5.02 of $5.00. Continue?",
    "targets": ["session"],
    "suggestions": [{"permission": "budget", "pattern": "session"}],
}


async def over_budget(turn: Turn) -> str:
    reply = await turn.ask(**BUDGET)
    return "permission_denied" if reply["reply"] == "reject" else "end_turn"


@pytest.mark.parametrize("yes", [True, False])
async def test_budget_limit_stops_a_script_even_with_yes(terminal: TerminalRun, yes: bool) -> None:
    terminal.fake.script = over_budget
    assert await terminal.run(yes=yes) == 5
    said = terminal.text + terminal.told
    assert "$5.02 of $5.00" in said
    assert "goalwright budget" in said
    assert (
        "To allow it, run in a terminal and answer there, run with --yes to approve everything once"
        not in said
    )


def loop(command: str = "ls") -> dict[str, Any]:
    return {
        "permission": "doom_loop",
        "title": "The agent seems stuck: it made the same bash call three times.",
        "targets": ["bash"],
        "detail": json.dumps({"command": command}),
        "suggestions": [],
    }


async def test_repeated_call_gets_feedback_and_then_ends_the_run(terminal: TerminalRun) -> None:
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
    assert "the model repeated itself again." in terminal.text


async def test_a_model_that_finds_ever_new_loops_is_stopped(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        for at in range(50):
            if not (await turn.ask(f"r{at}", **loop(str(at)))).get("feedback"):
                return "permission_denied"
        return "end_turn"

    terminal.fake.script = script
    assert await terminal.run(yes=True) == 5
    assert len(terminal.fake.params("goalwright/permission/reply")) == 6


async def test_a_repeated_call_ends_a_run_without_a_terminal(terminal: TerminalRun) -> None:
    async def script(turn: Turn) -> str:
        reply = await turn.ask(**loop())
        return "end_turn" if reply.get("feedback") else "permission_denied"

    terminal.fake.script = script
    assert await terminal.run() == 5
    assert "the model repeats itself." in terminal.told


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
async def test_exit_code_reflects_why_the_run_ended(
    terminal: TerminalRun, stop: str, notice: tuple[str, str] | None, code: int
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
async def test_demo_is_a_success_only_if_chosen(terminal: TerminalRun, chosen: str | None, code: int) -> None:
    terminal.fake.demo = True
    assert await terminal.run(model=chosen) == code
    assert ("nothing was done: no model is set up" in terminal.told) == (code == 4)


async def test_limits_of_a_run_go_to_the_daemon_as_settings(terminal: TerminalRun) -> None:
    await terminal.run(limits={"unattended_steps": 7})
    options = terminal.fake.params("initialize")[0]["initializationOptions"]
    assert options["settings"] == {"unattended_steps": 7}
    assert options["unattended"] is True


async def test_user_is_asked_to_exceed_a_limit(terminal: TerminalRun) -> None:
    terminal.fake.script = over_budget
    assert await answering(Person(terminal), ("y\n", ASKED)) == 0
    assert (
        "Continue? [y]es, with the same amount again / [a]lways, without this limit / [n]o" in terminal.text
    )


async def test_script_never_answers_requests_of_another_client(terminal: TerminalRun) -> None:
    await terminal.run()
    terminal.fake.pending = [{"requestId": "other", "title": "rm -rf /", "permission": "bash"}]
    assert await terminal.run(session="s1", yes=True) == 0
    assert terminal.fake.params("goalwright/permission/reply") == []


@pytest.mark.parametrize("yes", [False, True])
@pytest.mark.parametrize("call", ["select_1", "attach_other"])
async def test_script_leaves_requests_of_a_user_to_that_user(
    terminal: TerminalRun, call: str, yes: bool
) -> None:
    async def attended(_: object, __: object) -> dict[str, Any]:
        return {"requests": [], "attendedBy": ["terminal"]}

    async def elsewhere(turn: Turn) -> str:
        await turn.ask(toolCallId=call, title="Use branch B")
        return "end_turn"

    terminal.fake.handlers["goalwright/permission/list"] = attended
    terminal.fake.script = elsewhere
    running = asyncio.create_task(terminal.run(yes=yes))
    await until(
        lambda: running.done() or "waiting for an answer from terminal: Use branch B" in terminal.text
    )
    terminal.fake.requests_pending["r1"].set_result({"reply": "once", "by": "terminal"})
    assert await running == 0
    assert terminal.fake.params("goalwright/permission/reply") == []


async def test_diff_and_rule_are_shown_before_accepting(terminal: TerminalRun) -> None:
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
async def test_each_answer_has_its_reply(terminal: TerminalRun, typed: str, reply: dict[str, str]) -> None:
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
async def test_always_grants_can_be_edited(
    terminal: TerminalRun, pattern: str, where: str, grants: list[str], scope: str | None
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


async def test_removing_all_grants_returns_to_the_question(terminal: TerminalRun) -> None:
    terminal.fake.script = edit_with_permission
    await answering(Person(terminal), ("a\n", ASKED), ("-\n", "edit: src/** ▸ "), ("y\n", ASKED))
    assert terminal.fake.params("goalwright/permission/reply") == [{"requestId": "r1", "reply": "once"}]


async def test_feedback_is_requested_and_the_turn_continues(terminal: TerminalRun) -> None:
    terminal.fake.script = edit_with_permission
    code = await answering(
        Person(terminal), ("what?\n", ASKED), ("f\n", ASKED), ("über 9\n", "What should be different? ")
    )
    assert code == 0
    assert "Done: über 9" in terminal.text


async def test_input_typed_before_the_question_is_ignored(terminal: TerminalRun) -> None:
    person = Person(terminal)
    person.type("y\ny\n")
    terminal.fake.script = edit_with_permission
    assert await answering(person, ("n\n", ASKED)) == 3


async def answered_elsewhere(terminal: TerminalRun, meanwhile: Callable[[Turn], None]) -> None:
    """Run a turn whose question another client answers, after ``meanwhile``."""

    async def script(turn: Turn) -> str:
        asking = asyncio.create_task(turn.ask())
        await until(lambda: terminal.text.endswith(ASKED))
        meanwhile(turn)
        terminal.fake.requests_pending["r1"].set_result({"reply": "once", "by": "VS Code"})
        await asking
        turn.say("Done.")
        return "end_turn"

    terminal.fake.script = script
    Person(terminal)
    assert await terminal.run() == 0


async def test_question_disappears_when_another_client_answers(terminal: TerminalRun) -> None:
    await answered_elsewhere(terminal, lambda _: None)
    assert "(answered by VS Code: once)" in terminal.text
    assert terminal.fake.params("goalwright/permission/reply") == []


async def test_output_of_a_job_leaves_the_question_on_the_screen(terminal: TerminalRun) -> None:
    await answered_elsewhere(terminal, lambda turn: turn.delta("tool_output", "line 1\n", toolCallId="job"))
    assert "line 1" not in terminal.text


async def test_late_answer_is_reported_as_already_answered(terminal: TerminalRun) -> None:
    async def reply(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        terminal.fake.requests_pending["r1"].set_result({"reply": "reject", "by": "VS Code"})
        return {"accepted": False, "by": "VS Code"}

    terminal.fake.script = edit_with_permission
    terminal.fake.handlers["goalwright/permission/reply"] = reply
    assert await terminal.run(yes=True) == 3
    assert "(already answered by VS Code)" in terminal.text


async def test_answer_to_a_withdrawn_request_does_not_end_the_run(terminal: TerminalRun) -> None:
    async def reply(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        terminal.fake.requests_pending["r1"].set_result({"reply": "once"})
        raise RefuseError(-32012, "gone")

    terminal.fake.script = edit_with_permission
    terminal.fake.handlers["goalwright/permission/reply"] = reply
    assert await terminal.run(yes=True) == 0
    assert "(the request is no longer open:" in terminal.text


async def test_pending_request_of_a_loaded_session_can_be_answered(terminal: TerminalRun) -> None:
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


async def test_json_output_asks_on_stderr(terminal: TerminalRun) -> None:
    terminal.fake.script = edit_with_permission
    master, slave = pty.openpty()
    terminal.console = Console(out=terminal.out, err=terminal.err, tty=slave)
    running = asyncio.create_task(terminal.run(json=True))
    await until(lambda: terminal.told.endswith(ASKED))
    os.write(master, b"y\n")
    assert await running == 0
    assert "+new" in terminal.told
    assert terminal.json_lines[-1]["stopReason"] == "end_turn"


async def test_a_terminal_that_is_gone_counts_as_a_rejection() -> None:
    master, slave = pty.openpty()
    os.close(master)
    assert await TtyReader(slave, lambda text: None).ask("?") is None
    os.close(slave)


async def test_closed_terminal_counts_as_a_rejection(terminal: TerminalRun) -> None:
    master, slave = pty.openpty()
    reader = TtyReader(slave, lambda text: None)
    asking = asyncio.create_task(reader.ask("?"))
    await asyncio.sleep(0)
    os.close(master)
    assert await asking is None
    os.close(slave)
