"""Questions that servers leave open are judged when the answer arrives, and reported once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from lsp_bridge.language_client.diagnostics.server_source import ServerObserver, ServerSource
from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.diagnostics.verdict import Raw
from lsp_bridge.language_client.server.diagnostics_freshness import Timing
from lsp_bridge.language_client.specs.server_spec import ServerSpec
from tests.support.scenarios.language_workspace import (
    HANG_S,
    HASTY,
    SOON,
    LanguageWorkspace,
    eventually,
    fake_spec,
)
from tools.language_ports import DiagnosticsReport

Open = Callable[..., Awaitable[LanguageWorkspace]]
HELD = [["fresh"], ["hold"], ["release", "fresh"]]
"""The answer to the first change comes when another file is opened."""
QUICK = replace(SOON, answer_s=0.4)
"""The deadline comes before the answer."""


@pytest.fixture
async def open_workspace(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens a workspace with ``a.txt`` known to the given servers; closes it after the test."""
    opened: list[LanguageWorkspace] = []

    async def open_one(
        *specs: ServerSpec, text: str = "fine", timing: Timing = HASTY, warm: bool = True
    ) -> LanguageWorkspace:
        workspace = LanguageWorkspace(tmp_path, specs, timing)
        opened.append(workspace)
        workspace.write({workspace.path("a.txt"): text})
        if warm:
            workspace.diagnostics.warm(workspace.path("a.txt"))
            await eventually(lambda: bool(list(workspace.servers.alive())), "the start")
            await workspace.running()
        return workspace

    yield open_one
    for workspace in opened:
        await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)


async def overdue(workspace: LanguageWorkspace, name: str = "a.txt") -> DiagnosticsReport:
    """The late report, as soon as there is one."""
    deadline = asyncio.get_running_loop().time() + HANG_S
    while (report := await workspace.diagnostics.overdue([workspace.path(name)])) is None:
        assert asyncio.get_running_loop().time() < deadline, "no late report"
        await asyncio.sleep(0.02)
    return report


def release(workspace: LanguageWorkspace) -> None:
    workspace.write({workspace.path("opened.txt"): "fine"})
    workspace.diagnostics.warm(workspace.path("opened.txt"))


def messages(report: DiagnosticsReport) -> list[str]:
    return [problem.message for problem in report.problems]


async def test_late_answer_is_compared_with_baseline_and_reported_once(
    open_workspace: Open,
) -> None:
    workspace = await open_workspace(fake_spec(plan=HELD), text="BAD old")
    path = workspace.path("a.txt")
    assert (await workspace.change(a_txt="BAD old\nBAD new")).verdict == "no_fresh_answer"
    assert await workspace.diagnostics.overdue([path]) is None
    release(workspace)
    assert await workspace.diagnostics.overdue([workspace.path("other.txt")]) is None
    report = await overdue(workspace)
    assert (report.verdict, messages(report), report.servers) == ("problems", ["bad: BAD new"], ("fake",))
    assert await workspace.diagnostics.overdue([path]) is None


async def test_a_late_answer_may_be_clean(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(plan=HELD))
    assert (await workspace.change(a_txt="fine too")).verdict == "no_fresh_answer"
    release(workspace)
    assert await overdue(workspace) == DiagnosticsReport("clean", (), ("fake",))


async def test_problem_already_reported_is_not_reported_late(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(plan=[["fresh"], ["hold"], ["fresh"]]))
    assert (await workspace.change(a_txt="BAD new")).verdict == "no_fresh_answer"
    assert messages(await workspace.change(a_txt="BAD new\nfine")) == ["bad: BAD new"]
    assert await workspace.diagnostics.overdue([workspace.path("a.txt")]) is None


async def test_starting_server_is_asked_about_the_old_and_the_new_text(
    open_workspace: Open, tmp_path: Path
) -> None:
    spec = fake_spec("--initialize-when", str(tmp_path / "go"))
    workspace = await open_workspace(spec, text="BAD old", timing=QUICK, warm=False)
    assert (await workspace.change(a_txt="BAD old\nBAD new")).verdict == "no_fresh_answer"
    (tmp_path / "go").touch()
    report = await overdue(workspace)
    assert messages(report) == ["bad: BAD new"]


async def test_two_changes_before_server_start_use_the_first_baseline(
    open_workspace: Open, tmp_path: Path
) -> None:
    spec = fake_spec("--initialize-when", str(tmp_path / "go"))
    workspace = await open_workspace(spec, text="BAD old", timing=QUICK, warm=False)
    assert (await workspace.change(a_txt="BAD old\nBAD new")).verdict == "no_fresh_answer"
    assert (await workspace.change(a_txt="BAD old\nBAD new\nBAD newer")).verdict == "no_fresh_answer"
    (tmp_path / "go").touch()
    assert messages(await overdue(workspace)) == ["bad: BAD new", "bad: BAD newer"]


