from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemon.explore.copies.base import CopyError
from daemon.explore.copies.choice import copies_for
from daemon.explore.copies.places import remove
from tests.fakes.nasty_trees import TREES
from tests.fakes.trees import fingerprint, kept_files, not_ignored, oracle_tree, put

_REPOSITORY = Path(__file__).parents[5]


def _planted(top: Path, count: int = 4000) -> None:
    TREES["dirty"](top)
    for number in range(count):
        put(top, f"many/{number // 100}/{number}.txt", b"%d\n" % number)


def _empty(state: Path) -> bool:
    return not state.exists() or not list(state.iterdir())


def _processes_about(path: Path) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if os.fsencode(path) in said:
                    found.append(said.decode("utf-8", "replace"))
    return found


async def test_killed_at_any_moment_it_leaves_nothing_that_recover_does_not_remove(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    _planted(top)
    before = fingerprint(top)
    delays = [0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5]
    for delay in delays:
        child = subprocess.Popen(  # noqa: ASYNC220  # a real one, to be killed
            [sys.executable, "-m", "tests.fakes.copying_child", str(top), str(state)],
            cwd=_REPOSITORY,
            stdout=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(delay)
        child.kill()
        child.wait()
        deadline = time.monotonic() + 10
        while _processes_about(state):
            assert time.monotonic() < deadline, _processes_about(state)
        found = await copies_for(top, state, ()).recover()
        assert all(left.session_id in ("x:A", "x:B") for left in found)
        assert _empty(state)
        assert fingerprint(top) == before


async def test_what_was_done_in_complete_copies_is_told_after_a_crash(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    child = subprocess.Popen(  # noqa: ASYNC220  # a real one, to be killed
        [sys.executable, "-m", "tests.fakes.copying_child", str(top), str(state)],
        cwd=_REPOSITORY,
        stdout=subprocess.PIPE,
    )
    assert child.stdout
    assert await asyncio.to_thread(child.stdout.readline) == b"ready\n"
    assert await copies_for(top, state, ()).recover() == []  # somebody uses them
    child.kill()
    child.communicate()
    other = copies_for(tmp_path, state, ())
    assert await other.recover() == []  # not that workspace's
    found = {left.session_id: left for left in await copies_for(top, state, ()).recover()}
    assert found.keys() == {"x:A", "x:B"}
    [change] = found["x:B"].changes
    assert (change.name, change.after) == ("made.txt", b"by B\n")
    assert b"+by B" in found["x:B"].patch
    assert _empty(state)


async def test_canceled_at_any_moment_it_leaves_nothing(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    _planted(top)
    before = fingerprint(top)
    copies = copies_for(top, state, ())

    async def both() -> None:
        copy = await copies.open("x:A", await copies.base())
        await copy.close()

    for step in range(14):
        task = asyncio.create_task(both())
        await asyncio.wait({task}, timeout=0.06 * step)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert _processes_about(state) == []
        leftover = [path for path in state.glob("*/*") if not path.name.startswith(".new-")]
        assert leftover == []
    await both()
    assert _empty(state)
    assert fingerprint(top) == before


async def test_twenty_thousand_files_are_equal(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    _planted(top, 20_000)
    (top / "many/7/700.txt").chmod(0o755)
    expected = not_ignored(top, kept_files(top))
    assert len(expected) > 20_000
    copies = copies_for(top, state, ())
    base = await copies.base()
    assert base.tree == oracle_tree(top)
    copy = await copies.open("x:A", base)
    assert kept_files(copy.root) == expected
    assert await copy.tree() == base.tree
    await copy.close()
    assert _empty(state)


async def test_full_disk_is_an_error_that_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    copies = copies_for(top, state, ())
    base = await copies.base()
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith("run.sh"):
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(CopyError, match=r"No space left|disk is full"):
        await copies.open("x:A", base)
    monkeypatch.setattr(os, "write", write)
    assert [path for path in state.glob("*/*") if not path.name.startswith(".new-")] == []
    await (await copies.open("x:A", base)).close()
    assert _empty(state)


async def test_read_only_folders_and_links_do_not_stop_or_lead_astray_the_cleaning(tmp_path: Path) -> None:
    top, state, precious = tmp_path / "project", tmp_path / "state", tmp_path / "precious"
    TREES["clean"](top)
    put(precious, "kept.txt", b"kept\n")
    copies = copies_for(top, state, ())
    copy = await copies.open("x:A", await copies.base())
    put(copy.root, "shut/file")
    (copy.root / "shut").chmod(0o500)
    (copy.root / "elsewhere").symlink_to(precious)
    await copy.close()
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
    assert {await copy.tree() for copy in opened} == {base.tree}
    await asyncio.gather(*(copy.close() for copy in opened))
    assert _empty(state)
