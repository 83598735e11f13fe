from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from daemon.copies import copy_folders
from daemon.copies.copy_folders import TRIES, remove
from daemon.copies.working_copy import CopyError, OrphanedCopy, WorkingCopies, WorkingCopy
from daemon.explore.copy_manager import copies_for
from daemon.lock import take
from tests.support.examples import in_full
from tests.support.fakes.small_disk import small_disk
from tests.support.scenarios.nasty_trees import TREES
from tests.support.scenarios.trees import fingerprint, kept_files, not_ignored, oracle_tree, put

_REPOSITORY = Path(__file__).parents[5]
_CALLS = 1_500
"""Audited calls (files opened, folders made and removed, programs started) of the child, about."""
_MANY = in_full(20_000, 1_200)
_SOME = in_full(4_000, 1_000)


def _planted(top: Path, count: int = _SOME) -> None:
    TREES["dirty"](top)
    for number in range(count):
        put(top, f"many/{number // 100}/{number}.txt", b"%d\n" % number)


def _empty(state: Path) -> bool:
    return not state.exists() or not list(state.iterdir())


def _child(top: Path, state: Path, *kill_at: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "tests.support.programs.copying_child", str(top), str(state), *kill_at]
    return subprocess.Popen(argv, cwd=_REPOSITORY, stdout=subprocess.PIPE)


async def _ready_child(top: Path, state: Path) -> subprocess.Popen[bytes]:
    child = _child(top, state)
    assert child.stdout
    assert await asyncio.to_thread(child.stdout.readline) == b"ready\n"
    return child


async def _recovered(copies: WorkingCopies) -> dict[str, OrphanedCopy]:
    found: dict[str, OrphanedCopy] = {}
    await copies.recover(lambda left: found.update({left.session_id: left}))
    return found


def _processes_about(path: Path) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if os.fsencode(path) in said:
                    found.append(said.decode("utf-8", "replace"))
    return found


