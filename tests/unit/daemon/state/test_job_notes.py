from __future__ import annotations

from pathlib import Path

import pytest

from daemon.model import notice_codes
from daemon.model.events import Notice
from daemon.model.messages import TextPart, ToolCallPart, ToolResultPart
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold


async def test_ended_job_is_reported_to_user_and_model(
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


LASTING = Call("bash", {"command": "echo begun; exec sleep 300", "background": True})


async def begun(bench: Bench) -> None:
    """Wait until the job's command runs: what is stopped before it does is not asked to end, but waited for."""
    await until(lambda: "begun" in bench.text("tool_output"), "the command")


async def test_job_stopped_by_the_user_is_noted_for_the_model(tmp_path: Path) -> None:
    async with daemon(tmp_path, LASTING, "Started.", "Seen.", command_line=ALLOW_ALL) as bench:
        session = bench.session()
        await session.prompt("start it")
        await begun(bench)
        await session.commands.stop_job("job_1", "VS Code")
        await session.prompt("and now?")
        stopped = "the background job job_1 was stopped by VS Code: echo begun; exec sleep 300"
        assert stopped in str(bench.models.requests[-1])
        assert session.state.jobs == {}


async def test_job_stopped_by_the_model_is_not_noted(tmp_path: Path) -> None:
    kill = Call("job", {"operation": "kill", "job_id": "job_1"})
    hold = Hold()
    async with daemon(tmp_path, LASTING, [hold, kill], "Gone.", "Yes.", command_line=ALLOW_ALL) as bench:
        session = bench.session()
        turn = prompted(session, "start and stop it")
        await begun(bench)
        hold.go.set()
        await finish(turn)
        await session.prompt("and now?")
        assert "the background job" not in str(bench.models.requests[-1].messages[-1])
        assert session.state.jobs == {}


@pytest.mark.parametrize("snapshot", [True, False])
async def test_job_lost_in_a_restart_is_noted(tmp_path: Path, snapshot: bool) -> None:
    async with daemon(tmp_path, LASTING, "Started.", command_line=ALLOW_ALL) as bench:
        session_id = bench.session().session_id
        session = await bench.opened(session_id)
        await session.prompt("start it")
        await begun(bench)
    if not snapshot:
        (tmp_path / "workspace" / ".trace" / session_id / "meta.json").unlink()
    async with daemon(tmp_path, "Then I start it again.", command_line=ALLOW_ALL) as bench:
        session = await bench.opened(session_id)
        session.policy.use(default_model="fake/model")
        assert any("job_1 ended when Goalwright stopped" in notice.text for notice in bench.events(Notice))
        await session.prompt("go on")
        assert "the background job job_1 ended when Goalwright stopped" in str(bench.models.requests[-1])
        assert session.state.jobs == {}


async def test_job_that_ended_before_its_result_is_not_reported_lost(tmp_path: Path) -> None:
    async with daemon(tmp_path, command_line=ALLOW_ALL) as bench:
        session_id = bench.session().session_id
        session = await bench.opened(session_id)
        session.commands.wrote("call_1", "bash", "done\n")
        session.record.notice(
            "info", "The background job job_1 ended.", notice_codes.JOB_ENDED, about="job_1", exit_code=0
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
        assert [
            notice.about for notice in bench.events(Notice) if notice.code == notice_codes.JOB_ENDED
        ] == []
