from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from daemon.bus import Bus
from daemon.model.events import Event
from daemon.steps.live import LiveDumps
from daemon.store.files import FileTraceStore
from tests.support.drivers.core import daemon
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold
from tests.support.scenarios.step_events import BEGIN, Recorded
from tests.support.scenarios.subagents import task, with_subagents

DEBUG = {"debug_trace": True, "permission": {"*": "allow"}}


def dumped(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text("utf-8")) if file.exists() else {"steps": []}


def descriptions(file: Path) -> list[str]:
    return [step["description"] for step in dumped(file)["steps"]]


async def test_the_step_tree_is_written_while_the_session_works(tmp_path: Path) -> None:
    hold = Hold()
    steps = (["I look around.", Call("goal", {"add": "Look", "focus": "1"})], [hold, "No problems found."])
    async with daemon(tmp_path, *steps, command_line=DEBUG) as bench:
        session = bench.session()
        turn = asyncio.create_task(session.prompt("Look around"))
        await hold.reached.wait()
        root = bench.workspace / ".trace"
        file = root / session.session_id / "tree.json"
        await until(lambda: descriptions(file) == ["I look around.", "Look"], "the dump of the first step")
        assert dumped(file)["trace"]["status"] == "running"
        hold.go.set()
        await turn
        await until(lambda: dumped(file).get("trace", {}).get("status") == "completed", "the last dump")
        assert descriptions(file) == ["I look around.", "Look", "No problems found."]
        for name in ("tree.txt", "tree.md", "tree.json"):
            await until(lambda name=name: (root / name).read_text() == (file.parent / name).read_text(), name)
        assert "└── [✓] response: No problems found." in (root / "tree.txt").read_text("utf-8")
    assert not list(root.rglob(".tree*"))


async def test_an_editors_setting_is_enough(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Hello.", command_line={"permission": {"*": "allow"}}) as bench:
        session = bench.session(settings={"debug_trace": True})
        bench.core.outlets.dump(session)
        await session.prompt("Hi")
        file = bench.workspace / ".trace" / session.session_id / "tree.json"
        await until(lambda: descriptions(file) == ["Hello."], "the dump")


async def test_nothing_is_dumped_by_default(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        await bench.session().prompt("Hi")
    assert not list((bench.workspace / ".trace").rglob("tree.*"))


async def test_earlier_steps_are_part_of_the_dump(tmp_path: Path) -> None:
    async with daemon(tmp_path, "The first answer.") as bench:
        session = bench.session()
        await session.prompt("Hi")
    async with daemon(tmp_path, "The second answer.", command_line=DEBUG) as bench:
        again = await bench.opened(session.session_id)
        await again.prompt("And now?")
    file = bench.workspace / ".trace" / session.session_id / "tree.json"
    assert descriptions(file) == ["The first answer.", "The second answer."]


async def test_sub_agents_have_their_own_dumps(tmp_path: Path) -> None:
    main = [[task("Look around", call_id="t1")], ["The agent looked."]]
    async with with_subagents(tmp_path, main, {"s1": ["I looked."]}, command_line=DEBUG) as (bench, _):
        session = bench.session()
        await session.prompt("Have somebody look around")
    folder = bench.workspace / ".trace" / session.session_id
    assert descriptions(folder / "agents" / "s1" / "tree.json") == ["I looked."]
    steps = dumped(folder / "tree.json")["steps"]
    call = next(step for step in steps if step["step_type"] == "action")
    assert call["data"]["subagent_ids"] == ["s1"]
    assert descriptions(bench.workspace / ".trace" / "tree.json") == [s["description"] for s in steps]


async def test_link_in_place_of_a_dump_is_replaced_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    store, bus, log = FileTraceStore(tmp_path / ".trace"), Bus(), Recorded()
    log.into(store)
    (store.root / "tree.txt").symlink_to(precious)
    dumps = LiveDumps(store, bus, lambda: BEGIN, every_s=0)
    dumps.follow(log.trace_id)
    await dumps.close()
    assert precious.read_text() == "mine"
    assert "Step Tree Debug" in (store.root / "tree.txt").read_text("utf-8")
    store.close()


async def test_missing_folder_does_not_disturb_dumps(tmp_path: Path) -> None:
    store, bus, log = FileTraceStore(tmp_path / ".trace"), Bus(), Recorded()
    dumps = LiveDumps(store, bus, lambda: BEGIN, every_s=0)
    dumps.follow(log.trace_id)
    bus.publish(log.events[0])
    await dumps.close()
    assert not (store.root / "tree.txt").exists()


async def test_events_already_in_the_log_are_dumped_once(tmp_path: Path) -> None:
    store, bus, log = FileTraceStore(tmp_path / ".trace"), Bus(), Recorded()
    log.begin()
    log.say("Once.")
    log.end()
    log.into(store)
    dumps = LiveDumps(store, bus, lambda: BEGIN, every_s=0)
    dumps.follow(log.trace_id)
    events: list[Event] = log.events
    for event in events:
        bus.publish(event)
    await dumps.close()
    assert descriptions(store.root / log.trace_id / "tree.json") == ["Once."]
    store.close()
