"""Editors and servers are asked about the texts that are there, also when these become others meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lsp_bridge.language_client.diagnostics.current_problems import survey
from lsp_bridge.language_client.diagnostics.server_source import ServerSource
from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import LanguageServers
from lsp_bridge.language_client.server.language_server import LanguageServer
from lsp_bridge.language_client.text import positions
from lsp_bridge.language_client.text.positions import load, read_source
from lsp_bridge.server.editor.clients import EditorPeer, EditorPeers
from lsp_bridge.server.editor.editor_source import EditorSource, EditorTiming, text_hash
from tests.support.drivers.waiting import until
from tests.support.fakes.editor_peer import FakeEditor, never
from tests.support.scenarios.language_workspace import NEVER, SOON, LanguageWorkspace, eventually, fake_spec

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


# ---- servers

Open = Callable[..., Awaitable[tuple[LanguageWorkspace, LanguageServer]]]
LARGE = "a line\n" * 50_000
"""Files of this size are read in a thread."""
LONG = replace(SOON, answer_s=2 * HANG_S)


@pytest.fixture
async def open_workspace(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens a workspace whose server has answered about ``a.txt``; closes it after the test."""
    opened: list[LanguageWorkspace] = []

    async def open_one(
        *flags: str, text: str = "fine", **more: Any
    ) -> tuple[LanguageWorkspace, LanguageServer]:
        workspace = LanguageWorkspace(tmp_path, [fake_spec(*flags, **more)], LONG)
        opened.append(workspace)
        path = workspace.path("a.txt")
        workspace.write({path: text})
        workspace.diagnostics.warm(path)
        await eventually(lambda: bool(list(workspace.servers.alive())), "the start")
        [server] = workspace.servers.alive()
        await eventually(lambda: server.answers.known(path) is not None, "the answer")
        return workspace, server

    yield open_one
    for workspace in opened:
        await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)


async def test_answer_about_the_new_text_is_no_baseline(open_workspace: Open) -> None:
    plan = [["fresh"], ["other:a.txt"]]  # the change breaks a line that it does not touch
    workspace, server = await open_workspace(plan=plan, text="first\nsecond")
    path = workspace.path("a.txt")
    run = await workspace.diagnostics.begin([path])
    await eventually(lambda: not server.unsettled(), "the baseline")
    workspace.write({path: "first\nchanged"})
    # Somebody else shows it to the server before the report does.
    found = await asyncio.wait_for(workspace.diagnostics.current([path]), HANG_S)
    report = await asyncio.wait_for(run.report(), HANG_S)
    assert [problem.line for problem in found.problems] == [1]
    assert [problem.message for problem in report.problems] == ["broken by the other"]


async def test_nobody_waits_for_an_answer_about_a_replaced_text(open_workspace: Open) -> None:
    workspace, server = await open_workspace(plan=[["fresh"], ["hold"], ["hold"], ["fresh"]])
    path, late = workspace.path("a.txt"), asyncio.get_running_loop().time() + 2 * HANG_S
    version = server.sync(path, "BAD one")
    asked = asyncio.ensure_future(server.answered({path: version}, late))
    await asyncio.sleep(0)
    server.sync(path, "BAD two")
    assert await asyncio.wait_for(asked, HANG_S) == set()
    newest = server.sync(path, "BAD three")
    assert await asyncio.wait_for(server.answered({path: newest}, late), HANG_S) == {path}
    assert not server.settled(path, version)


async def test_change_replaced_at_the_server_is_answered_late(open_workspace: Open) -> None:
    workspace, server = await open_workspace(plan=[["fresh"], ["hold"], ["fresh"]])
    path = workspace.path("a.txt")
    run = await workspace.diagnostics.begin([path])
    workspace.write({path: "BAD one"})
    asked = asyncio.ensure_future(run.report())
    await eventually(lambda: server.answers.documents[path].text == "BAD one", "the change")
    workspace.write({path: "BAD two"})
    found = await asyncio.wait_for(workspace.diagnostics.current([path]), HANG_S)
    assert [problem.message for problem in found.problems] == ["bad: BAD two"]
    assert (await asyncio.wait_for(asked, HANG_S)).verdict == "no_fresh_answer"
    late = await workspace.diagnostics.overdue([path])
    assert late is not None
    assert [problem.message for problem in late.problems] == ["bad: BAD two"]


