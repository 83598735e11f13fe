"""The port to commands that go on in the background, after the call that began them has its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from tools.errors import ToolError


@dataclass(frozen=True, slots=True)
class Job:
    """A command in the background. ``exit_code`` is None while it runs, negative for a signal."""

    job_id: str
    command: str
    started_at: datetime
    exit_code: int | None = None
    output_file: Path | None = None
    """Everything it wrote so far."""
    tool_call_id: str = ""
    """The call that started it."""


class Jobs(Protocol):
    """A session's jobs. They end with the session at the latest; nothing of them outlives the daemon."""

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
        """Begin a job that was approved. Raises OSError, and ToolError when there are too many.

        ``on_end`` is called in a thread when it has ended; not when this raises.
        """
        ...

    def all(self) -> Sequence[Job]:
        """Running ones and those that ended lately, oldest first."""
        ...

    def output(self, job_id: str) -> str:
        """What it wrote since the model asked last, head and tail when long. Raises ToolError for an unknown id."""
        ...

    async def kill(self, job_id: str) -> Job:
        """Stop it with all its processes. Raises ToolError for an unknown id."""
        ...


class NoJobs:
    """Where nothing can go on in the background."""

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
        """See Jobs."""
        raise ToolError("Nothing can run in the background here.")

    def all(self) -> Sequence[Job]:
        """See Jobs."""
        return ()

    def output(self, job_id: str) -> str:
        """See Jobs."""
        raise ToolError(f"There is no job {job_id}.")

    async def kill(self, job_id: str) -> Job:
        """See Jobs."""
        raise ToolError(f"There is no job {job_id}.")
