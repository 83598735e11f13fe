"""The commands of a session: background commands behind ``tools.ports.Jobs``, and those that a turn waits for.

Background commands were approved like any command. They end with the session, and with the daemon in any case (see
``supervisor``). A job's changes in the workspace belong to no tool call, so the file history does not have them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tools.errors import ToolError
from tools.localization import t
from tools.ports import Job
from tools.process import programs
from tools.process.background import finish, is_canceled
from tools.process.output import HeadTail, Output, whole_in
from tools.text import terminal
from tools.text.truncate import tail
from tools.tool import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

log = logging.getLogger(__name__)

MAX_RUNNING = 10
MAX_ENDED = 20
"""Jobs that have ended and can still be looked at."""
_LIVE_CHUNK = 4000


class _Running(Struct):
    job: Job
    output: Output
    unread: HeadTail
    """Output that the model has not read yet."""
    on_end: Callable[[], object] | None = None
    task: asyncio.Task[None] | None = None
    killed: bool = False


class SessionJobs:
    """The commands of a session, in the background or awaited by a turn. Use it on the event loop."""

    def __init__(
        self,
        folder: Path,
        now: Callable[[], datetime],
        *,
        redact: Callable[[str], str] = lambda text: text,
        on_end: Callable[[Job, bool], None] = lambda job, killed: None,
        on_output: Callable[[str, str], None] = lambda tool_call_id, text: None,
        kill_grace_s: float = programs.KILL_GRACE_S,
    ) -> None:
        """``folder``: for the outputs. ``on_end`` is called for every job that ended, and whether it was killed;
        ``on_output`` gets a job's output, with the tool call that started it."""
        self._folder = folder
        self._now = now
        self._redact = redact
        self._on_end = on_end
        self._on_output = on_output
        self._grace_s = kill_grace_s
        self._jobs: dict[str, _Running] = {}
        self._count = 0
        self._closed = False

    async def start(
        self,
        argv: Sequence[str],
        *,
        command: str,
        cwd: Path,
        env: Mapping[str, str],
        tool_call_id: str,
        on_end: Callable[[], object] | None = None,
    ) -> Job:
        if self._closed:
            raise ToolError("The session is ending: nothing can be started.")
        running = [entry.job.job_id for entry in self._jobs.values() if entry.job.exit_code is None]
        if len(running) >= MAX_RUNNING:
            raise ToolError(
                f"{MAX_RUNNING} jobs are already running ({', '.join(running)}): kill one with the job "
                "tool first."
            )
        # Ids continue after a restart of the daemon, so that no old output is overwritten.
        self._count += 1
        while self._path(self._count).exists():
            self._count += 1
        path = self._path(self._count)

        def heard(text: str) -> None:
            entry.unread.add(terminal.plain(text))
            self._on_output(tool_call_id, tail(text, _LIVE_CHUNK))

        job = Job(f"job_{self._count}", command, self._now(), output_file=path, tool_call_id=tool_call_id)
        output = Output(path, heard, self._redact, whole=True)
        entry = self._jobs[job.job_id] = _Running(job, output, HeadTail(), on_end)
        began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry.task = asyncio.create_task(self._run(entry, argv, cwd, env, began), name=job.job_id)
        entry.task.add_done_callback(lambda _: began.done() or began.set_result(None))
        try:
            await asyncio.shield(began)
        except OSError:
            del self._jobs[job.job_id]
            raise
        except asyncio.CancelledError:
            await self._stop(entry)
            raise
        self._forget_old()
        return entry.job

    def all(self) -> Sequence[Job]:
        return [entry.job for entry in self._jobs.values()]

    def begun_by(self) -> Sequence[str]:
        """Return the ids of the tool calls whose jobs still run."""
        return [entry.job.tool_call_id for entry in self._jobs.values() if entry.job.exit_code is None]

    def output(self, job_id: str) -> str:
        entry = self._known(job_id)
        unread, entry.unread = entry.unread, HeadTail()
        return unread.text(whole_in(entry.output.path))

    async def kill(self, job_id: str) -> Job:
        entry = self._known(job_id)
        await self._stop(entry)
        return entry.job

    async def close(self) -> None:
        """Stop all of them without notices."""
        self._closed = True
        await self.stop_all()

    async def stop_all(self) -> None:
        """Stop all of them; new ones can be started."""
        await asyncio.gather(*(self._stop(entry) for entry in list(self._jobs.values())))

    # -- internals --

    def _path(self, number: int) -> Path:
        return self._folder / f"job_{number}.txt"

    def _known(self, job_id: str) -> _Running:
        entry = self._jobs.get(job_id)
        if entry is None:
            known = ", ".join(self._jobs) or "none"
            raise ToolError(
                t("There is no job {job_id}. Jobs in this session: {known}.", job_id=job_id, known=known)
            )
        return entry

    async def _stop(self, entry: _Running) -> None:
        if entry.task is not None and not entry.task.done():
            entry.killed = True
            entry.task.cancel()
            if await finish(asyncio.ensure_future(asyncio.wait({entry.task}))):
                raise asyncio.CancelledError

    async def _run(
        self,
        entry: _Running,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        began: asyncio.Future[None],
    ) -> None:
        code = -15
        started = False

        def running() -> None:
            nonlocal started
            started = True
            if not began.done():
                began.set_result(None)

        try:
            ended = await programs.run(
                argv, cwd=cwd, env=env, on_output=entry.output.feed, timeout_s=None, merge_stderr=True,
                grace_s=self._grace_s, on_start=running,
            )  # fmt: skip
            code = ended.exit_code
        except OSError as error:
            if not began.done():
                began.set_exception(error)
        finally:
            await finish(asyncio.ensure_future(entry.output.close()))
            if entry.on_end is not None and started:
                await finish(asyncio.ensure_future(asyncio.to_thread(entry.on_end)))
            entry.job = replace(entry.job, exit_code=code)
            if started and not self._closed:
                try:
                    self._on_end(entry.job, entry.killed)
                except Exception:
                    # The job has ended in any case.
                    log.exception("the end of %s could not be told", entry.job.job_id)

    def _forget_old(self) -> None:
        ended = [job_id for job_id, entry in self._jobs.items() if entry.job.exit_code is not None]
        for job_id in ended[:-MAX_ENDED]:
            del self._jobs[job_id]


class StoppableCalls:
    """The commands under way of a session, by the ids of their calls."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[ToolResult]] = {}

    def stop(self, call_id: str) -> bool:
        """Stop a command with all its processes. False when it does not run (any more)."""
        task = self._tasks.get(call_id)
        return task is not None and task.cancel()

    async def run(
        self,
        call_id: str,
        work: Coroutine[Any, Any, ToolResult],
        stopped: Callable[[str], ToolResult | None],
    ) -> ToolResult:
        """Run a command to its end, or until ``stop``; ``stopped`` returns its partial result then.

        Canceling the caller cancels the command, too.
        """
        task = self._tasks[call_id] = asyncio.create_task(work)
        try:
            return await task
        except asyncio.CancelledError:
            if not task.cancelled() or is_canceled():
                raise
            result = stopped(call_id) or ToolResult("Stopped by the user.", t("canceled"))
            return replace(result, metadata={**result.metadata, "canceled": True}, is_error=True)
        finally:
            del self._tasks[call_id]
