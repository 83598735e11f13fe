"""Files that a branch wrote where comparing does not see them, or fails: real copies, real git."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.copies.managed_copy import ManagedCopy
from daemon.copies.plain_copies import PlainCopies
from daemon.copies.working_copy import BranchChange, CopyError
from daemon.explore import ignored_changes
from daemon.explore.branch_actions import branch_content
from daemon.explore.merging import select
from daemon.explore.results import load_result
from daemon.loop.session import Session
from daemon.permission.service import CallInfo, CallPermission
from tests.support.fakes.models import Call
from tests.support.scenarios.branches import EDITS, FILES, explore, exploring, git, ran, repository, told
from tools.ports import ToolResult
from tools.tool import ToolError

TWO = [explore("one", "two"), "Done."]
IGNORING = {**FILES, ".gitignore": "*.local\nout/\n.trace/\n__pycache__/\n"}


def write(name: str, content: str) -> Call:
    return Call("write", {"file_path": name, "content": content})


def selecting(session: Session, *choice: str) -> asyncio.Task[ToolResult]:
    permission = CallPermission(session.services.permissions, session, CallInfo("call_1", "explore"))
    return asyncio.create_task(select(session, choice, permission, "call_1"))


async def test_ignored_files_of_a_branch_are_kept_and_merged_by_name(tmp_path: Path) -> None:
    workspace = repository(tmp_path, IGNORING)
    (workspace / "settings.local").write_text("needed\n")
    steps = {
        "A": [
            write("settings.local", "mine\n"),
            write("out/report.txt", "r\n"),
            Call(
                "bash", {"command": "echo made > made.local; mkdir __pycache__; echo x > __pycache__/a.pyc"}
            ),
            "A is done.",
        ],
        "B": ["B is done."],
    }
    async with exploring(tmp_path, TWO, steps, changes=True) as bench:
        session = await ran(bench)
        summary = session.state.children.branches["A"].summary or ""
        named = "because git ignores them: made.local, out/report.txt, settings.local."
        assert summary.startswith("A is done.") and named in summary
        assert named in told(session).content
        assert "changed no files" not in summary
        score = session.state.children.branches["A"].score
        assert score is not None and score.files == 0 and score.test is not None
        assert "ignored" in score.test.detail
        assert "Not included in its changes, because" not in (
            session.state.children.branches["B"].summary or ""
        )

        nothing = (await selecting(session, "A")).content
        assert "changed no files" not in nothing
        assert "made.local, out/report.txt, settings.local" in nothing
        assert not (workspace / "out").exists()
        assert await branch_content(session, "A", "settings.local") == (None, b"mine\n")
        with pytest.raises(ToolError, match="different contents"):
            await selecting(session, "A:settings.local")
        assert (workspace / "settings.local").read_text() == "needed\n"
        await selecting(session, "A:out", "A:made.local")
        assert (workspace / "out/report.txt").read_text() == "r\n"
        assert (workspace / "made.local").read_text() == "made\n"


async def test_changes_above_the_workspace_do_not_lose_the_others(tmp_path: Path) -> None:
    top = tmp_path / "repository"
    (top / "workspace").mkdir(parents=True)
    (top / ".gitignore").write_text("home/\n*.local\n.trace/\n")
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")
    steps = {
        "A": [
            write("../new.txt", "n\n"),
            write("b.py", "b\n"),
            write("settings.local", "mine\n"),
            "A is done.",
        ],
        "B": ["B is done."],
    }
    async with exploring(top, TWO, steps) as bench:
        session = bench.session(settings=EDITS)
        turn = asyncio.create_task(session.prompt("go"))
        await bench.answer("once")
        await turn
        branch = session.state.children.branches["A"]
        assert (branch.status, branch.score and branch.score.files) == ("completed", 1)
        summary = branch.summary or ""
        assert "because they are outside the workspace, and only in its patch: ../new.txt." in summary
        assert "because git ignores them: settings.local." in summary
        kept = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert kept is not None and [change.name for change in kept.changes] == ["b.py"]
        assert b"b/new.txt" in kept.patch and b"b/workspace/b.py" in kept.patch


async def test_large_ignored_file_is_not_read_and_hides_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignored_changes, "MOST_BYTES", 1_000)
    repository(tmp_path, IGNORING)
    made = [write(f"out/{number}", "x" * 600) for number in (1, 2, 3)]
    steps = {"A": [*made, write("out/small", "made\n"), "A is done."], "B": ["B is done."]}
    async with exploring(tmp_path, TWO, steps) as bench:
        session = await ran(bench)
        summary = session.state.children.branches["A"].summary or ""
        assert "because git ignores them: out/1, out/small." in summary


async def test_files_excluded_without_git_are_named_in_the_summary(tmp_path: Path) -> None:
    repository(tmp_path)
    steps = {"A": [write("dist/a.js", "a\n"), write("b.js", "b\n"), "A is done."], "B": ["B."]}
    async with exploring(tmp_path, TWO, steps, copies=PlainCopies) as bench:
        session = await ran(bench)
        assert "dist/a.js" in (session.state.children.branches["A"].summary or "")
        result = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert result is not None
        assert [change.name for change in result.changes] == ["b.js"]


@pytest.mark.parametrize("gone", [False, True])
async def test_failed_comparison_keeps_changes_from_history_unscored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    async def outcome(copy: ManagedCopy) -> tuple[Sequence[BranchChange], bytes]:
        if gone:
            shutil.rmtree(copy.root)
        raise CopyError("An object is missing.")

    monkeypatch.setattr(ManagedCopy, "outcome", outcome)
    steps = {
        "A": [
            Call("read", {"file_path": "src/b.py"}),
            Call("edit", {"file_path": "src/b.py", "old_string": "b = 2", "new_string": "b = 3"}),
            write("more.txt", "more\n"),
            Call("bash", {"command": "rm README.md"}),
            "A is done.",
        ],
        "B": ["B is done."],
    }
    async with exploring(tmp_path, TWO, steps) as bench:
        session = await ran(bench)
        branch = session.state.children.branches["A"]
        assert branch.status == "abandoned"
        assert "An object is missing." in (branch.summary or "")
        assert "are kept: " in (branch.summary or "")
        assert branch.score is not None
        assert (branch.score.files, branch.score.added, branch.score.removed) == (None, None, None)
        assert (branch.score.new_problems, branch.score.fixed_problems) == (None, None)
        assert branch.score.test is not None and "could not be read" in branch.score.test.detail
        assert "unknown | not run: its changes could not be read | unknown" in told(session).content
        result = load_result(bench.core.store.folder(f"{session.session_id}:A") / "result")
        assert result is not None
        changed = {change.name: (change.before, change.after) for change in result.changes}
        before = b"b = 2  # not committed\n"
        assert changed["README.md"] == (b"read me\n", None)
        assert changed["src/b.py"] == (before, b"b = 3  # not committed\n")
        assert changed["more.txt"] == (None, b"more\n")
        assert b"+b = 3" in result.patch
