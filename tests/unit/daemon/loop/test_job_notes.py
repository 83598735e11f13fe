from __future__ import annotations

from pathlib import Path

from daemon.model.events import Notice
from tests.fakes.core import ALLOW_ALL, daemon
from tests.fakes.models import Call
from tests.fakes.waiting import until


async def test_the_model_and_the_person_are_told_that_a_job_ended_and_none_outlives_the_session(
    tmp_path: Path,
) -> None:
    steps = (Call("bash", {"command": "until [ -e go ]; do sleep 0.01; done; exit 3", "background": True}),)
    async with daemon(tmp_path, [*steps], "Started.", "Seen.", command_line=ALLOW_ALL) as bench:
        session = bench.session()
        await session.prompt("start it")
        (job,) = session.jobs.all()
        assert job.exit_code is None
        (bench.workspace / "go").touch()
        await until(lambda: [n for n in bench.events(Notice) if n.code == "job_ended"], "the notice")
        await session.prompt("and now?")
        told = str(bench.models.requests[-1])
        assert "the background job job_1 ended with exit code 3" in told
