"""Problems that an undo, a revert or a user restores in one file are never new after a change of another file.

Problems that the change itself causes there are reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from lsp_bridge.language_client.server.diagnostics_freshness import Timing
from tests.support.scenarios.language_workspace import (
    HANG_S,
    HASTY,
    SOON,
    LanguageWorkspace,
    eventually,
    fake_spec,
)

OLD = "first\nBAD old\nBAD older"
Open = Callable[..., Awaitable[LanguageWorkspace]]


@pytest.fixture
async def open_workspace(tmp_path: Path) -> AsyncIterator[Open]:
    """A workspace in which a server has judged ``OLD`` in ``a.txt``, and a line that was put above it."""
    opened: list[LanguageWorkspace] = []

    async def open_one(
        *rest: Sequence[str], edited: str = f"# c\n{OLD}", timing: Timing = SOON
    ) -> LanguageWorkspace:
        plan = [["fresh"], ["fresh"], *rest]
        workspace = LanguageWorkspace(tmp_path, [fake_spec(plan=plan)], timing)
        opened.append(workspace)
        workspace.write({workspace.path("a.txt"): OLD, workspace.path("b.txt"): "fine"})
        assert (await workspace.change(a_txt=edited)).verdict == "clean"
        return workspace

    yield open_one
    for workspace in opened:
        await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)


async def restore(workspace: LanguageWorkspace) -> None:
    """As an undo does."""
    path = workspace.path("a.txt")
    workspace.write({path: OLD})
    await workspace.diagnostics.changed(path)


@pytest.mark.parametrize("edited", [f"# c\n{OLD}", "mended", "first"])
async def test_late_answer_about_a_restored_file_reports_nothing_new(
    open_workspace: Open, edited: str
) -> None:
    held = (["hold"], ["fresh"], ["release", "fresh"])
    workspace = await open_workspace(*held, edited=edited, timing=HASTY)
    await restore(workspace)
    report = await workspace.change(b_txt="fine still")
    assert (report.verdict, report.problems) == ("clean", ())
    a, b = workspace.path("a.txt"), workspace.path("b.txt")
    [server] = workspace.servers.alive()
    await eventually(lambda: len(server.answers.known(a) or ()) == 2, "the answer about the restored text")
    assert await workspace.diagnostics.overdue([a, b]) is None
    # From here on it has a baseline again.
    assert (await workspace.change(b_txt="fine once more")).verdict == "clean"


async def test_breakage_in_a_restored_file_is_reported(open_workspace: Open) -> None:
    workspace = await open_workspace(["wait:0.1", "fresh"], ["fresh"], ["other:a.txt", "fresh"])
    await restore(workspace)
    report = await workspace.change(b_txt="breaks a")
    assert [problem.message for problem in report.problems] == ["broken by the other"]
    assert [problem.path.name for problem in report.problems] == ["a.txt"]


async def test_file_restored_during_another_check_reports_nothing_new(
    open_workspace: Open,
) -> None:
    workspace = await open_workspace(["fresh"], ["hold"], ["fresh", "release"], edited="mended")
    run = await workspace.diagnostics.begin([workspace.path("b.txt")])
    workspace.write({workspace.path("b.txt"): "fine still"})
    judging = asyncio.create_task(run.report())
    [server] = workspace.servers.alive()
    shown = server.answers.documents
    b = workspace.path("b.txt")
    await eventually(lambda: b in shown and shown[b].text == "fine still", "the change")
    await restore(workspace)
    assert (await asyncio.wait_for(judging, HANG_S)).problems == ()
    assert await workspace.diagnostics.overdue([b]) is None


async def test_an_edit_without_an_answer_is_clean_once_it_is_undone(open_workspace: Open) -> None:
    workspace = await open_workspace(["hold"], ["fresh"], timing=HASTY)
    path = workspace.path("a.txt")
    # The server says nothing about the first of these texts, then it is undone.
    before = path.read_text()
    assert (await workspace.change(a_txt=f"{before}\nBAD new")).verdict == "no_fresh_answer"
    workspace.write({path: before})
    await workspace.diagnostics.changed(path)
    [server] = workspace.servers.alive()
    version = server.answers.documents[path].version
    await eventually(lambda: server.settled(path, version), "the answer about the restored text")
    report = await workspace.diagnostics.overdue([path])
    assert report is not None
    assert (report.verdict, report.problems) == ("clean", ())


@pytest.mark.parametrize("texts", [("fine", "fine"), ("fine", "fine still")])
async def test_known_file_keeps_its_baseline_while_the_server_works(
    tmp_path: Path, texts: tuple[str, str]
) -> None:
    # What was said about its text was final before the server began to work on another file.
    known = [["fresh"]] * len(set(texts))
    plan = [*known, ["begin:checking", "fresh"], ["other:a.txt", "fresh"]]
    workspace = LanguageWorkspace(tmp_path, [fake_spec(plan=plan)], SOON)
    a, b = workspace.path("a.txt"), workspace.path("b.txt")
    try:
        workspace.write({a: texts[0], b: OLD})
        assert (await workspace.change(a_txt=texts[1])).verdict == "clean"
        report = await workspace.change(b_txt=f"{OLD}\nbreaks a")
        assert [(problem.path, problem.message) for problem in report.problems] == [
            (a, "broken by the other")
        ]
    finally:
        await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)
