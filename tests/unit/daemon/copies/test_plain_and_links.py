from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from daemon.copies.git_copies import GitCopies
from daemon.copies.plain_copies import PlainCopies, ignored_names
from daemon.copies.working_copy import CopyError, WorkingCopies
from daemon.explore.copy_manager import copies_for
from tests.support.scenarios.nasty_trees import TREES
from tests.support.scenarios.trees import fingerprint, git, kept_files, oracle_tree, put


def _plain(top: Path, state: Path, with_git: bool) -> WorkingCopies:
    found = copies_for(top, state, ("node_modules",))
    assert isinstance(found, GitCopies)
    return found if with_git else PlainCopies(top, state, ("node_modules",))


@pytest.mark.parametrize("with_git", [True, False])
async def test_folder_without_repository(with_git: bool, tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    put(top, "a.txt", b"one\ntwo\r\nthree")
    put(top, "run.sh", b"#!/bin/sh\n", 0o755)
    put(top, "deep/b.bin", b"\0\1\2")
    put(top, "gone.txt", b"gone\n")
    (top / "link").symlink_to("nowhere")
    put(top, ".gitignore", b"secret\n")
    kept = kept_files(top)
    put(top, "secret/key", b"k")
    put(top, ".trace/x", b"t")
    put(top, "node_modules/x/index.js", b"js")
    put(top, "sub/__pycache__/b.pyc", b"pyc")
    before = fingerprint(top)
    copies = _plain(top, state, with_git)
    base = await copies.base()
    assert (base.commit is None, base.tree is None) == (True, not with_git)
    copy, other = await copies.open("x:A", base), await copies.open("x:B", base)
    assert copy.root.name == "project"
    assert kept_files(copy.root) == kept | {"node_modules": ("link", os.fsencode(top / "node_modules"), 0)}
    assert [Path(os.path.realpath(link)) for link in copy.links] == [top / "node_modules"]
    assert (await copy.outcome())[0] == []
    put(copy.root, "a.txt", b"one\n2\r\nthree\n")
    put(copy.root, "deep/b.bin", b"\0\3")
    put(copy.root, "new file", b"new")
    put(copy.root, "empty", b"", 0o755)
    (copy.root / "gone.txt").unlink()
    (copy.root / "run.sh").chmod(0o644)
    (copy.root / "link").unlink()
    (copy.root / "link").symlink_to("a.txt")
    changes = (await copy.outcome())[0]
    assert [(change.name, change.kind) for change in changes] == [
        ("a.txt", "update"),
        ("deep/b.bin", "update"),
        ("empty", "create"),
        ("gone.txt", "delete"),
        ("link", "update"),
        ("new file", "create"),
        ("run.sh", "update"),
    ]
    git(
        other.root,
        "apply",
        "--binary",
        given=(await copy.outcome())[1],
        env={"GIT_CEILING_DIRECTORIES": str(other.root.parent)},
    )
    assert kept_files(other.root) == kept_files(copy.root)
    assert fingerprint(top) == before
    await copy.close()
    await other.close()
    await copies.done(base)
    assert not state.exists() or not list(state.iterdir())


async def test_folder_ignored_by_its_repository_is_copied_without_git(tmp_path: Path) -> None:
    home = tmp_path / "home"
    TREES["clean"](home)
    put(home, ".gitignore", b"*\n")
    put(home, "work/a.txt", b"a\n")
    copies = copies_for(home / "work", tmp_path / "state", ())
    copy = await copies.open("x:A", await copies.base())
    assert set(kept_files(copy.root)) == {"a.txt"}
    await copy.close()


@pytest.mark.parametrize("with_git", [True, False])
async def test_exceptions_in_gitignore_are_copied(with_git: bool, tmp_path: Path) -> None:
    top = tmp_path / "project"
    put(top, ".gitignore", b"*\n!*/\n!*.py\n!.gitignore\nold/\n/data\n")
    for name in ("a.py", "src/b.py", "src/c.txt", "old/d.py", "data/e.py"):
        put(top, name, b"x")
    copies = _plain(top, tmp_path / "state", with_git)
    copy = await copies.open("x:A", await copies.base())
    assert set(kept_files(copy.root)) == {".gitignore", "a.py", "src/b.py"}
    put(copy.root, "src/new.py", b"x")
    put(copy.root, "src/new.txt", b"x")
    assert [change.name for change in (await copy.outcome())[0]] == ["src/new.py"]
    await copy.close()


def test_of_equal_lines_in_gitignore_the_last_one_decides(tmp_path: Path) -> None:
    put(tmp_path, ".gitignore", b"*.log\n!a*\n*.log\n")
    assert ignored_names(tmp_path)[:3] == ("*.log", "!a*", "*.log")


async def test_ignored_folders_are_linked_and_never_count_as_changes(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["clean"](top)
    put(top, ".venv/bin/python", b"x")
    put(top, "node_modules/a/index.js")
    put(top, "packages/one [1]/node_modules/b/index.js")
    put(top, "packages/one [1]/package.json")
    put(top, "venv/tracked.txt")  # not ignored: part of the tree
    copies = copies_for(top, state, (".venv", "venv", "node_modules", "vendor/x"))
    base = await copies.base()
    copy = await copies.open("x:A", base)
    links = sorted(link.relative_to(copy.root).as_posix() for link in copy.links)
    assert links == [".venv", "node_modules", "packages/one [1]/node_modules"]
    for link in copy.links:
        assert link.is_symlink()
    assert not (copy.root / "venv").is_symlink()
    assert oracle_tree(copy.root, borrows=True) == base.tree
    assert (await copy.outcome())[0] == []
    assert git(copy.root, "status", "--porcelain") == git(top, "status", "--porcelain")
    await copy.close()
    assert (top / ".venv/bin/python").read_bytes() == b"x"


async def test_editable_installs_point_into_the_copy(tmp_path: Path) -> None:
    top, state = tmp_path / "project", tmp_path / "state"
    TREES["clean"](top)
    put(top, "src/pkg/__init__.py")
    put(top, "libs/other/other/__init__.py")
    put(top, "third/src/third.py")
    site = top / ".venv/lib/python3.11/site-packages"
    put(site, "_pkg.pth", f"{top}/src\n# comment\n/somewhere/else\nimport os; os.abort()\n".encode())
    finder = f"MAPPING: dict[str, str] = {{'other': {str(top / 'libs/other/other')!r}}}\nraise SystemExit\n"
    put(site, "__editable___other_finder.py", finder.encode())
    url = {"url": f"file://{top}/third", "dir_info": {"editable": True}}
    put(site, "third-1.dist-info/direct_url.json", json.dumps(url).encode())
    copies = copies_for(top, state, (".venv",))
    copy = await copies.open("x:A", await copies.base())
    paths = copy.environment["PYTHONPATH"].split(os.pathsep)
    assert {
        Path(path).relative_to(copy.root).as_posix() for path in paths if Path(path).is_relative_to(copy.root)
    } == {
        "src",
        "libs/other",
        "third/src",
    }
    assert "PYTHONDONTWRITEBYTECODE" not in copy.environment
    await copy.close()


async def test_too_many_files_error_mentions_gitignore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "project", "a.txt")
    put(tmp_path / "project", "b.txt")
    monkeypatch.setattr("daemon.copies.plain_copies.MOST_FILES", 1)
    monkeypatch.setattr("daemon.copies.snapshot.MOST_FILES", 1)
    for with_git in (True, False):
        with pytest.raises(CopyError, match="gitignore"):
            await _plain(tmp_path / "project", tmp_path / "state", with_git).base()
    assert not list(tmp_path.glob("state/*"))
