"""The API's answers about traces whose files somebody else wrote, or a crash left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.api.listing import TraceQuery
from daemon.api.message_query import MessageQuery
from daemon.api.reader import TraceReader
from daemon.store.files import FileTraceStore
from daemon.store.replay import read_state
from daemon.store.trace_store import NewerFormatError
from tests.support.scenarios.stored_traces import ID, write_trace


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    store = FileTraceStore(tmp_path / ".trace")
    write_trace(store)
    return store


def change(store: FileTraceStore, name: str, **fields: object) -> None:
    file = store.folder(ID) / name
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **fields}))


async def test_the_plan_of_a_foreign_trace_is_what_its_log_says(store: FileTraceStore) -> None:
    change(store, "goal.json", mission="FORGED")
    reader = TraceReader(store, lambda _: None, is_foreign=lambda _: True)
    assert (await reader.trace(ID))["task"] != "FORGED"
    assert read_state(store, ID, foreign=True).plan.mission != "FORGED"


async def test_a_newer_format_is_refused_by_every_view(store: FileTraceStore) -> None:
    change(store, "meta.json", format=99)
    reader = TraceReader(store, lambda _: None)
    for refused in (reader.trace(ID), reader.tree(ID), reader.messages(ID, MessageQuery())):
        with pytest.raises(NewerFormatError):
            await refused


async def test_a_trace_without_metadata_is_there_for_every_view(store: FileTraceStore) -> None:
    reader = TraceReader(store, lambda _: None)
    before = [await reader.trace(ID), await reader.tree(ID), await reader.messages(ID, MessageQuery())]
    (store.folder(ID) / "meta.json").unlink()
    reader = TraceReader(FileTraceStore(store.root), lambda _: None)
    after = [await reader.trace(ID), await reader.tree(ID), await reader.messages(ID, MessageQuery())]
    assert after == before
    (listed,) = (await reader.traces(TraceQuery()))["traces"]
    assert {name: after[0][name] for name in listed} == listed
