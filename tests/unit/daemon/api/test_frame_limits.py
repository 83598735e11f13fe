"""Frames that every client takes, however large what they tell of is."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from daemon.api.frame_limits import FRAME_BYTES, MARK, shorten_frame
from daemon.api.frames import connected_frame, delta_entry, event_entry
from daemon.api.hub import ClientLimits
from daemon.api.message_query import MessageQuery
from daemon.model.encoding import json_bytes
from daemon.model.events import Delta, Event, GoalUpdated, MessagePartAdded, Notice
from daemon.model.goals import Goal, GoalTree
from daemon.model.messages import FilePart, TextPart, ToolCallPart, ToolResultPart
from daemon.model.steps import Step
from daemon.steps.fold import StepAdded
from daemon.store.files import FileTraceStore
from daemon.store.trace_store import TraceStore
from tests.support.drivers.watched import TRACE, Watched, watched
from tests.support.fakes.memory_store import MemoryTraceStore

MOST = 2**20
"""Default size limit of Python's ``websockets``."""
KEY = "sk-ant-abcdefgh12345678ABCDEFGH"
PICTURE = base64.b64encode(bytes(range(256)) * 4_100).decode()
LARGE_FILE = ("x = 1  # " + "y" * 90 + "\n") * 14_000


def large_events(bench: Watched) -> list[Event]:
    call = ToolCallPart(
        id="c1", name="write", input=json.dumps({"file_path": "/w/b.py", "content": LARGE_FILE})
    )
    picture = FilePart(name="p.png", media_type="image/png", data=PICTURE)
    looked = ToolResultPart(tool_call_id="c2", name="read", content="A picture.", images=(picture,))
    printed = ToolResultPart(
        tool_call_id="c3", name="bash", content="字\n\x00" * 200_000, metadata={"exit_code": 0}
    )
    part = MessagePartAdded(
        trace_id=TRACE, time=bench.time(), message_id="m", goal_id="1", index=0, part=call
    )
    summary = GoalUpdated(trace_id=TRACE, time=bench.time(), goal_id="1", updates={"summary": "s " * 900_000})
    events = [part, summary]
    return [
        *events,
        bench.message(call, goal_id="1"),
        bench.message(looked, role="tool", goal_id="1"),
        bench.message(printed, role="tool", goal_id="1"),
    ]


async def texts(socket: ClientConnection, to: int) -> list[bytes]:
    """Return the texts of the frames up to an event, as they arrived."""
    found: list[bytes] = []
    async with asyncio.timeout(60):
        while not found or json.loads(found[-1]).get("event_id", 0) < to:
            found.append(await socket.recv(decode=False))
    return found


def store_of(kind: str, folder: Path) -> TraceStore:
    return FileTraceStore(folder / ".trace") if kind == "files" else MemoryTraceStore()


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_large_frames_are_truncated_the_same_live_and_replayed(tmp_path: Path, kind: str) -> None:
    # One entry may wait: the client that is there has it from its queue, one that comes later from the log.
    async with watched(store_of(kind, tmp_path), ClientLimits(queue_frames=1)) as bench:
        bench.emit(bench.goal("1"))
        (begun,) = bench.emit(bench.focus("1"))
        live: list[bytes] = []
        last = begun.event_id
        async with bench.watch("since_event_id=0", max_size=MOST) as socket:
            await texts(socket, begun.event_id)
            for event in (*large_events(bench), bench.message(TextPart(text="Bye."), goal_id="1")):
                last = bench.emit(event)[0].event_id
                live += await texts(socket, last)
        assert max(map(len, live)) <= FRAME_BYTES
        told = [json.loads(text) for text in live]
        assert [frame["event_id"] for frame in told if MARK in frame] == list(range(begun.event_id + 1, last))
        for since in range(begun.event_id, last):
            async with bench.watch(f"since_event_id={since}", max_size=MOST) as socket:
                assert json.loads(await socket.recv())["event"] == "connected"
                missed = [
                    text
                    for text, frame in zip(live, told, strict=True)
                    if frame.get("event_id", frame.get("of_event_id")) > since
                ]
                assert await texts(socket, last) == missed
        # The whole is what REST gives.
        page = await bench.reader.messages(TRACE, MessageQuery())
        results = [message["content"][0] for message in page["messages"]]
        assert results[0]["input"] == json.dumps({"file_path": "/w/b.py", "content": LARGE_FILE})
        assert results[1]["images"][0]["data"] == PICTURE


