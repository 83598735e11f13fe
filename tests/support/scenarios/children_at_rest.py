"""Conditions for the records of branches and sub-agents, whoever looks at them."""

from __future__ import annotations

from daemon.api.reader import TraceReader
from daemon.loop.session import Session
from daemon.model.branches import BranchMeta, SubagentMeta
from daemon.model.traces import BranchTrace
from daemon.steps.fold import StepFold
from daemon.store.trace_store import TraceStore
from tests.support.drivers.core import check_record
from tests.support.drivers.waiting import until


def fold_of(store: TraceStore, session_id: str) -> StepFold:
    """Return the steps that ``trace show`` prints."""
    fold = StepFold(session_id)
    for event in store.events(session_id):
        fold.apply(event)
    return fold


async def check_children(store: TraceStore, session: Session) -> None:
    """The own records of all children below an open session have ended, as the session above says they did."""
    reader = TraceReader(store, lambda _: None)
    main = session.session_id
    known: dict[str, BranchMeta | SubagentMeta] = {**session.state.children.branches}
    known |= session.state.children.subagents
    below = {name.removeprefix(f"{main}:"): name for name in store.children(main)}
    for name, session_id in below.items():
        # By what nobody waits for, where the session above knew of its end already, or does not know it at all.
        await until(lambda session_id=session_id: at_rest(store, session_id), f"the end of {session_id}")
        check_record(store, session_id)
        trace, fold = store.trace(session_id), fold_of(store, session_id)
        assert fold.head.status not in ("running", "waiting")
        assert not [step for step in fold.tree.filter("action") if step.status == "in_progress"]
        tree = await reader.tree(main, name)
        assert tree["status"] == fold.head.status
        if (meta := known.get(name)) is None:
            continue
        shown = await reader.branch(main, name)
        assert shown["status"] == meta.status
        assert meta.status not in ("exploring", "running")
        if isinstance(meta, BranchMeta):
            assert isinstance(trace, BranchTrace)
            assert (trace.status, trace.summary) == (meta.status, meta.summary)
            assert trace.cumulative_stats == meta.cumulative_stats
            assert trace.last_message == meta.last_message
        else:
            assert meta.usage == trace.usage
            if meta.status == "completed" or fold.head.status != "idle":  # it had not begun its turn
                assert fold.head.status == meta.status


def at_rest(store: TraceStore, session_id: str) -> bool:
    """Whether the metadata of a session and of those below it say that they have ended, and is that of their logs."""
    trace = store.trace(session_id)
    if trace.running or trace.last_event_id != store.last_event_id(session_id):
        return False
    if isinstance(trace, BranchTrace) and trace.status == "exploring":
        return False
    return all(at_rest(store, below) for below in store.children(session_id))


async def check_told_as_ended(store: TraceStore, session_id: str) -> None:
    """Check that a stored session, and everything it had started, is shown as ended."""
    reader = TraceReader(store, lambda _: None)
    told = await reader.trace(session_id)
    assert told["status"] not in ("running", "waiting")
    for kind in ("branches", "subagents"):
        for name, child in told[kind].items():
            assert child["status"] not in ("exploring", "running")
            shown = await reader.branch(session_id, name)
            assert shown["status"] == child["status"]
            for below in (*shown["branches"].values(), *shown["subagents"].values()):
                assert below["status"] not in ("exploring", "running")


def check_numbers(store: TraceStore, session_id: str) -> None:
    """No two messages of a session and its children have the same number, but for what a branch began with."""
    numbers: list[int] = []
    waiting = [session_id]
    while waiting:
        name = waiting.pop()
        waiting += store.children(name)
        trace = store.trace(name)
        inherited = trace.inherited if isinstance(trace, BranchTrace) else 0
        numbers += [one.sequence for one in store.messages(name) if one.sequence > inherited]
    assert len(numbers) == len(set(numbers)), sorted(numbers)
