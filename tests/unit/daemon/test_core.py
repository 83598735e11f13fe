"""The daemon's core: its sessions, its life, and the folder it works in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.agents.loader import UnknownAgentError
from daemon.core import Daemon, memory_mb
from daemon.model.events import SessionUpdated
from tests.support.drivers.core import ALLOW_ALL, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.examples import in_full
from tests.support.fakes.models import Call, FakeModels, Hold
from tests.support.fakes.tool_context import FakeDiagnostics, FakeFiles

NOW = datetime(2025, 1, 1, 12, 30, 15, tzinfo=UTC)


async def test_sessions_of_one_second_are_listed_in_order(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        begun = [bench.session().session_id for _ in range(12)]
        assert begun == sorted(set(begun))
        listed = [trace.trace_id for trace in await bench.core.traces(limit=20)]
        assert listed == begun[::-1]


async def test_sessions_of_one_instant_do_not_collide(tmp_path: Path) -> None:
    core = Daemon(
        tmp_path,
        diagnostics=FakeDiagnostics(),
        models=FakeModels(),
        state_folder=tmp_path / "home",
        now=lambda: NOW,
    )
    count = in_full(600, 200)
    ids = [core.new_session().session_id for _ in range(count)]
    assert len(set(ids)) == count
    assert all(i.startswith("20250101-123015-") for i in ids)
    await core.close()


async def test_open_sessions_are_listed_as_they_are_now(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Hello.") as bench:
        session = bench.session()
        await session.prompt("Say hello")
        bench.core.update_session(session, {"title": "renamed"})
        (trace,) = await bench.core.traces(limit=5)
        assert trace.title == "renamed"
        assert bench.events(SessionUpdated)[-1].updates == {"title": "renamed"}
        assert await bench.core.traces(limit=5, before=trace.trace_id) == []


async def test_older_messages_come_in_pages(tmp_path: Path) -> None:
    async with daemon(tmp_path, "a", "b") as bench:
        session = bench.session()
        await session.prompt("one")
        await session.prompt("two")
        page = await bench.core.messages(session.session_id, before=4, limit=2)
        assert [m.sequence for m in page] == [2, 3]
        assert [m.sequence for m in await bench.core.messages(session.session_id, before=2, limit=9)] == [1]


async def test_unknown_agent_creates_no_session(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        with pytest.raises(UnknownAgentError, match="build"):
            bench.core.new_session(agent="nobody")
        assert bench.core.store.trace_ids() == []


async def test_unwritable_trace_folder_falls_back_to_the_state_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "workspace").mkdir(parents=True)
        (tmp_path / name / "workspace" / ".trace").write_text("a file in the way")
    home = tmp_path / "home"
    cores = [
        Daemon(
            tmp_path / name / "workspace",
            diagnostics=FakeDiagnostics(),
            models=FakeModels("Hello."),
            state_folder=home,
        )
        for name in ("one", "two")
    ]
    session = cores[0].new_session(model="fake/model")
    assert (await session.prompt("hello")).stop == "end_turn"
    assert ".trace" in cores[0].storage_notice
    assert cores[0].store.root.is_relative_to(home)
    # Another folder of the same name keeps its own.
    assert await cores[1].traces(limit=5) == []
    for core in cores:
        await core.close()


async def test_a_new_session_sees_the_configuration_of_now(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        assert bench.core.config().settings.model.max_tokens == 16_000
        (tmp_path / "home").mkdir(exist_ok=True)
        (tmp_path / "home" / "config.json").write_text('{"max_tokens": 1000}')
        assert bench.core.config().settings.model.max_tokens == 16_000
        bench.core.configuration.forget()
        assert bench.core.config().settings.model.max_tokens == 1000


async def test_idle_daemon_stops_after_the_timeout(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "x"], command_line={"idle_timeout_s": 0.05}) as bench:
        bench.core.presence.client_attached()
        waiting = asyncio.create_task(bench.core.wait_until_idle(poll_s=0.01))
        turn = prompted(bench.session(), "go")
        await hold.reached.wait()
        bench.core.presence.client_left()
        # Longer than the timeout by the daemon's own clock, but a turn runs.
        await until(lambda: asyncio.get_running_loop().time() - bench.core.presence._quiet_since < 0.05)
        assert not waiting.done()
        hold.go.set()
        await finish(turn)
        async with asyncio.timeout(20):
            await waiting


async def test_an_unsaved_buffer_is_seen_by_the_tools(tmp_path: Path) -> None:
    write = Call("write", {"file_path": "a.txt", "content": "x"})
    editors = FakeFiles()
    steps = Call("read", {"file_path": "a.txt"}), write, "ok"
    async with daemon(tmp_path, *steps, editors=editors) as bench:
        (bench.workspace / "a.txt").write_text("on disk\n")
        editors.buffers[bench.workspace / "a.txt"] = "in the editor\n"
        editors.deaf.add(bench.workspace / "a.txt")
        session = bench.session(settings=ALLOW_ALL)
        await session.prompt("x")
        read, refused = (r for m in session.state.messages if (r := m.tool_result()) is not None)
        assert "in the editor" in read.content
        assert refused.is_error
        assert (bench.workspace / "a.txt").read_text() == "on disk\n"


async def test_external_change_of_a_read_file_notifies_the_servers(tmp_path: Path) -> None:
    async with daemon(tmp_path, Call("read", {"file_path": "a.txt"}), "ok") as bench:
        path = bench.workspace / "a.txt"
        path.write_text("old\n")
        await bench.session().prompt("x")
        await until(lambda: not bench.core._services.watching.files._background)
        path.write_text("new\n")
        told = bench.diagnostics.told
        await until(lambda: path in told)


def test_memory_usage_is_reported_if_available() -> None:
    memory = memory_mb()
    assert memory is None or 5 < memory < 5_000
