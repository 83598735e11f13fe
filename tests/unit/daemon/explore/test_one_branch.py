"""One branch of several: canceled at any moment, ended early, waiting for the question about the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.copies.working_copy import Base, WorkingCopies, WorkingCopy
from daemon.model.events import BranchCompleted, ExploreCompleted, PermissionReplied
from tests.support.drivers.core import Bench
from tests.support.drivers.waiting import until
from tests.support.fakes.branch_copies import CopiedTrees
from tests.support.fakes.models import Call, End, Fail, Hold
from tests.support.scenarios.branches import EDITS, explore, exploring, ran, scripts, told

ANYWHERE = {"edit": "allow", "bash": "allow", "external_directory": "allow"}
TWO = [explore("one", "two"), "Done."]
WRITE = Call("write", {"file_path": "a.txt", "content": "1\n2\n"})


class HeldCopies(CopiedTrees):
    """A's copy is not made before ``go``."""

    def __init__(self, workspace: Path, folder: Path, reached: asyncio.Event, go: asyncio.Event) -> None:
        super().__init__(workspace, folder)
        self.reached, self.go = reached, go

    async def open(self, session_id: str, base: Base) -> WorkingCopy:
        if session_id.endswith(":A"):
            self.reached.set()
            await self.go.wait()
        return await super().open(session_id, base)


async def test_a_branch_can_be_canceled_while_its_copy_is_made(tmp_path: Path) -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    def held(workspace: Path, folder: Path, links: Sequence[str]) -> WorkingCopies:
        return HeldCopies(workspace, folder, reached, go)

    b = Hold()
    async with exploring(tmp_path, TWO, {"B": [[b, "B works."]]}, copies=held) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await asyncio.gather(reached.wait(), b.reached.wait())
        assert bench.core.cancel(f"{session.session_id}:A")
        await until(lambda: session.state.children.branches["A"].status == "abandoned")
        assert session.state.children.branches["B"].status == "exploring"
        b.go.set()
        assert (await turn).stop == "end_turn"
        assert "### Branch A: one\n(not finished)\nCanceled" in told(session).content
        for nobody in ("A", "B", "C"):
            assert not bench.core.cancel(f"{session.session_id}:{nobody}")


async def test_queued_branch_is_canceled_at_once(tmp_path: Path) -> None:
    a = Hold()
    async with exploring(tmp_path, TWO, {"A": [[a, "A works."]]}) as bench:
        session = bench.session(settings={**EDITS, "max_parallel": 1})
        turn = asyncio.create_task(session.prompt("go"))
        await a.reached.wait()
        assert bench.core.cancel(f"{session.session_id}:B")
        await until(lambda: session.state.children.branches["B"].status == "abandoned")
        assert session.state.children.branches["A"].status == "exploring"
        a.go.set()
        assert (await turn).stop == "end_turn"
        summary = session.state.children.branches["B"].summary
        assert summary == "Canceled before it started."


async def test_canceled_branch_gets_a_diff_score_without_running_tests(tmp_path: Path) -> None:
    a = Hold()
    ran_tests = tmp_path / "tests-ran"
    settings = {**EDITS, "test_command": f"echo x >> {ran_tests}", "sandbox": "off"}
    settings["permission"] = ANYWHERE
    async with exploring(tmp_path, TWO, {"A": [WRITE, [a]], "B": [WRITE, "B."]}) as bench:
        session = bench.session(settings=settings)
        turn = asyncio.create_task(session.prompt("go"))
        await a.reached.wait()
        assert bench.core.cancel(f"{session.session_id}:A")
        assert (await turn).stop == "end_turn"
        one, other = (session.state.children.branches[name].score for name in "AB")
        assert one is not None and other is not None
        assert (one.files, one.added, one.removed) == (1, 2, 0)
        assert one.tokens > 0 and one.cost > 0
        assert (one.new_problems, one.fixed_problems) == (None, None)
        assert one.test is not None and one.test.ok is None
        assert other.test is not None and other.test.ok
        assert ran_tests.read_text() == "x\n"
        row = next(line for line in told(session).content.splitlines() if line.startswith("| A (abandoned)"))
        assert "not run: it was canceled" in row and "1 +2 -0" in row


