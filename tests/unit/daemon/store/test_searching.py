"""Search for a part of a text: files and databases find the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.model.events import GoalAdded
from daemon.model.goals import Goal, GoalTree
from daemon.store import searching
from daemon.store.files import FileTraceStore
from daemon.store.searching import Found
from daemon.store.sql import search as sql_search
from daemon.store.sql.store import SqlTraceStore
from daemon.store.trace_store import TraceStore
from tests.support.drivers.postgres import give_back
from tests.support.scenarios.stores import (
    BACKENDS,
    DURABLE,
    ID,
    NOW,
    added,
    branch_trace,
    file_changed,
    message,
    trace,
)

OTHER = "20260101-000001-bbbbbb"


@pytest.fixture(params=DURABLE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TraceStore]:
    found = BACKENDS[request.param](tmp_path)
    yield found
    found.close()
    give_back(tmp_path)


@pytest.fixture
def search(store: TraceStore) -> Callable[..., list[Found]]:
    def find(query: str, limit: int = 9) -> list[Found]:
        if isinstance(store, SqlTraceStore):
            return sql_search.search(store, query, limit=limit)
        assert isinstance(store, FileTraceStore)
        return searching.search(store, query, limit=limit)

    return find


def test_search_finds_parts_of_words_in_any_case(
    store: TraceStore, search: Callable[..., list[Found]]
) -> None:
    store.create(trace(title="Straße nach Köln"))
    store.append(added(message(1, 'Lower the "local"\n RATES by 10%_x, please')))
    store.append(file_changed("src/rates.py"))
    goal = Goal(id="1", description="Ask the carriers")
    store.append(GoalAdded(trace_id=ID, time=NOW, goal=goal))
    store.save_snapshot(trace(title="Straße nach Köln", last_event_id=3), GoalTree(goals=[goal]))
    store.create(trace(OTHER, title="说中文的会话"))
    sentence = 'Lower the "local" RATES by 10%_x, please'
    for query, kind, said in (
        ('local" rates', "message", sentence),
        ('CAL" RAT', "message", sentence),
        ("10%_", "message", sentence),
        ("STRASSE NACH", "title", "Straße nach Köln"),
        ("src/rates", "file", "src/rates.py"),
        ("carrier", "goal", "Ask the carriers"),
    ):
        (found,) = search(query)
        assert (found.trace_id, found.kind, found.excerpt) == (ID, kind, said), query
    assert [found.trace_id for found in search("中文")] == [OTHER]
    for query in ("xyz", '" OR "', "message_added", "x\n\x00", " "):
        assert search(query) == [], query
    assert search("%", 0) == []


@pytest.mark.parametrize("many", [2, 2_000])
def test_newest_sessions_are_found_first_and_once(
    store: TraceStore, search: Callable[..., list[Found]], many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_search, "_MANY", many)
    for trace_id in (ID, OTHER):
        store.create(trace(trace_id))
        for number in range(1, 4):
            store.append(added(message(number, "rates", trace_id)))
    assert [found.trace_id for found in search("rates")] == [OTHER, ID]
    assert [found.trace_id for found in search("rates", 1)] == [OTHER]


def test_a_place_in_a_branch_counts_for_its_session(
    store: TraceStore, search: Callable[..., list[Found]]
) -> None:
    store.create(trace(title="the session"))
    branch = branch_trace(f"{ID}:A")
    store.create(branch)
    store.append(added(message(1, "rates", branch.trace_id)))
    (found,) = search("rates")
    assert (found.trace_id, found.title, found.kind) == (branch.trace_id, "the session", "message")


def test_owner_and_kind_are_chosen_in_a_database(tmp_path: Path) -> None:
    store = SqlTraceStore.open(f"sqlite:///{tmp_path}/traces.db", owner="ann")
    store.create(trace(title="rates"))
    (found,) = sql_search.search(store, "rates", limit=9)
    assert (found.owner, found.kind) == ("ann", "title")
    assert sql_search.search(store, "rates", limit=9, owner="bob") == []
    assert sql_search.search(store, "rates", limit=9, kinds=["file"]) == []
    store.close()
