from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes.dying_disk import CHANGING, DyingOs, bits, dying, old_tree, tree
from tools.tool import FileChange
from tools.writing import atomic, disk, recovery

# -- what a written file keeps --


def test_permission_bits_are_kept_unless_given(root: Path) -> None:
    kept, given_, made = root / "kept", root / "given", root / "made"
    kept.write_bytes(b"1")
    given_.write_bytes(b"1")
    kept.chmod(0o750)
    given_.chmod(0o644)
    atomic.write_all(
        [
            FileChange(kept, b"1", b"2"),
            FileChange(given_, b"1", b"2", mode=0o755),
            FileChange(made, None, b"2", mode=0o700),
        ]
    )
    assert [bits(path) for path in (kept, given_, made)] == [0o750, 0o755, 0o700]


def test_only_the_mode_is_changed(root: Path, journal: Path) -> None:
    path = root / "run.sh"
    path.write_bytes(b"#!/bin/sh\n")
    path.chmod(0o444)
    atomic.write_all([FileChange(path, b"#!/bin/sh\n", b"#!/bin/sh\n", mode=0o755)], journal)
    assert (path.read_bytes(), bits(path)) == (b"#!/bin/sh\n", 0o755)


def test_a_moved_file_keeps_its_bits(root: Path) -> None:
    path, target = root / "a.sh", root / "bin/b.sh"
    path.write_bytes(b"1")
    path.chmod(0o750)
    atomic.write_all([FileChange(target, None, b"2", moved_from=path), FileChange(path, b"1", None)])
    assert tree(root).keys() == {"bin", "bin/b.sh"}
    assert (target.read_bytes(), bits(target)) == (b"2", 0o750)


def test_a_new_file_gets_the_systems_bits(root: Path) -> None:
    (root / "other").touch()
    atomic.write_all([FileChange(root / "a", None, b"1")])
    assert bits(root / "a") == bits(root / "other")


def test_extended_attributes_are_kept(root: Path) -> None:
    path, target = root / "a", root / "b"
    path.write_bytes(b"1")
    try:
        os.setxattr(path, "user.origin", b"somewhere")
    except (AttributeError, OSError):
        pytest.skip("no extended attributes here")
    atomic.write_all([FileChange(path, b"1", b"2")])
    assert os.getxattr(path, "user.origin") == b"somewhere"
    atomic.write_all([FileChange(target, None, b"3", moved_from=path), FileChange(path, b"2", None)])
    assert os.getxattr(target, "user.origin") == b"somewhere"


def test_other_names_of_the_file_keep_the_old_content(root: Path) -> None:
    (root / "a").write_bytes(b"shared")
    (root / "store").hardlink_to(root / "a")
    atomic.write_all([FileChange(root / "a", b"shared", b"mine")])
    assert ((root / "a").read_bytes(), (root / "store").read_bytes()) == (b"mine", b"shared")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_is_kept(root: Path) -> None:
    path = root / "a"
    path.write_bytes(b"1")
    os.chown(path, 12345, 23456)
    path.chmod(0o4755)
    atomic.write_all([FileChange(path, b"1", b"2")])
    assert (path.stat().st_uid, path.stat().st_gid, bits(path)) == (12345, 23456, 0o4755)


def test_write_that_loses_the_owner_drops_the_set_user_id_bit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "a"
    path.write_bytes(b"1")
    path.chmod(0o4755)
    monkeypatch.setattr(disk, "_keep_owner", lambda descriptor, old: False)
    atomic.write_all([FileChange(path, b"1", b"2")])
    assert bits(path) == 0o755


def test_a_private_file_is_private_while_it_is_staged(root: Path) -> None:
    path = root / "key"
    path.write_bytes(b"1")
    path.chmod(0o600)
    seen: list[int] = []

    class Looking(DyingOs):
        def _stop(self, name: str, args: tuple[Any, ...]) -> None:
            seen.extend(bits(one) for one in root.glob(".key.*"))

    before = os.umask(0)
    try:
        for at in range(1, 30):
            with dying(Looking(at)):
                atomic.write_all([FileChange(path, path.read_bytes(), f"{at}".encode())])
    finally:
        os.umask(before)
    assert set(seen) == {0o600}


# -- refused --


def test_a_read_only_file_is_refused(root: Path) -> None:
    path = root / "a"
    path.write_bytes(b"1")
    path.chmod(0o444)
    for after in (b"2", None):
        with pytest.raises(PermissionError, match="read-only"):
            atomic.write_all([FileChange(path, b"1", after)])
    assert tree(root).keys() == {"a"}


def test_case_only_rename_is_refused_if_both_names_are_one_file(root: Path, journal: Path) -> None:
    old, new = root / "Name.py", root / "name.py"
    old.write_bytes(b"1")
    new.hardlink_to(old)  # how it looks on a system that ignores case
    with pytest.raises(OSError, match="one file here"):
        atomic.write_all([FileChange(new, None, b"1", moved_from=old), FileChange(old, b"1", None)], journal)
    assert tree(root).keys() == {"Name.py", "name.py"}


