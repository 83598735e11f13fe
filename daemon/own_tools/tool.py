"""The user's tools as tools of a session: they ask, run, and answer with text."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.outside_tools.tool import OutsideInput, OutsideTool, cut, limited_progress, output_of, title_of
from daemon.own_tools.python_tools import CallContext, FailedError, in_thread
from tools.localization import english, noted, t
from tools.process import programs
from tools.process.background import despite_cancel
from tools.process.runnable import why_not_run
from tools.running import (
    changed_line,
    changed_metadata,
    environment,
    leave,
    sandbox_of,
)
from tools.text.terminal import shown_brief
from tools.tool import ToolError, ToolResult
from tools.tool_names import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.outside_tools.approvals import Approvals
    from daemon.own_tools.files import Executable
    from daemon.own_tools.python_tools import LoadedTool
    from tools.process.output import Output
    from tools.sandbox.policy import Sandbox
    from tools.tool import Approval, CommandChange, ToolContext

_STOPPED = "Stopped by the user; part of it may be done."


class UserTool(OutsideTool):
    """A tool of the user."""

    changed = noted(
        "This tool or its program has changed since you approved it. Its description is now: {description}"
    )

    async def _checked(self, args: OutsideInput) -> dict[str, Any]:
        """Return the arguments. Raises ToolError when they are not those of the schema."""
        arguments = dict(args.model_extra or {})
        # A thread, because a pattern in a schema may take long.
        if problem := await asyncio.to_thread(_problem, self.definition.schema, arguments):
            raise ToolError(f"The arguments are not valid: {problem}")
        return arguments


def _problem(schema: Mapping[str, Any], arguments: dict[str, Any]) -> str:
    from jsonschema import Draft202012Validator
    from referencing.jsonschema import EMPTY_REGISTRY

    # Its own registry would fetch what a schema refers to.
    validator: Any = Draft202012Validator(schema, registry=EMPTY_REGISTRY)
    try:
        errors = sorted(validator.iter_errors(arguments), key=lambda one: list(map(str, one.path)))
    except RecursionError:
        return "they or the references of the schema are nested too deeply"
    return "; ".join(
        f"{'.'.join(map(str, one.path)) or 'arguments'}: {shown_brief(one.message, 200)}"
        for one in errors[:3]
    )


class PythonFunctionTool(UserTool):
    """A tool of a package; it runs inside the daemon."""

    def __init__(self, loaded: LoadedTool, approved: Approvals) -> None:
        super().__init__(OWN + loaded.name, loaded.definition, approved, whose=t("Own tool"))
        self._loaded = loaded

    async def run(self, args: OutsideInput, ctx: ToolContext) -> ToolResult:
        loaded = self._loaded
        arguments = await self._checked(args)
        notes = [
            t(
                "Python code of the package {package}. It runs inside Goalwright, with your rights.",
                package=loaded.package,
            )
        ]
        await self.approve(arguments, ctx, digest=loaded.digest, notes=notes)
        here = asyncio.get_running_loop()

        def say(line: str) -> None:
            if not here.is_closed():
                here.call_soon_threadsafe(ctx.on_output, line)

        context = CallContext(ctx.workspace, limited_progress(say))
        try:
            said = await in_thread(lambda: loaded.tool.run(arguments, context), loaded.timeout_s)
        except TimeoutError as error:
            raise ToolError(
                f"The tool did not answer within {loaded.timeout_s:g} s and was canceled."
            ) from error
        except asyncio.CancelledError:
            ctx.on_stop(ToolResult(_STOPPED, title=loaded.name, metadata={"canceled": True}, is_error=True))
            raise
        except FailedError as error:
            words = await cut(f"The tool failed: {error}", ctx, "tool")
            return ToolResult(words, title=title_of(words), is_error=True)
        if not isinstance(said, str):
            raise ToolError(f"The tool returned {type(said).__name__} instead of text. Tell the user.")
        text = await cut(said, ctx, "tool")
        return ToolResult(text or "(no output)", title=title_of(text))


class ExecutableTool(UserTool):
    """A program: arguments as JSON on its stdin, and its answer on its stdout."""

    def __init__(self, tool: Executable, approved: Approvals) -> None:
        super().__init__(OWN + tool.name, tool.definition, approved, whose=t("Own tool"))
        self._tool = tool

    async def run(self, args: OutsideInput, ctx: ToolContext) -> ToolResult:
        tool = self._tool
        arguments = await self._checked(args)
        digest = await asyncio.to_thread(tool.digest, ctx.workspace)
        boxed = ctx.sandbox.kind != "off" and (
            tool.sandbox != "off" or ctx.sandbox.always or self._in_branch(ctx)
        )
        where = (
            t("It runs in the sandbox.")
            if boxed and tool.sandbox == "on"
            else t("It runs in the sandbox, with the network.")
            if boxed
            else t("It runs outside of the sandbox, with your rights.")
        )
        approval = await self.approve(
            arguments,
            ctx,
            digest=digest,
            notes=[f"{tool.definition.origin}. {where}"],
            runs=shlex.join(tool.argv),
        )
        if await asyncio.to_thread(tool.digest, ctx.workspace) != digest:
            raise ToolError("The program changed while approval was pending. Nothing was run: call it again.")
        boxed = boxed or _unseen(approval, ctx)
        network = ctx.sandbox.network or tool.sandbox != "on"
        sandbox = await sandbox_of(ctx, network=network, readable=(tool.folder,)) if boxed else None
        if boxed and sandbox is None:
            raise ToolError("The sandbox is not available, and this tool runs only there. Tell the user.")
        return await self._run(arguments, sandbox, ctx)

    def _in_branch(self, ctx: ToolContext) -> bool:
        return ctx.branch.copy_of is not None

    async def _run(self, arguments: dict[str, Any], sandbox: Sandbox | None, ctx: ToolContext) -> ToolResult:
        tool = self._tool
        out, err = output_of(ctx, "tool", live=True), output_of(ctx, "tool-stderr", live=True)
        prefix = ctx.branch.confinement.prefix if sandbox is None else sandbox.prefix
        env = environment(ctx) if sandbox is None else sandbox.environment(environment(ctx))
        given = json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace")

        def feed(stdin: asyncio.WriteTransport) -> None:
            stdin.write(given)
            stdin.close()

        changed: Sequence[CommandChange] = ()
        left: Sequence[str] = ()
        try:
            watch = await ctx.watch_command(ctx.tool_call_id)
            try:
                ended = await programs.run(
                    (*prefix, *tool.argv),
                    cwd=ctx.workspace,
                    env=env,
                    on_output=lambda fd, data: (out if fd == 1 else err).feed(fd, data),
                    timeout_s=tool.timeout_s,
                    feed=feed,
                )
            except OSError as error:
                why = await asyncio.to_thread(why_not_run, Path(tool.program), error)
                raise ToolError(f"The tool could not be started: {english(why) or error}") from error
            finally:
                await despite_cancel(out.close())
                await despite_cancel(err.close())
                left = await leave(sandbox, ctx)
                changed = await despite_cancel(watch.ended())
        except asyncio.CancelledError:
            words = "\n".join((_STOPPED, *_more(changed, left, ctx)))
            metadata = {"canceled": True, **_files(changed, ctx)}
            ctx.on_stop(ToolResult(words, title=tool.name, metadata=metadata, is_error=True))
            raise
        return self._result(ended, out, err, [*_more(changed, left, ctx)], _files(changed, ctx))

    def _result(
        self, ended: programs.Ended, out: Output, err: Output, more: list[str], files: dict[str, object]
    ) -> ToolResult:
        failed = ended.timed_out or ended.exit_code != 0
        text, said = out.text(), err.text().strip()
        lines = [text or "(no output)"]
        if ended.timed_out:
            lines = [
                f"Timed out after {self._tool.timeout_s:g} s and was stopped, with all its processes.",
                said,
                text,
            ]
        elif failed:
            how = (
                f"Killed by signal {-ended.exit_code}"
                if ended.exit_code < 0
                else f"Exit code: {ended.exit_code}"
            )
            lines = [f"The tool failed. {how}", said, text]
        title = title_of(said or lines[0] if failed else text)
        metadata = {"exit_code": ended.exit_code, "timed_out": ended.timed_out, **files}
        return ToolResult("\n".join(filter(None, [*lines, *more])), title, metadata, is_error=failed)


def _unseen(approval: Approval, ctx: ToolContext) -> bool:
    """Return whether only the sandbox makes the rules that deny files hold: nobody looked at the approval."""
    return approval.unseen and ctx.sandbox.kind != "off" and ctx.permission.denies_files


def _more(changed: Sequence[CommandChange], left: Sequence[str], ctx: ToolContext) -> list[str]:
    lines = list(map(english, left))
    return [*lines, changed_line(changed, ctx.workspace)] if changed else lines


def _files(changed: Sequence[CommandChange], ctx: ToolContext) -> dict[str, object]:
    if not changed:
        return {}
    return {"files": changed_metadata(changed, ctx.workspace), "files_changed": len(changed)}
