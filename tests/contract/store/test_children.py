"""Sessions of branches and sub-agents, in every store."""

from __future__ import annotations

import pytest

from daemon.model.events import SessionCreated
from daemon.model.goals import Goal, GoalTree
from daemon.store.trace_store import TraceStore, UnknownTraceError
from tests.support.scenarios.stores import ID as MAIN
from tests.support.scenarios.stores import NOW, added, branch_trace, message, started


@pytest.mark.parametrize("session_id", [f"{MAIN}:A", f"{MAIN}:s1", f"{MAIN}:A.s1", f"{MAIN}:A.s1.s2"])
def test_child_session_has_own_messages_goals_metadata_and_log(store: TraceStore, session_id: str) -> None:
    trace = branch_trace(session_id)
    store.create(trace)
    created = store.append(SessionCreated(trace_id=session_id, time=NOW, trace=trace))
    store.append(started(trace_id=session_id))
    said = message(1, "go", branch_id=session_id.partition(":")[2])
    store.append(added(said, session_id))
    tree = GoalTree(goals=[Goal(id="1", description="x")])
    store.save_snapshot(trace, tree)
    assert store.messages(session_id) == [said]
    assert store.messages(MAIN) == []
    assert store.trace(session_id) == trace
    assert store.goal_tree(session_id) == tree
    assert store.events(session_id)[0] == created
    assert (store.last_event_id(session_id), store.last_event_id(MAIN)) == (3, 0)
    assert [known.trace_id for known in store.traces(limit=9)] == [MAIN]


HOSTILE = [
    ":A", f"{MAIN}:", f"{MAIN}:a", f"{MAIN}:A.", f"{MAIN}:.A", f"{MAIN}:A..B", f"{MAIN}:A/B", f"{MAIN}:../A",
    f"{MAIN}:A:B", f"{MAIN}:s", f"{MAIN}:s1x", f"{MAIN}:A\n", "..:A", f"{MAIN}/..:A", f"{MAIN}:" + "A." * 20 + "A",
    f"{MAIN}:ABCD", f"{MAIN}:Ä", f"{MAIN}:\0",
]  # fmt: skip


@pytest.mark.parametrize("session_id", HOSTILE)
def test_invalid_child_ids_are_unknown(store: TraceStore, session_id: str) -> None:
    with pytest.raises(UnknownTraceError):
        store.create(branch_trace(session_id))
    with pytest.raises(UnknownTraceError):
        store.trace(session_id)


def test_child_of_an_unknown_parent_is_not_created(empty: TraceStore) -> None:
    with pytest.raises(UnknownTraceError):
        empty.create(branch_trace(f"{MAIN}:A"))


def test_children_lists_direct_children_by_kind_and_number(store: TraceStore) -> None:
    assert store.children(MAIN) == []
    for name in ("AA", "s10", "B", "s2", "A", "A.s1", "A.B", "A.s1.s3"):
        store.create(branch_trace(f"{MAIN}:{name}"))
    assert store.children(MAIN) == [f"{MAIN}:{name}" for name in ("A", "B", "AA", "s2", "s10")]
    assert store.children(f"{MAIN}:A") == [f"{MAIN}:A.B", f"{MAIN}:A.s1"]
    assert store.children(f"{MAIN}:A.s1") == [f"{MAIN}:A.s1.s3"]
    assert store.children(f"{MAIN}:s2") == []
    with pytest.raises(UnknownTraceError):
        store.children(f"{MAIN}:C")


def test_deleting_a_branch_deletes_its_children_but_no_siblings(store: TraceStore) -> None:
    for name in ("A", "A.s1", "AA", "B"):
        store.create(branch_trace(f"{MAIN}:{name}"))
        store.append(started(trace_id=f"{MAIN}:{name}"))
    store.delete(f"{MAIN}:A")
    assert store.children(MAIN) == [f"{MAIN}:B", f"{MAIN}:AA"]
    for gone in ("A", "A.s1"):
        with pytest.raises(UnknownTraceError):
            store.events(f"{MAIN}:{gone}")
    assert len(store.events(f"{MAIN}:AA")) == 1
    store.create(branch_trace(f"{MAIN}:A"))
    assert store.append(started(trace_id=f"{MAIN}:A")).event_id == 1
