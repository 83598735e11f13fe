from __future__ import annotations

import asyncio
import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.listing import TraceQuery
from daemon.api.message_query import MessageQuery
from daemon.api.reader import TraceReader
from daemon.api.step_views import AnswerTooLargeError, NodeQuery, NotFoundError
from daemon.model.branches import BranchMeta, branch_of, child_id, root_of
from daemon.model.events import (
    BranchStarted,
    Event,
    GoalAdded,
    GoalUpdated,
    MessageAdded,
    SessionCreated,
    SessionUpdated,
)
from daemon.model.goals import Goal
from daemon.model.messages import Message, TextPart
from daemon.model.traces import BranchTrace, Trace
from daemon.state.session_state import SessionState
from daemon.store.files import FileTraceStore
from daemon.store.trace_store import StoreError
from tests.support.fakes.memory_store import MemoryTraceStore

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def trace_of(number: int, **fields: Any) -> Trace:
    at = BEGIN + timedelta(hours=number)
    known = {"trace_id": f"t{number:04d}", "workspace": "/w", "created_at": at, "updated_at": at}
    return Trace.model_validate({**known, **fields})


def begun(store: FileTraceStore | MemoryTraceStore, trace: Trace, *events: Event) -> SessionState:
    """A trace in the store whose snapshot is not there: as after a crash."""
    store.create(trace)
    state = SessionState(trace)
    first = SessionCreated(trace_id=trace.trace_id, time=trace.created_at, trace=trace)
    for event in (first, *events):
        state.apply(store.append(event))
    return state


def goal(trace_id: str, goal_id: str, parent: str | None = None) -> GoalAdded:
    return GoalAdded(
        trace_id=trace_id,
        time=BEGIN,
        parent_id=parent,
        goal=Goal(id=goal_id, parent_id=parent, description=f"g{goal_id}"),
    )


def message(
    trace_id: str, sequence: int, goal_id: str | None = None, role: Any = "assistant"
) -> MessageAdded:
    said = Message(
        message_id=f"msg_{sequence:06d}_ab",
        trace_id=root_of(trace_id),
        branch_id=branch_of(trace_id),
        role=role,
        sequence=sequence,
        goal_id=goal_id,
        content=(TextPart(text=f"m{sequence}"),),
        created_at=BEGIN,
    )
    return MessageAdded(trace_id=trace_id, time=BEGIN, message=said)


async def pages(reader: TraceReader, **query: Any) -> list[str]:
    """Ids of all pages."""
    found: list[str] = []
    before = None
    while True:
        page = await reader.traces(TraceQuery(before=before, **query))
        found += [trace["trace_id"] for trace in page["traces"]]
        before = page["next"]
        assert (before is not None) == page["more"]
        if before is None:
            return found


@given(st.integers(0, 12), st.integers(1, 5), st.sets(st.integers(0, 11)))
def test_paged_traces_equal_the_filtered_list(count: int, limit: int, wanted: set[int]) -> None:
    store = MemoryTraceStore()
    for number in range(count):
        store.create(trace_of(number, agent="plan" if number in wanted else "build"))
    reader = TraceReader(store, lambda _: None)
    everything = [f"t{number:04d}" for number in reversed(range(count))]
    assert asyncio.run(pages(reader, limit=limit)) == everything
    chosen = [name for name in everything if int(name[1:]) in wanted]
    assert asyncio.run(pages(reader, limit=limit, agent="plan")) == chosen


