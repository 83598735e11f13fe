"""The ``job`` tool: commands that ``bash`` left running in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tools.localization import t
from tools.text.terminal import LONGEST_TITLE, shown_brief
from tools.text.truncate import head
from tools.tool import Tool, ToolContext, ToolError, ToolInput, ToolResult

if TYPE_CHECKING:
    from tools.ports import Job


class JobInput(ToolInput):
    """Arguments of ``job``."""

    operation: Literal["list", "output", "kill"]
    job_id: str = Field(default="", description="Which one; not for list.")


class JobTool(Tool[JobInput], name="job"):
    """Lists jobs, shows what one wrote, kills one."""

    async def run(self, args: JobInput, ctx: ToolContext) -> ToolResult:
        wanted = args.job_id.strip()
        if args.operation != "list" and not wanted:
            raise ToolError(f"{args.operation} needs a job_id. {_listed(ctx)}")
        what = f"{args.operation} {wanted}".strip()
        command = next((job.command for job in ctx.session.jobs.all() if job.job_id == wanted), "")
        title = (
            t("Job: {what}: {command}", what=what, command=shown_brief(command, LONGEST_TITLE))
            if command
            else t("Job: {what}", what=what)
        )
        await self.ask(ctx, what, title, detail=command)
        if args.operation == "list":
            return ToolResult(_listed(ctx), title="jobs", metadata={"count": len(ctx.session.jobs.all())})
        if args.operation == "kill":
            job = await ctx.session.jobs.kill(wanted)
            return ToolResult(
                described(job), title=t("killed {wanted}", wanted=wanted), metadata=_metadata(job)
            )
        output = ctx.session.jobs.output(wanted)
        job = next((job for job in ctx.session.jobs.all() if job.job_id == wanted), None)
        lines = [] if job is None else [described(job)]
        lines.append(output or "(nothing new)")
        return ToolResult(
            "\n".join(lines), title=t("output of {wanted}", wanted=wanted), metadata=_metadata(job)
        )


def described(job: Job) -> str:
    """Return a job in one line, for the model."""
    state = "running" if job.exit_code is None else f"ended with exit code {job.exit_code}"
    if job.exit_code is not None and job.exit_code < 0:
        state = f"killed by signal {-job.exit_code}"
    where = f" (all output: {job.output_file.as_posix()})" if job.output_file is not None else ""
    return f"{job.job_id}: {state}: {head(job.command.splitlines()[0], 200)}{where}"


def _listed(ctx: ToolContext) -> str:
    return "\n".join(described(job) for job in ctx.session.jobs.all()) or "There are no jobs."


def _metadata(job: Job | None) -> dict[str, object]:
    return {} if job is None else {"job_id": job.job_id, "exit_code": job.exit_code}
