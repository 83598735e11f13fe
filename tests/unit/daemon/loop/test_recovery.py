"""Opening stored sessions: at rest from the snapshot, after a crash from the log, and in every state of damage."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from daemon.loop.interrupted_turn import STOPPED
from daemon.model.events import QueueChanged, TurnEnded
from daemon.model.traces import FORMAT
from daemon.state.session_state import SessionState
from daemon.store.files import FileTraceStore
from daemon.store.provenance import OwnSessions
from daemon.store.replay import read_state, replayed
from daemon.store.trace_store import NewerFormatError, StoreError, UnknownTraceError
from tests.support.drivers.core import ALLOW_ALL, check_pairs, daemon, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold

STEPS = [
    Call("goal", {"add": "look, change, check"}),
    Call("goal", {"focus": "1"}),
    Call("read", {"file_path": "a.txt"}),
    Call("goal", {"abandon": "not this way"}),
    "That was it.",
]


async def stored_session(tmp_path: Path) -> str:
    """A session at rest with goals, an abandoned one, tool results and a read file."""
    async with daemon(tmp_path, *STEPS) as bench:
        (bench.workspace / "a.txt").write_text("old\n")
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("do it")
        return session.session_id


def store(tmp_path: Path) -> FileTraceStore:
    return FileTraceStore(tmp_path / "workspace" / ".trace")


def same(one: SessionState, other: SessionState) -> None:
    assert one.trace == other.trace
    assert one.messages == other.messages
    assert one.plan.snapshot() == other.plan.snapshot()
    assert one.plan.plan_add(["x"], "") == other.plan.plan_add(["x"], "")
    assert one.granted == other.granted
    assert one.queue == other.queue
    assert one.given.files == other.given.files


async def test_a_session_at_rest_is_the_same_from_snapshot_and_log(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    # But for the messages the log cannot be read: only the snapshot can be the source of the rest.
    from_log = replayed(store(tmp_path), session_id)
    log = tmp_path / "workspace" / ".trace" / session_id / "events.jsonl"
    whole = log.read_bytes()
    *lines, last = whole.splitlines(keepends=True)
    messages = [line if b'"event":"message_added"' in line else b"damaged\n" for line in lines]
    log.write_bytes(b"".join((*messages, last)))
    same(read_state(store(tmp_path), session_id), from_log)
    log.write_bytes(whole)


async def test_new_goal_replaces_the_abandoned_one_after_a_restart(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    async with daemon(tmp_path, Call("goal", {"add": "plan B"}), "ok") as bench:
        session = await bench.opened(session_id)
        await session.prompt("another way")
        tree = session.state.plan
        assert [tree.goals[i].description for i in tree.numbers()] == ["plan B", "change", "check"]
        assert tree.goals[tree.current_id or ""].description == "plan B"


async def test_id_of_a_removed_goal_is_not_reused_after_a_restart(tmp_path: Path) -> None:
    remove = [Call("goal", {"focus": "2"}), Call("goal", {"abandon": "not needed"})]
    async with daemon(tmp_path, Call("goal", {"add": "a, b"}), remove, "ok") as bench:
        session = bench.session()
        await session.prompt("x")
        assert list(session.state.plan.goals) == ["1"]
    async with daemon(tmp_path, Call("goal", {"add": "c"}), "ok") as bench:
        again = await bench.opened(session.session_id)
        await again.prompt("x")
        assert list(again.state.plan.goals) == ["1", "3"]


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *(
            (name, how)
            for name in ("meta.json", "goal.json", "messages")
            for how in ("missing", "empty", "cut")
        ),
        ("meta.json", "stale"),
    ],
)
async def test_damaged_snapshot_is_rebuilt_from_the_log(tmp_path: Path, name: str, how: str) -> None:
    session_id = await stored_session(tmp_path)
    expected = read_state(store(tmp_path), session_id)
    path = tmp_path / "workspace" / ".trace" / session_id / name
    if path.is_dir():
        path = sorted(path.iterdir())[2]
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        old = json.loads(path.read_bytes())
        path.write_text(json.dumps({**old, "last_event_id": 2, "title": "old"}))
    same(read_state(store(tmp_path), session_id), expected)
    assert store(tmp_path).messages(session_id) == expected.messages
    async with daemon(tmp_path, "ok") as bench:
        session = await bench.opened(session_id)
        same(session.state, expected)
        assert (await session.prompt("and now?")).stop == "end_turn"


async def test_a_lost_messages_folder_is_written_again(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    expected = read_state(store(tmp_path), session_id)
    shutil.rmtree(tmp_path / "workspace" / ".trace" / session_id / "messages")
    same(read_state(store(tmp_path), session_id), expected)
    assert store(tmp_path).messages(session_id) == expected.messages


async def test_a_snapshot_written_while_a_turn_ran_is_not_trusted(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    files = store(tmp_path)
    expected = read_state(files, session_id)
    # Everything fits but the flag: the daemon may have died between this snapshot and the next event.
    meta = tmp_path / "workspace" / ".trace" / session_id / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_bytes()), "running": True, "title": "in between"}))
    same(read_state(files, session_id), expected)


async def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    folder = tmp_path / "workspace" / ".trace" / session_id
    meta = folder / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_bytes()), "format": FORMAT + 1}))
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    async with daemon(tmp_path, check=False) as bench:
        with pytest.raises(NewerFormatError, match="Update Goalwright to open it"):
            await bench.opened(session_id)
        # Also when only the log can tell.
        meta.unlink()
        log = folder / "events.jsonl"
        first, *rest = log.read_text().splitlines(keepends=True)
        event = json.loads(first)
        event["trace"]["format"] = FORMAT + 1
        log.write_text(json.dumps(event) + "\n" + "".join(rest))
        with pytest.raises(NewerFormatError, match="Update Goalwright to open it"):
            await bench.opened(session_id)
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    unchanged = set(before) - {meta, log}
    assert {p: after[p] for p in unchanged} == {p: before[p] for p in unchanged}


async def test_an_empty_log_and_an_unknown_session_are_clear_errors(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    folder = tmp_path / "workspace" / ".trace" / session_id
    (folder / "meta.json").write_bytes(b"")
    (folder / "events.jsonl").write_bytes(b"")
    async with daemon(tmp_path, check=False) as bench:
        with pytest.raises(StoreError, match="cannot be opened"):
            await bench.opened(session_id)
        with pytest.raises(UnknownTraceError, match="no session"):
            await bench.opened("20250101-000000-nobody")
        with pytest.raises(UnknownTraceError):
            await bench.opened("../../etc")


async def test_two_clients_that_open_at_once_get_the_same_session(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    async with daemon(tmp_path) as bench:
        one, two = await asyncio.gather(bench.opened(session_id), bench.opened(session_id))
        assert one is two


async def cut_log(tmp_path: Path, session_id: str, keep: int) -> None:
    """As if the daemon had been killed after its ``keep``-th event: later events and snapshots never were."""
    folder = tmp_path / "workspace" / ".trace" / session_id
    log = folder / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:keep]))
    shutil.rmtree(folder / "messages")
    (folder / "messages").mkdir()
    meta = json.loads((folder / "meta.json").read_bytes())
    (folder / "meta.json").write_text(json.dumps({**meta, "running": True, "last_event_id": 1}))


async def test_kill_after_any_event_leaves_a_session_that_resumes(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    source = tmp_path / "workspace" / ".trace" / session_id
    total = len((source / "events.jsonl").read_bytes().splitlines())
    assert total > 25
    for keep in range(1, total):
        folder = tmp_path / f"cut{keep}"
        shutil.copytree(tmp_path / "workspace", folder / "workspace")
        OwnSessions(folder / "home", folder / "workspace").add(session_id)
        await cut_log(folder, session_id, keep)
        # ``daemon`` checks the record at its end: pairs, goals of results, numbers without gaps.
        async with daemon(folder, "Where were we?") as bench:
            session = await bench.opened(session_id)
            check_pairs(session.state)
            assert not session.running
            assert session.state.turn is None
            was_running = any(e.stop_reason == "error" for e in bench.events(TurnEnded))
            assert (session.state.trace.last_stop_reason == "error") == was_running
            assert (await session.prompt("go on")).stop == "end_turn"


async def test_interrupted_call_is_reported_to_model_and_user(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    log = tmp_path / "workspace" / ".trace" / session_id / "events.jsonl"
    lines = log.read_text().splitlines()
    last = max(i for i, line in enumerate(lines) if '"event":"tool_started"' in line)
    await cut_log(tmp_path, session_id, last + 1)
    async with daemon(tmp_path, "I see.") as bench:
        session = await bench.opened(session_id)
        result = session.state.messages[-1].tool_result()
        assert result is not None
        assert result.is_error
        assert STOPPED in result.content
        assert bench.events(TurnEnded)[0].detail == STOPPED
        await session.prompt("go on")
        sent = bench.models.requests[0].messages
        assert [m.role for m in sent[-2:]] == ["tool", "user"]


async def test_partial_answer_survives_a_crash(tmp_path: Path) -> None:
    async with daemon(tmp_path, ["A whole part.", Call("ls", {"path": "."}), "rest"], "ok") as bench:
        session = bench.session()
        await session.prompt("go")
    log = tmp_path / "workspace" / ".trace" / session.session_id / "events.jsonl"
    lines = log.read_text().splitlines()
    part = [i for i, line in enumerate(lines) if '"event":"message_part_added"' in line]
    await cut_log(tmp_path, session.session_id, part[1] + 1)
    async with daemon(tmp_path) as bench:
        again = await bench.opened(session.session_id)
        partial, result = again.state.messages[1:]
        assert partial.text() == "A whole part."
        assert partial.stop_reason() == "error"
        assert result.tool_call_id == partial.tool_calls()[0].id


async def test_queued_prompts_survive_a_crash_and_run_after_the_next(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"]) as bench:
        session = bench.session()
        first = prompted(session, "first")
        await hold.reached.wait()
        later = [prompted(session, text) for text in ("second", "third")]
        await until(lambda: len(session.queued()) == 2)
        log = tmp_path / "workspace" / ".trace" / session.session_id / "events.jsonl"
        crashed = log.read_bytes()
        await bench.core.close()
        await asyncio.gather(first, *later)
    log.write_bytes(crashed)
    async with daemon(tmp_path) as bench:
        again = await bench.opened(session.session_id)
        assert [p.text for p in again.queued()] == ["second", "third"]
        assert not again.running
    # Also when it was only opened and closed in between.
    async with daemon(tmp_path, "a", "b", "c") as bench:
        again = await bench.opened(session.session_id)
        assert [p.text for p in again.queued()] == ["second", "third"]
        assert await again.prompt("go on") is not None
        await until(lambda: not again.running)
        said = [m.text() for m in again.state.messages if m.role == "user"]
        assert said == ["first", "go on", "second", "third"]
        assert again.state.queue == ()
        assert bench.events(QueueChanged)[-1].queue == ()


async def test_a_session_that_was_never_prompted_opens_again(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        session_id = bench.session().session_id
    async with daemon(tmp_path, "Hello.") as bench:
        session = await bench.opened(session_id)
        assert (await session.prompt("hello")).stop == "end_turn"


async def test_closing_twice_and_opening_again_adds_nothing_to_the_log(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    log = tmp_path / "workspace" / ".trace" / session_id / "events.jsonl"
    before = log.read_bytes()
    for _ in range(2):
        async with daemon(tmp_path) as bench:
            await bench.opened(session_id)
    assert log.read_bytes() == before


async def test_kill_after_any_event_neither_loses_nor_doubles_prompts(
    tmp_path: Path,
) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, Call("ls", {"path": "."})], "ok", "two") as bench:
        session = bench.session()
        turns = [prompted(session, "first")]
        await hold.reached.wait()
        turns.append(prompted(session, "second"))
        turns.append(prompted(session, "steered", when_busy="steer"))
        await until(lambda: len(session.queued()) == 2)
        hold.go.set()
        await asyncio.gather(*turns)
        events = bench.core.store.events(session.session_id)
    for keep in range(1, len(events)):
        folder = tmp_path / f"cut{keep}"
        shutil.copytree(tmp_path / "workspace", folder / "workspace")
        OwnSessions(folder / "home", folder / "workspace").add(session.session_id)
        await cut_log(folder, session.session_id, keep)
        queued = {p.text for e in events[:keep] if isinstance(e, QueueChanged) for p in e.queue}
        async with daemon(folder) as bench:
            again = await bench.opened(session.session_id)
            said = [m.text() for m in again.state.messages if m.role == "user"]
            here = [*said, *(p.text for p in again.queued())]
            assert all(here.count(text) >= 1 for text in queued), keep
            # A steering prompt may be there twice; it is better seen twice than lost.
            assert all(here.count(text) == 1 for text in here if text != "steered"), keep


async def test_torn_log_line_is_truncated_and_reported_once(tmp_path: Path) -> None:
    session_id = await stored_session(tmp_path)
    log = tmp_path / "workspace" / ".trace" / session_id / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"event_id":99,"trace')
    async with daemon(tmp_path) as bench:
        session = await bench.opened(session_id)
        (notice,) = [event for event in bench.core.store.events(session_id) if event.event == "notice"]
        assert (notice.level, notice.code) == ("warning", "torn")
        assert "21 bytes" in notice.text
        assert session.state.turn is None
        assert log.read_bytes().startswith(whole)
    async with daemon(tmp_path) as bench:
        await bench.opened(session_id)
        assert sum(event.event == "notice" for event in bench.core.store.events(session_id)) == 1
