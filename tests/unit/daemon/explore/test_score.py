from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.copies.working_copy import BranchChange
from daemon.explore.score_text import score_table
from daemon.explore.scoring import diff_size, new_and_fixed, score_branch
from daemon.files.folder_language_services import NoDiagnostics
from daemon.loop.children import close_child, open_child
from daemon.loop.services import LanguageViews
from daemon.model.branches import BranchMeta, CheckRun, Score
from tests.support.drivers.core import Bench, daemon
from tests.support.scenarios.explored import LINK, PLAIN, PROGRAM, FolderCopy, created, deleted, updated
from tools.language_ports import CurrentProblems, Problem, Severity


def test_score_table_shows_facts_and_unknowns() -> None:
    known = Score(
        new_problems=1,
        fixed_problems=3,
        test=CheckRun(command="t", exit_code=1, passed=12, failed=2, duration_ms=5),
        files=3,
        added=40,
        removed=7,
        tokens=15_300,
        cost=0.1234,
        duration_ms=65_000,
    )
    branches = [
        BranchMeta(id="A", explore_start_id="1", description="Tokens", status="completed", score=known),
        BranchMeta(id="B", explore_start_id="1", description="a|b\n# c\\", status="abandoned", score=Score()),
        BranchMeta(id="C", explore_start_id="1", description="Slow", status="abandoned"),
    ]
    assert score_table(branches).splitlines() == [
        "| Branch | Direction | Problems | Tests | Files | Tokens | Cost | Time |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| A | Tokens | +1 new, -3 fixed | 12 passed, 2 failed | 3 +40 -7 | 15.3k | $0.12 | 1 min 5 s |",
        "| B (abandoned) | a\\|b # c\\\\ | unknown | not run | unknown | 0 | $0 | 0 ms |",
        "| C (abandoned) | Slow | unknown | unknown | unknown | unknown | unknown | unknown |",
    ]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (None, "not run"),
        (CheckRun(command="t", detail="the user said no"), "not run: the user said no"),
        (
            CheckRun(command="t", detail="it did not end within 3 s\n…", duration_ms=3000),
            "timed out after 3.0 s |",
        ),
        (CheckRun(command="t", exit_code=0, passed=3, failed=0), "3 passed, 0 failed |"),
        (CheckRun(command="t", exit_code=0), "ok"),
        (CheckRun(command="t", exit_code=2), "exit code 2"),
        (CheckRun(command="t", exit_code=1, passed=3, failed=0), "3 passed, 0 failed, exit code 1"),
        (CheckRun(command="t", exit_code=0, failed=0), "0 failed |"),
        (CheckRun(command="t", exit_code=0, passed=3, failed=2), "3 passed, 2 failed, exit code 0"),
        (CheckRun(command="t", exit_code=1, passed=3, failed=2), "3 passed, 2 failed |"),
        (CheckRun(command="t", exit_code=1, passed=3), "3 passed, exit code 1"),
    ],
)
def test_score_table_describes_the_test_outcome(test: CheckRun | None, words: str) -> None:
    branch = BranchMeta(id="A", explore_start_id="1", description="x", score=Score(test=test))
    assert words in score_table([branch])


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ([], (0, 0, 0)),
        ([created("a", "1\n2\n")], (1, 2, 0)),
        ([deleted("a", "1\n2\n3")], (1, 0, 3)),
        ([updated("a", "1\n2\n3\n", "1\nx\n3\n4")], (1, 2, 1)),
        ([created("a", b"\0\1\2")], (1, 0, 0)),
        ([updated("a", "x", "x", PLAIN, PROGRAM)], (1, 0, 0)),
        ([deleted("old", "1\n2\n"), created("new", "1\n2\n")], (1, 0, 0)),
        ([deleted("old", "1\n2\n"), created("new", "1\n3\n")], (2, 2, 2)),
        ([deleted("a", "x\n"), created("b", "x\n"), created("c", "x\n")], (2, 1, 0)),
        ([BranchChange("l", None, b"a", None, LINK)], (1, 1, 0)),
        ([created("empty", ""), deleted("none", "")], (2, 0, 0)),
    ],
)
def test_the_size_of_a_diff(changes: list[BranchChange], size: tuple[int, int, int]) -> None:
    assert diff_size(changes) == size


def test_problems_are_compared_without_their_places() -> None:
    one, two = ("a", "m", "c", "error"), ("a", "n", "c", "warning")
    assert new_and_fixed([one, one], [one, two, two]) == (2, 1)
    assert new_and_fixed([], []) == (0, 0)


class FakeProblems(NoDiagnostics):
    """Says what a table has, by file."""

    def __init__(self, root: Path, said: dict[str, list[tuple[int, str]]], **more: tuple[str, ...]) -> None:
        self.root, self.said, self.more = root, said, more
        self.asked: list[str] = []

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        names = [path.relative_to(self.root).as_posix() for path in paths]
        self.asked += names
        problems = tuple(
            Problem(self.root / name, line, 1, "error", message.format(root=self.root))
            for name in names
            for line, message in self.said.get(name, [])
        )
        unwatched = tuple(path for path, name in zip(paths, names, strict=True) if not name.endswith(".py"))
        servers = ("pyright",) if len(unwatched) < len(paths) else ()
        found = CurrentProblems(problems, servers, unwatched=unwatched)
        return replace(found, **self.more)  # type: ignore[arg-type]  # fields of CurrentProblems


