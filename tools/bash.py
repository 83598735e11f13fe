"""The ``bash`` tool: a command line in the workspace."""

from __future__ import annotations

import asyncio
import functools
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from tools.access import Access, Suggestion
from tools.localization import english, t
from tools.process import programs as run
from tools.process.background import despite_cancel
from tools.process.output import MAX_OUTPUT as MAX_OUTPUT
from tools.process.output import Output
from tools.running import (
    changed_line,
    changed_metadata,
    environment,
    leave,
    safe_name,
    sandbox_of,
)
from tools.text.terminal import LONGEST_TITLE, shown_brief
from tools.text.truncate import tail
from tools.tool import (
    Approval,
    CommandChange,
    PermissionAsk,
    PermissionDeniedError,
    Tool,
    ToolContext,
    ToolError,
    ToolInput,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.sandbox.policy import Sandbox

_LIVE_CHUNK = 4000
_UNSEEN = "rules deny files, and nobody looked at the approval (--yes)"
NOT_STARTED = "Stopped by the user before the command was started: nothing was done."
_DEVICES = re.compile(
    r"/dev/(?:null|zero|full|tty|u?random|std(?:in|out|err)|fd/\d+|(?:tcp|udp)/.*)|/proc/(?:self|\d+)/fd/.*"
)


class BashInput(ToolInput):
    """Arguments of ``bash``."""

    command: str
    timeout: int = Field(default=120, ge=1, le=600, description="Seconds until it is stopped.")
    description: str = Field(default="", description="What it does, in five to ten words.")
    background: bool = Field(default=False, description="Run as a job; returns its id at once.")
    unsandboxed: bool = Field(default=False, description="Ask the user to run it outside the sandbox.")
    reason: str = Field(default="", description="With unsandboxed: why.")


class _Ready(Struct, frozen=True):
    """An approved command: what to start."""

    ask: PermissionAsk
    """The question, as it would be asked without a sandbox."""
    argv: tuple[str, ...]
    env: dict[str, str]
    sandbox: Sandbox | None
    own: bool = False
    """It writes to what only the sandbox has."""

    def __repr__(self) -> str:
        return f"_Ready({self.ask!r})"  # ``env`` may have secrets


class _Done(Struct, frozen=True):
    """A command that has ended."""

    ready: _Ready
    ended: run.Ended
    output: Output
    changed: Sequence[CommandChange]
    left: Sequence[str]
    """Sentences of the sandbox about the command."""
    seconds: float
    """How long it ran."""
    stopped: bool = False
    """The user stopped it."""

    @property
    def never_started(self) -> bool:
        """Whether a sandbox failed before the command: a socket or file that it was to hide has gone meanwhile."""
        return self.ended.exit_code == 1 and self.output.text().startswith("bwrap: ")

    @property
    def met(self) -> str:
        """The line of its output that shows that it failed at a limit of the sandbox; empty when none does."""
        sandbox, code = self.ready.sandbox, self.ended.exit_code
        # Exit code 126: the file exists but cannot be run.
        if sandbox is None or self.ended.timed_out or code in (0, 126):
            return ""
        programs = (target.partition(" ")[0] for target in self.ready.ask.targets)
        return sandbox.met(self.output.text(), programs, code)


class BashTool(Tool[BashInput], name="bash"):
    """Runs ``bash -c`` in its own session; when it returns, none of its processes runs any more (except a job)."""

    def __init__(self, kill_grace_s: float = run.KILL_GRACE_S) -> None:
        self._kill_grace_s = kill_grace_s

    async def run(self, args: BashInput, ctx: ToolContext) -> ToolResult:
        command = args.command.strip()
        if not command or "\0" in command:
            raise ToolError("The command is empty or contains a NUL character.")
        if any("\ud800" <= c <= "\udfff" for c in command):
            raise ToolError(
                "The command contains an incomplete character, which cannot be passed to a shell."
            )
        try:
            ready = await self._approved(command, args, ctx)
        except asyncio.CancelledError:
            ctx.on_stop(ToolResult(NOT_STARTED, title=_title(args), metadata={"not_run": True}))
            raise
        if args.background:
            return await _start_job(args, ready, ctx)
        done = await self._run(args, ready, ctx)
        if (sandbox := ready.sandbox) is not None and done.never_started:
            network = sandbox.policy.network
            again = await _boxed(ready.ask, args, ctx, own=ready.own, network=network)
            done = await self._run(args, again, ctx) if again is not None else done
        if not (why := done.met):
            return _result(args, done, ctx)
        if ctx.sandbox.always:
            note = "This mode or agent changes nothing, so its commands only run there: continue without it."
            return _result(args, done, ctx, _met_line(done, why, note))
        try:
            # The first run may have changed which files its wildcards match.
            ask = await self._question(command, args, ctx)
            ask = replace(ask, leaves=t("it failed in the sandbox: {why}", why=why), suggestions=())
            outside = await self._outright(ask, command, args, ctx, tried=done.ready.sandbox)
        except asyncio.CancelledError:
            ctx.on_stop(_result(args, done, ctx, _met_line(done, why, "It was not run again outside.")))
            raise
        except ToolError as error:
            return _result(args, done, ctx, _met_line(done, why, str(error)))
        except PermissionDeniedError as denied:
            note = "The user was asked whether to run it outside, and rejected that."
            note += f" They said: {denied.feedback}" if denied.feedback else ""
            return _result(args, done, ctx, _met_line(done, why, note))
        again = await self._run(args, outside, ctx, suffix="-outside")
        again = replace(again, changed=(*done.changed, *again.changed), left=(*done.left, *again.left))
        how = (
            "again outside of it, as the user approved"
            if outside.sandbox is None
            else "there with the network"
        )
        note = f"It failed in the sandbox ({why}) and was run {how}."
        return _result(args, again, ctx, note)

    async def _run(self, args: BashInput, ready: _Ready, ctx: ToolContext, suffix: str = "") -> _Done:
        output = Output(
            ctx.scratch / f"bash-{safe_name(ctx.tool_call_id)}{suffix}.txt",
            lambda text: ctx.on_output(tail(text, _LIVE_CHUNK)),
            ctx.redact,
        )
        changed: Sequence[CommandChange] = ()
        left: list[str] = []
        began = time.monotonic()
        try:
            watch = await ctx.watch_command(ctx.tool_call_id)
            try:
                ended = await run.run(
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
                seconds = time.monotonic() - began
                await despite_cancel(output.close())
                left = await leave(ready.sandbox, ctx)
                changed = await despite_cancel(watch.ended())
        except asyncio.CancelledError:
            left = [*left, *await leave(ready.sandbox, ctx)]
            seconds = time.monotonic() - began
            done = _Done(ready, run.Ended(-signal.SIGTERM), output, changed, left, seconds, stopped=True)
            ctx.on_stop(_result(args, done, ctx))
            raise
        except BaseException:
            await leave(ready.sandbox, ctx)
            raise
        return _Done(ready, ended, output, changed, left, seconds)

    async def _approved(self, command: str, args: BashInput, ctx: ToolContext) -> _Ready:
        ask = await self._question(command, args, ctx)
        policy = ctx.sandbox
        leaves = args.unsandboxed and policy.kind != "off"
        if leaves and policy.always:
            raise ToolError(
                "This mode or agent changes nothing: its commands run only in a read-only sandbox."
            )
        if leaves and not args.reason.strip():
            raise ToolError("unsandboxed needs a reason to show to the user.")
        own: tuple[Access, ...] = ()
        contained = policy.kind != "off" and not leaves
        if contained:
            places = await _own_places(ctx)
            own, beyond = _written(ask, places or (), ctx)
            # Accesses that rules allow must work, and inside the sandbox they would not.
            contained = places is not None and (policy.always or not beyond)
        elif leaves:
            reason = t("the model asks to run it outside the sandbox: {reason}", reason=args.reason.strip())
            ask = replace(ask, leaves=reason, suggestions=())
        if not contained:
            return await self._outright(ask, command, args, ctx)
        inside = replace(
            ask,
            contained=True,
            lifted=policy.lifts,
            fenced=ctx.branch.copy_of is not None or None,
            accesses=tuple(access for access in ask.accesses if access not in own),
        )
        approval = await ctx.permission.ask(inside)
        if approval.asked:
            await self._unchanged(ask, command, args, ctx)
            if not policy.always and not approval.by_rules:
                return await _as_approved(approval, ask, args, ctx)
        if (ready := await _boxed(ask, args, ctx, own=bool(own))) is not None:
            return ready
        if policy.always:
            raise ToolError("The sandbox is not available, and this mode or agent runs commands only there.")
        return await self._outright(ask, command, args, ctx)

    async def _outright(
        self,
        ask: PermissionAsk,
        command: str,
        args: BashInput,
        ctx: ToolContext,
        tried: Sandbox | None = None,
    ) -> _Ready:
        """Ask for the command without a sandbox, and return it ready to run. ``tried``: the sandbox in which it failed.
        Raises PermissionDeniedError, and ToolError as ``_as_approved`` does."""
        if ctx.branch.confinement.lacking:
            ctx.notify_user(ctx.branch.confinement.warning)
        ask = replace(ask, fenced=ctx.branch.confinement.fenced, suggestions=exact_suggestions(ask))
        approval = await ctx.permission.ask(ask)
        if approval.asked:
            await self._unchanged(ask, command, args, ctx)
        return await _as_approved(approval, ask, args, ctx, tried)

    async def _unchanged(self, ask: PermissionAsk, command: str, args: BashInput, ctx: ToolContext) -> None:
        """Return whether the question is unchanged: links and names may have changed while the user thought, and only
        what was approved may run."""
        again = await self._question(command, args, ctx)
        if not set(again.all_accesses) <= set(ask.all_accesses):
            raise ToolError(
                "The files that the command would read or write changed while approval was pending (a link "
                "or a file was put in the way). Nothing was run: look again, then call it again."
            )

    async def _question(self, command: str, args: BashInput, ctx: ToolContext) -> PermissionAsk:
        from tools.shell.path_lookup import real_place
        from tools.shell.question import question

        # Parsing, following links and expanding wildcards would block the event loop.
        return await asyncio.to_thread(
            lambda: question(
                command, real_place(ctx.workspace, ctx.branch.copy_of), model_says=args.description
            )
        )


def exact_suggestions(ask: PermissionAsk) -> tuple[Suggestion, ...]:
    """Return the suggestions for "always" where no sandbox bounds the commands: those that their words do not bound,
    word by word."""
    if not ask.suggestions or not ask.unread:
        return ask.suggestions
    exact = [Suggestion("bash", target) for target in ask.targets if target in ask.unread]
    if any(c in one.pattern for one in exact for c in "*?\\$`"):
        return ()
    unread = [f"{target} " for target in ask.unread]
    kept = [
        one
        for one in ask.suggestions
        if one.permission != "bash"
        or not any(text.startswith(one.pattern.removesuffix("*")) for text in unread)
    ]
    return tuple(dict.fromkeys((*exact, *kept)))


def _shell(command: str, ctx: ToolContext) -> tuple[str, ...]:
    argv = run.shell_argv(command, ctx.workspace, ctx.branch.copy_of)
    if argv is None:
        raise ToolError("No shell found: neither bash nor sh is on PATH.")
    return argv


async def _as_approved(
    approval: Approval, ask: PermissionAsk, args: BashInput, ctx: ToolContext, tried: Sandbox | None = None
) -> _Ready:
    """Return the approved command ready to run: outside the sandbox, unless nobody looked at it and rules deny files.

    Then only the sandbox makes the denials hold: it runs there, with the network. ``tried``: the sandbox in which it
    failed. Raises ToolError when it cannot run.
    """
    outside = _Ready(
        ask, (*ctx.branch.confinement.prefix, *_shell(args.command.strip(), ctx)), environment(ctx), None
    )
    if not approval.unseen or ctx.sandbox.kind == "off" or not ctx.permission.denies_files:
        return outside
    if tried is not None and tried.policy.network:
        raise ToolError(f"It was not run outside: {_UNSEEN}.")
    if (inside := await _boxed(ask, args, ctx, network=True)) is not None:
        return inside
    if ask.unread:
        raise ToolError(f"It was not run: {_UNSEEN}, and no sandbox is available.")
    return outside


def _has_network(ask: PermissionAsk, ctx: ToolContext) -> bool:
    """Return whether the policy, or rules for every command of the line, give it the network."""
    glue = {access.target for access in ask.accesses if access.glue}
    named = [target for target in ask.targets if target not in glue]
    return ctx.sandbox.network or (
        bool(named) and all(ctx.permission.decide("network", target) == "allow" for target in named)
    )


def _met_line(done: _Done, why: str, note: str) -> str:
    sandbox = done.ready.sandbox
    words = sandbox.words if sandbox is not None else ""
    tmp = "/tmp its own, " if sandbox is not None and sandbox.own_tmp else ""
    return f"It ran in a sandbox ({words}; {tmp}secrets hidden), which may be the reason: {why}. {note}"


def _written(
    ask: PermissionAsk, places: Sequence[str], ctx: ToolContext
) -> tuple[tuple[Access, ...], list[str]]:
    """Return redirections to files outside the workspace: accesses to the sandbox's own files, and the names of files
    that cannot be written inside. ``places``: see ``own_places``."""
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
            if any(path.is_relative_to(folder) for folder in places):
                if (
                    ctx.permission.decide("edit", target) != "deny"
                ):  # an approved command would write the real one
                    own.append(access)
                continue
        beyond.append(target)
    return tuple(own), beyond


async def _own_places(ctx: ToolContext) -> tuple[str, ...] | None:
    """Return the folders that the sandbox replaces with its own, or None after notifying the user why there is none."""
    from tools.sandbox.policy import UnavailableError, no_sandbox
    from tools.sandbox.prepare import own_places

    try:
        return await asyncio.to_thread(own_places, ctx.workspace, ctx.branch.copy_of)
    except UnavailableError as error:
        ctx.notify_user(no_sandbox(error))
        return None


async def _boxed(
    ask: PermissionAsk, args: BashInput, ctx: ToolContext, *, own: bool = False, network: bool = False
) -> _Ready | None:
    """To be run in a sandbox; None where none can be made. ``network``: it has the network, whatever rules say."""
    sandbox = await sandbox_of(ctx, network=network or _has_network(ask, ctx), limited=not args.background)
    if sandbox is None:
        return None
    argv = (*sandbox.prefix, *_shell(args.command.strip(), ctx))
    return _Ready(ask, argv, sandbox.environment(environment(ctx)), sandbox, own)


async def _start_job(args: BashInput, ready: _Ready, ctx: ToolContext) -> ToolResult:
    loop = asyncio.get_running_loop()

    def ended(sandbox: Sandbox) -> None:
        for line in sandbox.leave():
            loop.call_soon_threadsafe(ctx.notify_user, line)

    try:
        job = await ctx.session.jobs.start(
            ready.argv,
            command=args.command.strip(),
            cwd=ctx.workspace,
            env=ready.env,
            tool_call_id=ctx.tool_call_id,
            on_end=functools.partial(ended, ready.sandbox) if ready.sandbox else None,
        )
    except BaseException as error:
        await leave(ready.sandbox, ctx)
        if isinstance(error, OSError):
            raise ToolError(f"The command could not be started: {error}") from error
        raise
    where = f", its output goes to {job.output_file.as_posix()}" if job.output_file is not None else ""
    text = (
        f"Started in the background as {job.job_id}{where}. Use the job tool to read its output or to kill "
        "it; you are notified when it ends."
    )
    metadata: dict[str, object] = {"command": args.command, "job_id": job.job_id}
    if job.output_file is not None:
        metadata["output_file"] = job.output_file.as_posix()
    return ToolResult(text, title=f"{job.job_id}: {_title(args)}", metadata=metadata)


def _title(args: BashInput) -> str:
    return shown_brief(args.command.strip(), LONGEST_TITLE)


def _result(args: BashInput, done: _Done, ctx: ToolContext, note: str = "") -> ToolResult:
    output, sandbox = done.output, done.ready.sandbox
    lines = [_outcome(args, done)]
    if done.ended.stopped_background:
        lines.append("Processes that it left in the background were stopped.")
    if output.cut_bytes and output.spilled:
        lines.append(f"The last {output.cut_bytes} bytes of the output were not stored.")
    text = output.text()
    lines.append(text or "(no output)")
    if note:
        lines.append(note)
    elif sandbox is None and (hint := ctx.branch.confinement.hint(text)):
        lines.append(hint)
    if done.ready.own:
        lines.append(
            "It ran in a sandbox with its own /tmp for this session: only commands there see those files."
        )
    for line in sandbox.earlier if sandbox is not None else ():
        lines.append(f"Of earlier commands. {english(line)}")
    lines += map(english, done.left)
    if done.changed:
        lines.append(changed_line(done.changed, ctx.workspace))
    return ToolResult(
        "\n".join(lines),
        title=_title(args),
        metadata=_metadata(args, done, text, ctx.workspace),
        is_error=done.stopped or done.ended.timed_out,
    )


def _outcome(args: BashInput, done: _Done) -> str:
    """Return the first line of the result: how the command ended."""
    ended = done.ended
    if done.stopped:
        return (
            f"Stopped by the user after {done.seconds:.1f} s, with all its processes; part of it may be done."
        )
    if ended.timed_out:
        return f"Timed out after {args.timeout} s and was stopped, with all its processes."
    if ended.exit_code < 0:
        return f"Killed by signal {-ended.exit_code}."
    return f"Exit code: {ended.exit_code}"


def _metadata(args: BashInput, done: _Done, text: str, workspace: Path) -> dict[str, object]:
    metadata: dict[str, object] = {
        "command": args.command,
        "exit_code": done.ended.exit_code,
        "timed_out": done.ended.timed_out,
    }
    if done.stopped:
        metadata["canceled"] = True
    if colored := done.output.colored():
        metadata["colored"] = colored
    if text:
        metadata["output_lines"] = text.count("\n") + 1
    if done.ready.sandbox is not None:
        metadata["sandbox"] = done.ready.sandbox.words
    if done.changed:
        metadata["files"] = changed_metadata(done.changed, workspace)
        metadata["files_changed"] = len(done.changed)
    if done.output.stored:
        metadata["output_file"] = done.output.path.as_posix()
    return metadata
