"""A real LSP editor on the real socket is asked what its extensions say: late, stale, wrong, never, and gone.

pytest-lsp's client, a real daemon process, a scripted model.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.protocol.handshake import PROTOCOL_VERSION
from tests.e2e.test_editor_server import ALLOW, Editor, House, house, loaded
from tests.support.drivers.command_line import CommandLine
from tests.support.drivers.waiting import until
from tests.support.fakes.editor_peer import FakeEditor, diagnostic, pending, refusing

__all__ = ["house"]
pytestmark = pytest.mark.timeout(180)

QUESTION = "goalwright/editor/diagnostics"
PATIENT_S = 30.0
"""The setting of tests that want an answer: a busy machine takes longer than the second of the default."""


@pytest.fixture(autouse=True)
def diagnostics_on(goalwright: CommandLine) -> None:
    goalwright.configure(diagnostics=True, diagnostics_timeout_s=PATIENT_S)


async def eyes_of(house: House, fake: FakeEditor, model: str) -> Editor:
    """An editor attached to the daemon whose extensions ``fake`` plays."""
    editor = await house.attach()

    @editor.client.feature(QUESTION)  # pyright: ignore[reportUntypedFunctionDecorator] - of pygls
    async def _(params: Any) -> Any:
        return await fake.answer(QUESTION, params)

    options = {
        "protocolVersion": PROTOCOL_VERSION,
        "client": fake.name,
        "settings": {**ALLOW, "model": model},
        "diagnostics": True,
    }
    await editor.initialize(house.workspace, options)
    return editor


def write(content: str) -> dict[str, Any]:
    return {"name": "write", "input": {"file_path": "${workspace}/a.bad", "content": content}}


def told(editor: Editor) -> list[str]:
    """The tool results of the model, in order."""
    messages = [event["message"] for event in editor.events if "message" in event]
    return [m["content"][0]["content"] for m in messages if m["role"] == "tool"]


async def played(house: House, fake: FakeEditor, *contents: str) -> list[str]:
    """Return the results that the model received for its writes of ``a.bad``."""
    replies: list[dict[str, Any]] = [{"tool_calls": [write(content)]} for content in contents]
    editor = await eyes_of(house, fake, house.command_line.script([*replies, {"text": "Done."}]))
    session_id = await loaded(editor)
    await asyncio.wait_for(editor.prompt(session_id, "Write it"), 60)
    return told(editor)


async def test_editor_diagnostics_and_then_clean_reach_the_model(house: House) -> None:
    fake = FakeEditor("My editor")
    broken, mended = await played(house, fake, "fine\nBAD\n", "fine\nmended\n")
    assert "BAD thing" in broken and "looker" in broken and "[2:1]" in broken
    assert "clean" in mended and "My editor" in mended
    baseline, question = fake.asked[0], fake.asked[1]
    assert baseline["since"] is None and question["since"] is not None
    assert [Path(file["uri"]).name for file in question["files"]] == ["a.bad"]


class SlowEditor(FakeEditor):
    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        await asyncio.sleep(0.8)
        return await super().answer(method, params)


async def test_late_answer_within_the_deadline_counts(house: House) -> None:
    (result,) = await played(house, SlowEditor(), "BAD\n")
    assert "BAD thing" in result


async def too_late(editor: FakeEditor, question: dict[str, Any]) -> Any:
    await editor.released.wait()
    return editor.truth(question)


async def stale(editor: FakeEditor, question: dict[str, Any]) -> Any:
    """Return the editor's answer about the earlier text, which is clean and which the editor marks as such."""
    answer = await pending(editor, question)
    return answer | {"files": [file | {"diagnostics": []} for file in answer["files"]]}


async def wrong(editor: FakeEditor, question: dict[str, Any]) -> Any:
    return {"generation": {}, "files": [{"uri": 7}]}


async def about_another_file(editor: FakeEditor, question: dict[str, Any]) -> Any:
    return {
        "generation": 9,
        "files": [{"uri": "file:///etc/passwd", "freshness": "fresh", "diagnostics": []}],
    }


