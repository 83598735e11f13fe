"""Traces on disk, as a daemon leaves them, without one: a main line, children, versions of files, outputs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daemon.files.blobs import Blobs
from daemon.model.branches import branch_of, root_of
from daemon.model.events import (
    BranchStarted,
    Event,
    GoalAdded,
    GoalUpdated,
    MessageAdded,
    SessionCreated,
    TurnEnded,
    TurnStarted,
)
from daemon.model.goals import Goal
from daemon.model.messages import Message, TextPart
from daemon.model.traces import BranchTrace, Trace
from daemon.store.files import FileTraceStore
from daemon.store.replay import replayed

ID = "20260101-000000-000000aaaa"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Written:
    """One session that is being written, one event after the other, a second apart."""

    def __init__(self, store: FileTraceStore, trace: Trace) -> None:
        self.store, self.trace, self.time = store, trace, trace.created_at
        store.create(trace)
        self.happens(SessionCreated(trace_id=trace.trace_id, time=self.time, trace=trace))

    def happens(self, event: Event) -> None:
        """Append an event, at the next second."""
        self.time += timedelta(seconds=1)
        self.store.append(event.model_copy(update={"time": self.time}))

    def says(self, sequence: int, text: str, goal_id: str | None = None) -> None:
        """Add a message of the user (odd) or the model (even)."""
        session_id = self.trace.trace_id
        message = Message(
            message_id=f"msg_{sequence:06d}_{sequence:08x}",
            trace_id=root_of(session_id),
            branch_id=branch_of(session_id),
            role="user" if sequence % 2 else "assistant",
            sequence=sequence,
            goal_id=goal_id,
            content=(TextPart(text=text),),
            created_at=self.time,
        )
        self.happens(MessageAdded(trace_id=session_id, time=self.time, message=message))

    def rests(self) -> None:
        """The snapshot of a session that nobody works on."""
        state = replayed(self.store, self.trace.trace_id)
        self.store.save_snapshot(state.carrying(), state.plan.snapshot())
        self.store.close(self.trace.trace_id)


def write_trace(
    store: FileTraceStore,
    trace_id: str = ID,
    *,
    created: datetime = NOW,
    turns: int = 2,
    text: str = "text",
    title: str = "a title",
) -> Written:
    """A main line at rest, with a goal and ``turns`` prompts and answers."""
    written = Written(
        store,
        Trace(trace_id=trace_id, title=title, workspace="/w", created_at=created, updated_at=created),
    )
    at = written.time
    written.happens(GoalAdded(trace_id=trace_id, time=at, goal=Goal(id="1", description="one")))
    updates = {"status": "in_progress"}
    written.happens(GoalUpdated(trace_id=trace_id, time=at, goal_id="1", updates=updates, current_id="1"))
    for turn in range(turns):
        written.happens(TurnStarted(trace_id=trace_id, time=at, prompt_id=f"p{turn}"))
        written.says(2 * turn + 1, f"{text} {turn}", "1")
        written.says(2 * turn + 2, f"answer {turn}", "1")
        written.happens(TurnEnded(trace_id=trace_id, time=at, prompt_id=f"p{turn}", stop_reason="end_turn"))
    written.rests()
    return written


def write_children(store: FileTraceStore, trace_id: str = ID) -> None:
    """A branch A, and a sub-agent s1 of it."""
    branch = BranchTrace(
        trace_id=f"{trace_id}:A",
        workspace="/w",
        created_at=NOW,
        updated_at=NOW,
        id="A",
        explore_start_id="1",
        description="one way",
    )
    child = Trace(trace_id=f"{trace_id}:A.s1", workspace="/w", created_at=NOW, updated_at=NOW)
    for trace in (branch, child):
        written = Written(store, trace)
        written.says(1, "go")
        written.says(2, f"done by {trace.trace_id}")
        written.rests()


def tell_of_branch(written: Written, name: str) -> None:
    """Add the main session's event of a branch."""
    from daemon.model.branches import BranchMeta

    meta = BranchMeta(id=name, explore_start_id="1", description="one way")
    written.happens(
        BranchStarted(trace_id=written.trace.trace_id, time=written.time, explore_start_id="1", branch=meta)
    )
    written.rests()


def keep_version(folder: Path, content: bytes, name: str = "a.py") -> str:
    """A version of a file in a session's folder, as the file history keeps it. Returns the content's hash."""
    digest = Blobs(folder / "files" / "blobs").put(content)
    line = {
        "version": "v1",
        "path": f"/w/{name}",
        "before": None,
        "after": digest,
        "tool_call_id": "c1",
        "time": NOW.isoformat(),
        "added": 1,
        "removed": 0,
    }
    with (folder / "files" / "versions.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n" + json.dumps({"written": ["v1"]}) + "\n")
    return digest


def all_files(folder: Path) -> dict[str, bytes]:
    """Contents by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
