"""The trace that a command means."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.store.files import FileTraceStore
from daemon.store.trace_store import UnknownTraceError
from lsp_bridge.cli.trace.stored_traces import all_of, chosen
from tests.support.scenarios.stored_traces import ID, write_trace

UNFINISHED = "20990101-000000-000000bbbb"


def test_what_was_killed_while_it_began_is_not_the_latest(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    (store.root / UNFINISHED / "messages").mkdir(parents=True)
    with pytest.raises(UnknownTraceError, match="There are no traces"):
        chosen(store, "latest")
    write_trace(store)
    assert chosen(store, "latest") == chosen(store, "20") == ID
    assert all_of(store) == [ID]
    (store.root / UNFINISHED / "events.jsonl").write_text("damaged")  # which is not nothing
    assert chosen(store, "latest") == UNFINISHED
