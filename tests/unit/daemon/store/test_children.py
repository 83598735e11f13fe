"""Sessions of branches and sub-agents, in every store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.model.events import SessionCreated, TurnStarted
from daemon.model.goals import Goal, GoalTree
from daemon.model.messages import Message, TextPart
from daemon.model.traces import BranchTrace, Trace
from daemon.store.base import StoreError, TraceStore, UnknownTrace
from daemon.store.files import FileTraceStore
from daemon.store.memory import MemoryTraceStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MAIN = "20260101-000000-aaaaaa"


def branch_trace(session_id: str) -> BranchTrace:
    return BranchTrace(
        trace_id=session_id, workspace="/w", created_at=NOW, updated_at=NOW, id="A", explore_start_id="1"
    )


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TraceStore]:
    made: TraceStore = FileTraceStore(tmp_path) if request.param == "files" else MemoryTraceStore()
    made.create(Trace(trace_id=MAIN, workspace="/w", created_at=NOW, updated_at=NOW))
    yield made
    made.close()


@pytest.mark.parametrize("session_id", [f"{MAIN}:A", f"{MAIN}:s1", f"{MAIN}:A.s1", f"{MAIN}:A.s1.s2"])
def test_a_child_has_messages_goals_metadata_and_a_log_of_its_own(store: TraceStore, session_id: str) -> None:
    trace = branch_trace(session_id)
    store.create(trace)
    created = store.append(SessionCreated(trace_id=session_id, time=NOW, trace=trace))
    store.append(TurnStarted(trace_id=session_id, time=NOW, prompt_id="p"))
    message = Message(
        message_id="msg_000001_0",
        trace_id=MAIN,
        branch_id=session_id.partition(":")[2],
        role="user",
        sequence=1,
        content=(TextPart(text="go"),),
        created_at=NOW,
    )
    store.save_message(message)
    tree = GoalTree(goals=[Goal(id="1", description="x")])
    store.save_snapshot(trace, tree)
    assert store.messages(session_id) == [message]
    assert store.messages(MAIN) == []
    assert store.trace(session_id) == trace
    assert store.goal_tree(session_id) == tree
    assert store.events(session_id)[0] == created
    assert (store.last_event_id(session_id), store.last_event_id(MAIN)) == (2, 0)
    assert [known.trace_id for known in store.traces(limit=9)] == [MAIN]


def test_the_folders_are_those_of_the_seed(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path)
    folders = {
        f"{MAIN}:A": "branches/A",
        f"{MAIN}:AB": "branches/AB",
        f"{MAIN}:s3": "agents/s3",
        f"{MAIN}:A.s1": "branches/A/agents/s1",
    }
    for session_id, folder in folders.items():
        assert store.folder(session_id) == tmp_path / MAIN / folder


HOSTILE = [
    ":A", f"{MAIN}:", f"{MAIN}:a", f"{MAIN}:A.", f"{MAIN}:.A", f"{MAIN}:A..B", f"{MAIN}:A/B", f"{MAIN}:../A",
    f"{MAIN}:A:B", f"{MAIN}:s", f"{MAIN}:s1x", f"{MAIN}:A\n", "..:A", f"{MAIN}/..:A", f"{MAIN}:" + "A." * 20 + "A",
    f"{MAIN}:ABCD", f"{MAIN}:Ä", f"{MAIN}:\0",
]  # fmt: skip


@pytest.mark.parametrize("session_id", HOSTILE)
def test_other_ids_are_no_sessions(tmp_path: Path, session_id: str) -> None:
    store = FileTraceStore(tmp_path)
    store.create(Trace(trace_id=MAIN, workspace="/w", created_at=NOW, updated_at=NOW))
    with pytest.raises(UnknownTrace):
        store.folder(session_id)
    with pytest.raises(UnknownTrace):
        store.create(branch_trace(session_id))


def test_a_folder_of_branches_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "A" / "messages").mkdir(parents=True)
    store = FileTraceStore(tmp_path / "traces")
    store.create(Trace(trace_id=MAIN, workspace="/w", created_at=NOW, updated_at=NOW))
    (tmp_path / "traces" / MAIN / "branches").symlink_to(elsewhere)
    with pytest.raises(UnknownTrace):
        store.save_snapshot(branch_trace(f"{MAIN}:A"), GoalTree())
    with pytest.raises(StoreError, match="a link leads there"):
        store.create(branch_trace(f"{MAIN}:B"))
    assert [path.name for path in elsewhere.iterdir()] == ["A"]
    assert list((elsewhere / "A").iterdir()) == [elsewhere / "A" / "messages"]
