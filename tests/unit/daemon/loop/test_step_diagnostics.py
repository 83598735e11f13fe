"""One report for all edits of a step, and what comes late, in a real session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from daemon.loop.session import Session
from daemon.model import notice_codes
from daemon.model.events import Notice
from daemon.model.messages import NotePart, ToolResultPart
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Item
from tests.support.fakes.tool_context import FakeDiagnostics
from tools import change
from tools.language_ports import DiagnosticsReport, Problem, Severity
from tools.writing.transaction import write_through

LATER = "Diagnostics: judged together with the next edits of this step."
NO_ANSWER = DiagnosticsReport("no_fresh_answer", (), (), ("ty",))
CLEAN = DiagnosticsReport("clean", (), ("ty",))


def write(name: str) -> Call:
    return Call("write", {"file_path": name, "content": f"# {name}\n"})


FAILS = Call("edit", {"file_path": "a.py", "old_string": "absent", "new_string": "x"})


def fake_diagnostics(bench: Bench) -> FakeDiagnostics:
    return bench.diagnostics


def broken(bench: Bench, *severities: Severity, name: str = "a.py") -> DiagnosticsReport:
    path = bench.workspace / name
    problems = tuple(
        Problem(path, n, 1, severity, f"bad {severity}") for n, severity in enumerate(severities, 1)
    )
    return DiagnosticsReport("problems", problems, ("ty",))


async def worked(bench: Bench, *calls: Item, settings: dict[str, Any] | None = None) -> list[ToolResultPart]:
    """The results of a step with these calls."""
    session = bench.session(settings=settings or ALLOW_ALL)
    bench.models.then([*calls], "Done.")
    await finish(prompted(session, "do it"))
    return results(session)


def results(session: Session) -> list[ToolResultPart]:
    found = [message.tool_result() for message in session.state.messages if message.role == "tool"]
    return [result for result in found if result is not None]


def notes(bench: Bench) -> list[str]:
    """Return the notes that the model received beside the user's messages, over all sessions."""
    parts = [
        part
        for trace_id in bench.core.store.trace_ids()
        for message in bench.core.store.messages(trace_id)
        for part in message.content
    ]
    return [part.text for part in parts if isinstance(part, NotePart)]