def shortened(event: Event) -> dict[str, Any]:
    text = event_entry(event).event
    assert len(text.encode()) <= FRAME_BYTES
    frame = json.loads(text)
    assert frame[MARK] is True
    return frame


def test_ids_kinds_and_numbers_stay_and_pictures_go_first() -> None:
    bench = Watched(MemoryTraceStore(), ClientLimits())
    bench.begin()
    bench.emit(bench.goal("1"), bench.focus("1"))
    _, summary, call, looked, printed = large_events(bench)
    frame = shortened(call)
    whole = json.loads(json_bytes(call.stored()))
    assert frame["affected_goals"][0]["cumulative_stats"] == whole["affected_goals"][0]["cumulative_stats"]
    part = frame["message"].pop("content")[0]
    assert frame["message"] == {name: value for name, value in whole["message"].items() if name != "content"}
    assert (part["type"], part["id"], part["name"]) == ("tool_call", "c1", "write")
    assert part["input"].startswith('{"file_path": "/w/b.py", "content": "x = 1  # yyy')
    assert part["input"].endswith("more characters)")
    assert len(part["input"]) > 200_000  # as much as fits
    result = shortened(looked)["message"]["content"][0]
    assert result["images"][0]["data"].startswith("<IMAGE_DATA: 1025.0KB, data:image/png;base64, preview: ")
    assert result["content"] == "A picture."
    assert shortened(printed)["message"]["content"][0]["tool_call_id"] == "c3"
    assert shortened(summary)["goal_id"] == "1"


def test_frame_within_the_limit_is_unchanged() -> None:
    def of_size(size: int) -> bytes:
        text = json_bytes({"event": "notice", "text": ""})
        return text.replace(b'""', b'"' + b"x" * (size - len(text)) + b'"')

    assert shorten_frame(of_size(FRAME_BYTES)) == of_size(FRAME_BYTES)
    assert len(shorten_frame(of_size(FRAME_BYTES + 1))) < FRAME_BYTES


@pytest.mark.parametrize(
    "frame",
    [
        {"message": {"content": [{"type": "text", "text": f"{n} " * 99} for n in range(4_000)]}},
        {"message": {"content": [{"type": "text", "text": "é"}] * 50_000}},
        {"message": {"message_id": "i" * 2_000_000, "content": [{"id": "c" * 900_000}] * 3}},
        {"affected_goals": [{"goal_id": str(n), "status": "completed"} for n in range(40_000)]},
        {"part": {"metadata": {f"{n}" * 50: n for n in range(10_000)}}},
        {"part": {"metadata": {"k" * 3_000_000: 1}}},
        {"part": {"metadata": {"numbers": list(range(200_000))}}},
        {"text": "\x00" * 400_000},
        {"text": "\U0001f600" * 400_000},
        {"text": '"' * 900_000, "more": ["字" * 150_000, "data:image/png;base64," + "A" * 2_000_000]},
    ],
)
def test_forged_frame_is_cut_to_the_limit(frame: dict[str, Any]) -> None:
    told = shorten_frame(json_bytes({"event_id": 7, "trace_id": "t", "event": "message_added", **frame}))
    assert len(told) <= FRAME_BYTES
    assert (
        json.loads(told).items()
        >= {"event_id": 7, "trace_id": "t", "event": "message_added", MARK: True}.items()
    )


def test_deeply_nested_frame_is_cut_to_the_limit() -> None:
    value: object = "x" * 2_000_000
    for _ in range(900):
        value = [value]
    told = shorten_frame(b'{"event_id":7,"event":"notice","about":%b}' % json.dumps(value).encode())
    assert len(told) <= FRAME_BYTES
    assert json.loads(told)["event_id"] == 7


