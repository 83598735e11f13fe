"""Search and numbers over the sessions of a folder, in the API of a daemon."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from daemon.api import files_index
from daemon.api.files_index import FilesIndex
from daemon.model.goals import GoalTree
from daemon.store.files import FileTraceStore
from daemon.store.sql.search import search
from tests.support.drivers.core import daemon
from tests.support.drivers.trace_api import client_of
from tests.support.scenarios.stores import ID, added, branch_trace, message, trace

OTHER = "20260101-000001-bbbbbb"


def test_index_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileTraceStore(tmp_path / ".trace")
    for trace_id in (ID, OTHER):
        files.create(trace(trace_id))
        files.append(added(message(1, "first words", trace_id)))
    files.create(branch_trace(f"{ID}:A"))
    files.append(added(message(2, "in a branch", ID), f"{ID}:A"))
    index = FilesIndex(files, tmp_path / "index")

    def found(text: str) -> list[str]:
        return [one.trace_id for one in search(index.current(), text, limit=9)]

    assert found("first words") == [OTHER, ID]
    assert found("a branch") == [f"{ID}:A"]
    files.append(added(message(3, "later words", ID)))
    assert found("later words") == [ID]
    files.save_snapshot(trace(OTHER, title="a new title", last_event_id=1), GoalTree())
    assert found("new title") == [OTHER]
    shutil.rmtree(tmp_path / ".trace" / OTHER)
    assert found("first words") == [ID]
    monkeypatch.setattr(files_index, "MAX_LOG_BYTES", 10)
    assert found("first words") == []
    index.close()
    assert not (tmp_path / "index").exists()


async def test_daemon_searches_and_counts_its_sessions(tmp_path: Path) -> None:
    async with daemon(tmp_path, "the answer", "another") as bench:
        session = bench.session()
        await session.prompt("please look")
        address = await bench.api.open(0)
        async with client_of(address) as client:
            (found,) = (await client.get("/api/search", params={"q": "LOOK"})).json()["found"]
            assert (found["trace_id"], found["kind"], found["branch_id"]) == (
                session.session_id,
                "message",
                None,
            )
            assert (await client.get("/api/search", params={"q": " "})).json() == {"found": [], "next": None}
            counted = (await client.get("/api/stats", params={"by": "agent"})).json()
            assert [(one["key"], one["sessions"], one["calls"]) for one in counted["groups"]] == [
                ("build", 1, 1)
            ]
            await session.prompt("once more")
            counted = (await client.get("/api/stats", params={"days": 1})).json()
            assert counted["groups"][0]["calls"] == 2
        folder = tmp_path.rglob("numbers/*/traces.db")
        assert next(folder, None) is not None
    assert next(tmp_path.rglob("numbers/*/traces.db"), None) is None
