from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.explore.branch_actions import remove_branch
from daemon.explore.merging import select
from daemon.explore.results import remove_result, save_result
from daemon.files.restore import RestoreRefusedError
from daemon.loop.session import Session
from daemon.loop.undo import Restorer
from daemon.model.branches import BranchMeta
from daemon.model.events import BranchStarted, FileChanged, GoalUpdated
from daemon.model.permissions import FileAnswer
from daemon.permission.service import CallInfo, CallPermission
from tests.support.drivers.core import Bench, daemon
from tests.support.scenarios.explored import LINK, PLAIN, PROGRAM, created, deleted, explored, updated
from tools.ports import ToolResult
from tools.tool import PermissionDeniedError, ToolError

OLD = "".join(f"line {n}\n" for n in range(1, 31))
TOP, END = OLD.replace("line 2\n", "line two\n"), OLD.replace("line 29\n", "line twenty-nine\n")


def selecting(session: Session, *choice: str, call: str = "call_1") -> asyncio.Task[ToolResult]:
    permission = CallPermission(session.services.permissions, session, CallInfo(call, "explore"))
    return asyncio.create_task(select(session, choice, permission, call))


async def selected(bench: Bench, session: Session, *choice: str, call: str = "call_1") -> ToolResult:
    """Select it, and accept all of it as the user."""
    task = selecting(session, *choice, call=call)
    await bench.answer("once")
    return await task


async def refusal(session: Session, *choice: str) -> str:
    with pytest.raises(ToolError) as error:
        await selecting(session, *choice)
    return str(error.value)