async def test_answer_owed_by_a_dead_server_comes_from_its_successor(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(plan=[["fresh"], ["die"]]), text="BAD old")
    assert (await workspace.change(a_txt="BAD old\nBAD new")).verdict == "no_fresh_answer"
    workspace.diagnostics.warm(workspace.path("a.txt"))
    report = await overdue(workspace)
    assert (messages(report), report.servers) == (["bad: BAD new"], ("fake",))


async def test_text_that_ended_a_server_is_no_baseline_for_the_next(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(), text="BAD old", timing=SOON)
    assert messages(await workspace.change(a_txt="BAD old\nBAD new")) == ["bad: BAD new"]
    assert (await workspace.change(a_txt="BAD old\nDEADLY")).verdict == "no_fresh_answer"
    report = await workspace.change(a_txt="BAD old\nBAD repair")
    if report.verdict == "no_fresh_answer":  # the successor was not there in time
        report = await overdue(workspace)
    assert messages(report) == ["bad: BAD repair"]


async def test_without_baseline_problems_on_changed_lines_come_at_once(
    open_workspace: Open,
) -> None:
    # It says nothing when a file is opened, so what was there before is not known in time.
    plan = [["nothing"], ["fresh"]]
    workspace = await open_workspace(fake_spec(plan=plan), text="BAD old", timing=HASTY)
    report = await workspace.change(a_txt="BAD old\nBAD new")
    assert (report.verdict, messages(report), report.silent) == ("problems", ["bad: BAD new"], ("fake",))
    late = await overdue(workspace)
    assert (late.verdict, late.problems) == ("clean", ())


async def test_deleted_file_has_no_overdue_answer(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(plan=[["fresh"], ["hold"]]))
    assert (await workspace.change(a_txt="BAD new")).verdict == "no_fresh_answer"
    await workspace.change(a_txt=None)
    assert await workspace.diagnostics.overdue([workspace.path("a.txt")]) is None


# ---- changes that grow, and texts that are held back


async def test_extended_change_is_judged_from_the_first_text_per_file(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(), text="BAD old", timing=SOON)
    a, b = workspace.path("a.txt"), workspace.path("b.txt")
    workspace.write({b: "BAD too"})
    run = await workspace.diagnostics.begin([a])
    workspace.write({a: "BAD old\nBAD new"})
    await run.extend([a, b])
    workspace.write({a: "BAD old\nBAD newer", b: "BAD too\nfine"})
    assert messages(await run.report()) == ["bad: BAD newer"]


async def test_servers_keep_the_old_text_during_a_change(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(), timing=SOON)
    path = workspace.path("a.txt")
    [server] = workspace.servers.alive()
    run = await workspace.diagnostics.begin([path])
    await eventually(lambda: path in server.answers.documents, "the file to be open")
    workspace.write({path: "BAD new"})
    await workspace.diagnostics.changed(path)
    workspace.diagnostics.warm(path)
    workspace.diagnostics.buffer_changed(path)
    for _ in range(20):
        await asyncio.sleep(0)
    assert server.answers.documents[path].text == "fine"
    run.drop()
    await eventually(lambda: server.answers.documents[path].text == "BAD new", "what was missed")


async def test_unsaved_text_hides_the_disk(tmp_path: Path) -> None:
    unsaved: dict[Path, str] = {}
    workspace = LanguageWorkspace(tmp_path, [fake_spec()], SOON)
    workspace.diagnostics = DiagnosticsService(
        workspace.root, [ServerSource(workspace.servers, text_of=unsaved.get)]
    )
    a, b = workspace.path("a.txt"), workspace.path("b.txt")
    workspace.write({a: "fine", b: "fine"})
    assert (await workspace.change(a_txt="fine too")).verdict == "clean"
    [server] = workspace.servers.alive()
    unsaved[b] = "\ufeffBAD unsaved"
    workspace.diagnostics.buffer_changed(b)
    await eventually(lambda: b in server.answers.documents, "the buffer")
    assert server.answers.documents[b].text == "BAD unsaved"
    del unsaved[b]
    workspace.diagnostics.buffer_changed(b)
    await eventually(lambda: server.answers.documents[b].text == "fine", "the text on disk")
    await workspace.diagnostics.close()


# ---- everything at once


@pytest.mark.parametrize("flags", [(), ("--pull", "static")])
async def test_current_problems_are_complete_and_limited(tmp_path: Path, flags: tuple[str, ...]) -> None:
    workspace = LanguageWorkspace(tmp_path, [fake_spec(*flags)], SOON)
    paths = [workspace.path(f"f{number}.txt") for number in range(60)]
    workspace.write({path: "BAD" if number % 2 else "fine" for number, path in enumerate(paths)})
    workspace.diagnostics.warm(paths[0])
    await eventually(lambda: bool(list(workspace.servers.alive())), "the start")
    await workspace.running()
    unknown = workspace.path("x.unknown")
    found = await workspace.diagnostics.current([*paths, unknown])
    assert [problem.path for problem in found.problems] == paths[1:50:2]
    assert (found.servers, found.silent, found.unwatched, found.left_out) == (("fake",), (), (unknown,), 10)
    await workspace.diagnostics.close()