async def test_traces_are_filtered_by_text_status_model_and_time() -> None:
    store = MemoryTraceStore()
    for number, fields in enumerate(
        [
            {"title": "Add a LOGIN page", "model": "x/a", "last_stop_reason": "end_turn"},
            {"summary": "the login works", "last_stop_reason": "canceled"},
            {"title": "other", "last_stop_reason": "error", "updated_at": BEGIN + timedelta(days=9)},
            {"title": "running", "running": True},
        ]
    ):
        store.create(trace_of(number, **fields))
    begun(store, trace_of(4), SessionUpdated(trace_id="t0004", time=BEGIN, updates={"mission": "log in"}))
    state = begun(
        store, trace_of(5), SessionUpdated(trace_id="t0005", time=BEGIN, updates={"mission": "Login 登录"})
    )
    reader = TraceReader(store, {"t0005": state}.get, is_foreign=lambda name: name == "t0002")

    async def ids(**query: Any) -> list[str]:
        return await pages(reader, **query)

    assert await ids(q="login") == ["t0005", "t0001", "t0000"]
    assert await ids(q="LOGIN page") == ["t0000"]
    assert await ids(q="登录") == ["t0005"]
    assert await ids(model="x/a") == ["t0000"]
    assert await ids(status=frozenset(["completed"])) == ["t0000"]
    assert await ids(status=frozenset(["canceled", "failed"])) == ["t0003", "t0002", "t0001"]
    assert await ids(since=BEGIN + timedelta(hours=4)) == ["t0004", "t0002"]
    assert await ids(until=datetime(2026, 1, 1, 1)) == ["t0001", "t0000"]
    listed = (await reader.traces(TraceQuery()))["traces"]
    assert [trace["foreign"] for trace in listed] == [False, False, False, True, False, False]
    assert listed[0]["task"] == "Login 登录"


async def test_messages_are_filtered_by_goal_and_role_and_paged(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path)
    store.prepare()
    gone = GoalUpdated(
        trace_id="t0000", time=BEGIN, goal_id="3", updates={"status": "abandoned", "summary": "no"}
    )
    state = begun(
        store,
        trace_of(0),
        goal("t0000", "1"),
        goal("t0000", "2", "1"),
        goal("t0000", "3"),
        *(
            message("t0000", n, (None, "1", "2", "3")[n % 4], "tool" if n % 2 else "assistant")
            for n in range(1, 41)
        ),
        gone,
    )
    for reader in (TraceReader(store, lambda _: None), TraceReader(store, {"t0000": state}.get)):

        async def seen(reader: TraceReader = reader, **query: Any) -> list[int]:
            found: list[int] = []
            before = None
            while True:
                page = await reader.messages("t0000", MessageQuery(before=before, limit=7, **query))
                found[:0] = [m["sequence"] for m in page["messages"]]
                if not page["has_earlier"]:
                    return found
                before = found[0]

        assert await seen() == list(range(1, 41))
        assert await seen(goal_id="1") == list(range(1, 41, 4))
        assert await seen(goal_id="1.1") == list(range(2, 41, 4))
        assert await seen(goal_id="1", descendants=True) == [n for n in range(1, 41) if n % 4 in (1, 2)]
        # The goal with the id 2 is shown as 1.1, and the one with the id 3 was given up: it has no number.
        for of_second in (
            {"goal_id": "2"},
            {"number": "1.1"},
            {"goal_id": "#1.1"},
            {"goal_id": "9", "number": "1.1"},
        ):
            assert await seen(reader, **of_second) == list(range(2, 41, 4))
        assert await seen(goal_id="3") == await seen(internal_goal_id="3") == list(range(3, 41, 4))
        assert await seen(role="tool") == list(range(1, 41, 2))
        assert await seen(goal_id="1", role="assistant") == []
        wrong_ones: tuple[dict[str, Any], ...] = (
            {"number": "2"},
            {"goal_id": "#2"},
            {"goal_id": "9"},
            {"goal_id": "nonsense"},
            {"internal_goal_id": "9"},
            {"branch_id": "A"},
        )
        for wrong in wrong_ones:
            with pytest.raises(NotFoundError):
                await seen(**wrong)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 4, 100])
