"""Each event of seeds 000 and 003 as a client of the WebSocket gets it from a real daemon, to the letter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from daemon.api.address import OpenApi
from daemon.model.messages import TextPart
from daemon.state.goal_events import goal_event
from tests.support.drivers.core import daemon
from tests.support.drivers.golden import check_golden_json
from tests.support.drivers.trace_api import normalised, story
from tests.support.drivers.watched import TRACE, hear, watched

OF_000 = [
    "goal_added", "goal_updated", "message_added", "trace_completed", "branch_started", "branch_goal_added",
    "branch_message_added", "branch_completed", "explore_completed",
]  # fmt: skip
STEPS = ["goal", "thought", "evaluation", "response", "action", "result"]
Frame = dict[str, Any]


async def heard(address: OpenApi, trace_id: str, last: int) -> list[Frame]:
    """All that there is of a trace."""
    url = f"ws{address.url.removeprefix('http')}/api/traces/{trace_id}/watch?since_event_id=0"
    async with connect(url, additional_headers={"authorization": f"Bearer {address.token}"}) as socket:
        return await hear(socket, to=last)


def first(frames: list[Frame], event: str) -> Frame:
    """Return the first event of a kind: of the main session or of branch A, because branches run at the same time."""
    return next(
        frame
        for frame in frames
        if frame["event"] == event
        and frame.get("branch_id") in (None, "A")
        and frame.get("branch", {}).get("id") in (None, "A")
        and ("message" not in frame or frame["affected_goals"])
    )


def leveled(frame: Frame) -> Frame:
    """Ids of events depend on what else happened at the same time."""
    known: Frame = {key: 99 for key in ("event_id", "of_event_id", "current_event_id") if key in frame}
    if frame["event"] == "branch_message_added":
        # So do the session's totals while branches work side by side.
        known["view"] = {key: value if key == "branches" else 99 for key, value in frame["view"].items()}
    return {**frame, **known}


async def check_all(address: OpenApi, workspace: Path, trace_id: str, last: int) -> None:
    frames = await heard(address, trace_id, last)

    def check(name: str, frame: Frame) -> None:
        check_golden_json(f"watch-{name}.json", normalised(leveled(frame), workspace, trace_id))

    check("connected", frames[0])
    for event in OF_000:
        check(event, first(frames, event))
    check("goal_updated-completed", next(f for f in frames if f["event"] == "goal_updated" and ended(f)))
    for kind in STEPS:
        check(f"step_added-{kind}", next(f for f in frames if f.get("step", {}).get("step_type") == kind))
    # Of a goal that ends: what took no millisecond makes no update of a duration.
    check(
        "step_updated",
        next(
            f
            for f in frames
            if f["event"] == "step_updated"
            and f["updates"].get("status") == "completed"
            and "goal_" in f["step_id"]
        ),
    )


def ended(frame: Frame) -> bool:
    """Whether a goal ended."""
    return frame["updates"].get("status") == "completed"


async def test_golden_events_are_equal_live_and_from_the_store(tmp_path: Path) -> None:
    async with story(tmp_path) as (bench, session):
        trace_id, last = session.session_id, session.state.trace.last_event_id
        await check_all(await bench.api.open(0), bench.workspace, trace_id, last)
    async with daemon(tmp_path) as later:
        await check_all(await later.api.open(0), later.workspace, trace_id, last)
        assert later.core.live(trace_id) is None, "watching opened the session"


async def test_golden_event_of_parent_completed_with_its_last_child(tmp_path: Path) -> None:
    async with watched() as bench, bench.watch("events=goals") as socket:
        await hear(socket, count=1)
        bench.emit(bench.goal("1"), bench.goal("2", "1"), bench.focus("2"))
        bench.emit(bench.message(TextPart(text="done"), goal_id="2"))
        plan = bench.states[TRACE].plan
        for change in plan.plan_done("接口设计完成"):
            bench.emit(goal_event(change, TRACE, bench.time(), plan=plan))
        *_, frame = await hear(socket, to=6)
        affected = {goal["goal_id"]: goal for goal in frame["affected_goals"]}
        assert affected["1"]["status"] == "completed"
        check_golden_json("watch-goal_updated-cascade.json", normalised(leveled(frame), tmp_path, TRACE))


def test_no_golden_frame_is_missing_what_the_seeds_name() -> None:
    folder = Path(__file__).parent / "golden" / "traces"
    fields = {
        "connected": ["event", "trace_id", "current_event_id", "goal_tree"],
        "goal_added": ["event", "goal", "parent_id"],
        "goal_updated": ["event", "goal_id", "updates", "affected_goals"],
        "message_added": ["event", "message", "affected_goals"],
        "trace_completed": ["event", "trace_id"],
        "branch_started": ["event", "explore_start_id", "branch"],
        "branch_goal_added": ["event", "branch_id", "goal"],
        "branch_message_added": ["event", "branch_id", "message", "affected_goals"],
        "branch_completed": ["event", "branch_id", "summary", "cumulative_stats", "last_message"],
        "explore_completed": ["event", "explore_start_id", "merge_summary"],
        "step_added-goal": ["event", "step"],
        "step_updated": ["event", "step_id", "updates"],
    }
    for name, wanted in fields.items():
        frame = json.loads((folder / f"watch-{name}.json").read_text("utf-8"))
        assert [field for field in wanted if field not in frame] == [], name
        assert frame["event"] == name.partition("-")[0]
