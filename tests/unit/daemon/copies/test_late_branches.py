from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.copies.plain_copies import PlainCopies
from daemon.copies.working_copy import CopyError, WorkingCopies
from daemon.explore.copy_manager import copies_for
from tests.support.scenarios.nasty_trees import TREES
from tests.support.scenarios.trees import commit, fingerprint, git, kept_files, not_ignored, oracle_tree, put


def _copies(top: Path, state: Path, with_git: bool) -> WorkingCopies:
    return copies_for(top, state, ()) if with_git else PlainCopies(top, state, ())


def _empty(state: Path) -> bool:
    return not state.exists() or not list(state.iterdir())


@pytest.mark.parametrize("with_git", [True, False])
async def test_late_branch_starts_from_the_same_base(with_git: bool, tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    if not with_git:
        shutil.rmtree(top / ".git")
    copies = _copies(top, state, with_git)
    base = await copies.base()
    first = await copies.open("x:A", base)
    expected = kept_files(first.root)
    put(first.root, "a.txt", b"by A\n")
    await first.close()
    put(top, "a.txt", b"by the person meanwhile\n")
    put(top, "brand new.txt")
    (top / "src/b.py").unlink()
    if with_git:
        commit(top)
    other = await copies.base()  # another exploration
    for name in "BC":
        late = await copies.open(f"x:{name}", base)
        assert kept_files(late.root) == expected
        assert (await late.outcome())[0] == []
        if with_git:
            assert oracle_tree(late.root, borrows=True) == base.tree
        await late.close()
    of_other = await copies.open("y:A", other)
    assert (of_other.root / "a.txt").read_bytes() == b"by the person meanwhile\n"
    await copies.done(base)
    assert (await of_other.outcome())[0] == []
    await of_other.close()
    await copies.done(other)
    assert _empty(state)


@pytest.mark.parametrize("with_git", [True, False])
async def test_done_keeps_open_copies_and_cleans_up_when_they_close(with_git: bool, tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    copies = _copies(top, state, with_git)
    unused = await copies.base()
    await copies.done(unused)
    assert _empty(state)
    base = await copies.base()
    copy = await copies.open("x:A", base)
    await copies.done(base)
    await copies.done(base)
    put(copy.root, "a.txt", b"by A\n")
    assert [(change.name, change.after) for change in (await copy.outcome())[0]] == [("a.txt", b"by A\n")]
    with pytest.raises(CopyError, match="new exploration"):
        await copies.open("x:B", base)
    await copy.close()
    assert _empty(state)


@pytest.mark.parametrize("with_git", [True, False])
async def test_done_while_a_copy_is_being_opened(with_git: bool, tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    copies = _copies(top, state, with_git)
    base = await copies.base()
    opening = [asyncio.create_task(copies.open(f"x:{name}", base)) for name in "ABC"]
    await asyncio.sleep(0)
    await copies.done(base)
    for found in await asyncio.gather(*opening, return_exceptions=True):
        if isinstance(found, BaseException):
            assert isinstance(found, CopyError)
        else:
            assert (await found.outcome())[0] == []
            await found.close()
    assert _empty(state)


async def test_git_gc_by_the_user_does_not_break_branches(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    put(top, "once staged.txt", b"once staged\n")
    put(top, "half staged.txt", b"first\n")
    git(top, "add", "-A")
    git(top, "write-tree")
    put(top, "half staged.txt", b"second\n")
    expected = not_ignored(top, kept_files(top))
    copies = copies_for(top, state, ())
    base = await copies.base()
    copy = await copies.open("x:A", base)
    status = git(copy.root, "status", "--porcelain")
    git(top, "reset", "-q", "--hard")
    git(top, "gc", "-q", "--prune=now")
    late = await copies.open("x:B", base)
    assert kept_files(late.root) == expected
    for one in (copy, late):
        (one.root / "once staged.txt").unlink()
        put(one.root, "half staged.txt", b"third\n")
        changes, patch = await one.outcome()
        assert [(change.name, change.before) for change in changes] == [
            ("half staged.txt", b"second\n"),
            ("once staged.txt", b"once staged\n"),
        ]
        assert b"-once staged" in patch
        put(one.root, "once staged.txt", b"once staged\n")
        put(one.root, "half staged.txt", b"second\n")
        assert git(one.root, "status", "--porcelain") == status
        await one.close()
    await copies.done(base)


@pytest.mark.parametrize("with_git", [True, False])
async def test_oversized_tree_error_mentions_gitignore(
    with_git: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    before = fingerprint(top)
    copies = _copies(top, state, with_git)
    monkeypatch.setattr("daemon.copies.copy_diff.MOST_PATCH", 10)
    base = await copies.base()
    assert base.patch == (None if with_git else b"")
    copy = await copies.open("x:A", base)
    monkeypatch.setattr("daemon.copies.copy_diff.MOST_CHANGED", 1 << 20)
    put(copy.root, "core.bin", b"x" * (2 << 20))
    with pytest.raises(CopyError, match=r"core\.bin \(2 MB\)"):
        await copy.outcome()
    (copy.root / "core.bin").unlink()
    assert (await copy.outcome())[0] == []
    await copy.close()
    await copies.done(base)
    monkeypatch.setattr("daemon.copies.snapshot.MOST_BYTES", 10)
    monkeypatch.setattr("daemon.copies.plain_copies.MOST_BYTES", 10)
    with pytest.raises(CopyError, match="gitignore"):
        await copies.base()
    assert _empty(state)
    assert fingerprint(top) == before


async def test_large_untracked_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["dirty"](top)
    put(top, "data.bin", os.urandom(3 << 20))
    monkeypatch.setattr("daemon.copies.git_program.MOST_BYTES", 1 << 20)
    with pytest.raises(CopyError, match="too large"):
        await copies_for(top, state, ()).base()
    assert _empty(state)


@pytest.mark.parametrize("with_git", [True, False])
async def test_opened_at_once_all_are_whole(with_git: bool, tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["clean"](top)
    for number in range(600):
        put(top, f"many/{number % 7}/{number}.txt", b"%d\n" % number)
    if not with_git:
        shutil.rmtree(top / ".git")
    expected = kept_files(top)
    copies = _copies(top, state, with_git)
    base = await copies.base()
    for copy in await asyncio.gather(*(copies.open(f"x:{name}", base) for name in "ABCDEFGH")):
        assert kept_files(copy.root) == expected
        assert (await copy.outcome())[0] == []
        await copy.close()
    await copies.done(base)
    assert _empty(state)


@pytest.mark.parametrize("with_git", [True, False])
async def test_files_changing_during_the_copy_are_never_torn(with_git: bool, tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["clean"](top)
    if not with_git:
        shutil.rmtree(top / ".git")
    for number in range(40):
        put(top, f"many/{number}.txt", b"0" * 300_000)
    argv = [sys.executable, "-c", _WRITER, str(top / "many")]
    writer = subprocess.Popen(argv, stdout=subprocess.PIPE)  # noqa: ASYNC220  # a real one
    assert writer.stdout
    await asyncio.to_thread(writer.stdout.readline)
    try:
        copies = _copies(top, state, with_git)
        base = await copies.base()
        first = await copies.open("x:A", base)
        second = await copies.open("x:B", base)
    finally:
        writer.kill()
        writer.communicate()
    files = kept_files(first.root)
    assert files == kept_files(second.root)
    for name, (_, content, _) in files.items():
        if name.startswith("many/") and name.endswith(".txt"):
            assert len(content) == 300_000
            assert len(set(content)) == 1, name
    assert (await first.outcome())[0] == []
    if with_git:
        assert oracle_tree(first.root, borrows=True) == base.tree
    for copy in (first, second):
        await copy.close()
    await copies.done(base)
    assert _empty(state)


_WRITER = """
import itertools, os, sys
for count in itertools.count(1):
    for number in range(40):
        path = f"{sys.argv[1]}/{number}.txt"
        with open(path + ".new", "wb") as file:
            file.write(b"%d" % (count % 10) * 300_000)
        if count % 3:
            os.replace(path + ".new", path)
        else:
            os.unlink(path + ".new")
    print("once round", flush=True)
"""