async def test_silent_server_is_named_with_current_problems(tmp_path: Path) -> None:
    workspace = LanguageWorkspace(
        tmp_path, [fake_spec(name="good"), fake_spec(name="mute", plan=[["nothing"]])], HASTY
    )
    workspace.write({workspace.path("a.txt"): "BAD"})
    workspace.diagnostics.warm(workspace.path("a.txt"))
    await eventually(lambda: len(list(workspace.servers.alive())) == 2, "the start")
    await workspace.running()
    found = await workspace.diagnostics.current([workspace.path("a.txt")])
    assert [problem.message for problem in found.problems] == ["bad: BAD"]
    assert (found.servers, found.silent) == (("good",), ("mute",))
    await workspace.diagnostics.close()


# ---- what a server says after its verdict


async def test_errors_after_an_empty_answer_are_reported_late_and_once(open_workspace: Open) -> None:
    plan = [["fresh"], ["hold", "empty"], ["release", "fresh"]]
    workspace = await open_workspace(fake_spec(plan=plan), timing=SOON)
    assert (await workspace.change(a_txt="BAD new")).verdict == "clean"
    assert await workspace.diagnostics.overdue([workspace.path("a.txt")]) is None
    release(workspace)
    report = await overdue(workspace)
    assert (report.verdict, messages(report)) == ("problems", ["bad: BAD new"])
    assert await workspace.diagnostics.overdue([workspace.path("a.txt")]) is None


async def test_error_is_not_lost_when_a_change_comes_amid_a_look(
    open_workspace: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = [["fresh"], ["hold", "empty"], ["release", "fresh"], ["fresh"]]
    workspace = await open_workspace(fake_spec(plan=plan), timing=SOON)
    assert (await workspace.change(a_txt="BAD new")).verdict == "clean"
    [server] = workspace.servers.alive()
    again = ServerObserver.again

    async def slow(observer: ServerObserver, texts: Mapping[Path, str]) -> dict[Path, Raw]:
        found = await again(observer, texts)
        monkeypatch.setattr(ServerObserver, "again", again)
        release(workspace)
        await eventually(lambda: bool(server.answers.known(workspace.path("a.txt"))), "the push")
        await workspace.change(b_txt="fine")
        return found

    monkeypatch.setattr(ServerObserver, "again", slow)
    assert await workspace.diagnostics.overdue([workspace.path("a.txt")]) is None
    assert messages(await overdue(workspace)) == ["bad: BAD new"]


async def test_late_problem_elsewhere_is_reported_after_a_later_change(
    open_workspace: Open,
) -> None:
    plan = [["fresh"], ["fresh"], ["other:b.txt", "fresh"], ["fresh"]]
    workspace = await open_workspace(fake_spec(plan=plan), timing=SOON)
    assert (await workspace.change(a_txt="fine too")).verdict == "clean"
    release(workspace)  # the server pushes about b.txt now
    [server] = workspace.servers.alive()
    await eventually(lambda: bool(server.answers.known(workspace.path("b.txt"))), "the push")
    assert (await workspace.change(a_txt="fine again")).verdict == "clean"
    report = await overdue(workspace)
    assert [problem.path.name for problem in report.problems] == ["b.txt"]
    assert await workspace.diagnostics.overdue([workspace.path("a.txt")]) is None


async def test_problem_of_another_change_is_attributed_to_it(open_workspace: Open) -> None:
    plan = [["fresh"], ["hold"], ["fresh", "release"]]
    # The other change waits first, for a share of this, for the answer about the slow one.
    workspace = await open_workspace(fake_spec(plan=plan), timing=replace(SOON, answer_s=4.0))
    a, b = workspace.path("a.txt"), workspace.path("b.txt")
    run = await workspace.diagnostics.begin([a])
    workspace.write({a: "SLOW"})
    slow = asyncio.create_task(run.report())
    [server] = workspace.servers.alive()
    shown = server.answers.documents
    await eventually(lambda: a in shown and shown[a].text == "SLOW", "the change")
    other = await workspace.change(b_txt="BAD in b")
    assert [problem.path for problem in other.problems] == [b]
    assert (await asyncio.wait_for(slow, HANG_S)).problems == ()


async def test_failing_server_does_not_discard_answers_of_others(
    open_workspace: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await open_workspace(fake_spec(name="bad"), fake_spec(name="good"), timing=SOON)
    [bad] = [server for server in workspace.servers.alive() if server.name == "bad"]

    def fail() -> dict[Path, object]:
        raise OverflowError

    monkeypatch.setattr(bad.answers, "snapshot", fail)
    report = await workspace.change(a_txt="BAD new")
    assert (messages(report), report.servers, report.silent) == (["bad: BAD new"], ("good",), ("bad",))
