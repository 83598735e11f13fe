"""The port against a server that misbehaves: a real process, see tests/support/programs/language_server.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from lsp_bridge.language_client.server.diagnostics_freshness import Timing
from lsp_bridge.language_client.specs.server_spec import Command, ServerSpec
from tests.support.scenarios.language_workspace import (
    HANG_S,
    HASTY,
    NEVER,
    SOON,
    LanguageWorkspace,
    eventually,
    fake_spec,
    process_lives,
)
from tools.tool import DiagnosticsReport

Open = Callable[..., Awaitable[LanguageWorkspace]]
NO_ANSWER = DiagnosticsReport("no_fresh_answer", silent=("fake",))


@pytest.fixture
async def open_workspace(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens a workspace with ``a.txt`` ("fine") known to the given servers; closes it after the test."""
    opened: list[LanguageWorkspace] = []

    async def open_one(*specs: ServerSpec, text: str = "fine", timing: Timing = SOON) -> LanguageWorkspace:
        workspace = LanguageWorkspace(tmp_path, specs, timing)
        opened.append(workspace)
        workspace.write({workspace.path("a.txt"): text})
        workspace.diagnostics.warm(workspace.path("a.txt"))
        await eventually(lambda: bool(list(workspace.servers.alive())), "the start")
        await workspace.running()
        return workspace

    yield open_one
    for workspace in opened:
        pids = [pid for _, pid in workspace.servers.running()]
        await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)
        assert not [pid for pid in pids if process_lives(pid)]


def messages(report: DiagnosticsReport) -> list[str]:
    return [problem.message for problem in report.problems]


