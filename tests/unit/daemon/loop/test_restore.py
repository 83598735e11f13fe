"""Undo, redo and restore in a real session: the agent's hunks come and go, the user's edits stay."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon.files.restore import ConflictError, RestoreRefusedError
from daemon.loop import undo as restoring
from daemon.loop.session import BusyError, Session
from daemon.loop.undo import Restorer, UnknownChangeError
from daemon.model.events import FileChanged, FilesRestored, Notice
from daemon.model.messages import NotePart, TextPart
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Step
from tools.change import write_approved

LINES = "".join(f"line {n}\n" for n in range(1, 11))


def edit(old: str, new: str, path: str = "a.py") -> Call:
    return Call("edit", {"file_path": path, "old_string": old, "new_string": new})


def read(path: str = "a.py") -> Call:
    return Call("read", {"file_path": path})


def write(path: str, content: str) -> Call:
    return Call("write", {"file_path": path, "content": content})


async def worked(bench: Bench, *steps: Step) -> Session:
    """A session whose first turn has made these steps; ``a.py`` has ten lines."""
    (bench.workspace / "a.py").write_bytes(LINES.encode())
    session = bench.session(settings=ALLOW_ALL)
    bench.models.then(*steps, "Done.")
    result = await finish(prompted(session, "do it"))
    assert result.stop == "end_turn"
    return session


async def test_undo_and_redo_are_exact(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        path = bench.workspace / "a.py"
        changed = path.read_bytes()
        outcome = await Restorer(session).undo(by="Ann")
        assert path.read_bytes() == LINES.encode()
        assert outcome.target == "edit of a.py"
        assert [(f.path, f.kind, f.added, f.removed) for f in outcome.files] == [("a.py", "update", 1, 1)]
        assert "-five\n+line 5" in outcome.files[0].diff
        await Restorer(session).redo()
        assert path.read_bytes() == changed
        await Restorer(session).undo()
        assert path.read_bytes() == LINES.encode()
        (event, *_) = bench.events(FilesRestored)
        assert (event.action, event.target, event.by) == ("undo", "edit of a.py", "Ann")
        assert [(f.path, f.added, f.removed) for f in event.files] == [("a.py", 1, 1)]
        assert bench.diagnostics.told.count(path) >= 3  # the watch over files may see one of them, too


async def test_user_edits_elsewhere_survive_undo_and_redo(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        path = bench.workspace / "a.py"
        path.write_text(path.read_text().replace("line 1\n", "mine\n") + "more of mine\n")
        await Restorer(session).undo()
        mine = LINES.replace("line 1\n", "mine\n") + "more of mine\n"
        assert path.read_text() == mine
        path.write_text(mine.replace("line 9\n", "nine\n"))
        await Restorer(session).redo()
        assert path.read_text() == mine.replace("line 9\n", "nine\n").replace("line 5\n", "five\n")


async def test_restore_conflict_shows_both_sides_and_changes_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(
            bench,
            [read(), write("b.txt", "new\n")],
            Call("bash", {"command": "true"}),
            [edit("line 5\n", "five\n")],
        )
        path = bench.workspace / "a.py"
        path.write_text(path.read_text().replace("five\n", "cinq\n"))
        before = path.read_bytes()
        with pytest.raises(ConflictError) as caught:
            await Restorer(session).restore(message_id=session.state.messages[0].message_id)
        said = str(caught.value)
        assert "a.py:5" in said
        assert "- five" in said
        assert "+ cinq" in said
        assert "+ line 5" in said
        assert path.read_bytes() == before
        assert (bench.workspace / "b.txt").read_text() == "new\n"
        assert bench.events(FilesRestored) == []


async def test_second_undo_reverts_the_previous_change(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"), edit("line 8\n", "eight\n"))
        path = bench.workspace / "a.py"
        both = path.read_text()
        await Restorer(session).undo()
        assert path.read_text() == both.replace("eight\n", "line 8\n")
        await Restorer(session).undo()
        assert path.read_text() == LINES
        with pytest.raises(UnknownChangeError, match="nothing to undo"):
            await Restorer(session).undo()
        await Restorer(session).redo()
        assert path.read_text() == LINES.replace("line 5\n", "five\n")
        await Restorer(session).redo()
        assert path.read_text() == both
        with pytest.raises(UnknownChangeError, match="nothing to redo"):
            await Restorer(session).redo()


async def test_an_older_change_can_be_undone_alone(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"), edit("line 8\n", "eight\n"))
        first, second = (await Restorer(session).overview()).changes
        await Restorer(session).undo(first.change_id)
        assert (bench.workspace / "a.py").read_text() == LINES.replace("line 8\n", "eight\n")
        with pytest.raises(RestoreRefusedError, match="already undone"):
            await Restorer(session).undo(first.change_id)
        with pytest.raises(RestoreRefusedError, match="not undone"):
            await Restorer(session).redo(second.change_id)
        with pytest.raises(UnknownChangeError):
            await Restorer(session).undo("call_99")


async def test_undo_removes_created_files_and_their_empty_folders(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, write("deep/er/new.txt", "hello\n"))
        assert (bench.workspace / "deep/er/new.txt").read_text() == "hello\n"
        await Restorer(session).undo()
        assert not (bench.workspace / "deep").exists()
        await Restorer(session).redo()
        assert (bench.workspace / "deep/er/new.txt").read_text() == "hello\n"
        (bench.workspace / "deep/mine.txt").write_text("mine")
        await Restorer(session).undo()
        assert sorted(p.name for p in (bench.workspace / "deep").iterdir()) == ["mine.txt"]


async def test_created_file_changed_by_the_user_is_not_deleted(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, write("new.txt", "hello\n"))
        (bench.workspace / "new.txt").write_text("hello\nand mine\n")
        with pytest.raises(ConflictError, match=r"new\.txt was changed since it was created"):
            await Restorer(session).undo()
        (bench.workspace / "new.txt").unlink()
        outcome = await Restorer(session).undo()
        assert outcome.files == ()


async def test_file_already_in_the_old_state_is_undone_without_a_write(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        (bench.workspace / "a.py").write_text(LINES)
        assert (await Restorer(session).undo()).files == ()
        assert (await Restorer(session).overview()).undo is None
        assert session.state.notes == ()


async def test_a_binary_file_is_restored_only_when_unchanged_since(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / "x.bin").write_bytes(b"\0\1\2\n\3")
        session = await worked(bench)
        path = bench.workspace / "x.bin"
        from tools.tool import FileChange

        versions = await session.files.history.keep([FileChange(path, b"\0\1\2\n\3", b"\0\7\n\3")], "call_x")
        path.write_bytes(b"\0\7\n\3")
        session.files.history.written(versions)
        path.write_bytes(b"\0\7\n\3 mine")
        with pytest.raises(ConflictError, match="not text"):
            await Restorer(session).undo()
        path.write_bytes(b"\0\7\n\3")
        await Restorer(session).undo()
        assert path.read_bytes() == b"\0\1\2\n\3"


async def test_restore_undoes_everything_since_a_message(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        bench.models.then(
            [edit("line 8\n", "eight\n"), write("new.txt", "x\n")], edit("eight\n", "EIGHT\n"), "Done again."
        )
        await finish(prompted(session, "and more"))
        second = next(m for m in session.state.messages if m.text() == "and more")
        path = bench.workspace / "a.py"
        path.write_text(path.read_text().replace("line 1\n", "mine\n"))
        outcome = await Restorer(session).restore(message_id=second.message_id)
        assert path.read_text() == LINES.replace("line 5\n", "five\n").replace("line 1\n", "mine\n")
        assert not (bench.workspace / "new.txt").exists()
        assert outcome.target.startswith("3 changes since message")
        with pytest.raises(UnknownChangeError, match="already undone"):
            await Restorer(session).restore(message_id=second.message_id)
        for _ in range(3):
            await Restorer(session).redo()
        assert "EIGHT\n" in path.read_text()
        assert (bench.workspace / "new.txt").read_text() == "x\n"


async def test_restoring_a_goal_leaves_other_goals_edits(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(
            bench,
            [read(), Call("goal", {"add": "first, second", "reason": "asked"})],
            [Call("goal", {"focus": "1"})],
            [Call("goal", {"add": "below the first, another", "focus": "1.1"})],
            edit("line 2\n", "two\n"),
            [
                Call(
                    "goal",
                    {
                        "done": "you can read it, but nothing in it is run or allowed in your name.",
                        "focus": "2",
                    },
                )
            ],
            edit("line 5\n", "five\n"),
            [Call("goal", {"focus": "1"})],
            edit("line 8\n", "eight\n"),
        )
        path = bench.workspace / "a.py"
        numbers = {number: goal for goal, number in session.state.plan.numbers().items()}
        await Restorer(session).restore(goal_id=numbers["1"])
        assert path.read_text() == LINES.replace("line 5\n", "five\n")
        with pytest.raises(UnknownChangeError):
            await Restorer(session).restore(goal_id="99")


async def test_dry_run_reports_without_changing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        path = bench.workspace / "a.py"
        before = path.read_bytes()
        outcome = await Restorer(session).undo(dry_run=True)
        assert "+line 5" in outcome.files[0].diff
        assert path.read_bytes() == before
        assert bench.events(FilesRestored) == []
        assert (await Restorer(session).overview()).undo is not None


async def test_unsaved_changes_in_the_editor_stop_it(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        bench.unsaved[bench.workspace / "a.py"] = "typing"
        with pytest.raises(RestoreRefusedError, match="unsaved"):
            await Restorer(session).undo()


async def test_undo_is_refused_while_a_turn_runs(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        session.policy.use(config=bench.core.config())
        bench.models.then(write("b.txt", "x"))
        turn = prompted(session, "more")
        await bench.asked()
        with pytest.raises(BusyError):
            await Restorer(session).undo()
        session.cancel()
        await finish(turn)
        await Restorer(session).undo()


async def test_undo_is_noted_once_and_requires_a_new_read(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        await Restorer(session).undo()
        bench.models.then(edit("line 6\n", "six\n"), read(), edit("line 6\n", "six\n"), "Done.")
        await finish(prompted(session, "go on"))
        said = next(m for m in session.state.messages if m.text().startswith("go on"))
        texts = [part.text for part in said.content if isinstance(part, TextPart | NotePart)]
        assert texts[0] == "go on"
        assert "the user undid your edit of a.py" in texts[1]
        assert "a.py (+1 -1)" in texts[1]
        answers = [r for m in session.state.messages if (r := m.tool_result()) is not None]
        assert [r.is_error for r in answers[-3:]] == [True, False, False]
        assert "read it again" in answers[-3].content
        bench.models.then("Fine.")
        await finish(prompted(session, "and on"))
        assert session.state.messages[-2].text() == "and on"


async def test_after_a_restart_everything_is_still_there(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"), edit("line 8\n", "eight\n"))
        path = bench.workspace / "a.py"
        both = path.read_text()
        await Restorer(session).undo()
        session_id = session.session_id
    async with daemon(tmp_path) as bench:
        session = await bench.opened(session_id)
        assert "undid your edit of a.py" in session.state.notes[0]
        await Restorer(session).undo()
        assert path.read_text() == LINES
        await Restorer(session).redo()
        await Restorer(session).redo()
        assert path.read_text() == both
        assert len(session.state.notes) == 4


async def test_imported_session_cannot_undo(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        session_id = session.session_id
        path = bench.workspace / "a.py"
    shutil.rmtree(tmp_path / "home")
    async with daemon(tmp_path, check=False) as bench:  # the model of a foreign session does not count
        session = await bench.opened(session_id)
        assert session.foreign
        for attempt in (
            Restorer(session).undo(),
            Restorer(session).redo(),
            Restorer(session).restore(message_id=session.state.messages[0].message_id),
        ):
            with pytest.raises(RestoreRefusedError, match="not started by you"):
                await attempt
        assert "five" in path.read_text()


def outside(tmp_path: Path, bench: Bench) -> str:
    target = tmp_path / "elsewhere.txt"
    target.write_text("line 5\n")
    return str(target)


def through_a_link(tmp_path: Path, bench: Bench) -> str:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "a.py").write_text("line 5\n")
    (bench.workspace / "link").symlink_to(target)
    return str(bench.workspace / "link" / "a.py")


def gits_own(tmp_path: Path, bench: Bench) -> str:
    target = bench.workspace / ".git" / "hooks" / "pre-commit"
    target.parent.mkdir(parents=True)
    target.write_text("line 5\n")
    return str(target)


@pytest.mark.parametrize("where", [outside, through_a_link, gits_own])
async def test_forged_version_list_cannot_reach_other_files(
    tmp_path: Path, where: Callable[[Path, Bench], str]
) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        session_id = session.session_id
        victim = where(tmp_path, bench)
        log = bench.core.store.root / session_id / "files" / "versions.jsonl"
    log.write_text(log.read_text().replace(str(bench.workspace / "a.py"), victim))
    Path(victim).write_text(LINES.replace("line 5\n", "five\n"))
    async with daemon(tmp_path) as bench:
        session = await bench.opened(session_id)
        with pytest.raises(RestoreRefusedError, match="Nothing was changed"):
            await Restorer(session).undo()
        assert "five" in Path(victim).read_text()


async def test_a_file_outside_that_the_session_changed_is_undone(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        target = tmp_path / "elsewhere.txt"
        working = asyncio.create_task(worked(bench, write(str(target), "hello\n")))
        await bench.answer("once")  # what lies outside asks whatever a general rule allows
        session = await working
        assert target.read_text() == "hello\n"
        await Restorer(session).undo()
        assert not target.exists()


@pytest.mark.parametrize("damage", [b"", None])
async def test_damaged_content_refuses_the_restore(tmp_path: Path, damage: bytes | None) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        (version,) = session.files.history.record().versions()
        assert version.entry is not None
        assert version.entry.before is not None
        blob = session.files.history.blobs.path(version.entry.before)
        if damage is None:
            blob.unlink()
        else:
            blob.write_bytes(damage)
        with pytest.raises(RestoreRefusedError, match="nothing was changed"):
            await Restorer(session).undo()
        assert "five" in (bench.workspace / "a.py").read_text()


async def test_prompt_during_an_undo_waits_for_the_files(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, read(), edit("line 5\n", "five\n"))
        bench.models.then(read(), "Seen.")
        undo = asyncio.create_task(Restorer(session).undo())
        await asyncio.sleep(0)
        turn = prompted(session, "look")
        await undo
        await finish(turn)
        answer = next(r for m in reversed(session.state.messages) if (r := m.tool_result()) is not None)
        assert "line 5" in answer.content


async def test_a_canceled_undo_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Path] = []

    async def changed(path: Path) -> None:
        told.append(path)

    async def stopped(*given: Any) -> object:
        undo.cancel()
        return await write_approved(*given)

    async with daemon(tmp_path) as bench:
        session = await worked(bench, write("new/b.txt", "x\n"))
        monkeypatch.setattr(session.services.languages.diagnostics, "changed", changed)
        monkeypatch.setattr(restoring, "write_approved", stopped)
        undo = asyncio.create_task(Restorer(session).undo())
        with pytest.raises(asyncio.CancelledError):
            await undo
        assert not (bench.workspace / "new").exists()
        assert told == [bench.workspace / "new" / "b.txt"]
        assert [event.action for event in bench.events(FilesRestored)] == ["undo"]


async def test_a_canceled_write_is_in_the_log(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session = await worked(bench, write("b.txt", "x\n"))
        (event,) = bench.events(FileChanged)
        assert (event.path, event.kind, event.version, event.added) == ("b.txt", "create", "v1", 1)
        log = [e.event for e in bench.core.store.events(session.session_id)]
        assert log.count("file_changed") == 1


# -- what commands changed


def bash(command: str) -> Call:
    return Call("bash", {"command": command})


async def test_command_changes_are_undone_and_redone(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / "gone.txt").write_text("gone\n")
        session = await worked(
            bench, bash("sed -i 's/line 5/five/' a.py; rm gone.txt; mkdir -p x/y; echo new > x/y/new.txt")
        )
        path = bench.workspace / "a.py"
        assert [(e.path, e.kind, e.added, e.removed) for e in bench.events(FileChanged)] == [
            ("a.py", "update", 1, 1),
            ("gone.txt", "delete", 0, 1),
            ("x/y/new.txt", "create", 1, 0),
        ]
        result = next(r for m in session.state.messages if (r := m.tool_result()) is not None)
        assert "a.py (+1 -1), gone.txt (deleted), x/y/new.txt (new)" in result.content
        path.write_text(path.read_text().replace("line 1\n", "mine\n"))
        outcome = await Restorer(session).undo()
        assert outcome.target == "bash of a.py, gone.txt, x/y/new.txt"
        assert path.read_text() == LINES.replace("line 1\n", "mine\n")
        assert (bench.workspace / "gone.txt").read_text() == "gone\n"
        assert not (bench.workspace / "x").exists()
        await Restorer(session).redo()
        assert "five" in path.read_text()
        assert not (bench.workspace / "gone.txt").exists()
        assert (bench.workspace / "x/y/new.txt").read_text() == "new\n"


async def test_commands_without_undo_are_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.files.tree.MAX_FILES", 1)
    async with daemon(tmp_path) as bench:
        for name in ("one.txt", "two.txt"):
            (bench.workspace / name).write_text("x\n")
        await worked(bench, bash("echo y > one.txt"), bash("echo z > one.txt"))
        assert not bench.events(FileChanged)
        assert ["cannot be undone" in notice.text for notice in bench.events(Notice)] == [True]


async def test_a_canceled_command_is_in_the_history(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        (bench.workspace / "a.py").write_text(LINES)
        session = bench.session(settings=ALLOW_ALL)
        bench.models.then(bash("echo x > a.py; echo ready; sleep 60"))
        turn = prompted(session, "do it")
        await until(lambda: "ready" in bench.text("tool_output"))
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert [e.path for e in bench.events(FileChanged)] == ["a.py"]
        await Restorer(session).undo()
        assert (bench.workspace / "a.py").read_text() == LINES


async def test_parts_that_cannot_be_undone_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.files.tree.MAX_FILE", 100)
    async with daemon(tmp_path) as bench:
        (bench.workspace / "large.txt").write_text("x" * 1000)
        session = await worked(
            bench, bash("seq 500 > large.txt; sed -i s/5/five/ a.py"), bash("seq 600 > large.txt")
        )
        with pytest.raises(RestoreRefusedError, match="content is unknown"):
            second = (await Restorer(session).overview()).changes[1]
            await Restorer(session).undo(second.change_id)
        outcome = await Restorer(session).undo()
        assert outcome.target.endswith("(without large.txt: the previous content is unknown)")
        assert (bench.workspace / "a.py").read_text() == LINES
        assert (bench.workspace / "large.txt").read_text().endswith("600\n")
