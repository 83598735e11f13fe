from __future__ import annotations

from pathlib import Path

import pytest

from daemon.model.events import Notice
from daemon.model.messages import TextPart, ToolCallPart, ToolResultPart
from daemon.state.notes import JOB_ENDED
from tests.support.drivers.core import ALLOW_ALL, daemon
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call


async def test_the_model_and_the_person_are_told_that_a_job_ended_and_none_outlives_the_session(
    tmp_path: Path,
) -> None:
    steps = (Call("bash", {"command": "until [ -e go ]; do sleep 0.01; done; exit 3", "background": True}),)
    async with daemon(tmp_path, [*steps], "Started.", "Seen.", command_line=ALLOW_ALL) as bench:
        session = bench.session()
        await session.prompt("start it")
        (job,) = session.commands.jobs.all()
        assert job.exit_code is None
        (bench.workspace / "go").touch()
        await until(lambda: [n for n in bench.events(Notice) if n.code == "job_ended"], "the notice")
        (ended,) = (notice for notice in bench.events(Notice) if notice.code == "job_ended")
        assert (ended.about, ended.exit_code) == ("job_1", 3)
        await session.prompt("and now?")
        told = str(bench.models.requests[-1])
        assert "the background job job_1 ended with exit code 3" in told


LASTING = Call("bash", {"command": "exec sleep 300", "background": True})


async def test_the_model_is_told_when_the_person_stops_its_job(tmp_path: Path) -> None:
    async with daemon(tmp_path, LASTING, "Started.", "Seen.", command_line=ALLOW_ALL) as bench:
        session = bench.session()
        await session.prompt("start it")
        await session.commands.stop_job("job_1", "VS Code")
        await session.prompt("and now?")
        assert "the background job job_1 was stopped by VS Code: exec sleep 300" in str(
            bench.models.requests[-1]
        )
        assert session.state.jobs == {}


async def test_what_the_model_stops_itself_is_no_news_to_it(tmp_path: Path) -> None:
    kill = Call("job", {"operation": "kill", "job_id": "job_1"})
    async with daemon(tmp_path, LASTING, kill, "Gone.", "Yes.", command_line=ALLOW_ALL) as bench:
        session = bench.session()
        await session.prompt("start and stop it")
        await session.prompt("and now?")
        assert "the background job" not in str(bench.models.requests[-1].messages[-1])
        assert session.state.jobs == {}


@pytest.mark.parametrize("snapshot", [True, False])
async def test_after_a_restart_the_model_hears_that_its_job_is_gone(tmp_path: Path, snapshot: bool) -> None:
    async with daemon(tmp_path, LASTING, "Started.", command_line=ALLOW_ALL) as bench:
        session_id = bench.session().session_id
        session = await bench.opened(session_id)
        await session.prompt("start it")
    if not snapshot:
        (tmp_path / "workspace" / ".trace" / session_id / "meta.json").unlink()
    async with daemon(tmp_path, "Then I start it again.", command_line=ALLOW_ALL) as bench:
        session = await bench.opened(session_id)
        session.policy.use(default_model="fake/model")
        assert any("job_1 ended when Goalwright stopped" in notice.text for notice in bench.events(Notice))
        await session.prompt("go on")
        assert "the background job job_1 ended when Goalwright stopped" in str(bench.models.requests[-1])
        assert session.state.jobs == {}


async def test_a_job_that_ended_before_its_result_was_stored_is_not_called_lost(tmp_path: Path) -> None:
    async with daemon(tmp_path, command_line=ALLOW_ALL) as bench:
        session_id = bench.session().session_id
        session = await bench.opened(session_id)
        session.commands.wrote("call_1", "bash", "done\n")
        session.record.notice(
            "info", "The background job job_1 ended.", JOB_ENDED, about="job_1", exit_code=0
        )
        started = ToolResultPart(
            tool_call_id="call_1",
            name="bash",
            content="Started job_1.",
            metadata={"job_id": "job_1", "command": "echo done"},
        )
        call = ToolCallPart(id="call_1", name="bash", input="{}")
        record = session.record
        record.add("user", (TextPart(text="start it"),), goal_id=None)
        record.add("assistant", (call,), goal_id=None)
        record.add("tool", (started,), goal_id=None, tool_call_id="call_1")
        assert session.state.jobs == {}
        assert session.commands.live_output == {}
    async with daemon(tmp_path, command_line=ALLOW_ALL) as bench:
        await bench.opened(session_id)
        assert [notice.about for notice in bench.events(Notice) if notice.code == JOB_ENDED] == []
