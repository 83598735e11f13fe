from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daemon.explore import branch_actions, merging
from daemon.explore.branch_choice import (
    awaited_choice,
    choose_none,
    delegable_choices,
    leave_to_model,
    pending_choices,
)
from daemon.loop.session import Session
from daemon.loop.undo import Restorer
from daemon.model import notice_codes
from daemon.model.events import BranchRemoved, Event, Notice
from daemon.permission.service import CallInfo, CallPermission
from daemon.state.notes import notes_text
from daemon.store.trace_store import StoreError
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Hold
from tests.support.scenarios.explored import LINK, PLAIN, PROGRAM, created, deleted, explored, updated
from tools.ports import ToolResult
from tools.tool import PermissionDeniedError, ToolError

PERSON = {"explore_choice": "person"}


def codes(bench: Bench) -> list[str]:
    return [event.code for event in bench.events(Notice) if event.about == "1"]


def picking(session: Session, *choice: str, by: str = "VS Code") -> asyncio.Task[ToolResult]:
    return asyncio.create_task(branch_actions.select_for_user(session, choice, by))


async def waiting(session: Session, start: str = "1") -> asyncio.Task[str]:
    task = asyncio.create_task(awaited_choice(session, start))
    await until(lambda: start in pending_choices(session))
    return task


async def test_model_chooses_unless_the_user_setting_says_otherwise(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": []})
        assert await awaited_choice(session, "1") == ""
        session = bench.session(settings=PERSON)
        assert await awaited_choice(session, "1") == ""  # there is nothing to choose from


async def test_explore_waits_for_the_user_choice_and_reports_it(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=PERSON)
        explored(session, {"A": [created("a.py", "a\n")], "B": [created("b.py", "b\n")]})
        task = await waiting(session)
        assert session.status == "waiting"
        assert codes(bench) == [notice_codes.CHOICE_AWAITED]
        pick = picking(session, "B")
        (request,) = await bench.asked()
        assert [file.path for file in request.files] == ["b.py"]  # the diff is shown for review
        await bench.answer("once")
        assert "b.py" in (await pick).content
        told = await task
        assert "The user (VS Code) chose B." in told and "Edit applied: b.py" in told
        assert codes(bench) == [notice_codes.CHOICE_AWAITED, notice_codes.CHOICE_MADE]
        assert session.status == "idle" and not pending_choices(session)
        assert session.state.notes == ()  # it was told already
        assert (bench.workspace / "b.py").exists() and not (bench.workspace / "a.py").exists()


async def test_a_choice_whose_end_cannot_be_stored_waits_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=PERSON)
        explored(session, {"A": [created("a.py", "a\n")]})
        task = await waiting(session)

        def full(_event: Event) -> int:
            raise StoreError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(bench.core.store, "append", full)
            task.cancel()
            with pytest.raises((StoreError, asyncio.CancelledError)):
                await task
            session._store_failed("p", "no space left")  # pyright: ignore[reportPrivateUsage]
        assert (session.status, pending_choices(session)) == ("idle", ())


async def test_rejected_review_leaves_the_choice_open(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=PERSON)
        explored(session, {"A": [created("a.py", "a\n")]})
        session.record.shown()
        task = await waiting(session)
        view = session.record.view
        assert view is not None and (view.status, view.awaits_choice) == ("waiting", ("1",))
        pick = picking(session, "A")
        await bench.answer("reject")
        with pytest.raises(PermissionDeniedError):
            await pick
        assert (session.status, session.state.status, session.record.view) == ("waiting", "waiting", None)
        with pytest.raises(ToolError, match="no branch X"):
            await picking(session, "X")
        assert not task.done() and pending_choices(session) == ("1",)
        leave_to_model(session, "1", "VS Code")
        assert "VS Code lets you choose:" in await task
        assert (session.status, session.state.status) == ("idle", "idle")
        assert session.record.shown().awaits_choice == ()


async def test_user_may_choose_none_of_the_branches(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=PERSON)
        explored(session, {"A": []})
        task = await waiting(session)
        choose_none(session, "1", "VS Code")
        assert "The user (VS Code) rejected all branches" in await task
        goal = session.state.plan.goals["2"]
        assert (goal.status, goal.summary) == (
            "completed",
            "The user (VS Code) rejected all branches.",
        )
        assert (goal.selected_branch, session.state.plan.current_id) == (None, None)
        with pytest.raises(ToolError, match="There is no open choice for the exploration"):
            choose_none(session, "1")


async def test_a_cancellation_ends_the_waiting(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=PERSON)
        explored(session, {"A": []})
        task = await waiting(session)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not pending_choices(session) and codes(bench) == [
            notice_codes.CHOICE_AWAITED,
            notice_codes.CHOICE_MADE,
        ]
        with pytest.raises(ToolError, match="There is no open choice for the exploration"):
            choose_none(session, "1")