def test_a_file_where_a_folder_is_needed_is_refused(root: Path, journal: Path) -> None:
    (root / "a").write_bytes(b"1")
    with pytest.raises(NotADirectoryError):
        atomic.write_all(
            [FileChange(root / "x/y", None, b"1"), FileChange(root / "a/b", None, b"1")], journal
        )
    assert tree(root).keys() == {"a"}


def test_a_file_that_appears_is_not_replaced(root: Path, journal: Path) -> None:
    plan = [FileChange(root / "a", None, b"ours"), FileChange(root / "b", None, b"ours")]

    class Appearing(DyingOs):
        def __getattr__(self, name: str) -> Any:
            if name == "link":
                (root / "b").write_bytes(b"theirs")
            return super().__getattr__(name)

    with dying(Appearing()), pytest.raises(atomic.ChangedOnDiskError, match="another program"):
        atomic.write_all(plan, journal)
    assert (tree(root).keys(), (root / "b").read_bytes()) == ({"b"}, b"theirs")


@pytest.mark.parametrize("swapped", ["in", "in/a"])
def test_a_path_that_became_a_symlink_is_refused(root: Path, tmp_path: Path, swapped: str) -> None:
    path, elsewhere = root / "in/a", tmp_path / "elsewhere"
    for folder in (path.parent, elsewhere):
        folder.mkdir()
        (folder / "a").write_bytes(b"old")
    (root / swapped).rename(root / "was")
    (root / swapped).symlink_to(elsewhere if swapped == "in" else elsewhere / "a")
    with pytest.raises(atomic.ChangedOnDiskError, match="leads somewhere else"):
        atomic.write_all([FileChange(path, b"old", b"new")])
    assert (elsewhere / "a").read_bytes() == b"old"
    assert len(list(elsewhere.iterdir())) == 1


def test_more_files_than_descriptors_can_be_written(root: Path, journal: Path) -> None:
    plan = [FileChange(root / f"f{number}", None, b"%d" % number) for number in range(300)]
    atomic.write_all(plan, journal)
    assert [change.path.read_bytes() for change in plan] == [change.after for change in plan]
    assert len(list(root.iterdir())) == 300


@pytest.mark.parametrize("how", ["in place", "renamed over"])
@pytest.mark.parametrize("kind", ["update", "delete"])
def test_a_file_saved_at_the_last_moment_is_not_lost(root: Path, journal: Path, how: str, kind: str) -> None:
    first, path = root / "a", root / "b"
    first.write_bytes(b"old")
    path.write_bytes(b"old")
    plan = [FileChange(first, b"old", b"new"), FileChange(path, b"old", b"new" if kind == "update" else None)]

    def save() -> None:
        if how == "in place":
            path.write_bytes(b"theirs")
        else:
            (root / "saved").write_bytes(b"theirs")
            (root / "saved").replace(path)

    class Saving(DyingOs):
        def __getattr__(self, name: str) -> Any:
            real = super().__getattr__(name)

            def call(*args: Any, **kwargs: Any) -> Any:
                if name in ("link", "rename") and args[0] == path:
                    save()
                return real(*args, **kwargs)

            return call if callable(real) else real

    with dying(Saving()), pytest.raises(atomic.ChangedOnDiskError, match="changed"):
        atomic.write_all(plan, journal)
    assert (first.read_bytes(), path.read_bytes()) == (b"old", b"theirs")
    assert tree(root).keys() == {"a", "b"}


def test_editor_write_into_the_replaced_file_wins(root: Path) -> None:
    first, path = root / "a", root / "b"
    first.write_bytes(b"old")
    path.write_bytes(b"old")
    plan = [FileChange(path, b"old", b"new"), FileChange(first, b"old", b"new")]
    with path.open("r+b") as editor:

        class Saving(DyingOs):
            def __getattr__(self, name: str) -> Any:
                if name == "replace" and not path.samefile(f"/dev/fd/{editor.fileno()}"):
                    editor.seek(0)
                    editor.write(b"theirs")
                    editor.flush()
                return super().__getattr__(name)

        with dying(Saving()), pytest.raises(atomic.ChangedOnDiskError, match="changed"):
            atomic.write_all(plan)
    assert (first.read_bytes(), path.read_bytes()) == (b"old", b"theirs")


# -- where there are no hard links --


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.usefixtures("no_links")
def test_without_hard_links_writes_are_atomic_and_recoverable(root: Path, journal: Path) -> None:
    plan = old_tree(root, 8)
    old = tree(root)
    with dying(DyingOs(counted=CHANGING)) as system:
        atomic.write_all(plan, journal)
    new = tree(root)
    for at in range(1, system.count + 1):
        for how in ("kill", "torn", "fail"):
            for path in sorted(root.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            plan = old_tree(root, 8)
            with dying(DyingOs(at, how, counted=CHANGING, error=errno.EIO)):
                try:
                    atomic.write_all(plan, journal)
                except OSError:
                    assert tree(root) == old
            recovery.recover(journal)
            assert tree(root) in (old, new), (at, how)
            assert list(journal.iterdir()) == []
