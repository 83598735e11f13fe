"""Edits of one step are asked about together, and written in the order of the message."""

from __future__ import annotations

import shutil
from pathlib import Path

from daemon.loop.session import Session
from daemon.model.events import FileChanged
from daemon.model.messages import ToolResultPart
from daemon.model.permissions import PermissionRequest
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call


def write(name: str) -> Call:
    return Call("write", {"file_path": name, "content": f"{name}\n"})


THREE = [write("a.txt"), write("b.txt"), write("c.txt")]


def results(session: Session) -> list[ToolResultPart]:
    found = [message.tool_result() for message in session.state.messages]
    return [part for part in found if part is not None]


async def all_asked(bench: Bench, count: int) -> dict[str, PermissionRequest]:
    """The pending requests by their file, once there are so many."""
    await until(lambda: len(bench.core.permissions.pending()) == count)
    return {request.files[0].path: request for request in bench.core.permissions.pending()}


def answer(bench: Bench, request: PermissionRequest, reply: str, feedback: str | None = None) -> None:
    assert reply in ("once", "reject")
    bench.core.permissions.reply(
        request.request_id, "once" if reply == "once" else "reject", feedback, "test"
    )


def written(bench: Bench) -> set[str]:
    return {file.name for file in bench.workspace.glob("*.txt")}


async def test_edits_of_a_step_are_asked_together_and_written_in_order(tmp_path: Path) -> None:
    async with daemon(tmp_path, THREE, "Done.") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        asked = await all_asked(bench, 3)
        assert list(asked) == ["a.txt", "b.txt", "c.txt"]
        answer(bench, asked["c.txt"], "once")
        answer(bench, asked["b.txt"], "once")
        assert written(bench) == set()
        answer(bench, asked["a.txt"], "once")
        await finish(turn)
        assert [result.title for result in results(session)] == ["a.txt +1 -0", "b.txt +1 -0", "c.txt +1 -0"]
        assert [event.path for event in bench.events(FileChanged)] == ["a.txt", "b.txt", "c.txt"]


async def test_plain_rejection_rejects_pending_edits_only(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, THREE) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        asked = await all_asked(bench, 3)
        answer(bench, asked["a.txt"], "once")
        answer(bench, asked["b.txt"], "reject")
        result = await finish(turn)
        assert result.stop == "permission_denied"
        assert written(bench) == {"a.txt"}
        assert [part.is_error for part in results(session)] == [False, True, True]
        assert "b.txt" in result.detail
        assert result.detail.endswith(" One more edit was rejected, too.")


async def test_feedback_on_one_edit_leaves_the_others_to_the_user(tmp_path: Path) -> None:
    async with daemon(tmp_path, THREE, "Done.") as bench:
        session = bench.session()
        turn = prompted(session, "go")
        asked = await all_asked(bench, 3)
        answer(bench, asked["a.txt"], "reject", "another name")
        await until(lambda: len(bench.core.permissions.pending()) == 2)
        answer(bench, asked["b.txt"], "once")
        answer(bench, asked["c.txt"], "once")
        await finish(turn)
        assert written(bench) == {"b.txt", "c.txt"}
        assert "another name" in results(session)[0].content


async def test_two_edits_of_one_file_are_asked_one_after_the_other(tmp_path: Path) -> None:
    again = Call("edit", {"file_path": "./a.txt", "old_string": "a.txt", "new_string": "b.txt"})
    async with daemon(tmp_path, [write("a.txt"), again], "Done.") as bench:
        turn = prompted(bench.session(), "go")
        asked = await all_asked(bench, 1)
        answer(bench, asked["a.txt"], "once")
        await until(lambda: written(bench) == {"a.txt"})
        asked = await all_asked(bench, 1)
        answer(bench, asked["a.txt"], "once")
        await finish(turn)
        assert (bench.workspace / "a.txt").read_text() == "b.txt\n"


async def test_canceled_turn_writes_no_approved_but_waiting_edit(tmp_path: Path) -> None:
    async with daemon(tmp_path, THREE) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        asked = await all_asked(bench, 3)
        answer(bench, asked["b.txt"], "once")
        session.cancel()
        await finish(turn)
        assert written(bench) == set()
        assert [part.is_error for part in results(session)] == [True, True, True]


async def test_a_killed_daemon_asks_about_all_of_them_again(tmp_path: Path) -> None:
    folder, copy = tmp_path / "one", tmp_path / "copy"
    folder.mkdir()
    async with daemon(folder, THREE) as bench:
        session = bench.session()
        turn = prompted(session, "go")
        asked = await all_asked(bench, 3)
        answer(bench, asked["a.txt"], "once")
        await until(lambda: len(results(session)) == 1)
        shutil.copytree(folder, copy)
        session.cancel()
        await turn
    shutil.rmtree(folder)
    copy.rename(folder)
    async with daemon(folder, "Done.") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        assert again.resume()
        asked = await all_asked(bench, 2)
        assert list(asked) == ["b.txt", "c.txt"]
        for request in asked.values():
            answer(bench, request, "once")
        await until(lambda: written(bench) == {"a.txt", "b.txt", "c.txt"})
        await until(lambda: again.status == "idle")
