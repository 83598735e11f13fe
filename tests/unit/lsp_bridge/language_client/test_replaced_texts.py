"""An editor is asked about the texts that are there, also when they become others while it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.language_client.diagnostics.server_source import ServerSource
from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import LanguageServers
from lsp_bridge.language_client.text.positions import read_source
from lsp_bridge.server.editor.clients import EditorPeer, EditorPeers
from lsp_bridge.server.editor.editor_source import EditorSource, EditorTiming, text_hash
from tests.support.drivers.waiting import until
from tests.support.fakes.editor_peer import FakeEditor, never

HANG_S = 30.0
PATIENT = EditorTiming(answer_s=2 * HANG_S, baseline_s=5.0)
"""Longer than the test waits: a question about a text that is gone must not use it up."""


class Reloading(FakeEditor):
    """An editor that opened the file before a write, first reports the old text as unsaved, and then reloads the
    disk."""

    def __init__(self) -> None:
        super().__init__()
        self.stale: dict[Path, str] = {}

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if not self.stale:
            return await super().answer(method, params)
        if params["since"] is not None:
            self.asked.append(dict(params))
            await never(self, dict(params))
        file: dict[str, Any] = {"uri": params["files"][0]["uri"], "freshness": "pending", "diagnostics": []}
        return {"generation": 1, "files": [file], "others": []}


@pytest.fixture
def editor() -> Reloading:
    return Reloading()


@pytest.fixture
def services(editor: Reloading, tmp_path: Path) -> DiagnosticsService:
    async def read(path: Path) -> str | None:
        return await read_source(path, editor.stale.get)

    peers = EditorPeers()
    peers.add(EditorPeer(editor.name, editor.answer))
    editors = EditorSource(peers, read, timing=PATIENT)
    servers = ServerSource(LanguageServers(tmp_path.resolve(), ServerChoice), text_of=editor.stale.get)
    return DiagnosticsService(tmp_path.resolve(), [editors, servers])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "a.bad"
    path.write_text("fine\n")
    return path


async def test_editor_showing_stale_text_is_asked_again_after_reload(
    services: DiagnosticsService, editor: Reloading, file: Path
) -> None:
    run = await services.begin([file])
    file.write_text("BAD\n")
    editor.stale[file] = "fine\n"
    asked = asyncio.ensure_future(run.report())
    await until(lambda: len(editor.asked) == 2, "the question")
    services.buffer_changed(file)
    services.buffer_changed(file.with_name("other.bad"))
    editor.stale.clear()
    services.buffer_changed(file)
    report = await asyncio.wait_for(asked, HANG_S)
    found = [(problem.path.name, problem.line) for problem in report.problems]
    assert (report.verdict, found, report.silent) == ("problems", [("a.bad", 1)], ())
    first, then = editor.asked[1:]
    assert [question["files"][0]["textHash"] for question in (first, then)] == [
        text_hash("fine\n"),
        text_hash("BAD\n"),
    ]
    assert then["since"] == first["since"]
    assert then["timeoutMs"] <= first["timeoutMs"], "one deadline for all questions"


async def test_current_problems_are_asked_again_if_the_text_changes(
    services: DiagnosticsService, editor: Reloading, file: Path
) -> None:
    file.write_text("fine\nBAD\n")
    editor.stale[file] = "fine\n"
    asked = asyncio.ensure_future(services.current([file]))
    await until(lambda: editor.asked, "the question")
    editor.stale.clear()
    services.buffer_changed(file)
    found = await asyncio.wait_for(asked, HANG_S)
    assert [(problem.path.name, problem.line) for problem in found.problems] == [("a.bad", 2)]
    assert (found.servers, found.silent) == (("VS Code",), ())
