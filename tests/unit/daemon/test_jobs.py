from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from daemon import jobs as module
from daemon.jobs import SessionJobs
from tests.support.drivers.waiting import until
from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.bash import BashInput, BashTool
from tools.job import JobInput, JobTool
from tools.ports import Job, SessionPorts
from tools.tool import PermissionDeniedError, ToolError

ENDED: list[tuple[str, int | None, bool]] = []


@pytest_asyncio.fixture
async def jobs(tmp_path: Path) -> AsyncGenerator[SessionJobs]:
    ENDED.clear()
    keeper = SessionJobs(
        tmp_path / "output",
        lambda: datetime.now(UTC),
        redact=lambda text: text.replace("hunter2", "***"),
        on_end=lambda job, killed: ENDED.append((job.job_id, job.exit_code, killed)),
        kill_grace_s=0.2,
    )
    yield keeper
    await keeper.close()


async def start(jobs: SessionJobs, command: str, cwd: Path) -> Job:
    return await jobs.start(
        ["bash", "-c", command], command=command, cwd=cwd, env=os.environ, tool_call_id="call_1"
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_job_runs_writes_and_ends(jobs: SessionJobs, tmp_path: Path) -> None:
    job = await start(jobs, "echo one; until [ -e go ]; do sleep 0.01; done; echo hunter2; exit 3", tmp_path)
    assert job.exit_code is None
    seen = ""

    def said(text: str) -> bool:
        nonlocal seen
        seen += jobs.output(job.job_id)
        return text in seen

    await until(lambda: said("one\n"))
    assert jobs.output(job.job_id) == ""
    (tmp_path / "go").touch()
    await until(lambda: ENDED)
    assert [(job.job_id, 3, False)] == ENDED
    assert jobs.output(job.job_id) == "hunter2\n"
    assert job.output_file is not None
    assert job.output_file.read_text() == "one\n***\n"
    assert [entry.exit_code for entry in jobs.all()] == [3]


async def test_killed_job_leaves_no_process(jobs: SessionJobs, tmp_path: Path) -> None:
    hidden = "setsid -f env -i /bin/sh -c 'echo $$ >> pids; exec sleep 300'"
    job = await start(jobs, f"{hidden}; sleep 300 & echo $! $$ >> pids; wait", tmp_path)
    await until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 3)
    ended = await jobs.kill(job.job_id)
    assert ended.exit_code is not None
    assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    assert [(job.job_id, ended.exit_code, True)] == ENDED


async def test_close_ends_all_jobs_and_starts_none(jobs: SessionJobs, tmp_path: Path) -> None:
    for _ in range(3):
        await start(jobs, "echo $$ >> pids; exec sleep 300", tmp_path)
    await until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 3)
    await jobs.close()
    assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    assert ENDED == []
    with pytest.raises(ToolError, match="ending"):
        await start(jobs, "true", tmp_path)


async def test_number_of_running_jobs_is_limited(
    jobs: SessionJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RUNNING", 2)
    first = await start(jobs, "sleep 300", tmp_path)
    await start(jobs, "sleep 300", tmp_path)
    with pytest.raises(ToolError, match="2 jobs are already running"):
        await start(jobs, "sleep 300", tmp_path)
    await jobs.kill(first.job_id)
    await start(jobs, "sleep 300", tmp_path)


async def test_unknown_jobs_and_programs_are_refused(jobs: SessionJobs, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no job job_9"):
        jobs.output("job_9")
    with pytest.raises(ToolError, match="no job job_9"):
        await jobs.kill("job_9")
    with pytest.raises(OSError, match="No such file"):
        await jobs.start(["/nope"], command="x", cwd=tmp_path, env={}, tool_call_id="c")
    assert list(jobs.all()) == []


async def test_canceled_start_leaves_no_job(jobs: SessionJobs, tmp_path: Path) -> None:
    starting = asyncio.create_task(start(jobs, "echo $$ >> pids; exec sleep 300", tmp_path))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert [job.exit_code is None for job in jobs.all()] in ([], [False])


# -- the tools


@pytest.fixture
def ctx(tmp_path: Path, jobs: SessionJobs) -> FakeToolContext:
    (tmp_path / "ws").mkdir()
    return replace(fake_context(tmp_path / "ws"), session=SessionPorts(jobs=jobs))


async def test_bash_starts_a_job_after_approval_and_job_manages_it(ctx: FakeToolContext) -> None:
    ctx.permission.refuse = {"bash"}
    with pytest.raises(PermissionDeniedError):
        await BashTool().run(BashInput(command="sleep 300", background=True), ctx)
    assert not ctx.session.jobs.all()
    ctx.permission.refuse = set()
    result = await BashTool().run(BashInput(command="echo hello; sleep 300", background=True), ctx)
    job_id = result.metadata["job_id"]
    await until(lambda: (ctx.session.jobs.all()[0].output_file or Path()).exists())
    listed = await JobTool().run(JobInput(operation="list"), ctx)
    assert f"{job_id}: running: echo hello; sleep 300" in listed.content
    output = await JobTool().run(JobInput(operation="output", job_id=job_id), ctx)
    assert output.content.endswith("hello\n")
    killed = await JobTool().run(JobInput(operation="kill", job_id=job_id), ctx)
    assert "killed by signal 15" in killed.content
    with pytest.raises(ToolError, match="needs a job_id"):
        await JobTool().run(JobInput(operation="kill"), ctx)
