from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.examples import in_full
from tests.support.fakes.dying_disk import (
    CALLS,
    CHANGING,
    DyingOs,
    Tree,
    dying,
    old_tree,
    quick_folder,
    tree,
    turning,
)
from tools.tool import FileChange
from tools.writing import atomic, recovery

Say = Callable[[str], None]
SMALL = 8
ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)


class Field:
    """A workspace and its journal, created again for every point."""

    def __init__(self, folder: Path, plan: Callable[[Path], list[FileChange]]) -> None:
        self.folder = folder
        self.journal = folder / "home" / "journal"
        self.root = folder / "ws"
        self._plan = plan
        self.old: Tree = {}
        self.new: Tree = {}
        self.count = 0
        self.names: list[str] = []
        self.measure()

    def fresh(self) -> list[FileChange]:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.root.mkdir(parents=True)
        return self._plan(self.root)

    def measure(self, counted: frozenset[str] = CALLS) -> None:
        plan = self.fresh()
        self.old = tree(self.root)
        with dying(DyingOs(counted=counted)) as system:
            atomic.write_all(plan, self.journal)
        self.new, self.count, self.names = tree(self.root), system.count, system.names
        assert self.new != self.old
        assert self.left() == []

    def left(self) -> list[str]:
        return [path.name for path in self.journal.iterdir()] if self.journal.exists() else []

    def check(self, where: str) -> bool:
        """Whether the tree is new; it must be wholly old or wholly new, and no record left."""
        now = tree(self.root)
        assert now in (self.old, self.new), (where, now)
        assert self.left() == [], where
        return now == self.new


def one_update(root: Path) -> list[FileChange]:
    (root / "a").write_bytes(b"old")
    return [FileChange(root / "a", b"old", b"new", mode=0o755)]


def one_new(root: Path) -> list[FileChange]:
    return [FileChange(root / "some/where/a", None, b"new")]


def one_deleted(root: Path) -> list[FileChange]:
    (root / "a").write_bytes(b"old")
    return [FileChange(root / "a", b"old", None)]


def several(root: Path) -> list[FileChange]:
    return old_tree(root, SMALL)


PLANS = pytest.mark.parametrize("plan", [one_update, one_new, one_deleted, several, turning])
TOGETHER = pytest.mark.parametrize("plan", [several, turning])


@pytest.fixture
def fast(tmp_path: Path) -> Iterator[Path]:
    with quick_folder(tmp_path) as folder:
        yield folder


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Iterator[Say]:
    lines: list[str] = []
    yield lines.append
    with capsys.disabled():
        print("".join(f"\n  {line}" for line in lines), end=" ")


def interrupted(field: Field, system: DyingOs) -> DyingOs:
    plan = field.fresh()
    with dying(system):
        atomic.write_all(plan, field.journal)
    assert system.dead
    return system


@PLANS
@pytest.mark.parametrize("how", ["kill", "torn"])
def test_kill_at_any_call_recovers_to_all_old_or_all_new(
    fast: Path, plan: Callable[[Path], list[FileChange]], how: Literal["kill", "torn"], say: Say
) -> None:
    field = Field(fast / "f", plan)
    outcomes: list[bool] = []
    points = range(1, field.count + 1)
    for at in points if how == "kill" else [at for at in points if field.names[at - 1] == "write"]:
        interrupted(field, DyingOs(at, how))
        found = recovery.recover(field.journal)
        assert all(one.outcome != "failed" for one in found), found
        outcomes.append(field.check(f"{how} at {at}"))
        assert recovery.recover(field.journal) == []
    assert outcomes == sorted(outcomes), "once new, later points must not be old"
    assert how == "torn" or (outcomes[-1] and not outcomes[0])
    say(f"{len(outcomes)} kill points ({plan.__name__}, {how}): {outcomes.count(True)} new")


