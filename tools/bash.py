"""The ``bash`` tool: a command line in the workspace."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from tools import process
from tools.base import CommandChange, PermissionAsk, Tool, ToolContext, ToolError, ToolInput, ToolResult
from tools.cutting import tail
from tools.diff import shown_name
from tools.output import MAX_OUTPUT as MAX_OUTPUT
from tools.output import Output
from tools.paths import rule_target
from tools.shielding import finish
from tools.visible import LONGEST_TITLE, shown_brief

if TYPE_CHECKING:
    from tools.access import Access
    from tools.sandbox import Sandbox

T = TypeVar("T")

MAX_NAMED = 20
MAX_LISTED = 200
"""Changed files that the model is told of, and that the result lists for the display."""
_STALE_S = 2.0
"""After so long a question the workspace is looked at again before a command goes into the sandbox."""
_LIVE_CHUNK = 4000
_DEVICES = re.compile(
    r"/dev/(?:null|zero|full|tty|u?random|std(?:in|out|err)|fd/\d+|(?:tcp|udp)/.*)|/proc/(?:self|\d+)/fd/.*"
)
_LIMITS = re.compile(
    r"Read-only file system|EROFS|Network is unreachable|ENETUNREACH|EAI_AGAIN|ENOTFOUND|"
    r"Temporary failure in name resolution|Could ?n[o']t resolve|Name or service not known|"
    r"Failed to connect|Could ?n[o']t connect|"
    r"Permission denied|EACCES|Operation not permitted|EPERM|Device or resource busy|Cannot connect to|"
    # Only where a command sees a folder of the sandbox instead of the real one.
    r"(?:/tmp|/run|/dev/shm)\b[^\n]*(?:No such file or directory|ENOENT)|"
    r"(?:No such file or directory|ENOENT)[^\n]*(?:/tmp|/run|/dev/shm)\b",
    re.IGNORECASE,
)
"""What programs say when they meet the limits of the sandbox."""


class BashInput(ToolInput):
    """Arguments of ``bash``."""

    command: str
    timeout: int = Field(default=120, ge=1, le=600, description="Seconds until it is stopped.")
    description: str = Field(default="", description="What it does, in five to ten words.")
    background: bool = Field(default=False, description="Go on as a job; returns its id at once.")
    unsandboxed: bool = Field(default=False, description="Ask the person to run it outside of the sandbox.")
    reason: str = Field(default="", description="With unsandboxed: why.")


@dataclass(frozen=True, slots=True)
class _Ready:
    """An approved command: what to start."""

    argv: tuple[str, ...]
    env: dict[str, str]
    sandbox: Sandbox | None
    own: bool = False
    """It writes to what only the sandbox has."""


class BashTool(Tool[BashInput]):
    """Runs ``bash -c`` in its own session; when it returns, nothing of it is running any more (but a job)."""

    name = "bash"
    permission = "bash"
    Input = BashInput

    def __init__(self, kill_grace_s: float = process.KILL_GRACE_S) -> None:
        self._kill_grace_s = kill_grace_s

    async def run(self, args: BashInput, ctx: ToolContext) -> ToolResult:
        """See ``Tool.run``."""
        ready = await self._approved(args, ctx)
        if args.background:
            return await _start_job(args, ready, ctx)
        output = Output(
            ctx.scratch / f"bash-{_safe_name(ctx.tool_call_id)}.txt",
            lambda text: ctx.on_output(tail(text, _LIVE_CHUNK)),
            ctx.redact,
        )
        changed: Sequence[CommandChange] = ()
        taken: list[str] = []
        try:
            watch = await ctx.history.watch_command(ctx.tool_call_id)
            try:
                ended = await process.run(
                    ready.argv,
                    cwd=ctx.workspace,
                    env=ready.env,
                    on_output=output.feed,
                    timeout_s=args.timeout,
                    merge_stderr=True,
                    grace_s=self._kill_grace_s,
                )
            except OSError as error:
                raise ToolError(f"The command could not be started: {error}") from error
            finally:
                await _despite_cancel(output.close())
                taken = await _left(ready.sandbox, ctx)
                changed = await _despite_cancel(watch.ended())
        except BaseException:
            await _left(ready.sandbox, ctx)
            raise
        return _result(args, ended, output, changed, ctx, ready, taken)

    async def _approved(self, args: BashInput, ctx: ToolContext) -> _Ready:
        command = args.command.strip()
        if not command or "\0" in command:
            raise ToolError("The command is empty or contains a NUL character.")
        if any("\ud800" <= c <= "\udfff" for c in command):
            raise ToolError("The command contains half a character, which no shell can be given.")
        outside = args.unsandboxed and ctx.sandbox.kind != "off"
        if outside and not args.reason.strip():
            raise ToolError("unsandboxed needs a reason, for the person who is asked.")
        shell, sh = (process.find_program(name, ctx.workspace, ctx.copy_of) for name in ("bash", "sh"))
        if shell is None and sh is None:
            raise ToolError("No shell found: neither bash nor sh is on PATH.")
        # No start-up files: they are the person's own, and could give any command another meaning.
        argv = (shell, "--noprofile", "--norc", "-c", command) if shell else (sh or "sh", "-c", command)
        ask = await self._question(command, args, ctx)
        if outside:
            ask = replace(
                ask,
                title=f"Outside of the sandbox: {ask.title}",
                model_says=f"{ask.model_says} Reason: {args.reason.strip()}".strip(),
            )
        own: tuple[Access, ...] = ()
        if not outside and ctx.sandbox.kind != "off":
            own, beyond = _written(ask, ctx)
            if beyond:
                # What the person approves is to happen, and inside it could not.
                outside = True
                ask = replace(
                    ask,
                    notes=(f"Runs outside of the sandbox, as it writes {', '.join(beyond)}.",),
                )
        sandbox = None if outside else await _sandbox(ctx, args)
        if ctx.confinement.lacking and sandbox is None:
            ctx.tell_person(ctx.confinement.warning)
        if sandbox is not None and own:
            ask = replace(ask, accesses=tuple(access for access in ask.accesses if access not in own))
        began = time.monotonic()
        try:
            # In a branch's sandbox the workspace is read-only, too.
            fenced = ctx.confinement.fenced if sandbox is None else ctx.copy_of is not None or None
            approval = await ctx.permission.ask(replace(ask, contained=sandbox is not None, fenced=fenced))
            if approval.asked:
                # Links and names may have changed while the person thought: what was approved is what runs.
                again = await self._question(command, args, ctx)
                if not set(again.all_accesses) <= {*ask.all_accesses, *own}:
                    raise ToolError(
                        "What the command would read or write has changed while the approval was awaited (a link or "
                        "a file was put in the way). Nothing was run: look again, then call it again."
                    )
        except BaseException:
            await _left(sandbox, ctx)
            raise
        if sandbox is not None and time.monotonic() - began > _STALE_S:
            await _left(sandbox, ctx)
            sandbox = await _sandbox(ctx, args)
            if sandbox is None:
                raise ToolError("The sandbox cannot be made any more. Nothing was run: try again.")
        env = process.scrubbed_environment(os.environ) | dict(ctx.environment)
        if sandbox is None:
            return _Ready((*ctx.confinement.prefix, *argv), env, None)
        return _Ready((*sandbox.prefix, *argv), sandbox.environment(env), sandbox, bool(own))

    async def _question(self, command: str, args: BashInput, ctx: ToolContext) -> PermissionAsk:
        from tools.shell.place import real_place
        from tools.shell.question import question

        # Parsing, following links and looking up wildcards is no work for the event loop.
        return await asyncio.to_thread(
            lambda: question(command, real_place(ctx.workspace), model_says=args.description)
        )


def _written(ask: PermissionAsk, ctx: ToolContext) -> tuple[tuple[Access, ...], list[str]]:
    """Of the files outside of the workspace that redirections write: those that the sandbox has its own of, and the
    names of those that cannot be written inside."""
    from tools.sandbox import own_places

    own: list[Access] = []
    beyond: list[str] = []
    for access in ask.accesses:
        target = access.target
        if access.permission != "edit" or access.implied or _DEVICES.fullmatch(target):
            continue
        path = Path(target)
        if not path.is_absolute() and ".." not in path.parts:
            continue
        if ".." not in path.parts:
            if any(path.is_relative_to(folder) for folder in ctx.sandbox.writable):
                continue
            if any(path.is_relative_to(folder) for folder in own_places()):
                own.append(access)
                continue
        beyond.append(target)
    return tuple(own), beyond


async def _sandbox(ctx: ToolContext, args: BashInput) -> Sandbox | None:
    """A sandbox for the command; None where it is off, or does not work (then the person is told)."""
    if ctx.sandbox.kind == "off":
        return None
    from tools.sandbox import Unavailable, prepare

    work = asyncio.ensure_future(
        asyncio.to_thread(
            prepare, ctx.sandbox, ctx.workspace, ctx.scratch, ctx.permission.decide,
            private=ctx.journal.with_name(f"{ctx.journal.name}-sandbox"), limited=not args.background,
        )
    )  # fmt: skip
    canceled = await finish(work)
    try:
        sandbox = work.result()
    except Unavailable as error:
        ctx.tell_person(f"Commands are not run in a sandbox: {error}. They ask as if it were off.")
        sandbox = None
    if canceled:
        await _left(sandbox, ctx)
        raise asyncio.CancelledError
    if sandbox is not None and sandbox.earlier:
        ctx.tell_person(_taken_line(sandbox.earlier))
    return sandbox


async def _left(sandbox: Sandbox | None, ctx: ToolContext) -> list[str]:
    """What was taken away of it; the person is told."""
    if sandbox is None:
        return []
    work = asyncio.ensure_future(asyncio.to_thread(sandbox.leave))
    canceled = await finish(work)
    taken = work.result()
    if taken:
        ctx.tell_person(_taken_line(taken))
    if canceled:
        raise asyncio.CancelledError
    return taken


def _taken_line(taken: Sequence[str]) -> str:
    named = ", ".join(taken[:MAX_NAMED]) + (
        f" and {len(taken) - MAX_NAMED} more" if len(taken) > MAX_NAMED else ""
    )
    return (
        f"Taken away, as a command in the sandbox made it and it could make other programs run something: {named}. "
        "If it is wanted, make it with unsandboxed: true and a reason: the person is asked."
    )


async def _start_job(args: BashInput, ready: _Ready, ctx: ToolContext) -> ToolResult:
    loop = asyncio.get_running_loop()

    def ended(sandbox: Sandbox) -> None:
        if taken := sandbox.leave():
            loop.call_soon_threadsafe(ctx.tell_person, _taken_line(taken))

    try:
        job = await ctx.jobs.start(
            ready.argv,
            command=args.command.strip(),
            cwd=ctx.workspace,
            env=ready.env,
            tool_call_id=ctx.tool_call_id,
            on_end=functools.partial(ended, ready.sandbox) if ready.sandbox else None,
        )
    except OSError as error:
        await _left(ready.sandbox, ctx)
        raise ToolError(f"The command could not be started: {error}") from error
    except BaseException:
        await _left(ready.sandbox, ctx)
        raise
    where = f", its output goes to {job.output_file.as_posix()}" if job.output_file is not None else ""
    text = (
        f"Started in the background as {job.job_id}{where}. Use the job tool to see what it writes or to kill "
        "it; you are told when it ends."
    )
    metadata: dict[str, object] = {"command": args.command, "job_id": job.job_id}
    if job.output_file is not None:
        metadata["output_file"] = job.output_file.as_posix()
    return ToolResult(text, title=f"{job.job_id}: {_title(args)}", metadata=metadata)


def _safe_name(tool_call_id: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in tool_call_id)[:100] or "call"


async def _despite_cancel(work: Awaitable[T]) -> T:
    """The result of ``work``, which is not broken off; a cancellation that came meanwhile is raised afterwards."""
    task = asyncio.ensure_future(work)
    if await finish(task):
        raise asyncio.CancelledError
    return task.result()


def _changed_line(changed: Sequence[CommandChange], workspace: Path) -> str:
    """What the command changed, in a line for the model."""
    names: list[str] = []
    for change in changed[:MAX_NAMED]:
        what = {"create": "new", "delete": "deleted", "update": f"+{change.added} -{change.removed}"}[
            change.kind
        ]
        if change.version is None:
            what = f"{change.kind}d; cannot be undone"
        names.append(f"{shown_name(rule_target(change.path, workspace))} ({what})")
    more = len(changed) - len(names)
    line = f"Files changed by the command: {', '.join(names)}" + (f" and {more} more." if more > 0 else ".")
    lost = sum(change.version is None for change in changed[MAX_NAMED:])
    return line + (f" {lost} of these cannot be undone: they are too many, or too large." if lost else "")


def _changed_metadata(changed: Sequence[CommandChange], workspace: Path) -> list[dict[str, object]]:
    return [
        {
            "path": rule_target(change.path, workspace),
            "kind": change.kind,
            "added": change.added,
            "removed": change.removed,
            "version": change.version,
        }
        for change in changed[:MAX_LISTED]
    ]


def _title(args: BashInput) -> str:
    return shown_brief(args.command.strip(), LONGEST_TITLE)


def _result(
    args: BashInput,
    ended: process.Ended,
    output: Output,
    changed: Sequence[CommandChange],
    ctx: ToolContext,
    ready: _Ready,
    taken: Sequence[str],
) -> ToolResult:
    sandbox, workspace = ready.sandbox, ctx.workspace
    if ended.timed_out:
        first = f"Timed out after {args.timeout} s and was stopped, with all its processes."
    elif ended.exit_code < 0:
        first = f"Killed by signal {-ended.exit_code}."
    else:
        first = f"Exit code: {ended.exit_code}"
    lines = [first]
    if ended.stopped_background:
        lines.append("Processes that it left in the background were stopped.")
    if output.cut_bytes and output.spilled:
        lines.append(f"The last {output.cut_bytes} bytes of the output were not stored.")
    text = output.text()
    lines.append(text or "(no output)")
    if sandbox is not None and ended.exit_code != 0 and _LIMITS.search(text):
        # Where the whole workspace is read-only, its settings are no case of their own.
        settings = ", settings of git and editors read-only" if sandbox.guard is not None else ""
        lines.append(
            f"It ran in a sandbox ({sandbox.words}; /tmp its own, secrets hidden{settings}), which may be why. If it "
            "has to be outside, call again with unsandboxed: true and a reason: the person is asked."
        )
    elif sandbox is None and (hint := ctx.confinement.hint(text)):
        lines.append(hint)
    if ready.own:
        lines.append(
            "It ran in a sandbox, whose /tmp is the session's own: only commands there see those files."
        )
    if sandbox is not None and sandbox.earlier:
        lines.append(f"Of earlier commands. {_taken_line(sandbox.earlier)}")
    if taken:
        lines.append(_taken_line(taken))
    if changed:
        lines.append(_changed_line(changed, workspace))
    metadata: dict[str, object] = {
        "command": args.command,
        "exit_code": ended.exit_code,
        "timed_out": ended.timed_out,
    }
    if sandbox is not None:
        metadata["sandbox"] = sandbox.words
    if changed:
        metadata["files"] = _changed_metadata(changed, workspace)
        metadata["files_changed"] = len(changed)
    if output.stored:
        metadata["output_file"] = output.path.as_posix()
    return ToolResult("\n".join(lines), title=_title(args), metadata=metadata, is_error=ended.timed_out)