async def test_goal_of_a_branch_excludes_inherited_messages(live: bool, limit: int) -> None:
    store = MemoryTraceStore()
    main = begun(store, trace_of(0), goal("t0000", "1"))
    session_id = child_id("t0000", "A")
    meta = BranchMeta(id="A", explore_start_id="1", description="A")
    trace = BranchTrace(
        trace_id=session_id, workspace="/w", created_at=BEGIN, updated_at=BEGIN, inherited=4, **_about(meta)
    )
    # Those that it began with have the goals of the main line, whose ids its own plan has, too.
    messages = (message(session_id, n, (None, "1")[n % 2]) for n in range(1, 11))
    branch = begun(store, trace, goal(session_id, "1"), goal(session_id, "2", "1"), *messages)
    for state, name in ((main, "t0000"), (branch, session_id)):
        store.save_snapshot(store.trace(name), state.plan.snapshot())
    reader = TraceReader(store, {"t0000": main, session_id: branch}.get if live else lambda _: None)

    async def seen(**query: Any) -> list[int]:
        found: list[int] = []
        before: int | None = None
        while True:
            asked = MessageQuery(branch_id="A", before=before, limit=limit, **query)
            page = await reader.messages("t0000", asked)
            found[:0] = [one["sequence"] for one in page["messages"]]
            assert page["messages"] or not page["has_earlier"]
            if not page["has_earlier"]:
                return found
            before = found[0]

    assert await seen() == list(range(1, 11))
    assert await seen(inherited=False) == list(range(5, 11))
    assert await seen(inherited=False, role="tool") == []
    for of_goal in ({"goal_id": "1"}, {"internal_goal_id": "1"}, {"goal_id": "1", "descendants": True}):
        assert await seen(**of_goal) == await seen(inherited=False, **of_goal) == [5, 7, 9]
    assert await seen(without_goal=True) == [6, 8, 10]
    assert await seen(internal_goal_id="2") == []


@pytest.mark.parametrize("live", [True, False])
async def test_unknown_goal_error_names_the_known_goals(live: bool) -> None:
    store = MemoryTraceStore()
    states = {"t0000": begun(store, trace_of(0)), "t0001": begun(store, trace_of(1), goal("t0001", "1"))}
    for trace_id, state in states.items():
        store.save_snapshot(store.trace(trace_id), state.plan.snapshot())
    reader = TraceReader(store, states.get if live else lambda _: None)
    for trace_id, known in (("t0000", "it has none"), ("t0001", "there are: 1.")):
        with pytest.raises(NotFoundError) as caught:
            await reader.messages(trace_id, MessageQuery(number="7"))
        assert "'7'" in str(caught.value) and known in str(caught.value)
        assert "Add" not in str(caught.value)
        with pytest.raises(NotFoundError, match=r"no goal with the id '7'.*number=7 or goal_id=%237\."):
            await reader.messages(trace_id, MessageQuery(goal_id="7"))


@given(
    lengths=st.lists(st.integers(min_value=0, max_value=9), min_size=1, max_size=4),
    limit=st.integers(min_value=1, max_value=7),
    live=st.sampled_from(["all", "main", "none"]),
    inherited=st.integers(min_value=0, max_value=2),
)
def test_pages_of_an_exploration_hold_its_and_branch_messages(
    lengths: list[int], limit: int, live: str, inherited: int
) -> None:
    store = MemoryTraceStore()
    names = "ABCD"[: len(lengths)]
    metas = [BranchMeta(id=name, explore_start_id="1", description=name) for name in names]
    other = BranchMeta(id="E", explore_start_id="2", description="of another exploration")
    gone = BranchMeta(id="F", explore_start_id="1", description="its log is gone")
    started = (
        BranchStarted(trace_id="t0000", time=BEGIN, explore_start_id=meta.explore_start_id, branch=meta)
        for meta in (*metas, other, gone)
    )
    own = [message("t0000", n, "1" if n < 3 else "2") for n in range(1, 5)]
    states = {"t0000": begun(store, trace_of(0), goal("t0000", "1"), goal("t0000", "2"), *started, *own)}
    wanted = [(1, ""), (2, "")]
    for meta, length in zip((*metas, other), (*lengths, 3), strict=True):
        session_id = child_id("t0000", meta.id)
        trace = BranchTrace(
            trace_id=session_id,
            workspace="/w",
            created_at=BEGIN,
            updated_at=BEGIN,
            inherited=inherited,
            **_about(meta),
        )
        count = inherited + length
        states[session_id] = begun(store, trace, *(message(session_id, n, None) for n in range(1, count + 1)))
        if meta is not other:
            wanted += [(n, meta.id) for n in range(inherited + 1, count + 1)]
    lives = {"all": states, "main": {"t0000": states["t0000"]}, "none": {}}[live]
    reader = TraceReader(store, lives.get)

    async def seen() -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        before: int | None = None
        while True:
            query = MessageQuery(internal_goal_id="1", descendants=True, limit=limit, before=before)
            page = await reader.messages("t0000", query)
            found[:0] = [(m["sequence"], m["branch_id"] or "") for m in page["messages"]]
            assert len(page["messages"]) <= max(limit, len(names) + 1)
            if not page["has_earlier"]:
                return found
            before = found[0][0]

    assert asyncio.run(seen()) == sorted(wanted)