async def test_choice_timeout_selects_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings={**PERSON, "permission_timeout_s": 0.05})
        explored(session, {"A": [created("a.py", "a\n")]})
        told = await awaited_choice(session, "1")
        assert "Nobody chose a branch within 0.05 s." in told and "do not select a branch yourself" in told
        assert not (bench.workspace / "a.py").exists()


async def model_picks(session: Session, *choice: str) -> ToolResult:
    permission = CallPermission(session.services.permissions, session, CallInfo("call_1", "explore"))
    return await merging.select(session, choice, permission, "call_1")


@pytest.mark.parametrize("how", ["nobody", "none", "canceled", "picked", "restarted"])
async def test_user_choice_is_not_open_to_the_model_until_released(tmp_path: Path, how: str) -> None:
    settings = {**PERSON, "permission": {"edit": "allow"}}
    async with daemon(tmp_path) as bench:
        session = bench.session(
            settings={**settings, "permission_timeout_s": 0.05} if how == "nobody" else settings
        )
        explored(session, {"A": [created("a.py", "a\n")], "B": [created("b.py", "b\n")]})
        task = (
            await waiting(session) if how != "nobody" else asyncio.create_task(awaited_choice(session, "1"))
        )
        if how == "none":
            choose_none(session, "1")
        elif how == "picked":
            pick = picking(session, "B")
            await bench.answer("once")
            await pick
        elif how != "nobody":
            task.cancel()
        await asyncio.wait({task})
    async with daemon(tmp_path) as bench:
        session = await bench.opened(session.session_id)
        session.policy.use(config=session.config.overlaid(settings, "editor", "test"))
        with pytest.raises(ToolError, match="goalwright explore pick") as refused:
            await model_picks(session, "A")
        decided = {"none": "rejected all branches", "picked": "Selected: branch B"}.get(how)
        assert ("say at the end that the branches await a choice." in str(refused.value)) == (decided is None)
        assert (decided or "say at the end") in str(refused.value)
        assert session.state.plan.goals["2"].status == ("pending" if decided is None else "completed")
        with pytest.raises(ToolError, match="The user chooses"):
            await model_picks(session, "A:a.py")
        assert not (bench.workspace / "a.py").exists()
        assert delegable_choices(session) == ("1",)
        leave_to_model(session, "1", "VS Code")
        assert delegable_choices(session) == ()
        assert "a.py" in (await model_picks(session, "A")).content
        with pytest.raises(ToolError, match="There is no open choice for the exploration"):
            leave_to_model(session, "1")
    async with daemon(tmp_path) as bench:
        assert delegable_choices(await bench.opened(session.session_id)) == ()


async def test_model_may_choose_if_nobody_was_asked_or_setting_changed(
    tmp_path: Path,
) -> None:
    edits = {"permission": {"edit": "allow"}}
    async with daemon(tmp_path) as bench:
        session = bench.session(settings={**PERSON, **edits})  # it broke off before anybody was asked
        explored(session, {"A": [created("a.py", "a\n")]})
        explored(session, {"B": [created("b.py", "b\n")]}, start="3", merge="4")
        assert "a.py" in (await model_picks(session, "A")).content
        task = await waiting(session, "3")
        choose_none(session, "3")
        await task
        assert "a.py" in (await model_picks(session, "A")).content  # the other exploration is none of that
        with pytest.raises(ToolError, match="The user chooses"):
            await model_picks(session, "A", "B")
        session.policy.use(config=session.config.overlaid({"explore_choice": "model"}, "editor", "test"))
        assert "b.py" in (await model_picks(session, "B")).content


@pytest.mark.parametrize(
    "settings", [{"mode": "accept-edits"}, {"mode": "auto"}, {"permission": {"edit": "allow", "*": "allow"}}]
)
async def test_user_choice_is_reviewed_in_every_permission_mode(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=settings)
        explored(session, {"A": [created("a.py", "a\n")], "B": [created("b.py", "b\n")]})
        pick = picking(session, "A")
        (request,) = await bench.asked()
        assert ([file.path for file in request.files], request.suggestions) == (["a.py"], ())
        bench.core.permissions.release(None, "test")  # other rules hold now, which would let it pass, too
        assert bench.core.permissions.pending() == [request]
        await bench.answer("reject")
        with pytest.raises(PermissionDeniedError):
            await pick
        assert not (bench.workspace / "a.py").exists()
        # What the model selects is an edit like any other.
        assert "b.py" in (await model_picks(session, "B")).content