@pytest.mark.parametrize(
    "answer", [too_late, stale, wrong, about_another_file, refusing], ids=lambda answer: answer.__name__
)
async def test_late_stale_or_bad_editor_answer_gives_no_fresh_answer(
    house: House, answer: Callable[[FakeEditor, dict[str, Any]], Awaitable[Any]]
) -> None:
    house.command_line.configure(diagnostics_timeout_s=5)
    fake = FakeEditor()
    fake.then = answer
    (result,) = await played(house, fake, "BAD\n")
    assert "Edit applied" in result or "Created" in result or "applied" in result
    assert "NO FRESH ANSWER" in result and "VS Code" in result
    assert (house.workspace / "a.bad").read_text() == "BAD\n"
    await fake.release()


async def test_ten_thousand_diagnostics_are_reported_in_twenty_lines(house: House) -> None:
    async def flood(editor: FakeEditor, question: dict[str, Any]) -> Any:
        answer = editor.truth(question)
        many = [diagnostic(n, f"problem number {n}") for n in range(10_000)]
        return answer | {"files": [file | {"diagnostics": many} for file in answer["files"]]}

    fake = FakeEditor()
    fake.then = flood
    (result,) = await played(house, fake, "x\n" * 10_000)
    assert result.count("problem number") == 20


async def test_editor_killed_during_wait_gives_no_fresh_answer(house: House) -> None:
    # Longer than the turn may take: it is the kill that ends the wait.
    house.command_line.configure(diagnostics_timeout_s=60)
    fake = FakeEditor()
    fake.then = too_late
    model = house.command_line.script([{"tool_calls": [write("BAD\n")]}, {"text": "Done."}])
    watching = await house.editor("watching", model, **ALLOW)
    dying = await eyes_of(house, fake, model)
    session_id = await loaded(watching)
    turn = watching.prompt(session_id, "Write it")
    await until(lambda: len(fake.asked) == 2, "the question", within_s=60)
    assert dying.client._server is not None
    dying.client._server.kill()
    assert (await asyncio.wait_for(turn, 60))["stopReason"] == "end_turn"
    (result,) = told(watching)
    assert "NO FRESH ANSWER" in result
    await fake.release()
    # pytest-lsp cannot end a client whose handler was at work when its server died.
    house._editors.remove(dying)
    with contextlib.suppress(RuntimeError):
        await dying.client.stop()


async def test_server_starts_only_for_files_the_editor_does_not_cover(house: House, tmp_path: Path) -> None:
    trace, attached = tmp_path / "started", tmp_path / "attached"
    attached.write_text("covering\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    server = programs / "vscode-json-language-server"
    notes = f"open({str(trace)!r}, 'a').write(open({str(attached)!r}).read())"
    server.write_text(f"#!{sys.executable}\n{notes}\n")
    server.chmod(0o755)
    house.command_line.env["PATH"] = f"{programs}{os.pathsep}{house.command_line.env['PATH']}"
    writes = [
        {"name": "write", "input": {"file_path": f"${{workspace}}/{name}", "content": "{}\n"}}
        for name in ("a.bad", "a.json")
    ]
    script = [{"tool_calls": writes}, {"text": "Done."}]
    model = house.command_line.script(script, script)
    covering = await eyes_of(house, FakeEditor(suffixes=(".bad", ".json")), model)
    session_id = await loaded(covering)
    await asyncio.wait_for(covering.prompt(session_id, "Write"), 60)
    await covering.leave()

    attached.write_text("blind\n")
    blind = await eyes_of(house, FakeEditor(suffixes=(".bad",)), model)
    session_id = await loaded(blind)
    (house.workspace / "a.json").unlink()
    (house.workspace / "a.bad").unlink()
    await asyncio.wait_for(blind.prompt(session_id, "Write"), 60)
    await until(lambda: trace.exists() and trace.read_text(), "the server", within_s=30)
    # Only now: one that was started wrongly would have had time to write it down.
    assert "covering" not in trace.read_text()
