from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.explore.copy_manager import copies_for
from tests.support.scenarios.nasty_trees import TREES
from tests.support.scenarios.trees import fingerprint, git, kept_files, not_ignored, oracle_tree, put

_ODD = {"filters"}
"""Where ``add -A`` would run a program: there the oracle may not be asked."""


@pytest.mark.parametrize("name", TREES)
async def test_git_copy_equals_the_workspace_and_leaves_no_trace(name: str, tmp_path: Path) -> None:
    top = tmp_path / "place" / "project"
    top.parent.mkdir()
    TREES[name](top)
    expected = not_ignored(top, kept_files(top))
    if name == "partial":
        git(top, "config", "remote.origin.url", "/nowhere")
    tree = None if name in _ODD else oracle_tree(top)
    before = fingerprint(top.parent)
    copies = copies_for(top, tmp_path / "state", ())
    base = await copies.base()
    copy = await copies.open("20261122-x:A", base)
    assert tree in (None, base.tree)
    assert copy.root.name == "project"
    assert oracle_tree(copy.root, borrows=True) == base.tree
    assert kept_files(copy.root) == expected
    assert (await copy.outcome())[0] == []
    assert (await copy.outcome())[1] == b""
    assert fingerprint(top.parent) == before
    assert not (top.parent / "ran").exists()
    if name not in ("filters", "partial"):
        assert_git_says_the_same(copy.root, top)
        before = fingerprint(top.parent)  # git itself touches the parts of a split index
    put(copy.root, "a branch/file.txt", b"made\n")
    [change] = (await copy.outcome())[0]
    assert (change.name, change.before, change.after) == ("a branch/file.txt", None, b"made\n")
    await copy.close()
    await copy.close()
    await copies.done(base)
    await copies.done(base)
    assert not (tmp_path / "state").exists() or not list((tmp_path / "state").iterdir())
    assert fingerprint(top.parent) == before


def assert_git_says_the_same(copy: Path, top: Path) -> None:
    asked = ("--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z")
    assert git(copy, *asked) == git(top, *asked)
    assert git(copy, "stash", "list") == git(top, "stash", "list")
    assert git(copy, "for-each-ref") == git(top, "for-each-ref")
    human = ("-c", "advice.statusHints=true", "status")
    assert git(copy, *human) == git(top, "--no-optional-locks", *human)
    assert b"secret" not in (copy / ".git" / "config").read_bytes()


@pytest.mark.parametrize(
    "name", ["dirty", "autocrlf", "line_ends", "names", "links", "submodules", "flags", "sha256"]
)
async def test_patch_on_the_base_yields_the_tree_of_the_branch(name: str, tmp_path: Path) -> None:
    top = tmp_path / "place" / "project"
    top.parent.mkdir()
    TREES[name](top)
    copies = copies_for(top, tmp_path / "state", ())
    base = await copies.base()
    copy, other = await copies.open("x:A", base), await copies.open("x:B", base)
    for file in list(kept_files(copy.root))[::2]:
        path = copy.root / file
        # git apply cannot find a line with a keyword (`ident`), and says so: see Comparing.
        kept = path.suffix == ".id" or path.name in (".gitignore", ".gitmodules", ".gitattributes")
        if not path.is_symlink() and not kept:
            path.write_bytes(path.read_bytes() + b"a new line\n\0" if file.endswith("py") else b"new\r\ntext")
    (copy.root / "src").joinpath("b.py").unlink()
    put(copy.root, "tool.sh", b"#!/bin/sh\n", 0o755)
    (copy.root / "link").symlink_to("nowhere")
    patch = (await copy.outcome())[1]
    assert kept_files(other.root) == not_ignored(top, kept_files(top))
    git(other.root, "-c", "core.autocrlf=false", "apply", "--binary", "--whitespace=nowarn", given=patch)
    assert not_ignored(other.root, kept_files(other.root)) == not_ignored(copy.root, kept_files(copy.root))
    for change in (await copy.outcome())[0]:
        was = kept_files(top).get(change.name)
        assert change.before == (was[1] if was else None)
        assert change.kind == ("create" if was is None else "delete" if change.after is None else "update")
    await copy.close()
    await other.close()


async def test_commits_and_stashes_in_a_copy_stay_private(
    tmp_path: Path,
) -> None:
    top = tmp_path / "project"
    TREES["dirty"](top)
    before = fingerprint(top)
    copies = copies_for(top, tmp_path / "state", ())
    copy = await copies.open("x:A", await copies.base())
    put(copy.root, "made.txt", b"made\n")
    git(copy.root, "checkout", "-qb", "mine")
    git(copy.root, "add", "-A")
    git(copy.root, "commit", "-qm", "mine")
    put(copy.root, "a.txt", b"later\n")
    assert [change.name for change in (await copy.outcome())[0]] == ["a.txt", "made.txt"]
    git(copy.root, "stash", "-q")
    assert [change.name for change in (await copy.outcome())[0]] == ["made.txt"]
    assert git(copy.root, "log", "--format=%s") == b"mine\na commit\n"
    after = fingerprint(top)
    # The branch's own git renews the times of objects that it finds there; nothing else is written, ever.
    objects = str(top / ".git" / "objects")
    assert {name: one[0] for name, one in after.items()} == {name: one[0] for name, one in before.items()}
    assert [name for name in after if after[name] != before[name] and not name.startswith(objects)] == []
    await copy.close()


