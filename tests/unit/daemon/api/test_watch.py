"""The WebSocket with real sockets: frames for clients, and refused clients."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from daemon.api.frames import GRAPH_EVENTS
from daemon.api.hub import ClientLimits
from daemon.api.listing import TraceQuery
from daemon.api.message_query import MessageQuery
from daemon.api.step_views import CUT, NotFoundError
from daemon.api.watch import WatchServer
from daemon.model.branches import child_id
from daemon.model.events import BranchGoalAdded, MessagePartAdded, TraceCompleted
from daemon.model.goals import Goal
from daemon.model.messages import TextPart, ToolCallPart
from daemon.store.files import FileTraceStore
from tests.support.drivers.waiting import until
from tests.support.drivers.watched import TRACE, Watched, hear, ids, watched
from tests.support.examples import in_full

EVENTS = "events=goals&deltas=false"


async def closed(socket: ClientConnection) -> tuple[int, str]:
    """Code and words of the close that comes next, whatever comes before it."""
    async with asyncio.timeout(60):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as error:
            assert error.rcvd is not None
            return error.rcvd.code, error.rcvd.reason


async def refusal(bench: Watched, query: str = "", trace_id: str = TRACE) -> tuple[int, str]:
    """Status and words of a handshake that is refused."""
    with pytest.raises(InvalidStatus) as caught:
        async with bench.watch(query, trace_id):
            pass
    return caught.value.response.status_code, json.loads(caught.value.response.body)["detail"]


def kinds(frames: Iterable[dict[str, Any]]) -> list[str]:
    return [frame["event"] for frame in frames]


async def test_first_frame_has_the_plan_and_its_event_id() -> None:
    async with watched() as bench:
        bench.work(12)
        last = bench.notices(1)[0].event_id
        async with bench.watch() as socket:
            (first,) = await hear(socket, count=1)
            assert first["event"] == "connected"
            assert first["trace_id"] == TRACE
            assert first["current_event_id"] == last
            assert [goal["id"] for goal in first["goal_tree"]["goals"]] == ["1", "2"]
            assert first["goal_tree"]["goals"][0]["cumulative_stats"]["message_count"] == 20
            assert first["goal_numbers"] == {"1": "1", "2": "2"}
            assert first["trace"]["trace_id"] == TRACE
            assert first["branches"] == {}
            (now,) = bench.notices(1)
            (then,) = await hear(socket, count=1)
            assert then == {**now.stored()}


@pytest.mark.parametrize("no", ["false", "0", "no", "off", "No", "f"])
async def test_deltas_can_be_switched_off_by_query(no: str) -> None:
    async with (
        watched() as bench,
        bench.watch(f"deltas={no}") as without,
        bench.watch("deltas=yes") as with_them,
    ):
        for socket in (without, with_them):
            await hear(socket, count=1)
        bench.notices(1)
        for socket in (without, with_them):
            await hear(socket, count=1)  # they follow
        bench.delta("hello ")
        bench.notices(1)
        assert kinds(await hear(with_them, count=2)) == ["delta", "notice"]
        assert kinds(await hear(without, count=1)) == ["notice"]


@pytest.mark.parametrize(("since", "expected"), [("0", 1), ("5", 6), ("31", 32), ("32", 33), ("999", 33)])
async def test_reconnecting_client_receives_missed_events(since: str, expected: int) -> None:
    async with watched() as bench:
        bench.notices(31)
        async with bench.watch(f"since_event_id={since}&{EVENTS.replace('goals', 'all')}") as socket:
            (first,) = await hear(socket, count=1)
            assert first["current_event_id"] == 32
            bench.notices(2)
            assert ids(await hear(socket, to=34)) == list(range(expected, 35))


async def test_a_trace_that_is_not_live_is_read_from_the_store() -> None:
    async with watched() as bench:
        bench.work(3)
        bench.states.clear()
        async with bench.watch("since_event_id=0") as socket:
            frames = await hear(socket, to=9)
            assert [goal["id"] for goal in frames[0]["goal_tree"]["goals"]] == ["1"]
            assert ids(frames) == list(range(1, 10))
            bench.notices(1)  # somebody opened it
            assert ids(await hear(socket, count=1)) == [10]


async def test_each_client_receives_the_events_it_asked_for() -> None:
    async with (
        watched() as bench,
        bench.watch() as all_,
        bench.watch("events=goals") as goals,
        bench.watch("events=steps") as steps,
    ):
        for socket in (all_, goals, steps):
            await hear(socket, count=1)
        bench.emit(bench.goal("1"))
        first = await hear(all_, to=2)  # a delta is for those who follow by now
        bench.delta("hello ")
        part = TextPart(text="hello you")
        bench.emit(
            MessagePartAdded(trace_id=TRACE, time=bench.time(), message_id="m1", index=0, part=part),
            bench.message(part),
            TraceCompleted(trace_id=TRACE, time=bench.time(), status="completed", total_messages=1),
        )
        everything = first + await hear(all_, to=5)
        assert kinds(everything) == [
            "step_added", "goal_added", "delta", "message_part_added", "step_added", "message_added",
            *kinds(everything)[6:-1], "trace_completed",
        ]  # fmt: skip
        graph = await hear(goals, to=5)
        assert kinds(graph) == ["goal_added", "message_added", "trace_completed"]
        assert set(kinds(graph)) <= GRAPH_EVENTS
        stepped = await hear(steps, to=5)
        assert set(kinds(stepped)) == {"step_added", "trace_completed"} | (
            set(kinds(stepped)) & {"step_updated"}
        )
        assert next(frame["step"]["step_type"] for frame in stepped if "step" in frame) == "goal"


async def test_branch_events_reach_main_watchers_and_branch_watchers() -> None:
    async with watched() as bench:
        branch = child_id(TRACE, "A")
        bench.begin(branch)
        bench.work(2, branch)
        async with bench.watch("since_event_id=0&branch_id=A") as own, bench.watch() as main:
            frames = await hear(own, to=7)
            assert (frames[0]["trace_id"], frames[0]["branch_id"]) == (TRACE, "A")
            assert {frame["trace_id"] for frame in frames} == {TRACE}
            assert ids(frames) == list(range(1, 8))
            assert {goal["branch_id"] for goal in frames[0]["goal_tree"]["goals"]} == {"A"}
            await hear(main, count=1)
            goal = Goal(id="1", branch_id="A", description="try")
            bench.emit(BranchGoalAdded(trace_id=TRACE, time=bench.time(), branch_id="A", goal=goal))
            told = await hear(main, to=2)
            assert (told[-1]["event"], told[-1]["branch_id"]) == ("branch_goal_added", "A")
            bench.notices(1, branch)
            assert ids(await hear(own, to=8)) == [8]


MANY = in_full(50, 10)


async def test_stalled_client_does_not_delay_other_clients() -> None:
    # A hundred kilobytes are more than the sockets between the two take of the ten megabytes that are said.
    limits = ClientLimits(queue_frames=50)
    async with watched(limits=limits) as bench:
        query = "since_event_id=0&events=all"
        async with bench.watch(query, max_queue=1) as stalled:
            sockets = [await bench.watch(query) for _ in range(MANY - 1)]
            try:
                reading = [asyncio.create_task(hear(socket, to=301)) for socket in sockets]
                for _ in range(30):
                    bench.notices(10, text="x" * 30_000)
                    await asyncio.sleep(0)
                for frames in await asyncio.gather(*reading):
                    assert ids(frames) == list(range(1, 302))
                assert bench.attached == MANY
                late = await hear(stalled, to=301)
                assert ids(late) == list(range(1, 302))
                bench.notices(1)
                assert ids(await hear(stalled, to=302)) == [302]
            finally:
                await asyncio.gather(*(socket.close() for socket in sockets))
        await until(lambda: bench.attached == 0, "all clients gone")


async def test_more_than_can_wait_is_read_from_the_log() -> None:
    limits = ClientLimits(pending_events=20, queue_frames=10, page_events=7)
    async with (
        watched(limits=limits) as bench,
        bench.watch("since_event_id=0") as socket,
        bench.watch("events=steps") as steps,
    ):
        await hear(socket, count=1)
        await hear(steps, count=1)
        bench.work(100)  # in one go: nothing of it can be encoded meanwhile
        last = bench.states[TRACE].trace.last_event_id
        assert ids(await hear(socket, to=last)) == list(range(1, last + 1))
        assert [f["step"]["step_id"] for f in await hear(steps, to=last) if "step" in f][-1] == "result_c99"
        bench.notices(1)
        assert ids(await hear(socket, to=last + 1)) == [last + 1]


async def test_reconnecting_client_gets_missed_events_from_memory() -> None:
    async with watched() as bench:
        async with bench.watch() as socket:
            await hear(socket, count=1)
            bench.notices(3)
            await hear(socket, count=2)
        bench.notices(5)
        async with bench.watch("since_event_id=3") as socket:
            assert ids(await hear(socket, to=9)) == [4, 5, 6, 7, 8, 9]


async def test_reconnecting_client_receives_no_delta_twice() -> None:
    async with watched() as bench:
        async with bench.watch() as socket:
            await hear(socket, count=1)
            bench.delta("one two ")
            assert [frame["text"] for frame in await hear(socket, count=1)] == ["one two "]
        async with bench.watch("since_event_id=1") as socket:
            await hear(socket, count=1)
            await until(lambda: bench.attached == 1, "the one that left is gone")
            bench.delta("three ")
            bench.notices(1)
            assert [frame.get("text") for frame in await hear(socket, to=2)] == ["three ", "so 0"]


@pytest.mark.parametrize("before", [0, 60, CUT - 10])
async def test_live_steps_equal_stored_steps_with_truncated_secrets(tmp_path: Path, before: int) -> None:
    secret = "sk-ant-api03-Zq8Wx7Cv6Bn5Mm4Ll3Kk2Jj1Hh0"
    async with watched(FileTraceStore(tmp_path / ".trace")) as bench, bench.watch("since_event_id=0") as live:
        await hear(live, to=1)
        for text in ("plain", "x" * before + f" {secret} " + "y" * 200 + f" {secret}"):
            call = ToolCallPart(id=f"c{len(text)}", name="bash", input=json.dumps({"command": text}))
            bench.emit(bench.message(TextPart(text=text), call))
        told = await hear(live, to=3)
        bench.states.clear()
        await bench.server.close()
        again = WatchServer(lambda _: bench.reader, bench.bus, limits=ClientLimits())
        bench.server = again
        async with bench.watch("since_event_id=1") as stored:
            assert (await hear(stored, to=3))[1:] == told
        assert any(frame["event"] == "step_added" for frame in told)
        assert "sk-ant" not in json.dumps(told)


async def test_attached_clients_are_counted_until_they_leave() -> None:
    async with watched() as bench:
        async with bench.watch() as one:
            async with bench.watch():
                await until(lambda: bench.attached == 2, "two clients")
            await until(lambda: bench.attached == 1, "one client")
            one.transport.abort()
            await until(lambda: bench.attached == 0, "no client")
        with pytest.raises(InvalidStatus):
            await bench.watch(trace_id="20260102-nothing")
        assert bench.attached == 0


async def test_clients_over_the_limit_are_rejected_until_one_leaves() -> None:
    async with watched(limits=ClientLimits(clients=3, clients_per_trace=2)) as bench:
        other = "20260102-030405-000000ffff"
        bench.begin(other)
        async with bench.watch() as first, bench.watch():
            async with bench.watch() as third:
                assert await closed(third) == (
                    1013,
                    "2 clients watch this trace already. Close one of them, or try again later.",
                )
            async with bench.watch(trace_id=other), bench.watch(trace_id=other) as fourth:
                code, words = await closed(fourth)
                assert (code, words[:36]) == (1013, "3 clients watch traces of this daemo")
            await first.close()
            await until(lambda: bench.attached == 1, "a free place")
            async with bench.watch() as again:
                assert kinds(await hear(again, count=1)) == ["connected"]


async def test_server_stop_closes_all_clients_including_stalled_ones() -> None:
    async with watched(limits=ClientLimits(close_s=0.2)) as bench:
        async with bench.watch() as socket, bench.watch("since_event_id=0", max_queue=1) as stalled:
            await hear(socket, count=1)
            await hear(stalled, count=1)
            reading = asyncio.create_task(hear(socket, to=401))
            bench.notices(400, text="x" * 30_000)
            await reading
            await bench.server.close()
            code, words = await closed(socket)
            assert code == 1001
            assert "since_event_id" in words
            with pytest.raises(ConnectionClosed):
                await hear(stalled, to=10**6)
        assert bench.attached == 0
        async with bench.watch() as late:
            assert (await closed(late))[0] == 1001


async def test_stalled_client_is_disconnected() -> None:
    async with (
        watched(limits=ClientLimits(stalled_s=0.2)) as bench,
        bench.watch("since_event_id=0", max_queue=1) as stalled,
    ):
        await hear(stalled, count=1)
        bench.notices(400, text="x" * 30_000)
        await until(lambda: bench.attached == 0, "it is cut off")


async def test_stalled_client_that_was_cut_off_frees_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("daemon.api.serving.HEAD_S", 0.05)
    monkeypatch.setattr("daemon.api.serving.KEEP_ALIVE_S", 0)
    async with (
        watched(limits=ClientLimits(stalled_s=0.2, close_s=0.1)) as bench,
        bench.watch("since_event_id=0", max_queue=1) as stalled,
    ):
        await hear(stalled, count=1)
        bench.notices(400, text="x" * 30_000)
        await until(lambda: not bench.connections, "its connection is gone")


async def test_a_client_that_talks_is_sent_away() -> None:
    async with watched(limits=ClientLimits(frames_from_client=3)) as bench, bench.watch() as socket:
        await socket.send("one")
        await socket.send(b"two")
        await socket.send("three")
        await hear(socket, count=1)
        bench.notices(1)
        assert ids(await hear(socket, count=1)) == [2]
        await socket.send("four")
        assert (await closed(socket))[0] == 1008


async def test_a_message_that_is_too_long_ends_the_connection() -> None:
    async with watched() as bench, bench.watch() as socket:
        await socket.send("x" * 5_000)
        assert (await closed(socket))[0] == 1009


@pytest.mark.parametrize(
    ("query", "trace_id", "status", "words"),
    [
        ("", "20260102-nothing", 404, "20260102-nothing"),
        ("", "..", 404, "no"),
        ("", f"{TRACE}:A", 404, "branch"),
        ("branch_id=A", TRACE, 404, "A"),
        ("branch_id=../x", TRACE, 404, "branch"),
        ("since_event_id=-1", TRACE, 422, "since_event_id"),
        ("since_event_id=%C2%B2", TRACE, 422, "since_event_id"),
        ("since_event_id=" + "9" * 30, TRACE, 422, "since_event_id"),
        ("events=none", TRACE, 422, "all, goals, steps"),
        ("deltas=perhaps", TRACE, 422, "deltas"),
    ],
)
async def test_invalid_watch_requests_are_refused_with_a_reason(
    query: str, trace_id: str, status: int, words: str
) -> None:
    async with watched() as bench:
        code, detail = await refusal(bench, query, trace_id.replace("..", "%2e%2e"))
        assert code == status
        assert words in detail


@pytest.mark.parametrize(
    ("query", "trace_id"), [("", "20260102-030405-00000000ff"), ("branch_id=A", TRACE), ("", "a:A")]
)
async def test_watch_errors_equal_those_of_the_rest_endpoints(query: str, trace_id: str) -> None:
    async with watched() as bench:
        with pytest.raises(NotFoundError) as caught:
            await bench.reader.tree(trace_id, query.removeprefix("branch_id=") or None)
        assert await refusal(bench, query, trace_id) == (404, str(caught.value))


async def test_deleted_live_trace_is_not_found_by_any_endpoint(tmp_path: Path) -> None:
    async with watched(FileTraceStore(tmp_path / ".trace")) as bench:
        bench.notices(1)
        async with bench.watch() as socket:
            await hear(socket, count=1)
            shutil.rmtree(tmp_path / ".trace" / TRACE)
            reader = bench.reader
            for asked in (
                reader.trace(TRACE),
                reader.messages(TRACE, MessageQuery()),
                reader.tree(TRACE),
                reader.node(TRACE, None),
                reader.branch(TRACE, "A"),
            ):
                with pytest.raises(NotFoundError, match="There is no trace"):
                    await asked
            assert (await reader.traces(TraceQuery()))["traces"] == []
            for since in ("", "since_event_id=0"):
                status, words = await refusal(bench, since)
                assert (status, words[:17]) == (404, "There is no trace")


async def test_deleted_trace_closes_the_watch_without_a_resume_hint(tmp_path: Path) -> None:
    async with watched(FileTraceStore(tmp_path / ".trace"), ClientLimits(page_events=10)) as bench:
        bench.notices(2000, text="x" * 2000)
        bench.states.clear()
        async with bench.watch("since_event_id=0", max_queue=1) as socket:
            await hear(socket, count=1)
            shutil.rmtree(tmp_path / ".trace" / TRACE)
            code, words = await closed(socket)
            assert (code, "deleted" in words, "since_event_id" in words) == (1011, True, False)


async def test_the_goals_of_seed_000_are_drawn_from_events_alone() -> None:
    async with watched() as bench, bench.watch(EVENTS) as socket:
        await hear(socket, count=1)
        bench.emit(bench.goal("1"), bench.goal("2", "1"))
        call = ToolCallPart(id="c", name="read", input="{}")
        bench.emit(bench.message(call, goal_id="2"))
        *_, message = await hear(socket, to=4)
        own, above = message["affected_goals"]
        numbers = {
            "message_count": 1,
            "total_tokens": 100,
            "total_cost": 0.01,
            "unpriced_tokens": 0,
            "duration_ms": 2500,
            "preview": "read",
        }
        assert own == {"goal_id": "2", "self_stats": numbers, "cumulative_stats": numbers}
        assert above == {"goal_id": "1", "cumulative_stats": numbers}


async def test_internal_error_closes_one_watch_and_server_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with watched() as bench:
        async with bench.watch("events=goals") as socket:
            await hear(socket, count=1)
            with monkeypatch.context() as broken:
                broken.setattr("daemon.api.hub.event_entry", None)
                bench.notices(1)
                code, words = await closed(socket)
            assert code == 1011
            assert "since_event_id" in words
        async with bench.watch("since_event_id=1&events=all") as socket:
            assert ids(await hear(socket, to=2)) == [2]