async def test_conflict_message_for_users_differs_from_that_for_models(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": [updated("my file.py", "1\n", "2\n")]})
        (bench.workspace / "my file.py").write_text("3\n")
        with pytest.raises(ToolError) as people:
            await picking(session, "A")
        assert "See goalwright explore diff A 'my file.py'" in str(people.value)
        assert (
            "Use Show Changes in the editor to see what each branch changed, and add what is missing by hand."
        ) in str(people.value)
        assert ".trace" not in str(people.value)
        with pytest.raises(ToolError) as model:
            await model_picks(session, "A")
        assert ".trace/" in str(model.value)
        assert "goalwright explore" not in str(model.value)


async def test_choice_for_one_exploration_does_not_answer_another(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session(settings=PERSON)
        explored(session, {"A": []})
        explored(session, {"B": []}, start="3", merge="4")
        task = await waiting(session, "3")
        await picking(session, "A")
        assert not task.done()
        await picking(session, "B")
        assert "chose B" in await task


# -- at any time --


async def test_later_merge_by_the_user_is_noted_in_the_next_prompt(tmp_path: Path) -> None:
    async with daemon(tmp_path, "ok") as bench:
        session = bench.session()
        explored(session, {"A": [created("a.py", "a\n")]})
        pick = picking(session, "A")
        await bench.answer("once")
        await pick
        note = notes_text(session.state.notes)
        assert (
            "the user merged branch A (Way A). Written on disk: a.py." in note
            and "Read these files again" in note
        )
        assert session.state.plan.goals["2"].selected_branch == "A"
        await finish(prompted(session, "go on"))
        assert "the user merged branch A" in str(bench.models.requests[-1].messages)
        await Restorer(session).undo()
        assert not (bench.workspace / "a.py").exists()


async def test_user_may_merge_during_a_turn_and_turns_wait_for_merges(
    tmp_path: Path,
) -> None:
    hold = Hold()
    async with daemon(tmp_path, ("one", hold), "two") as bench:
        session = bench.session()
        explored(session, {"A": [created("a.py", "a\n")], "B": [created("b.py", "b\n")]})
        turn = prompted(session, "work")
        await hold.reached.wait()
        pick = picking(session, "A")
        await bench.answer("once")
        await pick
        assert (bench.workspace / "a.py").exists() and not turn.done()
        hold.go.set()
        await finish(turn)
        pick = picking(session, "B")
        await bench.asked()
        turn = prompted(session, "more")
        await bench.answer("once")
        await pick
        await finish(turn)
        assert (bench.workspace / "b.py").exists()


# -- looking, removing --


async def test_clients_see_what_a_branch_changed(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        changes = [
            updated("a.py", "1\n", "2\n", PLAIN, PROGRAM),
            created("data.bin", b"\0\1"),
            deleted("old.py", "same\n"),
            created("new.py", "same\n"),
            created("link", "a.py", LINK),
            created("odd\udcff\n.txt", "x\n"),
            created("long.txt", "x\n" * 50_000),
        ]
        explored(session, {"A": changes})
        assert list(session.state.children.branches) == ["A"]
        changed, ignored = await branch_actions.branch_files(session, "a")
        files = {file.path: file for file in changed}
        assert ignored == ()
        assert sorted(files) == ["a.py", "data.bin", "link", "long.txt", "new.py", "odd\\udcff\\n.txt"]
        assert (
            files["a.py"].diff.startswith("Mode of a.py changed from 100644 to 100755")
            and "-1\n+2\n" in files["a.py"].diff
        )
        assert files["new.py"].moved_from == "old.py"
        assert files["new.py"].diff == "Moved from old.py to new.py\n"
        assert files["long.txt"].added == 50_000 and len(files["long.txt"].diff) < 70_000
        assert all(file.model_dump_json() for file in files.values())
        assert await branch_actions.branch_content(session, "A", "a.py") == (b"1\n", b"2\n")
        assert await branch_actions.branch_content(session, "A", "old.py") == (b"same\n", None)
        assert await branch_actions.branch_content(session, "A", "odd\\udcff\\n.txt") == (None, b"x\n")
        with pytest.raises(ToolError, match="did not change"):
            await branch_actions.branch_content(session, "A", "../../etc/passwd")
        assert await branch_actions.branch_patch(session, "A") == b"patch of A"


async def test_removed_branch_keeps_only_its_summary(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": [created("a.py", "a\n")], "B": []})
        folder = session.services.store.folder(f"{session.session_id}:A")
        (folder / "messages").mkdir()
        await branch_actions.remove_branch(session, "A", "VS Code")
        await branch_actions.remove_branch(session, "A", "VS Code")
        assert [path.name for path in folder.iterdir()] == ["messages"]
        assert [(event.branch_id, event.by) for event in bench.events(BranchRemoved)] == [("A", "VS Code")]
        assert [branch.removed for branch in session.state.children.branches.values()] == [True, False]
        for ask in (branch_actions.branch_files, branch_actions.branch_patch):
            with pytest.raises(ToolError, match="was removed"):
                await ask(session, "A")
        with pytest.raises(ToolError, match="was removed"):
            await picking(session, "A")
        with pytest.raises(ToolError, match="no branch C"):
            await branch_actions.remove_branch(session, "C")


async def test_branch_of_imported_session_is_not_removed_or_merged(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = bench.session()
        explored(session, {"A": [created("a.py", "a\n")]})
        session.record.foreign = True
        with pytest.raises(ToolError, match="not started by you"):
            await branch_actions.remove_branch(session, "A")
        with pytest.raises(ToolError, match="not started by you"):
            await picking(session, "A")
        assert (session.services.store.folder(f"{session.session_id}:A") / "result").is_dir()
