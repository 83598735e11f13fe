"""``python -m tests.evals.benchmarks.databases``: one record of sessions in files, in SQLite and in PostgreSQL.

Fills each store with more and more sessions and measures the same questions at each size: a cost that follows from what
is returned stays flat, one that follows from what is stored grows. PostgreSQL is a server of its own that writes as
safely as it does by default. A million events take about 15 minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from daemon.model.encoding import json_bytes
from daemon.model.events import FileChanged, GoalAdded, MessageAdded, SessionCreated
from daemon.model.goals import Goal, GoalTree
from daemon.model.messages import Message, TextPart, ToolResultPart, Usage
from daemon.model.traces import Trace
from daemon.store.event_log import StoredLine
from daemon.store.files import FileTraceStore
from daemon.store.migrations import FORMATS
from daemon.store.searching import search as search_files
from daemon.store.sql.search import search
from daemon.store.sql.stats import sums
from daemon.store.sql.store import SqlTraceStore
from daemon.store.trace_store import TraceStore
from tests.evals.benchmarks.measures import aligned, percentile
from tests.support.drivers.postgres import Postgres

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_OF_SESSION = 1000
"""Events of one session."""
_MODELS = ("anthropic/claude-opus-4-1", "anthropic/claude-sonnet-4-5", "openai/gpt-5", "vllm/qwen3")
_TAKEN = 400
"""Appends that are timed one by one at each size."""
_RUNS = 5


@dataclass
class Column:
    """One store at one size: what it was asked, and the milliseconds it took."""

    store: str
    events: int
    took: dict[str, float] = field(default_factory=dict)


class Words:
    """Text that looks like code and talk: many words often, and a few rarely."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._often = [self._word() for _ in range(3000)]

    def text(self, words: int) -> str:
        """Return some words; about one text in ten thousand has the word ``needle``."""
        found = self._random.choices(self._often, k=words)
        if self._random.random() < 1e-4:
            found[words // 2] = "needle"
        return " ".join(found)

    def number(self, low: int, high: int) -> int:
        """Return a number between the two."""
        return self._random.randint(low, high)

    def _word(self) -> str:
        return "".join(self._random.choices("abcdefghijklmnopqrstuvwxyz_", k=self._random.randint(3, 9)))


def trace_id(number: int) -> str:
    """Return the id of a session; they sort by their number."""
    at = _BEGIN + timedelta(minutes=10 * number)
    return f"{at:%Y%m%d-%H%M%S}-{number:06x}"


def session(number: int, words: Words) -> tuple[Trace, GoalTree, list[Any]]:
    """Return a session with its events, without their ids. Any: they are of several types."""
    name, at = trace_id(number), _BEGIN + timedelta(minutes=10 * number)
    goal = Goal(id="1", description=words.text(8))
    trace = Trace(
        trace_id=name,
        title=words.text(5),
        workspace=f"/home/ann/project-{number % 20}",
        created_at=at,
        updated_at=at,
        last_event_id=_OF_SESSION,
        last_stop_reason="end_turn",
    )
    events: list[Any] = [
        SessionCreated(trace_id=name, time=at, trace=trace),
        GoalAdded(trace_id=name, time=at, goal=goal),
    ]
    for sequence in range(1, _OF_SESSION - 1):
        if sequence % 10 == 0:
            path = f"src/{words.text(1)}.py"
            changed = {"kind": "update", "version": "v1", "tool_call_id": "call_1", "added": 1, "removed": 1}
            events.append(FileChanged.model_validate({"trace_id": name, "time": at, "path": path, **changed}))
            continue
        message = _message(name, sequence, at + timedelta(seconds=sequence), words)
        events.append(MessageAdded(trace_id=name, time=at, message=message))
    return trace, GoalTree(goals=[goal]), events


def _message(name: str, sequence: int, at: datetime, words: Words) -> Message:
    tool, call = sequence % 2 == 0, f"call_{sequence // 2}"
    content = (
        ToolResultPart(tool_call_id=call, name="read", content=words.text(60))
        if tool
        else TextPart(text=words.text(40))
    )
    return Message(
        message_id=f"msg_{sequence:06d}_{sequence:08x}",
        trace_id=name,
        role="tool" if tool else "assistant",
        sequence=sequence,
        goal_id="1",
        tool_call_id=call if tool else None,
        content=(content,),
        model=None if tool else _MODELS[sequence % len(_MODELS)],
        usage=None if tool else Usage(input=words.number(100, 3000), output=words.number(20, 400)),
        cost=None if tool else 0.01,
        duration_ms=None if tool else words.number(500, 9000),
        created_at=at,
    )


def lines_of(events: Iterable[Any]) -> list[StoredLine]:
    """Return events as lines of a log."""
    return [
        StoredLine(
            number,
            json_bytes(FORMATS.write("event", event.model_copy(update={"event_id": number}).stored())),
        )
        for number, event in enumerate(events, 1)
    ]


def fill(store: TraceStore, first: int, count: int, words: Words) -> float:
    """Add sessions as a daemon writes files, and as the copy to a database does. Returns events in a second."""
    took = 0.0
    for number in range(first, first + count):
        trace, goals, events = session(number, words)
        if isinstance(store, SqlTraceStore):
            lines = lines_of(events)
            meta = json_bytes(FORMATS.write("trace", trace.stored()))
            tree = json_bytes(FORMATS.write("goal_tree", goals.stored()))
            start = time.perf_counter()
            store.put_trace(trace.trace_id, meta, tree)
            for at in range(0, len(lines), 500):
                store.put_lines(trace.trace_id, lines[at : at + 500])
        else:
            start = time.perf_counter()
            store.create(trace)
            for event in events:
                store.append(event)
            store.save_snapshot(trace, goals)
            store.close(trace.trace_id)
        took += time.perf_counter() - start
    return count * _OF_SESSION / took


def questions(store: TraceStore, sessions: int, words: Words) -> dict[str, float]:
    """Return the milliseconds that each question took, medians of some runs."""
    middle, last = trace_id(sessions // 2), trace_id(sessions - 1)
    asked: dict[str, Callable[[], object]] = {
        "50 newest sessions": lambda: store.traces(limit=50),
        "50 from the middle of the list": lambda: store.traces(limit=50, before=middle),
        "last 100 messages of a session": lambda: store.messages(middle, limit=100),
        "100 events from a session's middle": lambda: store.events(middle, after=500, limit=100),
        "last event of a session": lambda: store.last_event_id(last),
    }
    if isinstance(store, SqlTraceStore):
        month = _BEGIN + timedelta(minutes=10 * max(0, sessions - 100))
        asked |= {
            "search: a rare word": lambda: search(store, "needle", limit=20),
            "search: words everywhere": lambda: search(store, words.text(1), limit=20),
            "search: a word that is nowhere": lambda: search(store, "xqzjwv", limit=20),
            "stats by model": lambda: sums(store, "model"),
            "stats by day": lambda: sums(store, "day"),
            "stats by model, 100 newest sessions": lambda: sums(store, "model", since=month),
        }
    elif isinstance(store, FileTraceStore):
        asked |= {
            "search: a rare word": lambda: search_files(store, "needle", limit=20),
            "search: words everywhere": lambda: search_files(store, words.text(1), limit=20),
            "search: a word that is nowhere": lambda: search_files(store, "xqzjwv", limit=20),
        }
    return {name: _median(ask) for name, ask in asked.items()}


def appends(store: TraceStore, sessions: int, words: Words) -> dict[str, float]:
    """Return what one event costs that is written by itself, in a new session."""
    trace, _, events = session(sessions + 500_000, words)
    store.create(trace)
    took: list[float] = []
    for event in events[:_TAKEN]:
        start = time.perf_counter()
        store.append(event)
        took.append((time.perf_counter() - start) * 1000)
    store.delete(trace.trace_id)
    return {"append, median": percentile(took, 0.5), "append, p99": percentile(took, 0.99)}


def _median(ask: Callable[[], object]) -> float:
    took: list[float] = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        ask()
        took.append((time.perf_counter() - start) * 1000)
        if took[-1] > 5000:
            break
    return percentile(took, 0.5)


def measure(name: str, store: TraceStore, sizes: list[int]) -> list[Column]:
    """Fill one store to each size in events, and ask."""
    found: list[Column] = []
    words, there = Words(seed=21), 0
    for size in sizes:
        wanted = size // _OF_SESSION
        column = Column(name, size)
        column.took["events stored in a second"] = fill(store, there, wanted - there, words)
        there = wanted
        column.took |= appends(store, there, words) | questions(store, there, words)
        print(f"{name}, {size:,} events: {json.dumps(column.took)}", file=sys.stderr, flush=True)
        found.append(column)
    return found


def table(columns: list[Column]) -> str:
    """Return a table for people: a line a question, in milliseconds."""
    asked = list(dict.fromkeys(name for column in columns for name in column.took))
    head = ["ms", *(f"{column.store} {column.events // 1000:,}k" for column in columns)]
    rows = [
        [name, *(_number(column.took[name]) if name in column.took else "" for column in columns)]
        for name in asked
    ]
    return "\n".join(aligned([head, *rows]))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def main() -> int:
    """Measure the chosen stores, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.benchmarks.databases", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="the largest size")
    parser.add_argument("--stores", nargs="*", default=["files", "sqlite", "postgresql"])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = [args.events // 100, args.events // 10, args.events]
    columns: list[Column] = []
    server = Postgres(durable=True) if "postgresql" in args.stores else None
    folder = Path(tempfile.mkdtemp(prefix="gw-databases-"))
    try:
        for name in args.stores:
            columns += measure(name, _store(name, folder, server), sizes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if server is not None:
            server.end()
    if args.json:
        found = [{"store": one.store, "events": one.events, "ms": one.took} for one in columns]
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(table(columns))
    return 0


def _store(name: str, folder: Path, server: Postgres | None) -> TraceStore:
    if name == "files":
        return FileTraceStore(folder / "files")
    if server is not None and name == "postgresql":
        return SqlTraceStore.open(server.database("large"))
    return SqlTraceStore.open(f"sqlite:///{folder}/traces.db")


if __name__ == "__main__":
    sys.exit(main())