@pytest.mark.parametrize("seed", range(in_full(3, 1)))
async def test_kill_at_any_moment_leaves_only_what_recover_removes(seed: int, tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    _planted(top)
    before = fingerprint(top)
    dice = random.Random(seed)
    told: list[str] = []
    for _ in range(in_full(6, 3)):
        child = _child(top, state, str(dice.randrange(_CALLS)))
        out, _ = await asyncio.to_thread(child.communicate)
        assert child.returncode == (-9 if out != b"ready\n" else 0)
        deadline = time.monotonic() + 10
        while _processes_about(state):
            assert time.monotonic() < deadline, _processes_about(state)
        told.clear()
        await copies_for(top, state, ()).recover(lambda left: told.append(left.session_id))
        assert set(told) <= {"x:A", "x:B"}
        assert _empty(state)
        assert fingerprint(top) == before


async def test_results_of_complete_copies_are_recovered_after_a_crash(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    child = await _ready_child(top, state)
    assert await _recovered(copies_for(top, state, ())) == {}  # somebody uses them
    child.kill()
    child.communicate()
    assert await _recovered(copies_for(tmp_path, state, ())) == {}  # not that workspace's
    found = await _recovered(copies_for(top, state, ()))
    assert found.keys() == {"x:A", "x:B"}
    [change] = found["x:B"].changes
    assert (change.name, change.after) == ("made.txt", b"by B\n")
    assert b"+by B" in found["x:B"].patch
    assert _empty(state)


async def test_lock_of_a_dying_process_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    child = await _ready_child(top, state)
    child.kill()
    child.communicate()
    locks = [path for path in state.rglob("lock") if path.parent.name == ".copy"]
    held = [free for path in locks if (free := take(path)) is not None]
    assert len(held) == len(locks) > 0

    def ended(_: float) -> None:
        while held:
            held.pop()()

    monkeypatch.setattr(
        copy_folders, "time", SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=ended)
    )
    assert (await _recovered(copies_for(top, state, ()))).keys() == {"x:A", "x:B"}
    assert _empty(state)


async def test_cancel_at_any_moment_leaves_no_copy_or_process(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    _planted(top)
    before = fingerprint(top)
    copies = copies_for(top, state, ())

    async def both() -> None:
        base = await copies.base()
        try:
            await (await copies.open("x:A", base)).close()
        finally:
            await copies.done(base)

    for step in range(0, 14, in_full(1, 2)):
        task = asyncio.create_task(both())
        await asyncio.wait({task}, timeout=0.06 * step)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert _processes_about(state) == []
        assert _empty(state)
    await both()
    assert _empty(state)
    assert fingerprint(top) == before


async def test_thousands_of_files_are_equal(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    _planted(top, _MANY)
    (top / "many/7/700.txt").chmod(0o755)
    expected = not_ignored(top, kept_files(top))
    assert len(expected) > _MANY
    copies = copies_for(top, state, ())
    base = await copies.base()
    assert base.tree == oracle_tree(top)
    copy = await copies.open("x:A", base)
    assert kept_files(copy.root) == expected
    assert oracle_tree(copy.root, borrows=True) == base.tree
    await copy.close()
    await copies.done(base)
    assert _empty(state)


async def test_full_disk_raises_an_error_and_leaves_no_copy(tmp_path: Path) -> None:
    top = tmp_path / "project"
    _planted(top, 300)
    put(top, "big.bin", os.urandom(3 << 20))
    before = fingerprint(top)
    with small_disk(tmp_path / "disk", "12m") as disk:
        copies = copies_for(top, disk / "state", ())
        base = await copies.base()
        opened: list[WorkingCopy] = []
        with pytest.raises(CopyError, match=r"No space left|disk is full"):
            for name in "ABCDEFGH":
                opened.append(await copies.open(f"x:{name}", base))
        assert opened
        assert len(list((disk / "state").glob("*/x*"))) == len(opened)
        for copy in opened:
            await copy.close()
        again = await copies.open("x:Z", base)
        assert oracle_tree(again.root, borrows=True) == base.tree
        await again.close()
        await copies.done(base)
        put(disk, "ballast", b"x" * (10 << 20))
        with pytest.raises(CopyError, match=r"No space left|disk is full"):
            await copies.base()
        assert _empty(disk / "state")
    assert fingerprint(top) == before


async def test_unstorable_copy_is_kept_and_removed_after_some_tries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    child = await _ready_child(top, state)
    child.kill()
    child.communicate()
    stored: list[str] = []

    def not_b(left: OrphanedCopy) -> None:
        if left.session_id == "x:B":
            raise OSError(28, "No space left on device")
        stored.append(left.session_id)

    await copies_for(top, state, ()).recover(not_b)
    assert stored == ["x:A"]
    for _ in range(TRIES - 1):
        assert not _empty(state)
        await copies_for(top, state, ()).recover(not_b)
    assert stored == ["x:A"]
    assert _empty(state)
    assert "is removed" in caplog.text


async def test_cleanup_handles_read_only_folders_and_follows_no_links(tmp_path: Path) -> None:
    top, state, precious = tmp_path / "project", tmp_path / "state", tmp_path / "precious"
    TREES["clean"](top)
    put(precious, "kept.txt", b"kept\n")
    copies = copies_for(top, state, ())
    base = await copies.base()
    copy = await copies.open("x:A", base)
    put(copy.root, "shut/file")
    (copy.root / "shut").chmod(0o500)
    (copy.root / "elsewhere").symlink_to(precious)
    await copy.close()
    await copies.done(base)
    assert _empty(state)
    link = tmp_path / "below" / "link"
    link.parent.mkdir()
    link.symlink_to(precious)
    remove(link, link.parent)
    remove(precious, link.parent)
    assert (precious / "kept.txt").read_bytes() == b"kept\n"


async def test_eight_at_once_and_twice_the_same_session(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    copies = copies_for(top, state, ())
    base = await copies.base()
    opened = await asyncio.gather(*(copies.open(f"x:{name}", base) for name in "ABCDEFGH"))
    with pytest.raises(CopyError, match="close it first"):
        await copies.open("x:A", base)
    assert {oracle_tree(copy.root, borrows=True) for copy in opened} == {base.tree}
    await asyncio.gather(*(copy.close() for copy in opened))
    await copies.done(base)
    assert _empty(state)
