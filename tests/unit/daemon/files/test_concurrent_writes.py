"""Commands that overlap with each other and with writes of tools: each change is kept once, whole, in its place."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.files.blobs import Blobs
from daemon.files.command_changes import CommandWatches
from daemon.files.history import SessionHistory
from daemon.files.restore import RestorePlanner, reversed_entries
from daemon.files.versions import Version, VersionFile, VersionRecord
from tests.support.drivers.waiting import until
from tools.tool import CommandWatch, FileChange, VersionKeeper

NOW = datetime(2025, 1, 1, tzinfo=UTC)


class Line:
    """A main line, two sub-agents of it and one of a sub-agent's, in one workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "w"
        (self.workspace / ".trace").mkdir(parents=True)
        self.watches = CommandWatches(
            self.workspace, self.workspace / ".trace", folder / "copies", before_s=60.0, after_s=60.0
        )
        self.main = self.history("main")
        self.agents = [self.main, *(self.history(name) for name in ("s1", "s2", "s1.s1"))]
        for number, (above, call_id) in enumerate([(0, "task1"), (0, "task2"), (1, "task_of_s1")], 1):
            self.agents[number].keep_above(self.agents[above], call_id)

    def history(self, name: str) -> SessionHistory:
        return SessionHistory(
            self.folder / name,
            lambda: NOW,
            self.workspace,
            watch=self.watches.watch,
            writes=self.watches.writes,
        )

    def read(self, name: str) -> bytes | None:
        path = self.workspace / name
        return path.read_bytes() if path.exists() else None

    def set(self, name: str, data: bytes | None) -> None:
        path = self.workspace / name
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(data)

    async def tool(self, keeper: VersionKeeper, call_id: str, name: str, data: bytes | None) -> None:
        change = FileChange(self.workspace / name, self.read(name), data)
        versions = await keeper.keep([change], call_id)
        self.set(name, data)
        keeper.written(versions)

    async def known(self) -> None:
        """Wait until all contents are."""
        await (await self.history("nobody").watch_command("")).ended()
        await until(lambda: self.watches._covering is None or self.watches._covering.done())

    def check(self, name: str, first: dict[str, bytes | None]) -> list[Version]:
        """Check that the changes of each file lead from the first content to the last one, step by step."""
        record = VersionRecord()
        for line in VersionFile(self.folder / name / "versions.jsonl").read():
            record.add(line)
        blobs = Blobs(self.folder / name / "blobs")
        now = dict(first)
        for version in record.versions():
            assert version.entry is not None, f"{version} cannot be undone"
            before, after = (
                None if digest is None else blobs.get(digest)
                for digest in (version.entry.before, version.entry.after)
            )
            assert now[version.path.name] == before, version
            now[version.path.name] = after
        assert now == {file: self.read(file) for file in first}
        return record.versions()

    def undo(self, name: str) -> None:
        versions = self.main.record().versions()
        planner = RestorePlanner(Blobs(self.folder / name / "blobs"), str, lambda path: None)
        planner.apply([reversed_entries([v.entry for v in versions if v.entry is not None])])
        for change in planner.result():
            self.set(change.path.name, change.after)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


async def test_writes_after_a_tool_are_attributed_to_the_command(line: Line) -> None:
    line.set("a", b"0")
    await line.known()
    watch = await line.agents[1].watch_command("cmd")
    line.set("a", b"0 command")
    await line.tool(line.agents[2], "edit", "a", b"0 command tool")
    line.set("a", b"0 command tool command")
    await watch.ended()
    versions = line.check("main", {"a": b"0"})
    assert [version.tool_call_id for version in versions] == ["task1", "task2", "task1"]
    assert [v.tool_call_id for v in line.agents[1].record().versions()] == ["cmd", "cmd"]
    line.undo("main")
    assert line.read("a") == b"0"
    await line.watches.close()