async def test_current_problems_are_those_of_the_newest_text(open_workspace: Open) -> None:
    workspace, server = await open_workspace(plan=[["fresh"], ["hold"], ["fresh"]])
    path = workspace.path("a.txt")
    workspace.write({path: "BAD one"})
    asked = asyncio.ensure_future(workspace.diagnostics.current([path]))
    await eventually(lambda: server.answers.documents[path].text == "BAD one", "the question")
    workspace.write({path: "fine\nBAD two"})
    await workspace.diagnostics.changed(path)
    found = await asyncio.wait_for(asked, HANG_S)
    assert [problem.message for problem in found.problems] == ["bad: BAD two"]
    assert (found.servers, found.silent) == (("fake",), ())


async def test_survey_does_not_undo_a_change_while_it_reads(open_workspace: Open) -> None:
    workspace, server = await open_workspace()
    a, b = workspace.path("a.txt"), workspace.path("b.txt")
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def read(path: Path) -> str | None:
        text = await read_source(path)
        if path == b:
            reading.set()
            await go_on.wait()
        return text

    workspace.write({a: "BAD old", b: "fine"})
    asked = asyncio.ensure_future(survey(workspace.servers, read, [a, b], "warning"))
    await asyncio.wait_for(reading.wait(), HANG_S)
    workspace.write({a: "BAD new"})
    await workspace.diagnostics.changed(a)
    go_on.set()
    found = await asyncio.wait_for(asked, HANG_S)
    assert server.answers.documents[a].text == "BAD new"
    assert [problem.message for problem in found.problems] == ["bad: BAD new"]


@pytest.mark.parametrize("first", ["changed", "warm"])
async def test_large_file_that_changes_while_read_is_read_again(
    open_workspace: Open, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    workspace, server = await open_workspace()
    path, [source] = workspace.path("a.txt"), workspace.diagnostics.sources
    reading, go_on = threading.Event(), threading.Event()

    def slow(path: Path) -> str | None:
        text = load(path)
        if not reading.is_set():
            reading.set()
            assert go_on.wait(HANG_S)
        return text

    monkeypatch.setattr(positions, "load", slow)
    workspace.write({path: "one\n" + LARGE})
    earlier = asyncio.ensure_future(source.changed(path) if first == "changed" else source.warm(path))
    await until(reading.is_set, "the read")
    workspace.write({path: "two\n" + LARGE})
    await workspace.diagnostics.changed(path)
    go_on.set()
    await asyncio.wait_for(earlier, HANG_S)
    assert server.answers.documents[path].text == "two\n" + LARGE


@pytest.mark.parametrize("before", ["a read", "a rejected change"])
async def test_starting_server_gets_no_text_from_before_its_start(tmp_path: Path, before: str) -> None:
    go_on = tmp_path / "go on"
    workspace = LanguageWorkspace(tmp_path, [fake_spec("--initialize-when", str(go_on))], LONG)
    path, [source] = workspace.path("a.txt"), workspace.diagnostics.sources
    workspace.write({path: "old"})
    under_way: list[asyncio.Task[bool]] = []
    if before == "a read":
        under_way.append(asyncio.create_task(source.warm(path)))
        await eventually(lambda: bool(list(workspace.servers.alive())), "the start")
    else:
        run = await workspace.diagnostics.begin([path])
        await asyncio.sleep(0)
        run.drop()
    [server] = workspace.servers.alive()
    workspace.write({path: "new"})
    await workspace.diagnostics.changed(path)
    go_on.touch()
    await workspace.running()
    await asyncio.wait_for(asyncio.gather(*under_way), HANG_S)
    # The change was told before the server could be shown anything, so the newest text is shown first.
    found = await asyncio.wait_for(workspace.diagnostics.current([path]), HANG_S)
    document = server.answers.documents[path]
    assert (document.text, document.changed, found.silent) == ("new", False, ())
    await workspace.diagnostics.close()


async def test_dropped_change_leaves_no_older_text_at_the_server(tmp_path: Path) -> None:
    workspace = LanguageWorkspace(tmp_path, [fake_spec(plan=[["nothing"]])], NEVER)
    path = workspace.path("a.txt")
    workspace.write({path: "one"})
    workspace.diagnostics.warm(path)
    await eventually(lambda: bool(list(workspace.servers.alive())), "the start")
    await workspace.running()
    [server] = workspace.servers.alive()
    assert (await workspace.change(a_txt="two")).verdict == "no_fresh_answer"
    documents = server.answers.documents
    run = await workspace.diagnostics.begin([path])
    await eventually(lambda: documents[path].text == "one", "the baseline of the change without an answer")
    run.drop()
    await eventually(lambda: documents[path].text == "two", "the text on disk")
    await workspace.diagnostics.close()