def _about(meta: BranchMeta) -> dict[str, Any]:
    return {"id": meta.id, "explore_start_id": meta.explore_start_id, "description": meta.description}


HOSTILE = (
    "", ".", "..", "../..", "..\\..", "/etc", "t0000/..", "t0000/../t0001", ".trace", "t0000:", "t0000:A",
    "t0000:../..", "\0", "t\0", "~", "x" * 101, "x" * 100_000, "ü", "𝕏", "%2e%2e", "con", "t0000\n", "\ud800",
)  # fmt: skip


@pytest.mark.parametrize("files", [True, False])
async def test_ids_that_escape_the_store_are_not_found(tmp_path: Path, files: bool) -> None:
    store = FileTraceStore(tmp_path / "workspace" / ".trace") if files else MemoryTraceStore()
    if isinstance(store, FileTraceStore):
        store.root.mkdir(parents=True)
        store.prepare()
        outside = FileTraceStore(tmp_path / "outside")
        outside.prepare()
        begun(outside, trace_of(1))
        (store.root / "t0001").symlink_to(outside.root / "t0001", target_is_directory=True)
    begun(store, trace_of(0), goal("t0000", "1"))
    reader = TraceReader(store, lambda _: None)
    for name in (*HOSTILE, "t0001"):
        for asked in (
            reader.trace(name),
            reader.messages(name, MessageQuery()),
            reader.tree(name),
            reader.node(name, None),
            reader.branch(name, "A"),
        ):
            with pytest.raises(NotFoundError):
                await asked
    for name in HOSTILE:
        for asked in (
            reader.branch("t0000", name),
            reader.messages("t0000", MessageQuery(branch_id=name)),
            reader.tree("t0000", name),
            reader.node("t0000", name or "x"),
            reader.node("t0000", None, NodeQuery(after=name or "x")),
        ):
            with pytest.raises(NotFoundError):
                await asked
    assert await pages(reader, limit=10) == ["t0000"]


async def test_reading_writes_nothing_also_where_a_crash_left_a_trace(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path)
    store.prepare()
    begun(store, trace_of(0), goal("t0000", "1"), *(message("t0000", n, "1") for n in range(1, 5)))
    with (tmp_path / "t0000/events.jsonl").open("ab") as log:
        log.write(b'{"event": "torn')
    store.close()

    def files() -> dict[str, tuple[int, bytes]]:
        return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file()}

    before = files()
    reader = TraceReader(FileTraceStore(tmp_path), lambda _: None)
    assert [goal["id"] for goal in (await reader.trace("t0000"))["goal_tree"]["goals"]] == ["1"]
    page = await reader.messages("t0000", MessageQuery(goal_id="1"))
    assert [one["sequence"] for one in page["messages"]] == [1, 2, 3, 4]
    assert (await reader.tree("t0000"))["total_steps"] > 0
    await reader.traces(TraceQuery(q="x"))
    assert files() == before


@pytest.mark.parametrize("damaged", ["meta.json", "goal.json", "events.jsonl"])
@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff" * 9, b"[" * 200_000, b'{"trace_id": "other"}', b"null", b'{"goals": 1}\n' * 3],
)
async def test_damaged_trace_file_is_rebuilt_from_log_or_reported(
    tmp_path: Path, damaged: str, data: bytes
) -> None:
    store = FileTraceStore(tmp_path)
    store.prepare()
    state = begun(store, trace_of(0), goal("t0000", "1"))
    store.save_snapshot(state.carrying(), state.plan.snapshot())
    store.close()
    (tmp_path / "t0000" / damaged).write_bytes(data)
    reader = TraceReader(FileTraceStore(tmp_path), lambda _: None)
    await reader.traces(TraceQuery(q="x"))
    for asked in (
        reader.trace("t0000"),
        reader.tree("t0000"),
        reader.messages("t0000", MessageQuery(goal_id="1")),
    ):
        try:
            json.dumps(await asked)
        except (StoreError, NotFoundError) as error:
            assert len(str(error)) > 20
    # An object without goals is a plan without goals.
    if damaged == "meta.json" or (damaged == "goal.json" and b"other" not in data):
        assert [one["id"] for one in (await reader.trace("t0000"))["goal_tree"]["goals"]] == ["1"]