def write(bench: Bench, **files: str | bytes) -> None:
    for name, content in files.items():
        path = bench.workspace / name.replace("_", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def kinds(bench: Bench) -> Sequence[tuple[str, str]]:
    return [(event.path, event.kind) for event in bench.events(FileChanged)]


async def test_branch_merge_is_one_reviewed_change_and_completes_goal(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD, gone_py="bye\n", crlf_txt="x\r\ny\r\n", bare_txt="end")
        changes = [
            updated("a.py", OLD, TOP),
            created("new/deep/b.py", "b\n"),
            deleted("gone.py", "bye\n"),
            updated("crlf.txt", "x\r\ny\r\n", "x\r\nz\r\n"),
            updated("bare.txt", "end", "the end"),
            created("data.bin", b"\0\xff"),
            created("run.sh", "#!/bin/sh\n", PROGRAM),
        ]
        explored(session, {"A": changes, "B": []})
        task = selecting(session, "A")
        (request,) = await bench.asked()
        assert request.permission == "edit" and len(request.files) == 7
        assert request.title.startswith("Merge branch A: Change 7 files")
        assert request.detail == "Selected: branch A (Way A)."
        assert (bench.workspace / "a.py").read_text() == OLD
        assert not (bench.workspace / "new").exists()
        await bench.answer("once")
        told = await task
        root = bench.workspace
        assert (root / "a.py").read_text() == TOP
        assert (root / "new/deep/b.py").read_text() == "b\n"
        assert not (root / "gone.py").exists()
        assert (root / "crlf.txt").read_bytes() == b"x\r\nz\r\n"
        assert (root / "bare.txt").read_bytes() == b"the end"
        assert (root / "data.bin").read_bytes() == b"\0\xff"
        assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755
        assert "Edit applied: a.py" in told.content and "Selected: branch A (Way A)" in told.content
        goal = session.state.plan.goals["2"]
        assert (goal.status, goal.selected_branch) == ("completed", "A")
        assert goal.summary is not None and "a.py" in goal.summary
        assert bench.events(GoalUpdated)[-1].updates["selected_branch"] == "A"
        # One change of the main session's history: one undo takes all of it back.
        await Restorer(session).undo()
        assert (root / "a.py").read_text() == OLD and (root / "gone.py").read_text() == "bye\n"
        assert (root / "crlf.txt").read_bytes() == b"x\r\ny\r\n"
        assert sorted(path.name for path in root.iterdir() if path.name != ".trace") == [
            "a.py", "bare.txt", "crlf.txt", "gone.py"
        ]  # fmt: skip


async def test_file_written_by_a_merge_must_be_read_before_an_edit(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD)
        explored(session, {"A": [updated("a.py", OLD, TOP)]})
        await selected(bench, session, "A")
        assert str(bench.workspace / "a.py") not in session.state.given.files


async def test_concurrent_user_edits_are_kept_in_a_merge(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=END, other_py="mine\n")
        explored(session, {"A": [updated("a.py", OLD, TOP)]})
        await selected(bench, session, "A")
        assert (bench.workspace / "a.py").read_text() == TOP.replace("line 29\n", "line twenty-nine\n")
        assert (bench.workspace / "other.py").read_text() == "mine\n"


async def test_merge_uses_the_unsaved_buffer_text(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD)
        explored(session, {"A": [updated("a.py", OLD, TOP)]})
        bench.unsaved[bench.workspace / "a.py"] = OLD.replace("line 2\n", "typed\n")
        assert "typed" in await refusal(session, "A")
        bench.unsaved[bench.workspace / "a.py"] = END
        task = selecting(session, "A")
        (request,) = await bench.asked()
        assert "+line two" in request.files[0].diff and "twenty-nine" not in request.files[0].diff
        assert (bench.workspace / "a.py").read_text() == OLD
        await bench.answer("once")
        await task
        assert (bench.workspace / "a.py").read_text() == TOP.replace("line 29\n", "line twenty-nine\n")


async def test_one_conflict_blocks_the_merge_without_asking(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD.replace("line 2\n", "mine\n"), b_py="b\n")
        explored(session, {"A": [updated("a.py", OLD, TOP), updated("b.py", "b\n", "B\n")]})
        words = await refusal(session, "A")
        assert "a.py: both sides changed the same lines" in words
        assert "mine" in words and "line two" in words and "select them by name: b.py" in words
        kept = next(line for line in words.splitlines() if "Read" in line)
        name = kept.split("Read ")[1].split(" (")[0]
        assert (bench.workspace / name).read_text() == TOP
        assert (bench.workspace / "b.py").read_text() == "b\n"
        assert session.state.plan.goals["2"].status == "pending"
        assert not bench.events(FileChanged)
        # What the words suggest works.
        await selected(bench, session, "A:b.py")
        assert (bench.workspace / "b.py").read_text() == "B\n"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.unlink(), "deleted it, but"),
        (lambda path: (path.unlink(), path.mkdir()), "there is now a folder with this name"),
        (lambda path: (path.unlink(), path.symlink_to("b.py")), "symbolic link"),
        (lambda path: path.rename(path.with_name("moved.py")), "deleted it, but"),
        (lambda path: path.write_bytes(OLD.replace("\n", "\r\n").encode()), "same lines"),
        (lambda path: path.write_bytes(OLD.encode("utf-16")), "encoding"),
    ],
)
async def test_unexpected_file_in_place_is_never_overwritten(
    tmp_path: Path, make: object, reason: str
) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD, b_py="b\n")
        explored(session, {"A": [updated("a.py", OLD, TOP)]})
        make(bench.workspace / "a.py")  # type: ignore[operator]  # a lambda of the table
        assert reason in await refusal(session, "A")


