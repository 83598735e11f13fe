"""Which old traces are deleted, and that no needed one is."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config import load_config
from daemon.store.files import FileTraceStore
from daemon.store.pruning import (
    IMPORTED,
    MB,
    PruneLimits,
    StoredTrace,
    still_too_much,
    stored_traces,
    traces_to_prune,
)
from daemon.trace_maintenance import limits_of
from tests.support.scenarios.stored_traces import ID, write_trace

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 6, 1, tzinfo=UTC)


LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""When nothing that the tests write is still to come."""


def stored(number: int, *, days: float = 0.0, size: int = MB, own: bool = True) -> StoredTrace:
    return StoredTrace(f"t{number:03d}", NOW - timedelta(days=days), size, own)


def found(store: FileTraceStore, *, sizes: bool = True, now: datetime = LATER) -> list[StoredTrace]:
    return stored_traces(store, (ID,), now, sizes=sizes)


OLD = [stored(1, days=40), stored(2, days=20), stored(3, days=10), stored(4, days=1)]


def ids(limits: PruneLimits, traces: list[StoredTrace] = OLD, in_use: tuple[str, ...] = ()) -> list[str]:
    return [one.trace_id for one in traces_to_prune(traces, limits, NOW, in_use.__contains__)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (PruneLimits(), []),
        (PruneLimits(keep_days=30), ["t001"]),
        (PruneLimits(keep_days=10), ["t001", "t002"]),  # ten days are not more than ten
        (PruneLimits(keep_days=0.5), ["t001", "t002", "t003"]),
        (PruneLimits(max_mb=2.5), ["t001", "t002"]),
        (PruneLimits(max_mb=4), []),
        (PruneLimits(max_mb=0.001), ["t001", "t002", "t003"]),
        (PruneLimits(keep_days=30, max_mb=2), ["t001", "t002"]),
        (PruneLimits(keep=3), ["t001"]),
        (PruneLimits(keep=1), ["t001", "t002", "t003"]),
        (PruneLimits(keep=9), []),
        (PruneLimits(keep=3, max_mb=0.001), ["t001"]),
        (PruneLimits(keep=2, keep_days=30), ["t001"]),
    ],
)
def test_the_oldest_go_until_the_limits_hold(limits: PruneLimits, expected: list[str]) -> None:
    assert ids(limits) == expected


def test_one_that_is_in_use_stays_and_the_next_goes_in_its_place() -> None:
    assert ids(PruneLimits(max_mb=2.5), in_use=("t001",)) == ["t002", "t003"]
    assert ids(PruneLimits(keep_days=5), in_use=("t002",)) == ["t001", "t003"]


def test_the_one_that_was_used_last_and_the_newest_both_stay() -> None:
    traces = [stored(1, days=1), stored(2, days=50), stored(3, days=60)]
    assert ids(PruneLimits(keep_days=5), traces) == ["t002"]


def test_reasons_are_told() -> None:
    assert [one.reason for one in traces_to_prune(OLD, PruneLimits(keep_days=30, max_mb=2), NOW)] == [
        "not used for more than 30 days",
        "all sessions together exceeded 2 MB",
    ]
    assert traces_to_prune(OLD, PruneLimits(keep=3), NOW)[0].reason == "not one of the newest 3"
    assert still_too_much(3 * MB, PruneLimits(max_mb=2)).startswith("3.0 MB remain")
    assert still_too_much(2 * MB, PruneLimits(max_mb=2)) == ""


@pytest.mark.parametrize(
    "limits",
    [
        PruneLimits(keep=2),
        PruneLimits(keep=1, max_mb=3),
        PruneLimits(keep=2, keep_days=100),
        PruneLimits(max_mb=2.5),
    ],
)
@pytest.mark.parametrize("days", [-9000.0, 0.0, 50.0])
@pytest.mark.parametrize("size", [0, MB, 10**15])
def test_what_the_folder_brings_pushes_no_own_one_out(limits: PruneLimits, days: float, size: int) -> None:
    own = [stored(1, days=20), stored(2, days=10)]
    brought = [stored(number, days=days, size=size, own=False) for number in range(100, 110)]
    assert [one for one in ids(limits, own + brought) if one < "t100"] == ids(limits, own) == []