def received(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [json.loads(line).get("method", "") for line in lines]


async def test_only_the_new_problem_is_reported(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(), text="BAD old")
    report = await workspace.change(a_txt="inserted\nBAD old\nBAD new")
    assert (report.verdict, messages(report), report.servers) == ("problems", ["bad: BAD new"], ("fake",))
    assert (await workspace.change(a_txt="inserted\nBAD old")).verdict == "clean"


@pytest.mark.parametrize("pull", ["static", "dynamic"])
async def test_problems_are_pulled_from_a_server_that_never_pushes(open_workspace: Open, pull: str) -> None:
    workspace = await open_workspace(fake_spec("--pull", pull, plan=[["nothing"]]), text="BAD old")
    report = await workspace.change(a_txt="BAD old\nBAD new")
    assert (report.verdict, messages(report)) == ("problems", ["bad: BAD new"])
    assert (await workspace.change(a_txt="BAD old")).verdict == "clean"


async def test_a_pull_that_is_put_off_is_repeated(open_workspace: Open) -> None:
    flags = ("--pull", "static", "--pull-plan", '["fresh", "cancelled", "cancelled", "fresh"]')
    workspace = await open_workspace(fake_spec(*flags, plan=[["nothing"]]))
    await eventually(
        lambda: all(s.answers.known(workspace.path("a.txt")) is not None for s in workspace.servers.alive()),
        "the baseline",
    )
    assert messages(await workspace.change(a_txt="BAD")) == ["bad: BAD"]


@pytest.mark.parametrize("answer", ["error", "null", "never"])
async def test_pull_without_a_result_is_no_fresh_answer(open_workspace: Open, answer: str) -> None:
    flags = ("--pull", "static", "--pull-plan", json.dumps([answer]))
    workspace = await open_workspace(fake_spec(*flags, plan=[["nothing"]]), timing=NEVER)
    assert await workspace.change(a_txt="BAD") == NO_ANSWER


async def test_silent_server_is_not_clean_and_gets_a_shorter_deadline(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(plan=[["nothing"]]), timing=NEVER)
    [server] = workspace.servers.alive()
    assert server.deadline_s() == NEVER.answer_s
    for text in ("x", "y"):
        assert await workspace.change(a_txt=text) == NO_ANSWER
    assert server.deadline_s() == NEVER.silent_answer_s
    assert await workspace.change(a_txt="z") == NO_ANSWER


async def test_late_answer_ends_the_shorter_deadline(open_workspace: Open) -> None:
    plan = [["fresh"], ["hold"], ["hold"], ["release"], ["fresh"]]
    workspace = await open_workspace(fake_spec(plan=plan), timing=HASTY)
    [server] = workspace.servers.alive()
    for text in ("x", "y"):
        assert await workspace.change(a_txt=text) == NO_ANSWER
    assert server.deadline_s() == HASTY.silent_answer_s
    await workspace.change(a_txt="z")
    await eventually(lambda: server.deadline_s() == HASTY.answer_s, "a sign of life")
    assert (await workspace.change(a_txt="BAD")).verdict == "problems"


async def test_a_server_that_never_initializes_is_not_clean(tmp_path: Path) -> None:
    workspace = LanguageWorkspace(tmp_path, [fake_spec("--never-initialize")], NEVER)
    assert await workspace.change(a_txt="BAD") == NO_ANSWER
    await workspace.diagnostics.close()


async def test_answer_about_the_old_text_is_not_fresh(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(plan=[["fresh"], ["stale"]]), timing=NEVER)
    assert (await workspace.change(a_txt="BAD")).verdict == "no_fresh_answer"


@pytest.mark.parametrize(
    "steps",
    [
        ["stale", "fresh"],
        ["stale", "wait:0.3", "fresh"],
        ["fresh", "stale"],
        ["future", "fresh"],
        ["fresh", "fresh"],
        ["garbage", "fresh", "garbage"],
        ["nested"],
        ["unversioned-stale", "unversioned"],
        ["unversioned-stale", "wait:0.05", "unversioned"],
    ],
)
async def test_the_fresh_answer_is_found_among_others(open_workspace: Open, steps: list[str]) -> None:
    first = "unversioned" if steps[0].startswith("unversioned") else "fresh"
    workspace = await open_workspace(fake_spec(plan=[[first], steps, steps]), text="BAD old")
    report = await workspace.change(a_txt="BAD new")
    assert (report.verdict, messages(report)) == ("problems", ["bad: BAD new"])
    assert (await workspace.change(a_txt="fine")).verdict == "clean"


async def test_late_answer_is_not_attributed_to_a_later_change(open_workspace: Open) -> None:
    plan = [["fresh"], ["hold"], ["release"]]
    workspace = await open_workspace(fake_spec(plan=plan), timing=NEVER)
    assert (await workspace.change(a_txt="BAD first")).verdict == "no_fresh_answer"
    assert (await workspace.change(a_txt="fine again")).verdict == "no_fresh_answer"


async def test_problems_of_an_unanswered_change_come_with_the_next(open_workspace: Open) -> None:
    plan = [["fresh"], ["hold"], ["fresh"]]
    workspace = await open_workspace(fake_spec(plan=plan), text="BAD old", timing=HASTY)
    assert (await workspace.change(a_txt="BAD old\nBAD new")).verdict == "no_fresh_answer"
    report = await workspace.change(a_txt="BAD old\nBAD new\nfine")
    assert (report.verdict, messages(report)) == ("problems", ["bad: BAD new"])
    assert (await workspace.change(a_txt="BAD old\nBAD new\nfine too")).verdict == "clean"


async def test_a_wrong_version_is_never_an_answer(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(plan=[["fresh"], ["future"]]), timing=NEVER)
    assert (await workspace.change(a_txt="BAD")).verdict == "no_fresh_answer"


async def test_a_flood_is_bounded(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(plan=[["fresh"], ["flood"], ["flood"], ["fresh"]]))
    report = await workspace.change(a_txt="x")
    assert report.verdict == "problems"
    assert messages(report) == [f"flood {line}" for line in range(20)]
    assert (await workspace.change(a_txt="x y")).verdict in ("clean", "problems")
    assert (await workspace.change(a_txt="x y z")).verdict == "clean"


async def test_noise_on_stderr_does_not_block_a_server(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec("--noise"))
    assert messages(await workspace.change(a_txt="BAD")) == ["bad: BAD"]


@pytest.mark.parametrize("death", [["die"], ["half", "die"], ["fresh", "half", "die"]])
async def test_died_server_gives_no_fresh_answer_and_is_restarted(
    open_workspace: Open, death: list[str]
) -> None:
    # The plan of a new process begins again: the first sync is the baseline, the second kills it.
    workspace = await open_workspace(fake_spec(plan=[["fresh"], death]))
    [(_, first)] = workspace.servers.running()
    report = await workspace.change(a_txt="BAD")
    if "fresh" in death and report.verdict == "problems":
        assert messages(report) == ["bad: BAD"]  # It was heard out before its death was noticed.
    else:
        assert report.verdict == "no_fresh_answer"
    await eventually(lambda: not process_lives(first), "the end of the process")
    workspace.diagnostics.warm(workspace.path("a.txt"))
    await eventually(lambda: bool(workspace.servers.running()), "the restart")
    assert [pid for _, pid in workspace.servers.running()] != [first]


async def test_repeatedly_crashing_server_is_abandoned(tmp_path: Path) -> None:
    now = 0.0
    workspace = LanguageWorkspace(tmp_path, [fake_spec("--exit-at-start")], clock=lambda: now)
    path = workspace.path("a.txt")
    starts = 0
    for _ in range(50):
        lookup = workspace.servers.for_path(path)
        if lookup.servers:
            starts += 1
            server = lookup.servers[0]
            await eventually(lambda server=server: server.gone, "the crash")
        elif not lookup.resting:
            break
        now += 1.0
    assert starts == 4
    assert await workspace.change(a_txt="BAD") == DiagnosticsReport("no_server")
    await workspace.diagnostics.close()


async def test_server_paused_after_a_crash_gives_no_fresh_answer(tmp_path: Path) -> None:
    workspace = LanguageWorkspace(tmp_path, [fake_spec("--exit-at-start")], clock=lambda: 0.0)
    for _ in range(2):
        [server] = workspace.servers.for_path(workspace.path("a.txt")).servers
        await eventually(lambda server=server: server.gone, "the crash")
    assert workspace.servers.for_path(workspace.path("a.txt")).resting == ("fake",)
    assert await workspace.change(a_txt="BAD") == NO_ANSWER
    await workspace.diagnostics.close()


async def test_one_silent_server_of_two_prevents_a_clean_verdict(open_workspace: Open) -> None:
    good, silent = fake_spec(name="good"), fake_spec(plan=[["fresh"], ["nothing"]], name="silent")
    workspace = await open_workspace(good, silent, timing=replace(HASTY, answer_s=3.0))
    assert await workspace.change(a_txt="still fine") == DiagnosticsReport(
        "no_fresh_answer", (), ("good",), ("silent",)
    )
    report = await workspace.change(a_txt="BAD")
    assert (report.verdict, messages(report), report.servers) == ("problems", ["bad: BAD"], ("good",))
    assert report.silent == ("silent",)


async def test_problems_that_two_servers_agree_on_are_reported_once(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(name="one"), fake_spec(name="two"))
    report = await workspace.change(a_txt="BAD")
    assert (messages(report), report.servers) == (["bad: BAD"], ("one", "two"))


async def test_several_files_are_checked_as_one_change(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(), text="BAD old")
    workspace.write({workspace.path("b.txt"): "fine", workspace.path("gone.txt"): "BAD"})
    report = await workspace.change(a_txt="BAD old\nBAD a", b_txt="BAD b", c_txt="BAD c", gone_txt=None)
    assert messages(report) == ["bad: BAD a", "bad: BAD b", "bad: BAD c"]


async def test_only_new_problems_in_other_files_are_reported(open_workspace: Open) -> None:
    plan = [["other:old.txt", "fresh"], ["other:old.txt", "other:b.txt", "fresh"]]
    workspace = await open_workspace(fake_spec(plan=plan))
    report = await workspace.change(a_txt="fine too")
    assert report.verdict == "problems"
    assert [problem.path.name for problem in report.problems] == ["b.txt"]


async def test_at_most_five_other_files_are_reported(open_workspace: Open) -> None:
    many = [f"other:x{number}.txt" for number in range(9)]
    workspace = await open_workspace(fake_spec(plan=[["fresh"], [*many, "fresh"]]))
    report = await workspace.change(a_txt="BAD")
    assert [problem.path.name for problem in report.problems] == ["a.txt"] + [f"x{n}.txt" for n in range(5)]


async def test_a_created_file_is_all_new_and_a_deleted_one_is_closed(
    open_workspace: Open, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    workspace = await open_workspace(fake_spec("--log", str(log)))
    assert messages(await workspace.change(new_txt="BAD")) == ["bad: BAD"]
    # Another file is open, and a server that pushes says nothing of it when it sees nothing new.
    assert await workspace.change(new_txt=None) == DiagnosticsReport("no_fresh_answer", (), (), ("fake",))
    await eventually(lambda: "textDocument/didClose" in received(log), "didClose")
    assert received(log).count("workspace/didChangeWatchedFiles") == 2


async def test_deleting_the_only_open_file_reports_no_server(tmp_path: Path) -> None:
    workspace = LanguageWorkspace(tmp_path, [fake_spec()])
    try:
        assert messages(await workspace.change(new_txt="BAD")) == ["bad: BAD"]
        assert await workspace.change(new_txt=None) == DiagnosticsReport("no_server")
    finally:
        await workspace.diagnostics.close()


async def test_unsupported_huge_and_outside_files_have_no_server(
    open_workspace: Open, tmp_path: Path
) -> None:
    workspace = await open_workspace(fake_spec())
    outside = tmp_path.parent / "outside.txt"
    run = await workspace.diagnostics.begin([outside, workspace.path("a.unknown")])
    assert await run.report() == DiagnosticsReport("no_server")
    assert await workspace.change(a_txt="BAD " * 500_000) == DiagnosticsReport("no_server")


async def test_baseline_survives_closing_the_file_for_others(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec(), text="BAD old")
    [server] = workspace.servers.alive()
    path = workspace.path("a.txt")
    run = await workspace.diagnostics.begin([path])
    await eventually(lambda: server.answers.known(path) is not None, "the baseline")
    version = server.answers.documents[path].version
    await server.answered({path: version}, asyncio.get_running_loop().time() + HANG_S)
    await asyncio.sleep(0)
    for number in range(45):
        server.sync(workspace.path(f"more{number}.txt"), "fine")
    assert path not in server.answers.documents
    workspace.write({path: "BAD old\nBAD new"})
    assert messages(await run.report()) == ["bad: BAD new"]


async def test_nothing_is_awaited_once_it_is_answered(open_workspace: Open) -> None:
    workspace = await open_workspace(fake_spec())
    for number in range(3):
        await workspace.change(a_txt=f"BAD {number}")
    [server] = workspace.servers.alive()
    assert not server._awaited  # pyright: ignore[reportPrivateUsage]


async def test_external_change_moves_the_baseline(open_workspace: Open, tmp_path: Path) -> None:
    log = tmp_path / "log"
    workspace = await open_workspace(fake_spec("--log", str(log)))
    await eventually(lambda: "textDocument/didOpen" in received(log), "didOpen")
    workspace.write({workspace.path("a.txt"): "BAD by hand"})
    await workspace.diagnostics.changed(workspace.path("a.txt"))
    await eventually(lambda: "textDocument/didChange" in received(log), "didChange")
    report = await workspace.change(a_txt="BAD by hand\nBAD by model")
    assert messages(report) == ["bad: BAD by model"]


async def test_write_that_the_file_watch_sees_is_announced_once(open_workspace: Open, tmp_path: Path) -> None:
    log = tmp_path / "log"
    workspace = await open_workspace(fake_spec("--log", str(log)))
    path = workspace.path("a.txt")
    run = await workspace.diagnostics.begin([path])
    workspace.write({path: "BAD by model"})
    await workspace.diagnostics.changed(path)
    assert messages(await run.report()) == ["bad: BAD by model"]
    await workspace.diagnostics.changed(path)
    for text in ("by hand", "by hand", "BAD by model"):
        workspace.write({path: text})
        await workspace.diagnostics.changed(path)
    await workspace.change(a_txt="the end")
    await eventually(lambda: "the end" in log.read_text(), "the last change")
    assert received(log).count("workspace/didChangeWatchedFiles") == 4


async def test_starting_server_is_told_nothing_before_it_has_answered(tmp_path: Path) -> None:
    log, go = tmp_path / "log", tmp_path / "go"
    spec = fake_spec("--log", str(log), "--initialize-when", str(go))
    workspace = LanguageWorkspace(tmp_path, [spec])
    path = workspace.path("a.txt")
    workspace.write({path: "fine"})
    workspace.diagnostics.warm(path)
    await eventually(lambda: log.exists() and "initialize" in received(log), "the start")
    await workspace.diagnostics.changed(path)
    go.touch()
    assert messages(await workspace.change(a_txt="BAD")) == ["bad: BAD"]
    assert received(log)[:2] == ["initialize", "initialized"]
    await workspace.diagnostics.close()


async def test_changed_starts_no_server_and_accepts_any_path(tmp_path: Path) -> None:
    workspace = LanguageWorkspace(tmp_path, [fake_spec()])
    await workspace.diagnostics.changed(workspace.path("absent.txt"))
    await workspace.diagnostics.changed(tmp_path)
    assert workspace.servers.running() == []
    await workspace.diagnostics.close()


def test_warming_up_without_an_event_loop_does_nothing(tmp_path: Path) -> None:
    workspace = LanguageWorkspace(tmp_path, [fake_spec()])
    workspace.diagnostics.warm(workspace.path("a.txt"))
    assert workspace.servers.running() == []


async def test_server_ignoring_shutdown_is_killed_with_its_children(tmp_path: Path) -> None:
    child_file = tmp_path / "child"
    spec = fake_spec("--ignore-shutdown", "--child", str(child_file))
    workspace = LanguageWorkspace(tmp_path, [spec])
    assert messages(await workspace.change(a_txt="BAD")) == ["bad: BAD"]
    [(name, pid)] = workspace.servers.running()
    child = int(child_file.read_text(encoding="utf-8"))
    assert name == "fake"
    assert process_lives(pid)
    assert process_lives(child)
    await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)
    assert workspace.servers.running() == []
    assert not process_lives(pid)
    await eventually(lambda: not process_lives(child), "the end of the child")


async def test_the_children_of_a_server_that_died_are_killed(tmp_path: Path) -> None:
    child_file = tmp_path / "child"
    spec = fake_spec("--child", str(child_file), plan=[["fresh"], ["die"]])
    workspace = LanguageWorkspace(tmp_path, [spec])
    workspace.write({workspace.path("a.txt"): "fine"})
    assert (await workspace.change(a_txt="BAD")).verdict == "no_fresh_answer"
    child = int(child_file.read_text(encoding="utf-8"))
    await eventually(lambda: not process_lives(child), "the end of the child")
    await workspace.diagnostics.close()


async def test_closing_during_a_server_start_leaves_no_process(tmp_path: Path) -> None:
    workspace = LanguageWorkspace(tmp_path, [fake_spec("--never-initialize")])
    workspace.servers.for_path(workspace.path("a.txt"))
    await eventually(lambda: bool(workspace.servers.running()), "the process")
    [(_, pid)] = workspace.servers.running()
    await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)
    assert not process_lives(pid)