async def test_writes_of_overlapping_commands_are_attributed_by_order(line: Line) -> None:
    line.set("a", b"0")
    await line.known()
    first = await line.agents[1].watch_command("one")
    line.set("a", b"0 one")
    second = await line.agents[2].watch_command("two")
    line.set("a", b"0 one two")
    await second.ended()
    line.set("a", b"0 one two one")
    await first.ended()
    versions = line.check("main", {"a": b"0"})
    assert [version.tool_call_id for version in versions] == ["task1", "task2", "task1"]
    await line.watches.close()


async def test_a_file_that_a_tool_is_about_to_note_is_the_tools(line: Line) -> None:
    line.set("a", b"0")
    await line.known()
    watch = await line.agents[1].watch_command("cmd")
    change = FileChange(line.workspace / "a", b"0", b"0 tool")
    names = await line.agents[2].keep([change], "edit")
    line.set("a", b"0 tool")
    assert list(await watch.ended()) == []
    line.agents[2].written(names)
    assert [v.tool_call_id for v in line.check("main", {"a": b"0"})] == ["task2"]
    await line.watches.close()


async def test_a_write_that_failed_is_nobodys(line: Line) -> None:
    line.set("a", b"0")
    await line.known()
    watch = await line.agents[1].watch_command("cmd")
    await line.agents[2].keep([FileChange(line.workspace / "a", b"0", b"0 tool")], "edit")
    line.set("a", b"0 command")
    await watch.ended()
    assert [v.tool_call_id for v in line.check("main", {"a": b"0"})] == ["task1"]
    await line.watches.close()


async def test_user_save_after_a_failed_write_is_not_the_commands(line: Line) -> None:
    line.set("a", b"0")
    await line.known()
    change = FileChange(line.workspace / "a", b"0", b"0 tool")
    line.agents[2].failed(await line.agents[2].keep([change], "edit"))
    watch = await line.agents[1].watch_command("cmd")
    line.set("a", b"0 user")
    line.watches.wrote(change.path)
    assert list(await watch.ended()) == []
    await line.watches.close()


async def test_user_save_during_a_command_is_not_attributed_to_it(line: Line) -> None:
    line.set("a", b"0")
    line.set("b", b"0")
    await line.known()
    watch = await line.agents[1].watch_command("cmd")
    for name in ("a", "b"):
        line.set(name, b"0 person")
        line.watches.wrote(line.workspace / name)
    seen = line.watches.writes
    await until(lambda: all(len(notes.writes) == 2 for notes in seen._open))
    line.set("a", b"0 person command")
    await watch.ended()
    line.check("main", {"a": b"0 person", "b": b"0 person"})
    await line.watches.close()


@pytest.mark.parametrize("seed", range(40))
async def test_overlapping_commands_and_tools_can_all_be_undone(line: Line, seed: int) -> None:
    chance = random.Random(seed)
    first: dict[str, bytes | None] = {"a": b"a", "b": b"b", "c": None}
    for name, data in first.items():
        line.set(name, data)
    await line.known()
    running: list[CommandWatch] = []
    tools: Counter[str] = Counter()

    def text() -> bytes | None:
        # Each is longer: what the system says of a file has too coarse a time to tell writes in a row apart.
        text.size += 1  # pyright: ignore[reportFunctionMemberAccess]
        return None if chance.random() < 0.15 else b"x" * text.size  # pyright: ignore[reportFunctionMemberAccess]

    text.size = 1  # pyright: ignore[reportFunctionMemberAccess]
    for number in range(40):
        what, name, agent = chance.random(), chance.choice("abc"), chance.choice(line.agents)
        if what < 0.2 and len(running) < 4:
            running.append(await agent.watch_command(f"cmd{number}"))
        elif what < 0.4 and running:
            await running.pop(chance.randrange(len(running))).ended()
        elif what < 0.7 and running:
            line.set(name, text())
        elif (data := text()) is not None or line.read(name) is not None:
            await line.tool(agent, f"tool{number}", name, data)
            tools[name] += 1
    for watch in running:
        await watch.ended()
    versions = line.check("main", first)
    mine = Counter(v.path.name for v in versions if v.tool_call_id.startswith("tool"))
    assert all(mine[name] <= tools[name] for name in first)
    line.undo("main")
    assert {name: line.read(name) for name in first} == first
    await line.watches.close()
