"""The store on a long trace: what appending and the first page cost must not follow from its length."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from daemon.model.events import MessageAdded, MessagePartAdded, SessionCreated
from daemon.model.goals import GoalTree
from daemon.model.messages import Message, TextPart, ToolResultPart
from daemon.model.traces import Trace
from daemon.store.files import FileTraceStore
from daemon.store.replay import read_state
from tests.evals.benchmarks.measures import Baseline, Measure, percentile
from tests.evals.benchmarks.stage import Stage

MESSAGES, GOALS, TRACES = 10_000, 200, 500
_TEXT = "def total(cart):\n    return sum(item.price for item in cart)\n" * 60
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_ID = "20260101-000000-aaaaaa"
_EDGE = 1000


async def measure(stage: Stage) -> list[Measure]:
    """Appending, opening and looking into a trace of 10 000 messages."""
    with tempfile.TemporaryDirectory() as folder:
        stage.say(f"a trace of {MESSAGES} messages, and {TRACES} small ones")
        first, last = _write(Path(folder))
        size = (Path(folder) / _ID / "events.jsonl").stat().st_size / 1e6
        found = [
            Measure(
                f"event appended, the last {_EDGE} of {MESSAGES}",
                "ms",
                (statistics.median(last.append),),
                1.0,
                Baseline(f"the first {_EDGE}", statistics.median(first.append)),
                f"part of a message, flushed to the kernel; the log has {size:.0f} MB at the end",
            ),
            Measure(
                "the same, its 99th percentile",
                "ms",
                (percentile(last.append, 0.99),),
                baseline=Baseline(f"the first {_EDGE}", percentile(first.append, 0.99)),
            ),
            Measure(
                "message appended, and written as a file",
                "ms",
                (statistics.median(last.both),),
                1.0,
                Baseline(f"the first {_EDGE}", statistics.median(first.both)),
            ),
        ]
        return found + [
            Measure(
                name, "ms", tuple(_fresh(Path(folder), look) for _ in range(stage.runs)), target, note=note
            )
            for name, look, target, note in _LOOKS
        ]


@dataclass(frozen=True, slots=True)
class _Took:
    append: Sequence[float]
    both: Sequence[float]


def _write(root: Path) -> tuple[_Took, _Took]:
    store = FileTraceStore(root)
    for number in range(TRACES):
        trace_id = f"20250101-000000-{number:06d}"
        store.create(
            Trace(
                trace_id=trace_id, title=f"number {number}", workspace="/w", created_at=_NOW, updated_at=_NOW
            )
        )
    trace = Trace(trace_id=_ID, workspace="/w", created_at=_NOW, updated_at=_NOW)
    store.create(trace)
    store.append(SessionCreated(trace_id=_ID, time=_NOW, trace=trace))
    append: list[float] = []
    both: list[float] = []
    for number in range(1, MESSAGES + 1):
        message = _message(number)
        if message.role == "assistant":
            part = TextPart(text=_TEXT)
            start = time.perf_counter()
            store.append(
                MessagePartAdded(trace_id=_ID, time=_NOW, message_id=message.message_id, index=0, part=part)
            )
            append.append((time.perf_counter() - start) * 1000)
        start = time.perf_counter()
        store.append(MessageAdded(trace_id=_ID, time=_NOW, message=message))
        both.append((time.perf_counter() - start) * 1000)
    last = store.last_event_id(_ID)
    store.save_snapshot(
        trace.model_copy(update={"message_count": MESSAGES, "last_event_id": last}), GoalTree()
    )
    store.close()
    return _Took(append[:_EDGE], both[:_EDGE]), _Took(append[-_EDGE:], both[-_EDGE:])


def _message(number: int) -> Message:
    tool = number % 2 == 0
    call = f"call_{number // 2}"
    return Message(
        message_id=f"msg_{number:06d}_{number:08x}",
        trace_id=_ID,
        role="tool" if tool else "assistant",
        sequence=number,
        goal_id=str(1 + number * GOALS // MESSAGES),
        tool_call_id=call if tool else None,
        content=(
            ToolResultPart(tool_call_id=call, name="read", content=_TEXT) if tool else TextPart(text=_TEXT),
        ),
        description="read",
        created_at=_NOW,
    )


def _fresh(root: Path, look: Callable[[FileTraceStore], object]) -> float:
    """Milliseconds of a look by a store that has seen nothing of the trace yet; the system has its files in memory."""
    store = FileTraceStore(root)
    start = time.perf_counter()
    look(store)
    took = (time.perf_counter() - start) * 1000
    store.close()
    return took


def _open_whole(store: FileTraceStore) -> None:
    store.recover(_ID)
    read_state(store, _ID)


_HALF = MESSAGES // 2
_LOOKS: tuple[tuple[str, Callable[[FileTraceStore], object], float | None, str], ...] = (
    (
        "first page of 100 messages",
        lambda s: (s.trace(_ID), s.goal_tree(_ID), s.messages(_ID, limit=100)),
        300.0,
        "",
    ),
    ("a page from its middle", lambda s: s.messages(_ID, limit=100, before=_HALF), 300.0, ""),
    ("messages of one goal", lambda s: s.messages(_ID, limit=100, goal_ids=frozenset(["7"])), 300.0, ""),
    ("100 events from its middle", lambda s: s.events(_ID, after=_HALF, limit=100), 50.0, ""),
    ("its last event", lambda s: s.last_event_id(_ID), 5.0, ""),
    ("first 50 of 501 traces", lambda s: s.traces(limit=50), 100.0, ""),
    (
        "one of 501 traces by a filter",
        lambda s: s.traces(limit=1, matches=lambda t: t.title == "number 0"),
        None,
        "",
    ),
    ("the session opened whole, to go on", _open_whole, None, "all messages, for the model may need them"),
)