async def test_the_edits_of_a_step_have_one_report_in_the_last_result(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = broken(bench, "error")
        first, second, third = await worked(bench, write("a.py"), write("b.py"), write("c.py"))
        assert first.content.startswith("Edit applied: a.py")
        assert LATER in first.content
        assert LATER in second.content
        assert third.content.startswith("Edit applied: c.py")
        assert "Diagnostics: 1 new problem since" in third.content
        assert (fake_diagnostics(bench).reported, len(fake_diagnostics(bench).begun)) == (1, 3)
        assert [part.metadata["verdict"] for part in (first, third)] == ["later", "problems"]


async def test_one_edit_has_its_report_at_once(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = CLEAN
        [only] = await worked(bench, write("a.py"))
        assert "Diagnostics: clean" in only.content


@pytest.mark.parametrize("look", ["bash", "diagnostics"])
async def test_workspace_reading_tools_end_an_edit_batch(tmp_path: Path, look: str) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = CLEAN
        looking = Call("bash", {"command": "true", "description": "look"})
        if look != "bash":
            looking = Call(look, {"path": "a.py"})
        between = Call("read", {"file_path": "a.py"})
        found = await worked(bench, write("a.py"), between, write("b.py"), looking, write("c.py"))
        assert LATER in found[0].content
        assert "Diagnostics: clean" in found[2].content
        assert "Diagnostics: clean" in found[4].content
        assert fake_diagnostics(bench).reported == 2


async def test_failing_last_edit_carries_the_report_on_earlier_edits(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = broken(bench, "error")
        first, last = await worked(bench, write("a.py"), FAILS)
        assert LATER in first.content
        assert last.is_error
        assert "The changes of this step's earlier calls are kept. Diagnostics: 1 new problem" in (
            last.content
        )
        assert last.metadata["verdict"] == "problems"


async def test_an_edit_that_fails_in_the_middle_delays_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = CLEAN
        _, failed, last = await worked(bench, write("a.py"), FAILS, write("b.py"))
        assert "Diagnostics" not in failed.content
        assert "Diagnostics: clean" in last.content


async def test_an_edit_that_a_rule_forbids_carries_the_report(tmp_path: Path) -> None:
    rules = {"permission": {"*": "allow", "edit": {"*": "allow", "b.py": "deny"}}}
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = CLEAN
        _, last = await worked(bench, write("a.py"), write("b.py"), settings=rules)
        assert last.content.startswith("Permission denied.")
        assert last.content.endswith("Diagnostics: clean, no new problems (ty).")


@pytest.mark.parametrize("feedback", ["use c.py", None])
async def test_rejected_edit_carries_the_report_on_earlier_edits(
    tmp_path: Path, feedback: str | None
) -> None:
    rules = {"permission": {"*": "allow", "edit": {"*": "allow", "b.py": "ask"}}}
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = CLEAN
        session = bench.session(settings=rules)
        bench.models.then([write("a.py"), write("b.py"), write("c.py")])
        if feedback:
            bench.models.then("Done.")
        turn = prompted(session, "do it")
        await bench.answer("reject", feedback)
        await finish(turn)
        first, refused, rest = results(session)
        assert LATER in first.content
        assert "Diagnostics: clean" in refused.content
        assert "not run" in rest.content


async def test_no_write_means_no_report(tmp_path: Path) -> None:
    rules = {"permission": {"*": "allow", "edit": "deny"}}
    async with daemon(tmp_path) as bench:
        [only] = await worked(bench, write("a.py"), settings=rules)
        assert "Diagnostics" not in only.content
        assert fake_diagnostics(bench).reported == 0


async def test_tools_that_do_not_write_ask_no_language_server(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / "a.py").write_text("x\n", encoding="ascii")
        await worked(bench, Call("read", {"file_path": "a.py"}), Call("grep", {"pattern": "x"}))
        assert (fake_diagnostics(bench).begun, fake_diagnostics(bench).reported) == ([], 0)


@pytest.mark.parametrize(
    ("setting", "severities", "said"),
    [
        ("error", ("warning",), "Diagnostics: clean"),
        ("error", ("error", "warning"), "Diagnostics: 1 new problem since"),
        ("warning", ("error", "warning"), "Diagnostics: 2 new problems since"),
    ],
)
async def test_severity_setting_decides_about_warnings(
    tmp_path: Path, setting: str, severities: tuple[Severity, ...], said: str
) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = broken(bench, *severities)
        [only] = await worked(bench, write("a.py"), settings={**ALLOW_ALL, "diagnostics_severity": setting})
        assert said in only.content


async def test_late_diagnostics_are_noted_once_before_the_next_request(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer, fake_diagnostics(bench).late = NO_ANSWER, [broken(bench, "error")]
        [only] = await worked(bench, write("a.py"))
        assert "NO FRESH ANSWER in time from ty." in only.content
        [told] = notes(bench)
        assert told.startswith(
            "Note: since your last message language servers answered about earlier edits. New problems: 1 (ty):"
        )
        assert "ERROR [1:1] bad error" in told
        [notice] = [event for event in bench.events(Notice) if event.code == notice_codes.LATE_DIAGNOSTICS]
        assert "bad error" in notice.text


async def test_late_clean_answer_is_reported_in_one_line(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer, fake_diagnostics(bench).late = NO_ANSWER, [CLEAN]
        await worked(bench, write("a.py"))
        assert notes(bench) == [
            "Note: since your last message language servers answered about earlier edits: "
            "clean, no new problems (ty)."
        ]


async def test_late_diagnostics_after_a_turn_come_with_the_next_prompt(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = NO_ANSWER
        session = bench.session(settings=ALLOW_ALL)
        bench.models.then([write("a.py")], "Done.")
        await finish(prompted(session, "do it"))
        assert not notes(bench)
        fake_diagnostics(bench).late = [CLEAN]
        bench.models.then("Fine.")
        await finish(prompted(session, "and now?"))
        assert len(notes(bench)) == 1


async def test_silent_server_is_polled_until_it_gives_a_verdict(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=ALLOW_ALL)
        fake_diagnostics(bench).answer = NO_ANSWER
        fake_diagnostics(bench).late = [NO_ANSWER, CLEAN]
        bench.models.then([write("a.py")], [Call("ls", {})], "Done.")
        await finish(prompted(session, "do it"))
        assert session.state.notes == () or len(notes(bench)) == 1
        assert await session.diagnostics.late() is None


async def test_report_canceled_with_the_turn_comes_late(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        diagnostics = fake_diagnostics(bench)
        diagnostics.answer, diagnostics.gate = broken(bench, "error"), asyncio.Event()
        session = bench.session(settings=ALLOW_ALL)
        bench.models.then([write("a.py"), write("b.py")])
        turn = prompted(session, "do it")
        await until(lambda: diagnostics.reported == 1, "the report")
        session.cancel()
        await finish(turn)
        diagnostics.gate.set()
        await until(lambda: session.diagnostics.owed, "the late report")
        bench.models.then("Fine.")
        await finish(prompted(session, "go on"))
        assert "New problems: 1 " in notes(bench)[-1]


async def test_edit_canceled_while_it_is_written_is_reported_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, saved = asyncio.Event(), asyncio.Event()

    async def save(*given: Any) -> object:
        writing.set()
        await saved.wait()  # an editor may take long for this
        return await write_through(*given)

    monkeypatch.setattr(change, "write_through", save)
    async with daemon(tmp_path) as bench:
        fake_diagnostics(bench).answer = broken(bench, "error")
        session = bench.session(settings=ALLOW_ALL)
        bench.models.then([write("a.py")])
        turn = prompted(session, "do it")
        await writing.wait()
        session.cancel()
        saved.set()
        await finish(turn)
        await until(lambda: session.diagnostics.owed, "the late report")
        bench.models.then("Fine.")
        await finish(prompted(session, "go on"))
        assert "New problems: 1 " in notes(bench)[-1]


async def test_closed_session_leaves_no_pending_report(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        diagnostics = fake_diagnostics(bench)
        diagnostics.gate = asyncio.Event()
        session = bench.session(settings=ALLOW_ALL)
        bench.models.then([write("a.py")])
        turn = prompted(session, "do it")
        await until(lambda: diagnostics.reported == 1, "the report")
        session.cancel()
        await finish(turn)
        await session.diagnostics.close()
        assert not session.diagnostics.owed


# ---- what may not be read


async def test_problems_in_files_that_may_not_be_read_are_only_counted(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        report = broken(bench, "error")
        secret = Problem(bench.workspace / ".env", 1, 1, "error", "TOKEN=hunter2")
        outside = Problem(tmp_path / "elsewhere.py", 1, 1, "error", "PASSWORD=hunter2")
        fake_diagnostics(bench).answer = replace(report, problems=(*report.problems, secret, outside))
        fake_diagnostics(bench).late.append(replace(report, problems=(secret,)))
        rules = {**ALLOW_ALL, "permission": {"*": "allow", "read": {"*.env": "deny"}}}
        [only] = await worked(bench, write("a.py"), settings=rules)
        assert "bad error" in only.content
        assert "2 problems in files that may not be read" in only.content
        told = [*notes(bench), only.model_dump_json()]
        assert not [text for text in told if "hunter2" in text]


async def test_late_problems_in_unreadable_files_are_only_counted(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        secret = Problem(bench.workspace / ".env", 1, 1, "error", "TOKEN=hunter2")
        fake_diagnostics(bench).answer = NO_ANSWER
        fake_diagnostics(bench).late.append(DiagnosticsReport("problems", (secret,), ("ty",)))
        rules = {**ALLOW_ALL, "permission": {"*": "allow", "read": {"*.env": "deny"}}}
        await worked(bench, write("a.py"), settings=rules)
        assert any("1 problem in files that may not be read" in note for note in notes(bench))
        assert not any("hunter2" in note for note in notes(bench))
