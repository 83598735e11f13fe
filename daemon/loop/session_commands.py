"""The commands of a session: those that its turn waits for, background ones, and their output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.jobs import SessionJobs, StoppableCalls
from daemon.model import notice_codes
from daemon.model.events import Delta, Event, MessageAdded
from daemon.state.notes import job_lost, job_notice
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from daemon.loop.record import SessionRecord
    from tools.ports import Job

_LIVE_OUTPUT = 20_000
"""Characters of live output that are kept for each command; clients keep as many."""


class SessionCommands:
    """The commands of one session. Made and used on the event loop."""

    def __init__(self, record: SessionRecord) -> None:
        services = record.services
        self.under_way = StoppableCalls()
        """Those that the turn waits for."""
        self.jobs = SessionJobs(
            services.store.folder(record.session_id) / "output",
            services.now,
            redact=SECRETS.text,
            on_end=self._job_ended,
            on_output=lambda call_id, text: self.wrote(call_id, "bash", text),
        )
        """Those in the background."""
        self.live_output: dict[str, str] = {}
        """The end of what commands under way and background jobs have written, by tool call id."""
        self._record = record
        self._stopped_by: dict[str, str] = {}
        self._closing = False
        record.follow(self._forget_output)

    def wrote(self, tool_call_id: str, name: str, text: str) -> None:
        """Publish what a command wrote, and keep the end of it for clients that load the session later."""
        self.live_output[tool_call_id] = (self.live_output.get(tool_call_id, "") + text)[-_LIVE_OUTPUT:]
        self._record.delta(
            Delta(
                trace_id=self._record.session_id,
                kind="tool_output",
                message_id="",
                tool_call_id=tool_call_id,
                name=name,
                text=text,
            )
        )

    async def stop_job(self, job_id: str, by: str) -> Job:
        """Stop a background command for the user and notify the model. Raises ToolError for an unknown id."""
        self._stopped_by[job_id] = by
        try:
            return await self.jobs.kill(job_id)
        finally:
            self._stopped_by.pop(job_id, None)

    def notify_lost_jobs(self) -> None:
        """The session is opened: what ran in the background has ended with the daemon before."""
        for job_id, command in list(self._record.state.jobs.items()):
            self._record.notice("info", job_lost(job_id, command), notice_codes.JOB_ENDED, about=job_id)

    def leave(self) -> None:
        """Close the session: jobs that end from now on are reported when it is opened again."""
        self._closing = True

    def _job_ended(self, job: Job, killed: bool) -> None:
        if self._closing:
            return
        by = self._stopped_by.get(job.job_id, "")
        code = notice_codes.JOB_KILLED if killed and not by else notice_codes.JOB_ENDED
        stopped_by = by or ("the model" if killed else "")
        self.live_output.pop(job.tool_call_id, None)
        self._record.notice(
            "info", job_notice(job, stopped_by), code, about=job.job_id, exit_code=job.exit_code
        )

    def _forget_output(self, event: Event) -> None:
        """Drop the live output of a call that has its result, unless it started a background job."""
        result = event.message.tool_result() if isinstance(event, MessageAdded) else None
        if result is not None and result.metadata.get("job_id") not in self._record.state.jobs:
            self.live_output.pop(result.tool_call_id, None)