async def test_git_config_of_the_branch_is_never_executed(tmp_path: Path) -> None:
    top = tmp_path / "project"
    TREES["clean"](top)
    copies = copies_for(top, tmp_path / "state", ())
    copy = await copies.open("x:A", await copies.base())
    mark = tmp_path / "ran"
    put(copy.root, ".gitattributes", b"* filter=x diff=x\n")
    for name in ("filter.x.clean", "core.fsmonitor", "diff.x.textconv", "diff.x.command"):
        git(copy.root, "config", name, f"touch {mark}; cat")
    put(copy.root, "a.txt", b"changed\n")
    assert [change.name for change in (await copy.outcome())[0]] == [".gitattributes", "a.txt"]
    assert b"changed" in (await copy.outcome())[1]
    assert not mark.exists()
    await copy.close()


async def test_settings_of_inner_repositories_are_never_executed(tmp_path: Path) -> None:
    top = tmp_path / "project"
    TREES["submodules"](top)
    mark = tmp_path / "ran"

    def set_traps(folder: Path) -> None:
        put(folder, ".gitattributes", b"* filter=x\n")
        put(folder, "a.txt", b"changed in %s\n" % os.fsencode(folder))
        for name in ("filter.x.clean", "core.fsmonitor"):
            git(folder, "config", name, f"touch {mark}; cat")

    set_traps(top / "sub")
    copies = copies_for(top, tmp_path / "state", ())
    copy = await copies.open("x:A", await copies.base())
    assert (await copy.outcome())[0] == []
    assert not mark.exists()
    set_traps(copy.root / "sub")
    assert [change.name for change in (await copy.outcome())[0]] == ["sub/a.txt"]
    (copy.root / "nested").rename(copy.root / "sub/moved")
    (copy.root / "nested").symlink_to("sub/moved")
    changed = {change.name for change in (await copy.outcome())[0]}
    assert {"nested", "sub/moved/repository/more.txt"} < changed
    assert not mark.exists()
    await copy.close()


async def test_copies_start_from_the_base_despite_later_user_edits(tmp_path: Path) -> None:
    top = tmp_path / "project"
    TREES["autocrlf"](top)
    expected = not_ignored(top, kept_files(top))
    copies = copies_for(top, tmp_path / "state", ())
    base = await copies.base()
    put(top, "crlf.c", b"typed meanwhile\n")
    put(top, "a.txt", b"and this\n")
    (top / "src/b.py").unlink()
    put(top, "brand new", b"x")
    copy = await copies.open("x:A", base)
    assert kept_files(copy.root) == expected
    assert oracle_tree(copy.root, borrows=True) == base.tree
    await copy.close()


async def test_a_subfolder_as_workspace_gets_the_whole_repository(tmp_path: Path) -> None:
    top = tmp_path / "project"
    TREES["dirty"](top)
    copies = copies_for(top / "src", tmp_path / "state", ())
    copy = await copies.open("x:A", await copies.base())
    assert copy.root.parts[-2:] == ("project", "src")
    put(copy.root, "b.py", b"b = 9\n")
    put(copy.root.parent, "a.txt", b"above\n")
    assert [change.name for change in (await copy.outcome())[0]] == ["../a.txt", "b.py"]
    await copy.close()


async def test_edit_of_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    top = tmp_path / "project"
    TREES["clean"](top)
    copies = copies_for(top, tmp_path / "state", ())
    copy = await copies.open("x:A", await copies.base())
    path = copy.root / "src/b.py"
    stat = path.stat()
    assert stat.st_mtime_ns == (top / "src/b.py").stat().st_mtime_ns
    path.write_bytes(b"b = 7\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert [change.after for change in (await copy.outcome())[0]] == [b"b = 7\n"]
    await copy.close()


async def test_nested_repositories_of_a_branch_count_as_changes(tmp_path: Path) -> None:
    top = tmp_path / "project"
    TREES["submodules"](top)
    copies = copies_for(top, tmp_path / "state", ())
    copy = await copies.open("x:A", await copies.base())
    (copy.root / "app").mkdir()
    git(copy.root / "app", "init", "-q")
    put(copy.root, "app/main.rs", b"fn main() {}\n")
    put(copy.root, "sub/a.txt", b"by the branch\n")
    found = {change.name: (change.before, change.after) for change in (await copy.outcome())[0]}
    assert found == {
        "app/main.rs": (None, b"fn main() {}\n"),
        "sub/a.txt": (b"dirty inside\n", b"by the branch\n"),
    }
    await copy.close()


async def test_no_link_makes_a_comparison_read_files_outside(tmp_path: Path) -> None:
    top = tmp_path / "project"
    TREES["clean"](top)
    (top / "vendor" / "lib").mkdir(parents=True)
    git(top / "vendor" / "lib", "init", "-q")
    put(top, "vendor/lib/a.c", b"int a;\n")
    put(tmp_path, "private/lib/key", b"secret")
    copies = copies_for(top, tmp_path / "state", ())
    copy = await copies.open("x:A", await copies.base())
    (copy.root / "vendor").rename(tmp_path / "gone")
    (copy.root / "vendor").symlink_to(tmp_path / "private")
    found = {change.name: change.after for change in (await copy.outcome())[0]}
    assert found == {"vendor": os.fsencode(tmp_path / "private"), "vendor/lib/a.c": None}
    await copy.close()