async def scored(
    bench: Bench, changes: list[BranchChange], before: FakeProblems, after: FakeProblems
) -> Score:
    parent = bench.session()
    parent.services = replace(parent.services, languages=LanguageViews(before))
    services = replace(parent.services, workspace=after.root, languages=LanguageViews(after))
    child = open_child(parent, "A", parent.agent, services=services, explore_start_id="1")
    try:
        return await score_branch(child, FolderCopy(after.root, {}), changes, test=None, duration_ms=7)
    finally:
        await close_child(child)


async def test_new_and_fixed_problems_are_those_of_the_changed_files(tmp_path: Path) -> None:
    async with daemon(tmp_path, check=False) as bench:
        (bench.workspace / "a.py").write_text("a\n")
        (bench.workspace / "gone.py").write_text("g\n")
        before = FakeProblems(
            bench.workspace, {"a.py": [(1, "old in {root}/a.py"), (2, "bad")], "gone.py": [(1, "bad")]}
        )
        after = FakeProblems(
            tmp_path / "copy", {"a.py": [(9, "old in {root}/a.py"), (3, "worse")], "b.py": [(1, "worse")]}
        )
        changes = [
            updated("a.py", "a\n", "b\n"),
            created("b.py", "x"),
            deleted("gone.py", "g\n"),
            created("n.md", ""),
        ]
        score = await scored(bench, changes, before, after)
        assert (score.new_problems, score.fixed_problems) == (2, 1)
        assert (score.files, score.added, score.removed, score.duration_ms) == (4, 2, 2, 7)
        assert before.asked == ["a.py"]


async def test_a_moved_file_keeps_its_problems(tmp_path: Path) -> None:
    async with daemon(tmp_path, check=False) as bench:
        (bench.workspace / "old.py").write_text("x\n")
        before = FakeProblems(bench.workspace, {"old.py": [(1, "bad")]})
        after = FakeProblems(tmp_path / "copy", {"new.py": [(1, "bad")]})
        score = await scored(bench, [deleted("old.py", "x\n"), created("new.py", "x\n")], before, after)
        assert (score.new_problems, score.fixed_problems) == (0, 0)


async def test_unavailable_diagnostics_are_unknown_not_zero(tmp_path: Path) -> None:
    async with daemon(tmp_path, check=False) as bench:
        path, copy = bench.workspace / "a.py", tmp_path / "copy"
        change = [updated("a.py", "a\n", "b\n")]

        async def unknown(
            before: FakeProblems, after: FakeProblems, changes: list[BranchChange] = change
        ) -> bool:
            score = await scored(bench, changes, before, after)
            assert (score.new_problems is None) == (score.fixed_problems is None)
            return score.new_problems is None

        fine, here = FakeProblems(copy, {}), FakeProblems(bench.workspace, {})
        path.write_text("a\n")
        assert not await unknown(here, fine)
        assert await unknown(here, FakeProblems(copy, {}, silent=("pyright",)))
        assert await unknown(FakeProblems(bench.workspace, {}, silent=("pyright",)), fine)
        assert await unknown(FakeProblems(bench.workspace, {}, servers=()), fine)
        assert await unknown(here, FakeProblems(copy, {}, servers=()))
        assert await unknown(here, fine, [created("n.md", "")])
        # The file is something else by now, on disk or in an editor: that says nothing about the base.
        bench.unsaved[path] = "typed"
        assert await unknown(here, fine)
        bench.unsaved.clear()
        path.write_text("c\n")
        assert await unknown(here, fine)


async def test_new_files_problems_are_new_without_a_base(tmp_path: Path) -> None:
    async with daemon(tmp_path, check=False) as bench:
        (bench.workspace / "n.md").write_text("a")
        after = FakeProblems(tmp_path / "copy", {"new.py": [(1, "bad")]})
        changes = [created("new.py", "x\n"), updated("n.md", "a", "b")]
        score = await scored(bench, changes, FakeProblems(bench.workspace, {}), after)
        assert (score.new_problems, score.fixed_problems) == (1, 0)


class Busy(FakeProblems):
    """Silent at first, and has room for few who ask at the same time."""

    silent_for = 3
    asking = most = 0

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        Busy.asking += 1
        Busy.most = max(Busy.most, Busy.asking)
        for _ in range(5):
            await asyncio.sleep(0)
        Busy.asking -= 1
        self.silent_for -= 1
        found = await super().current(paths, least)
        return replace(found, servers=(), silent=("pyright",)) if self.silent_for >= 0 else found


async def test_scoring_waits_for_servers_and_limits_concurrency(
    tmp_path: Path,
) -> None:
    Busy.asking = Busy.most = 0
    async with daemon(tmp_path) as bench:
        (bench.workspace / "a.py").write_text("old")
        parent = bench.session()
        parent.services = replace(parent.services, languages=LanguageViews(FakeProblems(bench.workspace, {})))
        tasks: list[asyncio.Task[Score]] = []
        for name in "ABCDE":
            root = tmp_path / name
            root.mkdir()
            diagnostics = Busy(root, {"a.py": [(1, "bad")]})
            services = replace(parent.services, workspace=root, languages=LanguageViews(diagnostics))
            child = open_child(parent, name, parent.agent, services=services, explore_start_id="1")
            changes = [updated("a.py", "old", "new")]
            copy = FolderCopy(root, {})
            tasks.append(asyncio.create_task(score_branch(child, copy, changes, test=None, duration_ms=1)))
        scores = await asyncio.gather(*tasks)
        assert [(score.new_problems, score.fixed_problems) for score in scores] == [(1, 0)] * 5
        assert Busy.most == 2