async def test_very_deep_or_wide_plan_is_served_in_pages() -> None:
    store = MemoryTraceStore()
    deep = [goal("t0000", str(n), str(n - 1) if n > 1 else None) for n in range(1, 1500)]
    begun(store, trace_of(0), *deep)
    begun(store, trace_of(1), *(goal("t0001", str(n)) for n in range(1, 2502)))
    reader = TraceReader(store, lambda _: None)
    json.dumps(await reader.tree("t0000"))
    json.dumps(await reader.trace("t0000"))
    json.dumps(await reader.node("t0000", None, NodeQuery(expand=True, max_depth=100)))
    with pytest.raises(AnswerTooLargeError, match="node/root"):
        await reader.tree("t0001")
    found: list[str] = []
    after = None
    while True:
        page = await reader.node("t0001", None, NodeQuery(after=after))
        found += [step["step_id"] for step in page["children"]]
        if not page["more"]:
            break
        after = found[-1]
    assert found == [f"goal_{n}" for n in range(1, 2502)]


async def test_steps_are_paged_from_newest_to_earlier() -> None:
    store = MemoryTraceStore()
    begun(store, trace_of(0), *(goal("t0000", str(n)) for n in range(1, 26)))
    reader = TraceReader(store, lambda _: None)
    found: list[str] = []
    page = await reader.node("t0000", None, NodeQuery(limit=10, newest=True))
    while True:
        found = [step["step_id"] for step in page["children"]] + found
        if not page["more"]:
            break
        page = await reader.node("t0000", None, NodeQuery(limit=10, before=found[0]))
    assert found == [f"goal_{n}" for n in range(1, 26)]
    page = await reader.node("t0000", None, NodeQuery(limit=2, after="goal_3", before="goal_8"))
    assert [step["step_id"] for step in page["children"]] == ["goal_6", "goal_7"] and page["more"]
    page = await reader.node("t0000", None, NodeQuery(after="goal_3", before="goal_4"))
    assert page["children"] == [] and not page["more"]
    for after, before in ((None, "goal_99"), ("goal_8", "goal_3")):
        with pytest.raises(NotFoundError, match="give one of its"):
            await reader.node("t0000", None, NodeQuery(after=after, before=before))


async def test_tree_is_updated_incrementally_for_concurrent_readers() -> None:
    store = MemoryTraceStore()
    state = begun(store, trace_of(0), goal("t0000", "1"))
    reader = TraceReader(store, {"t0000": state}.get)
    for number in range(2, 40):
        state.apply(store.append(goal("t0000", str(number))))
        trees = await asyncio.gather(*(reader.tree("t0000") for _ in range(5)))
        assert {tree["total_steps"] for tree in trees} == {number}


READS = ("trace", "traces", "events", "messages", "goal_tree", "last_event_id")


async def test_no_trace_is_read_on_the_event_loop(tmp_path: Path) -> None:
    loop_thread = threading.get_ident()
    touched: list[str] = []

    class Watching(FileTraceStore):
        def __getattribute__(self, name: str) -> Any:
            if name in READS and threading.get_ident() == loop_thread:
                touched.append(name)
            return super().__getattribute__(name)

    store = FileTraceStore(tmp_path)
    store.prepare()
    begun(store, trace_of(0), goal("t0000", "1"), message("t0000", 1, "1"))
    reader = TraceReader(Watching(tmp_path), lambda _: None)
    await reader.traces(TraceQuery(q="x"))
    await reader.trace("t0000")
    await reader.messages("t0000", MessageQuery(goal_id="1"))
    await reader.tree("t0000")
    await reader.node("t0000", None)
    assert touched == []