def test_deltas_and_steps_are_cut_to_the_limit() -> None:
    bench = Watched(MemoryTraceStore(), ClientLimits())
    text = delta_entry(Delta(trace_id="t", kind="tool_output", message_id="m", text="so " * 700_000)).event
    assert len(text.encode()) <= FRAME_BYTES
    assert json.loads(text)["message_id"] == "m"
    data = {"arguments": {f"file {number}": "y" * 3_900 for number in range(400)}}
    step = Step(
        step_id="call_1", trace_id="t", step_type="action", status="completed", sequence=1, description="d",
        data=data, created_at=bench.time(),
    )  # fmt: skip
    notice = Notice(trace_id="t", time=bench.time(), event_id=3, level="info", text="so")
    entry = event_entry(notice, [StepAdded(step)])
    for told in (*entry.steps, *entry.steps_alone):
        assert len(told.encode()) <= FRAME_BYTES
        frame = json.loads(told)
        assert (frame["step"]["step_id"], frame[MARK]) == ("call_1", True)


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_key_beside_a_truncation_is_never_shown(tmp_path: Path, kind: str) -> None:
    store = store_of(kind, tmp_path)
    bench = Watched(store, ClientLimits())
    bench.begin()
    # Whatever length is left of the text: on each side of it stands a key.
    secrets = (f"password: {KEY} ", f"https://user:{KEY[:16]}pw@host/ ", f"API_KEY={KEY}\n")
    text = "".join(secrets[number % 3] + "z" * (number % 50) + " " for number in range(20_000))
    event = bench.happens(bench.message(TextPart(text=text)))
    line = store.line(event) if isinstance(store, FileTraceStore) else None
    entry = event_entry(event, (), line)
    assert '"shortened":true' in entry.event
    assert KEY[:16] not in entry.event
    assert "sk-ant-" not in entry.event
    (logged,) = store.events(TRACE, after=event.event_id - 1)
    assert event_entry(logged).event == entry.event


def plan_of(count: int, words: int) -> dict[str, Any]:
    goals = [
        Goal(id=str(number), parent_id=str(number // 2) if number > 1 else None, description=f"Goal {number}",
             reason="r" * words, summary=f"is {KEY} " + "s" * words if words else None)
        for number in range(1, count + 1)
    ]  # fmt: skip
    tree = GoalTree(mission="do it", current_id="1", goals=goals).stored()
    return {
        "goal_tree": tree,
        "goal_numbers": {},
        "branches": {},
        "subagents": {},
        "trace": {"trace_id": "t"},
    }


def test_first_frame_of_large_plan_drops_nulls_then_cuts_texts() -> None:
    small = plan_of(1_800, 0)
    assert MARK not in json.loads(connected_frame("t", 5, small))

    known = plan_of(2_400, 0)
    assert len(json_bytes(known)) > FRAME_BYTES
    text = connected_frame("t", 5, known)
    frame = json.loads(text)
    assert len(text.encode()) <= FRAME_BYTES
    assert frame[MARK] is True
    assert frame["current_event_id"] == 5
    given = known["goal_tree"]["goals"]
    assert frame["goal_tree"]["goals"] == [
        {name: value for name, value in goal.items() if value is not None or name == "parent_id"}
        for goal in given
    ]

    known = plan_of(1_000, 3_000)
    text = connected_frame("t", 5, known)
    frame = json.loads(text)
    assert len(text.encode()) <= FRAME_BYTES
    assert "sk-ant-" not in text
    for goal, whole in zip(frame["goal_tree"]["goals"], known["goal_tree"]["goals"], strict=True):
        assert goal["id"] == whole["id"]
        assert goal["description"] == whole["description"]
        assert goal["cumulative_stats"] == whole["cumulative_stats"]
        assert goal["summary"].startswith("is [redacted")


def test_first_frame_stays_whole_if_truncation_cannot_help() -> None:
    known = plan_of(6_000, 0)
    frame = json.loads(connected_frame("t", 5, known))
    assert MARK not in frame
    assert frame["goal_tree"] == known["goal_tree"]
