"""A goal is abandoned with its file changes, by the model and by the user; the model learns of the user's changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from daemon.files.restore import ConflictError
from daemon.loop.session import BusyError, Session
from daemon.loop.undo import Restorer
from daemon.loop.user_plan import UserPlan
from daemon.model.events import FilesRestored
from daemon.model.messages import NotePart, ToolResultPart
from daemon.model.permissions import FileAnswer, PermissionRequest
from daemon.plan.tree import PlanError
from daemon.store.replay import replayed
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold, Step

LINES = "".join(f"line {n}\n" for n in range(1, 11))
READ = Call("read", {"file_path": "a.py"})


def goal(**arguments: Any) -> Call:
    return Call("goal", arguments)


def edit(old: str, new: str) -> Call:
    return Call("edit", {"file_path": "a.py", "old_string": old, "new_string": new})


GIVE_UP = goal(abandon="too slow", add=["another way"], revert_files=True)
WORK: tuple[Step, ...] = (
    [goal(add=["one way"], focus="1")],
    [READ, edit("line 5\n", "five\n"), Call("write", {"file_path": "new/b.txt", "content": "b\n"})],
)


def file(bench: Bench) -> Path:
    return bench.workspace / "a.py"


def begun(bench: Bench, *steps: Step, ask_to_take_back: bool = False) -> Session:
    """A session that will make these steps; writes are allowed until the first was made."""
    file(bench).write_text(LINES)
    bench.models.then(*steps)
    settings = {"permission": {"*": "allow", "edit": "ask"}} if ask_to_take_back else ALLOW_ALL
    return bench.session(settings=settings)


def results(session: Session) -> list[ToolResultPart]:
    return [result for m in session.state.messages if (result := m.tool_result()) is not None]


async def asked_to_take_back(bench: Bench) -> PermissionRequest:
    """Allow the writes before it; the question itself."""
    while True:
        (request, *_) = await bench.asked()
        if request.tool == "goal":
            return request
        await bench.answer()


def statuses(session: Session) -> dict[str, str]:
    return {goal.description: goal.status for goal in session.state.plan.goals.values()}


# -- the model gives up ---------------------------------------------------------------------------------------


async def test_model_abandons_a_goal_and_reverts_its_files(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, GIVE_UP, "Done.")
        assert (await finish(prompted(session, "go"))).stop == "end_turn"
        assert file(bench).read_text() == LINES
        assert not (bench.workspace / "new").exists()
        said = results(session)[-1]
        assert not said.is_error
        for words in ("Undone: ", "a.py (+1 -1)", "new/b.txt (deleted)", "Read these files again"):
            assert words in said.content
        assert statuses(session) == {
            "one way": "abandoned",
            "another way": "in_progress",
        }
        (event,) = bench.events(FilesRestored)
        assert (event.action, event.by) == ("restore", "")
        assert session.state.notes == ()
        # What the model took back, the person may bring back.
        for _ in range(2):
            await Restorer(session).redo()
        assert "five" in file(bench).read_text()
        assert (bench.workspace / "new" / "b.txt").read_text() == "b\n"


async def test_revert_by_the_model_asks_and_fails_if_files_changed(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, GIVE_UP, "Done.", ask_to_take_back=True)
        turn = prompted(session, "go")
        request = await asked_to_take_back(bench)
        assert (request.permission, set(request.targets)) == ("edit", {"a.py", "new/b.txt"})
        assert request.title == "Revert 2 changes for the goal 1 one way (+1 -2)"
        assert "-five\n+line 5" in next(f for f in request.files if f.path == "a.py").diff
        assert statuses(session) == {"one way": "in_progress"}
        file(bench).write_text(file(bench).read_text().replace("line 1\n", "mine\n"))
        await bench.answer()
        await finish(turn)
        # The file was changed while the question stood: nothing is guessed.
        assert "five" in file(bench).read_text()
        assert "mine" in file(bench).read_text()
        said = results(session)[-1]
        assert said.is_error
        assert "still open" in said.content
        assert statuses(session) == {"one way": "in_progress"}


async def test_rejected_revert_keeps_files_and_goal(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, GIVE_UP, "I see.", ask_to_take_back=True)
        turn = prompted(session, "go")
        await asked_to_take_back(bench)
        await bench.answer("reject", feedback="keep it")
        await finish(turn)
        assert "five" in file(bench).read_text()
        assert statuses(session) == {"one way": "in_progress"}
        assert "keep it" in results(session)[-1].content


async def test_partial_approval_of_a_revert_is_refused(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, GIVE_UP, "I see.", ask_to_take_back=True)
        turn = prompted(session, "go")
        request = await asked_to_take_back(bench)
        permissions = bench.core.permissions
        left = await permissions.left(request.request_id, (FileAnswer(path="a.py", hunks=()),))
        permissions.reply(request.request_id, "once", None, "test", left)
        await finish(turn)
        said = results(session)[-1]
        assert said.is_error
        assert (
            "The user accepted only some of the files, but a goal's changes are undone completely or "
            "not at all."
        ) in said.content
        assert "still open" in said.content
        assert (bench.workspace / "new" / "b.txt").exists()
        assert statuses(session) == {"one way": "in_progress"}


async def test_revert_conflict_is_reported_and_plain_abandon_works(tmp_path: Path) -> None:
    hold = Hold()
    without = goal(abandon="too slow")
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, [hold, GIVE_UP], without, "Done.")
        turn = prompted(session, "go")
        await hold.reached.wait()
        file(bench).write_text(file(bench).read_text().replace("five", "cinq"))
        hold.go.set()
        await finish(turn)
        refused, accepted = results(session)[-2:]
        assert refused.is_error
        assert "a.py:5" in refused.content
        assert "abandon it without revert_files" in refused.content
        assert not accepted.is_error
        assert statuses(session) == {"one way": "abandoned"}
        assert "cinq" in file(bench).read_text()


async def test_goal_without_changes_is_abandoned_and_reported(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, [goal(add=["one way"], focus="1")], [READ], GIVE_UP, "Done.")
        await finish(prompted(session, "go"))
        assert "No file was changed for it" in results(session)[-1].content
        assert statuses(session) == {
            "one way": "abandoned",
            "another way": "in_progress",
        }
        assert bench.events(FilesRestored) == []


async def test_cancel_during_the_revert_question_changes_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, GIVE_UP, ask_to_take_back=True)
        turn = prompted(session, "go")
        await asked_to_take_back(bench)
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert "five" in file(bench).read_text()
        assert statuses(session) == {"one way": "in_progress"}


async def test_the_goal_that_had_the_focus_is_what_a_change_belongs_to(tmp_path: Path) -> None:
    steps: tuple[Step, ...] = (
        # All in one message: the first edit is for the first goal, the second for the second.
        [
            goal(add=["first", "second"], focus="1"),
            READ,
            edit("line 2\n", "two\n"),
            goal(done="two", focus="2"),
            edit("line 8\n", "eight\n"),
            goal(abandon="no", revert_files=True),
        ],
        "Done.",
    )
    async with daemon(tmp_path) as bench:
        session = begun(bench, *steps)
        await finish(prompted(session, "go"))
        assert file(bench).read_text() == LINES.replace("line 2\n", "two\n")


# -- the person -----------------------------------------------------------------------------------------------


async def test_plan_edits_reach_the_model_between_two_steps(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path) as bench:
        session = begun(bench, [goal(add=["one", "two"], focus="1")], [hold, READ], "Done.")
        turn = prompted(session, "go")
        await hold.reached.wait()
        UserPlan(session, "VS Code").focus("2")
        hold.go.set()
        await finish(turn)
        (told,) = [m for m in session.state.messages if m.role == "user"][1:]
        (part,) = told.content
        assert isinstance(part, NotePart)
        assert 'put the focus on "two"' in part.text
        assert session.state.notes == ()
        # The step that was under way belongs to what it was begun for, its call to what was in focus when it ran.
        assert [m.goal_id for m in session.state.messages[-4:]] == ["1", "2", "2", "2"]


async def test_pending_plan_notes_survive_a_crash(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, "Done.")
        await finish(prompted(session, "go"))
        mine = UserPlan(session, "terminal")
        first = mine.add("one")
        second = mine.add("two", "because", parent_id=first)
        mine.move(second, None, first)
        mine.rename(second, "zwei")
        mine.done(second, "ok")
        again = replayed(bench.core.store, session.session_id)
        assert again.plan.snapshot() == session.state.plan.snapshot()
        assert again.notes == session.state.notes
        assert len(again.notes) == 5
        session_id = session.session_id
    async with daemon(tmp_path, "Fine.") as bench:
        session = await bench.opened(session_id)
        await finish(prompted(session, "go on"))
        said = str(bench.models.requests[-1].messages[-1].content)
        assert 'the user marked the goal "zwei" as done: ok' in said


async def test_plan_edit_of_an_unnamed_client_counts_as_the_user(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench)
        UserPlan(session, "").add("one")
        assert session.state.notes == ('the user added the goal "one" at the top level.',)


async def test_user_reverts_only_an_idle_session_and_all_or_nothing(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, [hold, "Done."])
        turn = prompted(session, "go")
        await hold.reached.wait()
        mine = UserPlan(session, "VS Code")
        with pytest.raises(BusyError, match="Cancel the turn"):
            await mine.abandon("1", "no", revert_files=True)
        hold.go.set()
        await finish(turn)
        (bench.workspace / "new" / "b.txt").write_text("mine\n")
        with pytest.raises(ConflictError, match=r"new/b\.txt"):
            await mine.abandon("1", "no", revert_files=True)
        assert "five" in file(bench).read_text()
        assert statuses(session) == {"one way": "in_progress"}
        (bench.workspace / "new" / "b.txt").write_text("b\n")
        files = await mine.abandon("1", "no", revert_files=True)
        assert {file.path for file in files} == {"a.py", "new/b.txt"}
        assert file(bench).read_text() == LINES
        assert statuses(session) == {"one way": "abandoned"}


async def test_the_plan_is_checked_before_a_file_is_touched(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, goal(done="ok"), "Done.")
        await finish(prompted(session, "go"))
        with pytest.raises(PlanError, match="completed"):
            await UserPlan(session, "VS Code").abandon("1", "no", revert_files=True)
        assert "five" in file(bench).read_text()


async def test_concurrent_abandons_of_one_goal_revert_its_files_once(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = begun(bench, *WORK, "Done.")
        await finish(prompted(session, "go"))
        both = await asyncio.gather(
            UserPlan(session, "one").abandon("1", "no", revert_files=True),
            UserPlan(session, "other").abandon("1", "no", revert_files=True),
            return_exceptions=True,
        )
        await until(lambda: statuses(session) == {"one way": "abandoned"})
        assert sum(isinstance(answer, PlanError) for answer in both) == 1
        assert file(bench).read_text() == LINES
        assert len(bench.events(FilesRestored)) == 1