def test_foreign_ones_go_too_and_first_where_there_is_no_room() -> None:
    own = [stored(1, days=20), stored(2, days=10)]
    brought = [stored(101, days=2, own=False), stored(102, days=1, own=False)]
    assert ids(PruneLimits(max_mb=3), own + brought) == ["t101"]
    assert ids(PruneLimits(max_mb=1), own + brought) == ["t001", "t101"]
    assert ids(PruneLimits(keep_days=1.5), own + brought) == ["t001", "t101"]
    reasons = [one.reason for one in traces_to_prune(own + brought, PruneLimits(keep=1), NOW)]
    assert reasons == ["not one of the newest 1", "not one of the newest 1 from other machines"]


@pytest.mark.parametrize(
    ("mine", "folders", "trusted", "limits"),
    [
        ({"trace_keep": 3, "trace_keep_days": 2}, {}, False, PruneLimits(2, None, 3)),
        ({"trace_max_mb": 5}, {"trace_max_mb": 7}, True, PruneLimits(None, 7, None)),
        (
            {"trace_keep": 3},
            {"trace_keep": "x"},
            False,
            PruneLimits(None, None, 3),
        ),  # which does not count anyway
        ({"mode": "x", "trace_keep": 3}, {}, False, PruneLimits(None, None, 3)),
        ({"trace_keep": "50x", "trace_keep_days": 1}, {}, False, None),
        ({"trace_keeps": 50, "trace_keep_days": 1}, {}, False, None),
        ({"trace_keep": 0}, {}, False, None),
        ({"trace_keep_days": 1}, {"trace_keep": "x"}, True, None),
        (
            {**{f"unknown_{n}": 1 for n in range(50)}, "trace_keep": "x", "trace_keep_days": 1},
            {},
            False,
            None,
        ),
        ("{", {}, False, None),
        ('{"trace_keep": 9, "trace_keep": 1}', {}, False, None),
    ],
)
def test_a_limit_that_cannot_be_read_deletes_nothing_and_is_told(
    tmp_path: Path, mine: object, folders: object, trusted: bool, limits: PruneLimits | None
) -> None:
    (tmp_path / ".goalwright").mkdir()
    (tmp_path / ".goalwright" / "config.json").write_text(json.dumps(folders))
    (tmp_path / "mine.json").write_text(mine if isinstance(mine, str) else json.dumps(mine))
    found = limits_of(load_config(tmp_path, tmp_path / "mine.json", trusted=trusted))
    if limits is not None:
        assert found == limits
    else:
        assert (found.any, len(found.unread)) == (False, 1)


_TRACES = st.lists(
    st.builds(
        stored,
        st.integers(0, 60),
        days=st.floats(-10, 5000),
        size=st.integers(0, 50 * MB),
        own=st.booleans(),
    ),
    unique_by=lambda one: one.trace_id,
    max_size=20,
)
_LIMITS = st.builds(
    PruneLimits,
    st.none() | st.floats(0.1, 1000),
    st.none() | st.floats(0.001, 300),
    st.none() | st.integers(1, 25),
)


def doomed(
    traces: list[StoredTrace], limits: PruneLimits, in_use: Callable[[str], bool]
) -> list[StoredTrace]:
    by_id = {one.trace_id: one for one in traces}
    return [by_id[one.trace_id] for one in traces_to_prune(traces, limits, NOW, in_use)]


