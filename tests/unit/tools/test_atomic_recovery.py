from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.dying_disk import CHANGING, DyingOs, bits, dying, old_tree, tree, turning
from tools.tool import FileChange
from tools.writing import atomic, disk, recovery


def kill_before(
    name: str, plan: list[FileChange], journal: Path, *, number: int = 1, path: Path | None = None
) -> None:
    """End the writing process before the ``number``-th call of this name (that names ``path``)."""

    class Before(DyingOs):
        left = number

        def __getattr__(self, called: str) -> Any:
            real = super().__getattr__(called)
            if called != name:
                return real

            def call(*args: Any, **kwargs: Any) -> Any:
                if path is None or path in args:
                    self.left -= 1
                    if self.left == 0:
                        self.at = self.count + 1
                return real(*args, **kwargs)

            return call

    with dying(Before()) as system:
        atomic.write_all(plan, journal)
    assert system.left == 0


# -- after a crash, with somebody at work in between --


def three(root: Path) -> list[FileChange]:
    for name in ("a", "b"):
        (root / name).write_bytes(b"old")
    return [
        FileChange(root / "a", b"old", b"new"),
        FileChange(root / "n", None, b"new"),
        FileChange(root / "b", b"old", b"new"),
    ]


def test_interrupted_change_is_completed_and_reported(root: Path, journal: Path) -> None:
    kill_before("replace", three(root), journal, path=root / "b")
    (record,) = journal.iterdir()
    held = os.open(record, os.O_RDWR)
    assert disk.lock(held)
    # A process that the killed one had just started has its descriptors for a moment.
    ended = threading.Timer(0.05, os.close, [held])
    ended.start()
    (found,) = recovery.recover(journal, dying_s=20)
    ended.join()
    assert (found.outcome, len(found.files)) == ("completed", 3)
    assert found.text == "The daemon stopped while it changed 3 files. The change was completed."
    assert {path.name: path.read_bytes() for path in root.iterdir()} == dict.fromkeys("anb", b"new")


def test_change_that_had_not_begun_is_dropped_and_reported(root: Path, journal: Path) -> None:
    plan = three(root)
    old = tree(root)
    kill_before("fsync", plan, journal, number=5)
    assert len(tree(root)) > len(old)
    (found,) = recovery.recover(journal)
    assert found.outcome == "untouched" and "Nothing was written." in found.text
    assert tree(root) == old


def test_file_changed_before_its_turn_stays_and_others_roll_back(root: Path, journal: Path) -> None:
    kill_before("replace", three(root), journal, path=root / "b")
    assert (root / "a").read_bytes() == b"new"
    (root / "b").write_bytes(b"theirs")
    (found,) = recovery.recover(journal)
    assert found.outcome == "undone"
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a": b"old", "b": b"theirs"}


def test_file_changed_after_its_turn_stays_and_others_complete(root: Path, journal: Path) -> None:
    kill_before("replace", three(root), journal, path=root / "b")
    (root / "a").write_bytes(b"new and theirs")
    (found,) = recovery.recover(journal)
    assert found.outcome == "completed"
    assert f"{root / 'a'}: changed since" in found.text
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {
        "a": b"new and theirs",
        "b": b"new",
        "n": b"new",
    }


def test_changed_before_and_after_their_turn_both_stay(root: Path, journal: Path) -> None:
    kill_before("replace", three(root), journal, path=root / "b")
    (root / "n").write_bytes(b"new and theirs")
    (root / "b").write_bytes(b"theirs")
    (found,) = recovery.recover(journal)
    assert found.outcome == "undone"
    assert f"{root / 'n'}: changed since" in found.text
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {
        "a": b"old",
        "b": b"theirs",
        "n": b"new and theirs",
    }


def test_restoring_one_file_by_hand_undoes_the_whole_change(root: Path, journal: Path) -> None:
    kill_before("replace", three(root), journal, path=root / "b")
    (root / "a").write_bytes(b"old")
    (found,) = recovery.recover(journal)
    assert found.outcome == "undone"
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a": b"old", "b": b"old"}


def test_file_added_to_a_folder_being_replaced_stays_on_rollback(root: Path, journal: Path) -> None:
    plan = turning(root)
    old = tree(root)
    kill_before("rename", plan, journal, number=3)
    (root / "private/theirs").write_bytes(b"theirs")
    (found,) = recovery.recover(journal)
    assert found.outcome == "undone"
    assert (root / "private/theirs").read_bytes() == b"theirs"
    (root / "private/theirs").unlink()
    assert tree(root) == old and bits(root / "private") == 0o700


def test_folder_with_unplanned_contents_is_not_replaced(root: Path, journal: Path) -> None:
    plan = turning(root)
    (root / "deep/er/other").write_bytes(b"not in the plan")
    old = tree(root)
    with pytest.raises(atomic.ChangedOnDiskError, match="now contains another file"):
        atomic.write_all(plan, journal)
    assert tree(root) == old and bits(root / "private") == 0o700
    (root / "deep/er/other").unlink()
    (root / "deep/er/empty").mkdir()
    with pytest.raises(atomic.ChangedOnDiskError, match="now contains another file"):
        atomic.write_all(plan, journal)