async def test_merge_does_not_follow_a_folder_replaced_by_a_link(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside/a.py").write_text(OLD)
        (bench.workspace / "src").symlink_to(tmp_path / "outside")
        explored(session, {"A": [updated("src/a.py", OLD, TOP)], "B": [created("src/new.py", "x")]})
        assert "a folder above it is a symbolic link" in await refusal(session, "A")
        assert "a folder above it is a symbolic link" in await refusal(session, "B")
        assert (tmp_path / "outside/a.py").read_text() == OLD


TURNING = [
    deleted("plain", "was a file\n", PROGRAM),
    created("plain/in/side.txt", "in\n"),
    created("plain/beside.txt", "beside\n"),
    deleted("folder/a.txt", "a\n"),
    deleted("folder/deep/b.txt", b"\0b"),
    created("folder", "is a file\n", PROGRAM),
    updated("other.txt", "1\n", "2\n"),
]


def turning(root: Path) -> dict[str, tuple[bytes, int]]:
    (root / "folder/deep").mkdir(parents=True)
    (root / "plain").write_bytes(b"was a file\n")
    (root / "plain").chmod(0o755)
    (root / "folder/a.txt").write_bytes(b"a\n")
    (root / "folder/a.txt").chmod(0o600)
    (root / "folder/deep/b.txt").write_bytes(b"\0b")
    (root / "other.txt").write_bytes(b"1\n")
    return files(root)


def files(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        name: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in root.rglob("*")
        if path.is_file() and not (name := path.relative_to(root).as_posix()).startswith(".trace/")
    }


async def test_merge_of_file_folder_swaps_can_be_undone_and_redone(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path) as bench:
        session, root = bench.session(), bench.workspace
        old = turning(root)
        explored(session, {"A": TURNING})
        await selected(bench, session, "A")
        new = files(root)
        assert {name: content for name, (content, _) in new.items()} == {
            "plain/in/side.txt": b"in\n",
            "plain/beside.txt": b"beside\n",
            "folder": b"is a file\n",
            "other.txt": b"2\n",
        }
        assert new["folder"][1] == 0o755
        await Restorer(session).undo()
        assert files(root) == old
        await Restorer(session).redo()
        assert files(root) == new
        await Restorer(session).undo()
        assert files(root) == old and not list((root / ".trace").rglob("*.journal"))


async def test_type_changes_can_be_selected_one_by_one(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session, root = bench.session(), bench.workspace
        turning(root)
        explored(session, {"A": TURNING})
        await selected(bench, session, "A:folder", call="one")
        assert (root / "folder").read_text() == "is a file\n" and (root / "plain").is_file()
        words = await refusal(session, "A:plain/beside.txt")
        assert "plain must be a folder, but is a file that the selection does not delete" in words
        await selected(bench, session, "A:plain", call="two")
        assert (root / "plain/in/side.txt").read_text() == "in\n"


async def test_other_files_in_a_folder_replaced_by_a_file_are_kept(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session, root = bench.session(), bench.workspace
        turning(root)
        explored(session, {"A": TURNING})
        (root / "folder/deep/mine.log").write_text("mine")
        old = files(root)
        words = await refusal(session, "A")
        assert "folder: a folder with this name exist" in words
        assert "folder/deep/mine.log" in words and files(root) == old
        # While it is reviewed: not even then.
        (root / "folder/deep/mine.log").unlink()
        task = selecting(session, "A")
        await bench.asked()
        (root / "folder/deep/mine.log").write_text("mine")
        await bench.answer("once")
        with pytest.raises(ToolError, match=r"folder now contains another file"):
            await task
        assert files(root) == old
        # And an undo leaves what the person put into the new folder.
        (root / "folder/deep/mine.log").unlink()
        await selected(bench, session, "A", call="again")
        (root / "plain/mine.txt").write_text("mine")
        new = files(root)
        with pytest.raises(RestoreRefusedError, match=r"plain, which was a file, is now a folder"):
            await Restorer(session).undo()
        assert files(root) == new


async def test_rejecting_part_of_a_type_change_is_refused_with_reason(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session, root = bench.session(), bench.workspace
        old = turning(root)
        explored(session, {"A": TURNING})
        task = selecting(session, "A")
        (request,) = await bench.asked()
        permissions = bench.core.permissions
        left = await permissions.left(request.request_id, [FileAnswer(path="plain", hunks=())])
        permissions.reply(request.request_id, "once", None, "test", left)
        with pytest.raises(
            ToolError, match=r"a part of the path is a file, not a folder. Nothing was changed"
        ):
            await task
        assert files(root) == old


async def test_parts_of_several_branches_are_one_change(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD)
        explored(
            session,
            {
                "A": [updated("a.py", OLD, TOP), created("no.py", "no\n")],
                "B": [updated("a.py", OLD, END), created("docs/x.md", "x\n"), created("docsy", "no\n")],
            },
        )
        told = await selected(bench, session, "A:a.py", "B:docs/", "B:./a.py")
        merged = TOP.replace("line 29\n", "line twenty-nine\n")
        assert (bench.workspace / "a.py").read_text() == merged
        assert (bench.workspace / "docs/x.md").read_text() == "x\n"
        assert not (bench.workspace / "no.py").exists() and not (bench.workspace / "docsy").exists()
        assert session.state.plan.goals["2"].selected_branch == "A, B"
        assert told.metadata["selected"] == ["A", "B"]
        assert len({event.tool_call_id for event in bench.events(FileChanged)}) == 1


async def test_ignored_files_below_a_picked_folder_are_named(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": []})
        folder = bench.core.store.folder(f"{session.session_id}:A") / "result"
        ignored = [created("docs/b.local", "b\n"), created("src/c.local", "c\n")]
        save_result(folder, [created("docs/a.md", "a\n")], b"", ignored)
        told = await selected(bench, session, "A:docs")
        assert "Not merged, because they are ignored: docs/b.local. Select them by name." in told.content
        assert not (bench.workspace / "docs/b.local").exists()
        await selected(bench, session, "A:docs/b.local", call="call_2")
        assert (bench.workspace / "docs/b.local").read_text() == "b\n"


async def test_second_merge_uses_the_base_of_the_first(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD)
        explored(session, {"A": [updated("a.py", OLD, TOP)], "B": [updated("a.py", OLD, END)]})
        await selected(bench, session, "A", call="one")
        again = await selecting(session, "A", call="two")
        assert (
            "Already the same as in the branch: a.py" in again.content
            and "Nothing needed to be written." in again.content
        )
        await selected(bench, session, "B", call="three")
        assert (bench.workspace / "a.py").read_text() == TOP.replace("line 29\n", "line twenty-nine\n")
        goal = session.state.plan.goals["2"]
        assert (goal.status, goal.selected_branch) == ("completed", "A, B")


async def test_hunks_left_out_by_the_user_are_reported_to_the_model(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD, b_py="b\n")
        both = TOP.replace("line 29\n", "line twenty-nine\n")
        explored(session, {"A": [updated("a.py", OLD, both), updated("b.py", "b\n", "B\n")]})
        task = selecting(session, "A")
        (request,) = await bench.asked()
        permissions = bench.core.permissions
        answers = [FileAnswer(path="a.py", hunks=(1,)), FileAnswer(path="b.py", hunks=())]
        left = await permissions.left(request.request_id, answers)
        permissions.reply(request.request_id, "once", None, "test", left)
        told = await task
        assert (bench.workspace / "a.py").read_text() == END
        assert (bench.workspace / "b.py").read_text() == "b\n"
        assert "edited" in told.content
        assert "Left out by the user, unchanged on disk: b.py" in told.content
        summary = session.state.plan.goals["2"].summary
        assert summary is not None and "edited" in summary and "b.py" not in summary


async def test_rejected_merge_writes_and_selects_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD)
        explored(session, {"A": [updated("a.py", OLD, TOP)]})
        task = selecting(session, "A")
        await bench.answer("reject", "not like that")
        with pytest.raises(PermissionDeniedError) as denied:
            await task
        assert denied.value.feedback == "not like that"
        assert (bench.workspace / "a.py").read_text() == OLD
        goal = session.state.plan.goals["2"]
        assert (goal.status, goal.selected_branch) == ("pending", None)


async def test_change_during_the_review_stops_the_merge(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD, b_py="b\n")
        explored(session, {"A": [updated("a.py", OLD, TOP), updated("b.py", "b\n", "B\n")]})
        task = selecting(session, "A")
        await bench.asked()
        write(bench, a_py=OLD + "typed meanwhile\n")
        await bench.answer("once")
        with pytest.raises(ToolError):
            await task
        assert (bench.workspace / "a.py").read_text() == OLD + "typed meanwhile\n"
        assert (bench.workspace / "b.py").read_text() == "b\n"
        # Once more, it is merged with what was typed.
        await selected(bench, session, "A")
        assert (bench.workspace / "a.py").read_text() == TOP + "typed meanwhile\n"


async def test_branch_can_be_merged_after_a_restart(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD)
        explored(session, {"A": [updated("a.py", OLD, TOP)]})
        session_id = session.session_id
    async with daemon(tmp_path) as bench:
        session = await bench.opened(session_id)
        await selected(bench, session, "A")
        assert (bench.workspace / "a.py").read_text() == TOP
        assert session.state.plan.goals["2"].selected_branch == "A"


async def test_imported_session_is_never_merged(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, a_py=OLD)
        explored(session, {"A": [updated("a.py", OLD, TOP)]})
        session.record.foreign = True
        assert "not started by you" in await refusal(session, "A")
        assert (bench.workspace / "a.py").read_text() == OLD


async def test_links_and_non_text_names_are_left_out_and_named(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        changes = [
            created("link", "/etc/passwd", LINK),
            created(os.fsdecode(b"odd\xff"), "x"),
            created("ok", "x"),
        ]
        explored(session, {"A": changes, "B": changes[:2]})
        told = await selected(bench, session, "A")
        assert (
            "Skipped: link: a merge does not write symbolic links" in told.content
            and "odd\\udcff" in told.content
        )
        assert sorted(p.name for p in bench.workspace.iterdir() if p.name != ".trace") == ["ok"]
        words = await refusal(session, "B")
        assert "None of these files can be written." in words


async def test_a_mode_alone_is_a_change(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        write(bench, run_sh="#!\n")
        (bench.workspace / "run.sh").chmod(0o640)
        explored(session, {"A": [updated("run.sh", "#!\n", "#!\n", PLAIN, PROGRAM)]})
        await selected(bench, session, "A")
        assert stat.S_IMODE((bench.workspace / "run.sh").stat().st_mode) == 0o750


async def test_a_branch_without_changes_can_be_chosen(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": []})
        told = await selecting(session, "A")
        assert "It changed no files" in told.content
        goal = session.state.plan.goals["2"]
        assert (goal.status, goal.selected_branch) == ("completed", None)
        assert goal.summary is not None and goal.summary.endswith("there is nothing to merge.")


async def test_invalid_selection_error_lists_the_choices(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        assert "this session has no explorations." in await refusal(session, "A")
        explored(session, {"A": [created("src/a.py", "x")], "B": [created("b.py", "x")]})
        assert "Branches: A (Way A; completed), B (Way B; completed)" in await refusal(session, "X")
        now = session.services.now()
        branch = BranchMeta(id="C", explore_start_id="1", description="Late")
        session.emit(
            BranchStarted(trace_id=session.session_id, time=now, explore_start_id="1", branch=branch)
        )
        assert "still exploring" in await refusal(session, "C")
        with pytest.raises(ToolError, match="still exploring"):
            await remove_branch(session, "C")
        assert "It changed: src/a.py" in await refusal(session, "A:src/b.py")
        assert "It changed: src/a.py" in await refusal(session, "A:rc/a.py")
        assert "not in the workspace" in await refusal(session, "A:../x")
        assert "not in the workspace" in await refusal(session, "A:/etc/passwd")
        assert "Nothing is selected" in await refusal(session)
        remove_result(session.services.store.folder(f"{session.session_id}:B") / "result")
        assert "The changes of branch B" in await refusal(session, "B")
        (session.services.store.folder(f"{session.session_id}:A") / "result/changes.json").write_text("{")
        assert "damaged" in await refusal(session, "A")


async def test_permission_rules_and_modes_apply_to_merges(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings={"permission": {"edit": {"*.lock": "deny"}}})
        explored(session, {"A": [created("x.lock", "x"), created("a.py", "x")]})
        with pytest.raises(PermissionDeniedError):
            await selecting(session, "A")
        assert not (bench.workspace / "a.py").exists()
        plan = bench.session(settings={"mode": "plan"})
        explored(plan, {"A": [created("a.py", "x")]})
        with pytest.raises(PermissionDeniedError):
            await selecting(plan, "A")
        eager = bench.session(settings={"mode": "accept-edits"})
        explored(eager, {"A": [created("a.py", "x"), created(".vscode/tasks.json", "{}")]})
        task = selecting(eager, "A")
        await bench.answer("once")  # what is protected is asked about in this mode, too
        await task
        assert (bench.workspace / "a.py").read_text() == "x"