async def test_idle_server_is_stopped_and_restarted_on_demand(tmp_path: Path) -> None:
    now = 0.0
    workspace = LanguageWorkspace(tmp_path, [fake_spec()], clock=lambda: now)
    assert messages(await workspace.change(a_txt="BAD")) == ["bad: BAD"]
    [(_, pid)] = workspace.servers.running()
    now = 899.0
    await workspace.servers.stop_idle()
    assert workspace.servers.running()
    now = 900.0
    await workspace.servers.stop_idle()
    assert workspace.servers.running() == []
    assert not process_lives(pid)
    assert messages(await workspace.change(a_txt="BAD\nBAD again")) == ["bad: BAD again"]
    await workspace.diagnostics.close()


async def test_closing_while_an_idle_server_stops_leaves_no_process(tmp_path: Path) -> None:
    now = 0.0
    workspace = LanguageWorkspace(tmp_path, [fake_spec("--ignore-shutdown")], clock=lambda: now)
    assert messages(await workspace.change(a_txt="BAD")) == ["bad: BAD"]
    [(_, pid)] = workspace.servers.running()
    now = 900.0
    stopping = asyncio.create_task(workspace.servers.stop_idle())
    await eventually(lambda: workspace.servers.running() == [], "the stop to begin")
    stopping.cancel()  # as the periodic checks are when everything is closed
    await asyncio.wait({stopping})
    await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)
    assert not process_lives(pid)


async def test_unexecutable_server_gives_no_fresh_answer(tmp_path: Path) -> None:
    broken = tmp_path.resolve() / "broken"
    broken.write_text("#!/nonexistent\n", encoding="ascii")
    broken.chmod(0o755)
    spec = ServerSpec("broken", {".txt": "plain"}, (Command("broken", (str(broken),)),))
    workspace = LanguageWorkspace(tmp_path / "w", [spec])
    (tmp_path / "w").mkdir()
    assert (await workspace.change(a_txt="BAD")).verdict == "no_fresh_answer"
    await workspace.diagnostics.close()
