"""The remains of a session killed at its start are deleted; folders with any content stay."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.store.files import FileTraceStore
from daemon.store.pruning import remove_unfinished
from tests.support.scenarios.stored_traces import ID, write_trace

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def begun(root: Path, *names: str, hours: float = 2) -> Path:
    folder = root / ID
    (folder / "messages").mkdir(parents=True)
    for name in names:
        (folder / name).write_text("x")
    at = (NOW - timedelta(hours=hours)).timestamp()
    os.utime(folder, (at, at))
    return folder


@pytest.mark.parametrize("names", [(), ("goal.json",), (".goal.json.abc",), ("goal.json", ".meta.json.x_1")])
def test_an_unfinished_beginning_goes(tmp_path: Path, names: tuple[str, ...]) -> None:
    folder = begun(tmp_path, *names)
    remove_unfinished(tmp_path, {ID}, NOW)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["messages/msg_000001_aa.json", "events.jsonl", "meta.json", "notes.md"])
def test_what_holds_anything_stays_whole(tmp_path: Path, name: str) -> None:
    folder = begun(tmp_path, "goal.json", name)
    remove_unfinished(tmp_path, {ID}, NOW)
    assert (folder / name).read_text() == (folder / "goal.json").read_text() == "x"


def test_one_that_begins_just_now_stays_and_a_foreign_one_too(tmp_path: Path) -> None:
    folder = begun(tmp_path, hours=0.1)
    remove_unfinished(tmp_path, {ID}, NOW)
    remove_unfinished(tmp_path, set(), NOW + timedelta(days=1))
    assert folder.is_dir()
    remove_unfinished(tmp_path, {ID}, NOW + timedelta(days=1))
    assert not folder.exists()


def test_no_link_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    folder = begun(real)
    (tmp_path / "linked").symlink_to(real)
    remove_unfinished(tmp_path / "linked", {ID}, NOW)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / ID).symlink_to(folder)
    remove_unfinished(tmp_path / "store", {ID}, NOW)
    assert folder.is_dir()


def test_a_whole_session_stays(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path)
    write_trace(store)
    remove_unfinished(tmp_path, {ID}, datetime(2100, 1, 1, tzinfo=UTC))
    assert store.traces(limit=9)[0].trace_id == ID