async def test_branch_canceled_during_its_tests_keeps_its_result(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    (tmp_path / "hold.sh").write_text(f"echo x >> {pids}; exec sleep 300\n")
    command = f"sh {tmp_path}/hold.sh"
    settings = {**EDITS, "permission": {**ANYWHERE, "bash": {command: "allow"}}, "sandbox": "off"}
    settings["test_command"] = command
    main = [explore("one"), Call("explore", {"select": ["A"]}), "Done."]
    async with exploring(tmp_path, main, {"A": [WRITE, "A works."]}, changes=True) as bench:
        session = bench.session(settings=settings)
        turn = asyncio.create_task(session.prompt("go"))
        await until(pids.exists)
        assert bench.core.cancel(f"{session.session_id}:A")
        assert (await turn).stop == "end_turn"
        score = session.state.children.branches["A"].score
        assert score is not None and score.files == 1
        assert (bench.workspace / "a.txt").read_text() == "1\n2\n"


# -- the question about the tests --


def asking(**more: object) -> dict[str, object]:
    return {"permission": {"edit": "allow"}, "test_command": "true", **more}


async def test_approval_for_tests_is_asked_early_and_blocks_no_branch(
    tmp_path: Path,
) -> None:
    main = [explore("one", "two", "three"), "Done."]
    steps = {name: [WRITE, f"{name} works."] for name in "ABC"}
    async with exploring(tmp_path, main, steps) as bench:
        session = bench.session(settings=asking(max_parallel=1))
        turn = asyncio.create_task(session.prompt("go"))
        (request,) = await bench.asked()
        assert (request.permission, request.branch_id, request.targets) == ("bash", None, ("true",))
        # With one place, all have worked to their end before anybody has answered.
        await until(lambda: all(not models.left for models in scripts(bench).branches.values()))
        assert not bench.events(BranchCompleted)
        assert session.status == "waiting"
        await bench.answer("once")
        assert (await turn).stop == "end_turn"
        scores = [branch.score for branch in session.state.children.branches.values()]
        assert [score.test.ok for score in scores if score is not None and score.test is not None] == [
            True
        ] * 3


async def test_approval_for_tests_is_asked_at_start_and_withdrawn(tmp_path: Path) -> None:
    a = Hold()
    async with exploring(tmp_path, [explore("one"), "Done."], {"A": [[a, "Nothing to do."]]}) as bench:
        session = bench.session(settings=asking())
        turn = asyncio.create_task(session.prompt("go"))
        await asyncio.gather(a.reached.wait(), bench.asked())
        a.go.set()
        assert (await turn).stop == "end_turn"  # it changed nothing, so nobody needs to know
        assert not bench.core.permissions.pending()
        (withdrawn,) = [e for e in bench.events(PermissionReplied) if e.trace_id == session.session_id]
        assert withdrawn.reply == "canceled"
        assert "not run: it changed no files" in told(session).content
        kinds = [type(item) for item in bench.heard]
        assert kinds.index(PermissionReplied) < kinds.index(ExploreCompleted)


@pytest.mark.parametrize("closed", [False, True])
async def test_a_cancel_withdraws_the_question(tmp_path: Path, closed: bool) -> None:
    async with exploring(tmp_path, TWO[:1], {"A": [WRITE, "A."], "B": [[Hold()]]}) as bench:
        session = bench.session(settings=asking())
        turn = asyncio.create_task(session.prompt("go"))
        await bench.asked()
        await until(lambda: not scripts(bench).branches["A"].left and scripts(bench).branches["B"].requests)
        if closed:
            await bench.core.close()
        else:
            assert session.cancel()
        assert (await turn).stop == "canceled"
        assert not bench.core.permissions.pending()
        branches = session.state.children.branches
        # A's work may have been at its end already: then only its test is not run.
        assert branches["A"].status != "exploring" and branches["B"].status == "abandoned"


async def refused(bench: Bench) -> None:
    await bench.answer("reject", "they delete my data")


@pytest.mark.parametrize(
    ("settings", "answer", "trusted", "words"),
    [
        ({}, "reject", True, "not run: rejected by the user: they delete my data"),
        ({"permission_timeout_s": 0.05}, "", True, "not run: Nobody answered the request within 0.05 s"),
        ({"permission": {"*": "allow", "bash": "deny"}}, "", True, "not run: The editor rule"),
        ({"test_command": None}, "", True, "not run: no test command is known (setting test_command)"),
        ({"test_command": ""}, "", True, "not run: test_command is empty"),
        ({}, "", False, "not run: this folder is not trusted"),
        (
            {
                "permission": {"*": "allow"},
                "sandbox": "off",
                "test_command": "sleep 300",
                "test_timeout_s": 0.2,
            },
            "",
            True,
            "timed out after",
        ),
    ],
)
async def test_score_table_gives_the_reason_for_missing_tests(
    tmp_path: Path, settings: dict[str, object], answer: str, trusted: bool, words: str
) -> None:
    given = {**asking(), **settings}
    async with exploring(
        tmp_path, [explore("one"), "Done."], {"A": [WRITE, "A works."]}, trusted=trusted
    ) as bench:
        session = bench.session(settings=given)
        turn = asyncio.create_task(session.prompt("go"))
        if answer:
            await refused(bench)
        assert (await turn).stop == "end_turn"
        assert words in told(session).content


# -- branches that did not come to their end --


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (["Half of it is there.", End("max_tokens")], "Its last answer was truncated"),
        ([Fail("bad_request", "No such model.")], "Failed: No such model."),
    ],
)
async def test_unfinished_branch_is_selectable_and_names_its_end(
    tmp_path: Path, last: list[object], why: str
) -> None:
    steps = {"A": [["I write it now.", WRITE], last]}
    main = [explore("one"), Call("explore", {"select": ["A"]}), "Done."]
    async with exploring(tmp_path, main, steps, changes=True) as bench:  # type: ignore[arg-type]
        session = await ran(bench)
        branch = session.state.children.branches["A"]
        assert branch.status == "abandoned"
        assert branch.summary is not None
        assert branch.summary.startswith(why)
        said = "Half of it is there." if last[0] == "Half of it is there." else "I write it now."
        assert f"Its last message: {said}" in branch.summary
        assert branch.score is not None and branch.score.files == 1
        assert (bench.workspace / "a.txt").read_text() == "1\n2\n"
        assert not told(session).is_error