@given(traces=_TRACES, limits=_LIMITS, used=st.sets(st.integers(0, 60)))
def test_laws_of_pruning(traces: list[StoredTrace], limits: PruneLimits, used: set[int]) -> None:
    in_use = {f"t{number:03d}" for number in used}
    gone = doomed(traces, limits, in_use.__contains__)
    left = [one for one in traces if one not in gone]
    assert len(set(gone)) == len(gone)
    assert not in_use & {one.trace_id for one in gone}
    assert gone == sorted(gone, key=lambda one: (one.used, one.trace_id))
    own = [one for one in traces if one.own]
    for group in (own, [one for one in traces if not one.own]):
        newest = sorted(group, key=lambda one: (one.used, one.trace_id), reverse=True)
        assert set(newest[: limits.keep or 1]) <= set(left)
        assert not group or max(group, key=lambda one: one.trace_id) in left
    # Whatever the folder brought along: of the own ones the same go.
    alone = doomed(own, limits, in_use.__contains__)
    assert alone == [one for one in gone if one.own]
    if not limits.any:
        assert not gone
    # What is left is over a limit only as far as it may not go.
    assert not doomed(left, limits, in_use.__contains__)


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    return FileTraceStore(tmp_path / ".trace")


def test_traces_are_found_with_their_size_and_last_use(store: FileTraceStore) -> None:
    write_trace(store, text="x" * 5000)
    traces = found(store)
    assert [one.trace_id for one in traces] == [ID]
    assert traces[0].size >= 10_000
    assert traces[0].title == "a title"
    assert traces[0].used == store.trace(ID).updated_at
    assert found(store, sizes=False)[0].size == 0


def test_one_that_was_imported_lately_is_not_old(store: FileTraceStore) -> None:
    write_trace(store)
    (store.root / ID / IMPORTED).write_text(json.dumps({"time": NOW.isoformat()}))
    assert found(store)[0].used == NOW


@pytest.mark.parametrize(
    "meta", [None, b"", b"[", b"[1]", b'{"updated_at": 7}', b'{"updated_at": "x"}', b"[" * 10**6]
)
def test_a_damaged_one_is_as_old_as_its_log(store: FileTraceStore, meta: bytes | None) -> None:
    write_trace(store)
    path = store.root / ID / "meta.json"
    path.unlink() if meta is None else path.write_bytes(meta)
    os.utime(store.root / ID / "events.jsonl", (1000, 1000))
    assert found(store)[0].used == datetime.fromtimestamp(1000, UTC)


def test_what_is_no_trace_is_not_looked_at(store: FileTraceStore, tmp_path: Path) -> None:
    write_trace(store)
    (store.root / "photos").mkdir()
    (store.root / "photos" / "me.jpg").write_bytes(b"x")
    (store.root / ".import-x").mkdir()
    (store.root / "tree.txt").write_text("a dump")
    write_trace(FileTraceStore(tmp_path / "elsewhere"))
    (store.root / "20250101-000000-000000aaaa").symlink_to(tmp_path / "elsewhere" / ID)
    assert [one.trace_id for one in found(store)] == [ID]


@pytest.mark.parametrize("told", ["9999-12-31T23:59:59-12:00", "2026-06-01T00:00:01+00:00"])
@pytest.mark.parametrize(("changed", "used"), [(1000, datetime.fromtimestamp(1000, UTC)), (2**34, NOW)])
def test_a_time_that_is_still_to_come_does_not_count(
    store: FileTraceStore, told: str, changed: int, used: datetime
) -> None:
    write_trace(store)
    meta = store.root / ID / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_bytes()) | {"updated_at": told}))
    (store.root / ID / IMPORTED).write_text(json.dumps({"time": told}))
    os.utime(store.root / ID / "events.jsonl", (changed, changed))
    assert found(store, now=NOW)[0].used == used


def test_whose_a_trace_is_does_not_stand_in_it(store: FileTraceStore) -> None:
    write_trace(store)
    write_trace(store, "z0")
    assert [(one.trace_id, one.own) for one in found(store)] == [("z0", False), (ID, True)]
