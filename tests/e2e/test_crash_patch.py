"""kill -9 in the middle of a change of 100 files: the tree is wholly old or wholly new after recovery."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tests.support.fakes.dying_disk import CHANGING, DyingOs, Tree, dying, old_tree, quick_folder, tree
from tests.support.programs import patch_child
from tools.writing import atomic, recovery

FILES = 100
PARTS = in_full(6, 1)
"""The points are shared out, so that no test takes long."""
KILLS = in_full(30, 10)
"""From outside, of real processes."""
PAIRS = in_full(60, 12)

Say = Callable[[str], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Iterator[Say]:
    lines: list[str] = []
    yield lines.append
    with capsys.disabled():
        print("".join(f"\n  {line}" for line in lines), end=" ")


@pytest.fixture
def fast(tmp_path: Path) -> Iterator[Path]:
    with quick_folder(tmp_path) as folder:
        yield folder


class Field:
    """A change of 100 files, prepared again for each point."""

    def __init__(self, folder: Path) -> None:
        self.root, self.journal = folder / "ws", folder / "journal"
        self.system = self.write(0)
        self.new = tree(self.root)
        self.fresh()
        self.old = tree(self.root)

    def fresh(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        self.plan = old_tree(self.root, FILES)
        assert len(self.plan) == FILES

    def write(self, at: int, how: str = "kill") -> DyingOs:
        self.fresh()
        with dying(DyingOs(at, "torn" if how == "torn" else "kill", counted=CHANGING)) as system:
            atomic.write_all(self.plan, self.journal)
        return system

    def check(self, where: str) -> bool:
        now = tree(self.root)
        assert now in (self.old, self.new), where
        assert list(self.journal.iterdir()) == [] if self.journal.exists() else True, where
        return now == self.new


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_between_any_two_calls_that_change_the_disk(fast: Path, part: int, say: Say) -> None:
    field = Field(fast)
    kills = torn = new = 0
    for at in range(1 + part, field.system.count + 1, in_full(PARTS, 7)):
        for how in ("kill", "torn") if field.system.names[at - 1] == "write" else ("kill",):
            field.write(at, how)
            found = recovery.recover(field.journal)
            assert all(one.outcome != "failed" for one in found), found
            new += field.check(f"{how} at {at}")
            kills += how == "kill"
            torn += how == "torn"
    assert 0 < new < kills + torn
    say(f"{kills} of {field.system.count} kill points, and {torn} in a write: {new} new, the others old")


@pytest.mark.timeout(600)
def test_killed_and_killed_again_while_recovering(fast: Path, say: Say) -> None:
    field = Field(fast)
    chance = random.Random(3)
    points = 0
    for _ in range(PAIRS):
        first = chance.randint(1, field.system.count)
        field.write(first)
        second = 0
        while True:  # again and again, each time a little further
            second += chance.randint(1, 40)
            with dying(DyingOs(second, counted=CHANGING)) as system:
                recovery.recover(field.journal)
            if system.count < second:
                break
            points += 1
        field.check(f"killed at {first}, the last recovery at {second}")
    say(f"{points} kills of recoveries after {PAIRS} kills")


# -- real processes --


def patch_of(old: Path, size: int) -> str:
    """A patch of ``size`` files: updates, new files in new folders, deletions and moves."""
    lines = ["*** Begin Patch"]
    for number in range(size):
        kind = number % 5
        name = f"part{number % 9}/file{number}.py"
        if kind == 1:
            lines += [f"*** Add File: new{number % 4}/deep/file{number}.py", f"+made = {number}"]
            continue
        path = old / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# file {number}\nvalue = {number}\nend = True\n")
        if kind == 2:
            lines += [f"*** Delete File: {name}"]
            continue
        lines += [f"*** Update File: {name}"]
        if kind == 3:
            path.chmod(0o755)
            lines += [f"*** Move to: moved/file{number}.py"]
        lines += ["@@", f" # file {number}", f"-value = {number}", f"+value = {number + 1}", " end = True"]
    return "\n".join([*lines, "*** End Patch", ""])


class Victims:
    """Starts processes that are going to be killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def start(self, folder: Path) -> int:
        (folder / "workspace").mkdir(parents=True)
        (folder / "patch.txt").write_text(patch_of(folder / "workspace", FILES))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder}\n".encode())
        return int(await self._process.stdout.readline())


@pytest.fixture
async def victims() -> AsyncIterator[Victims]:
    if not hasattr(os, "fork"):
        pytest.skip("kills forked processes")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, patch_child.__file__), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    yield Victims(process)
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def records(folder: Path) -> list[Path]:
    return list((folder / "home" / "journal").glob("*/*.journal"))


def sources(folder: Path) -> Tree:
    """The workspace without the daemon's own folder."""
    found = tree(folder / "workspace")
    return {name: what for name, what in found.items() if name.split("/")[0] != ".trace"}


def waiting(folder: Path, stage: str) -> int:
    """How many new contents are staged, or old files backed up."""
    return sum(
        name.endswith(f".{stage}.goalwright-tmp")
        for _, _, names in os.walk(folder / "workspace")
        for name in names
    )


def watch_for(condition: Callable[[], bool]) -> None:
    """Return at once when it holds: this is a race that the kill is to win."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline


@pytest.mark.timeout(600)
async def test_patch_process_killed_at_random_leaves_all_or_nothing(
    victims: Victims, tmp_path: Path, say: Say
) -> None:
    patch_of(tmp_path / "old" / "workspace", FILES)
    old = sources(tmp_path / "old")
    whole = tmp_path.resolve() / "whole"
    pid = await victims.start(whole)
    await until(lambda: gone(pid), "the end of the patch", within_s=60)
    new = sources(whole)
    assert len(new.keys() ^ old.keys()) >= FILES // 2
    assert patch_child.core(whole).storage_notice == ""

    chance = random.Random(20250101)
    outcomes: list[str] = []
    for number in range(KILLS):
        folder = tmp_path.resolve() / f"run{number}"
        stage, count, wait = chance.choice(["new", "old"]), chance.randint(1, 75), chance.uniform(0, 0.004)
        pid = await victims.start(folder)
        await asyncio.to_thread(
            watch_for,
            lambda folder=folder, pid=pid, stage=stage, count=count: (
                waiting(folder, stage) >= count or gone(pid)
            ),
        )
        await asyncio.sleep(wait)
        with contextlib.suppress(ProcessLookupError):  # it was faster
            os.kill(pid, signal.SIGKILL)
        await until(lambda pid=pid: gone(pid))
        interrupted = bool(records(folder))
        core = patch_child.core(folder)
        found = sources(folder)
        assert found in (old, new), (stage, count, wait)
        assert records(folder) == []
        assert interrupted == ("The daemon stopped" in core.storage_notice) or found == new, (
            core.storage_notice
        )
        outcomes.append(("new" if found == new else "old") if interrupted else "finished before")
    counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
    assert outcomes.count("finished before") <= KILLS // 2
    say(f"{KILLS} processes killed while they wrote {FILES} files: {counts}")
