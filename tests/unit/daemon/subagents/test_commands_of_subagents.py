"""Changes by commands of sub-agents are in the main session's history, and are undone there: real commands."""

from __future__ import annotations

from pathlib import Path

from daemon.loop.undo import Restorer
from daemon.model.events import FileChanged
from tests.support.drivers.core import ALLOW_ALL
from tests.support.fakes.models import Call
from tests.support.scenarios.subagents import results, task, with_subagents


def sh(command: str) -> Call:
    return Call("bash", {"command": command})


def files(folder: Path) -> dict[str, bytes]:
    """Return all files of the user, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".trace" not in path.parts
    }


async def test_each_of_thirty_commands_is_in_both_histories(tmp_path: Path) -> None:
    steps = [[sh(f"echo {number} > q{number}; echo {number} >> a.txt")] for number in range(30)]
    main = [task("Do it.")], "Done."
    async with with_subagents(tmp_path, main, {"s1": [*steps, "Done."]}, command_line=ALLOW_ALL) as (
        bench,
        _,
    ):
        (bench.workspace / "a.txt").write_text("a\n")
        before = files(bench.workspace)
        session = bench.session()
        assert (await session.prompt("go")).stop == "end_turn"
        after = files(bench.workspace)
        assert len(after) == 31
        own = [
            event.path
            for event in bench.core.store.events(f"{session.session_id}:s1")
            if isinstance(event, FileChanged)
        ]
        assert sorted(own) == sorted(["a.txt"] * 30 + [f"q{number}" for number in range(30)])
        assert [event.path for event in bench.events(FileChanged)] == own
        (change,) = (await Restorer(session).overview()).changes
        assert change.change_id == results(session)[0].tool_call_id
        await Restorer(session).undo(by="test")
        assert files(bench.workspace) == before
        await Restorer(session).redo(by="test")
        assert files(bench.workspace) == after


async def test_undo_reverts_nested_sub_agent_edits_and_commands(
    tmp_path: Path,
) -> None:
    def edit(old: str, new: str) -> Call:
        return Call("edit", {"file_path": "a.txt", "old_string": old, "new_string": new})

    look = Call("read", {"file_path": "a.txt"})
    agents = {
        "s1": [
            [look],
            [edit("one", "1")],
            [sh("sed -i s/two/2/ a.txt; chmod 755 a.txt")],
            [task("The rest.")],
            [look],
            [edit("four", "4")],
            "Done.",
        ],
        "s1.s1": [[look], [sh("sed -i s/three/3/ a.txt; rm b.bin")], [look], [edit("five", "5")], "Done."],
    }
    async with with_subagents(tmp_path, ([task("Do it.")], "Done."), agents, command_line=ALLOW_ALL) as (
        bench,
        _,
    ):
        (bench.workspace / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
        (bench.workspace / "a.txt").chmod(0o644)
        (bench.workspace / "b.bin").write_bytes(bytes(range(256)))
        before = files(bench.workspace)
        session = bench.session()
        await session.prompt("go")
        assert files(bench.workspace) == {"a.txt": b"1\n2\n3\n4\n5\n"}
        assert len((await Restorer(session).overview()).changes) == 1
        await Restorer(session).undo(by="test")
        assert files(bench.workspace) == before
        assert (bench.workspace / "a.txt").stat().st_mode & 0o777 == 0o644
        await Restorer(session).redo(by="test")
        assert files(bench.workspace) == {"a.txt": b"1\n2\n3\n4\n5\n"}


async def test_parallel_sub_agent_commands_are_recorded_once_each(tmp_path: Path) -> None:
    # Each command waits for the other's file, so that they are at work at the same time for certain.
    def wait(name: str) -> str:
        return f"until [ -e {name} ]; do sleep 0.01; done"

    agents = {
        "s1": [[sh(f"touch on1; {wait('on2')}; echo 1 > one; {wait('two')}; touch end1")], "Done."],
        "s2": [[sh(f"touch on2; {wait('on1')}; echo 2 > two; {wait('end1')}; {wait('one')}")], "Done."],
    }
    async with with_subagents(
        tmp_path, ([task("A."), task("B.")], "Done."), agents, command_line=ALLOW_ALL
    ) as (bench, _):
        before = files(bench.workspace)
        session = bench.session()
        await session.prompt("go")
        assert sorted(event.path for event in bench.events(FileChanged)) == [
            "end1",
            "on1",
            "on2",
            "one",
            "two",
        ]
        message = session.state.messages[0]
        await Restorer(session).restore(message_id=message.message_id, by="test")
        assert files(bench.workspace) == before