@TOGETHER
def test_a_recovery_killed_at_any_call_is_finished_by_the_next(
    fast: Path, plan: Callable[[Path], list[FileChange]], say: Say
) -> None:
    field = Field(fast / "f", plan)
    field.measure(CHANGING)
    points = 0
    for first in range(1, field.count + 1):
        second = 0
        while True:
            second += in_full(1, 3)
            interrupted(field, DyingOs(first, counted=CHANGING))
            with dying(DyingOs(second, counted=CHANGING)) as system:
                recovery.recover(field.journal)
            if system.count < second:
                break
            points += 1
            recovery.recover(field.journal)
            field.check(f"killed at {first}, recovery at {second}")
    say(f"{points} pairs of kill points (writing, recovering)")


@PLANS
@pytest.mark.parametrize("error", ERRORS)
def test_a_call_that_fails_leaves_all_old_and_raises_or_all_new(
    fast: Path, plan: Callable[[Path], list[FileChange]], error: int, say: Say
) -> None:
    field = Field(fast / "f", plan)
    raised = 0
    # Together the three errors come at every call, in full each of them does.
    first, step = in_full(1, 1 + ERRORS.index(error)), in_full(1, len(ERRORS))
    for at in range(first, field.count + 1, step):
        changes = field.fresh()
        with dying(DyingOs(at, "fail", error=error)):
            try:
                atomic.write_all(changes, field.journal)
                worked = True
            except OSError:
                worked = False
        raised += not worked
        assert field.check(f"failing at {at}") == worked, at
    assert raised
    say(f"{field.count} failing calls ({plan.__name__}): {raised} raised and rolled back")


@TOGETHER
def test_recovery_completes_after_a_persistent_disk_error(
    fast: Path, plan: Callable[[Path], list[FileChange]], say: Say
) -> None:
    field = Field(fast / "f", plan)
    field.measure(CHANGING)
    not_undone = 0
    for at in range(1, field.count + 1):
        changes = field.fresh()
        with dying(DyingOs(at, "broken", counted=CHANGING, error=errno.EROFS)):
            try:
                atomic.write_all(changes, field.journal)
            except atomic.NotUndoneError as failure:
                not_undone += 1
                assert "next start" in str(failure)
            except OSError:
                assert tree(field.root) == field.old
        assert all(one.outcome != "failed" for one in recovery.recover(field.journal))
        field.check(f"broken from {at} on")
    assert not_undone
    say(f"{field.count} points from which on the disk was broken")


@TOGETHER
def test_a_power_cut_leaves_nothing_half_written(
    fast: Path, plan: Callable[[Path], list[FileChange]], say: Say
) -> None:
    field = Field(fast / "f", plan)
    for at in range(1, field.count + 1):
        interrupted(field, DyingOs(at, power_cut=True))
        recovery.recover(field.journal)
        field.check(f"power cut at {at}")
    say(f"{field.count} power cuts")


@TOGETHER
def test_failed_recovery_is_reported_and_retried(
    fast: Path, plan: Callable[[Path], list[FileChange]]
) -> None:
    field = Field(fast / "f", plan)
    field.measure(CHANGING)
    for at in range(1, field.count + 1):
        interrupted(field, DyingOs(at, counted=CHANGING))
        with dying(DyingOs(1, "broken", counted=CHANGING, error=errno.EROFS)) as system:
            found = recovery.recover(field.journal)
        if system.count:
            assert [one.outcome for one in found] == ["failed"]
            assert "Goalwright tries again at the next start." in found[0].text
        recovery.recover(field.journal)
        field.check(f"broken recovery after {at}")


@TOGETHER
def test_recovery_skips_a_change_that_is_still_being_written(
    fast: Path, plan: Callable[[Path], list[FileChange]]
) -> None:
    field = Field(fast / "f", plan)
    met = 0

    class Meddling(DyingOs):
        def _stop(self, name: str, args: tuple[Any, ...]) -> None:
            nonlocal met
            met += field.left() != []
            assert recovery.recover(field.journal, dying_s=0) == []

    for at in range(1, field.count + 1):
        changes = field.fresh()
        with dying(Meddling(at)):
            atomic.write_all(changes, field.journal)
        assert field.check(f"recovered at {at}")
    assert met > field.count / 2