def test_file_recreated_after_its_deletion_is_kept(root: Path, journal: Path) -> None:
    for name in "abc":
        (root / name).write_bytes(b"old")
    plan = [FileChange(root / name, b"old", None) for name in "abc"]
    kill_before("rename", plan, journal, path=root / "b")
    (root / "a").write_bytes(b"theirs")
    (found,) = recovery.recover(journal)
    assert found.outcome == "completed"
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a": b"theirs"}


def test_recovery_without_its_backups_invents_nothing(root: Path, journal: Path) -> None:
    kill_before("replace", three(root), journal, path=root / "b")
    for path in root.glob(".*"):
        path.unlink()
    (found,) = recovery.recover(journal)
    assert found.outcome == "undone"
    assert f"{root / 'a'}: still has the new content" in found.text
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a": b"new", "b": b"old"}
    assert recovery.recover(journal) == []


def test_replaced_folder_does_not_redirect_recovery(root: Path, journal: Path, tmp_path: Path) -> None:
    (root / "in").mkdir()
    plan = three(root / "in")
    kill_before("replace", plan, journal, path=root / "in/b")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("a", "b"):
        (elsewhere / name).write_bytes(b"old")
    (root / "in").rename(root / "was")
    (root / "in").symlink_to(elsewhere)
    recovery.recover(journal)
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == {"a": b"old", "b": b"old"}


# -- the record --


def test_journal_record_is_private_and_deleted_after_recovery(root: Path, journal: Path) -> None:
    kill_before("link", three(root), journal)
    (record,) = journal.iterdir()
    assert (bits(journal), bits(record)) == (0o700, 0o600)
    recovery.recover(journal)
    assert list(journal.iterdir()) == []


def test_a_workspace_without_a_journal_recovers_nothing(tmp_path: Path) -> None:
    assert recovery.recover(tmp_path / "none") == []


def test_recovery_ignores_files_that_are_no_records(journal: Path) -> None:
    journal.mkdir(parents=True)
    for name in ("notes.txt", "x.journal", "0123456789abcdef.journal~"):
        (journal / name).write_bytes(b"\0\xff garbage")
    assert recovery.recover(journal) == []
    assert len(list(journal.iterdir())) == 3


def _truncated(data: bytes, source: random.Random) -> bytes:
    return data[: source.randrange(len(data))]


def _flipped(data: bytes, source: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(source.randint(1, 20)):
        changed[source.randrange(len(data))] = source.randrange(256)
    return bytes(changed)


def _shuffled(data: bytes, source: random.Random) -> bytes:
    lines = data.split(b"\n")
    source.shuffle(lines)
    return b"\n".join(lines)


def eight(root: Path) -> list[FileChange]:
    return old_tree(root, 8)


@pytest.mark.parametrize("damage", [_truncated, _flipped, _shuffled])
@pytest.mark.parametrize("make", [eight, turning])
@given(seed=st.integers(0, 2**32), stop=st.integers(0, 60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
def test_damaged_record_blocks_nothing_and_destroys_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    damage: Callable[[bytes, random.Random], bytes],
    make: Callable[[Path], list[FileChange]],
    seed: int,
    stop: int,
) -> None:
    folder = tmp_path_factory.mktemp("damaged").resolve()
    root, journal, source = folder / "ws", folder / "journal", random.Random(seed)
    root.mkdir()
    plan = make(root)
    theirs = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    planned = {change.path: change for change in plan}
    with dying(DyingOs(stop, counted=CHANGING)):
        atomic.write_all(plan, journal)
    for record in journal.glob("*"):
        record.write_bytes(damage(record.read_bytes() or b"\n", source))
    recovery.recover(journal)
    for path, data in theirs.items():
        change = planned.get(path)
        backups = [one.read_bytes() for one in root.rglob(f".{path.name}.*")]
        now = path.read_bytes() if path.is_file() else None
        assert now == data or (change is not None and now == change.after) or data in backups, path


@given(st.binary(max_size=300))
def test_any_record_bytes_are_read_without_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    journal = tmp_path_factory.mktemp("any")
    (journal / "0123456789abcdef.journal").write_bytes(data)
    assert all(one.outcome == "untouched" for one in recovery.recover(journal))
    assert list(journal.iterdir()) == []


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, "語" * 85, "a\udcff.py"])
def test_long_and_odd_names_can_be_written(root: Path, journal: Path, name: str) -> None:
    plan = [FileChange(root / name, None, b"1"), FileChange(root / "b", None, b"1")]
    kill_before("unlink", plan, journal)
    recovery.recover(journal)
    assert (root / name).read_bytes() == b"1"
    assert len(list(root.iterdir())) == 2
