"""The base of a branch on its way: git's objects, the patch, and the tree that must come out."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon import lock
from daemon.copies.git_program import CancelToken
from daemon.copies.working_copy import Base, CopyError
from daemon.explore.copy_manager import copies_for
from daemon.remote.base_transfer import NodeCache, cluster_folder, pack, run_folder, sweep
from tests.support.scenarios.branches import git, repository

STOP = CancelToken()
GIT = shutil.which("git") or "git"


def base_of(workspace: Path, folder: Path) -> Base:
    async def made() -> Base:
        copies = copies_for(workspace, folder / "copies", ())
        base = await copies.base()
        await copies.done(base)
        return base

    return asyncio.run(made())


def brought(folder: Path, workspace: Path, base: Base, top: Path) -> int:
    """Build the tree as a node does; returns the size of the pack that it took."""
    cache = NodeCache(folder / "node", "key", GIT)
    cache.prepare("sha1")
    size = 0
    if base.commit is not None and not cache.has(STOP, base.commit):
        data = pack(GIT, STOP, workspace, base.commit, cache.tips(STOP))
        file = cache.folder / "packs" / "one"
        file.write_bytes(data)
        cache.add(STOP, file, base.commit)
        assert not file.exists()
        size = len(data)
    cache.check_out(STOP, base, top)
    return size


def files(top: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if name.split("/")[0] in (".git", ".trace") or path.is_dir():
            continue
        found[name] = (
            str(path.readlink())
            if path.is_symlink()
            else (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        )
    return found


def changed(tmp_path: Path) -> Path:
    workspace = repository(tmp_path)
    (workspace / "README.md").unlink()
    (workspace / "run.sh").write_text("#!/bin/sh\n")
    (workspace / "run.sh").chmod(0o755)
    (workspace / "blob.bin").write_bytes(bytes(range(256)) * 20)
    (workspace / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    (workspace / "no-end.txt").write_bytes(b"no line end")
    (workspace / "näme with ' and \t.txt").write_text("odd\n")
    (workspace / "link").symlink_to("src/a.py")
    (workspace / "empty").write_bytes(b"")
    return workspace


def test_the_tree_on_a_node_is_the_one_here(tmp_path: Path) -> None:
    workspace = changed(tmp_path)
    base = base_of(workspace, tmp_path)
    assert base.stays == ""
    brought(tmp_path, workspace, base, tmp_path / "there")
    assert files(tmp_path / "there") == files(workspace)
    assert git(tmp_path / "there", "log", "--format=%s") == "first\n"
    assert git(tmp_path / "there", "status", "-z") == git(workspace, "status", "-z")


def test_a_folder_without_a_repository_travels_too(tmp_path: Path) -> None:
    workspace = changed(tmp_path)
    for path in sorted((workspace / ".git").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (workspace / ".git").rmdir()
    base = base_of(workspace, tmp_path)
    assert (base.commit, base.stays) == (None, "")
    brought(tmp_path, workspace, base, tmp_path / "there")
    assert files(tmp_path / "there") == files(workspace)
    assert not (tmp_path / "there" / ".git").exists()


def test_only_what_the_node_lacks_travels(tmp_path: Path) -> None:
    workspace = repository(tmp_path)
    (workspace / "large").write_bytes(os.urandom(100_000))
    git(workspace, "add", "-A")
    git(workspace, "commit", "-q", "-m", "large")
    first = brought(tmp_path, workspace, base_of(workspace, tmp_path), tmp_path / "one")
    (workspace / "src/a.py").write_text("a = 3\n")
    assert brought(tmp_path, workspace, base_of(workspace, tmp_path), tmp_path / "two") == 0
    git(workspace, "commit", "-q", "-am", "small")
    later = brought(tmp_path, workspace, base_of(workspace, tmp_path), tmp_path / "three")
    assert first > 100_000 > 5_000 > later > 0
    assert (tmp_path / "three" / "src/a.py").read_text() == "a = 3\n"
    assert git(tmp_path / "three", "log", "--format=%s") == "small\nlarge\nfirst\n"


def test_a_pack_that_lacks_something_is_no_commit(tmp_path: Path) -> None:
    workspace = repository(tmp_path)
    base = base_of(workspace, tmp_path)
    assert base.commit is not None
    cache = NodeCache(tmp_path / "node", "key", GIT)
    cache.prepare("sha1")
    file = cache.folder / "packs" / "one"
    file.write_bytes(pack(GIT, STOP, workspace, base.commit, ())[:-30])
    with pytest.raises(CopyError):
        cache.add(STOP, file, base.commit)
    assert not cache.has(STOP, base.commit)
    assert not file.exists()


def test_another_tree_than_the_one_that_was_sent_is_refused(tmp_path: Path) -> None:
    workspace = repository(tmp_path)
    base = base_of(workspace, tmp_path)
    with pytest.raises(CopyError, match="not those of this machine"):
        brought(tmp_path, workspace, Base(base.commit, base.tree, b""), tmp_path / "there")


def test_what_a_node_could_not_build_stays_here(tmp_path: Path) -> None:
    workspace = repository(tmp_path)
    (workspace / ".gitattributes").write_text("*.md text eol=crlf\n")
    (workspace / "README.md").write_bytes(b"read me\r\n")
    assert "converts" in base_of(workspace, tmp_path).stays
    (workspace / ".gitattributes").unlink()
    inner = workspace / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "file").write_text("x")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "inner")
    assert "other repositories" in base_of(workspace, tmp_path).stays
    git(workspace, "clone", "-q", "--depth", "1", f"file://{workspace}", str(tmp_path / "shallow"))
    assert "shallow" in base_of(tmp_path / "shallow", tmp_path).stays


def test_folders_of_killed_workers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOALWRIGHT_HOME", str(tmp_path))
    with run_folder() as used:
        assert used.parent == cluster_folder() / "runs"
        assert used.stat().st_mode & 0o777 == 0o700
        left = used.parent / "run-left"
        left.mkdir()
        (left / "lock").touch()
        (left / "file").touch()
        sweep()
        assert not left.exists()
        assert used.exists()
    assert list((cluster_folder() / "runs").iterdir()) == []


def test_folder_that_is_being_made_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOALWRIGHT_HOME", str(tmp_path))
    take = lock.take

    def after_another_worker(path: Path) -> Callable[[], None] | None:
        monkeypatch.setattr(lock, "take", take)
        sweep()
        return take(path)

    monkeypatch.setattr(lock, "take", after_another_worker)
    with run_folder() as used:
        sweep()
        assert used.exists()
    left = used.parent / ".new-left"
    left.mkdir()
    os.utime(left, (0, 0))
    sweep()
    assert list(used.parent.iterdir()) == []
