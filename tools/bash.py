"""The ``bash`` tool: a command line in the workspace."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import Field

from tools import command_line, process
from tools.access import suggestions
from tools.base import CommandChange, PermissionAsk, Tool, ToolContext, ToolError, ToolInput, ToolResult
from tools.diff import shown_name
from tools.paths import rule_target
from tools.shielding import finish

T = TypeVar("T")

MAX_OUTPUT = 30_000
"""Characters of output the model gets, half from the beginning and half from the end."""
MAX_NAMED = 20
MAX_LISTED = 200
"""Changed files that the model is told of, and that the result lists for the display."""
MAX_SPILL_BYTES = 64 * 1024 * 1024
_LIVE_CHUNK = 4000


class BashInput(ToolInput):
    """Arguments of ``bash``."""

    command: str = Field(description="The command line.")
    timeout: int = Field(default=120, ge=1, le=600, description="Seconds until it is stopped.")
    description: str = Field(default="", description="What it does, in five to ten words.")


class BashTool(Tool[BashInput]):
    """Runs ``bash -c`` in its own session; when it returns, nothing of it is running any more."""

    name = "bash"
    permission = "bash"
    Input = BashInput

    def __init__(self, kill_grace_s: float = process.KILL_GRACE_S) -> None:
        self._kill_grace_s = kill_grace_s

    async def run(self, args: BashInput, ctx: ToolContext) -> ToolResult:
        """See ``Tool.run``."""
        command = args.command.strip()
        if not command or "\0" in command:
            raise ToolError("The command is empty or contains a NUL character.")
        shell = process.find_program("bash", ctx.workspace) or process.find_program("sh", ctx.workspace)
        if shell is None:
            raise ToolError("No shell found: neither bash nor sh is on PATH.")
        targets = command_line.targets(command)
        await ctx.permission.ask(
            PermissionAsk(
                permission="bash",
                targets=targets,
                title=args.description.strip() or f"Run {command.splitlines()[0][:100]}",
                suggestions=suggestions("bash", command_line.suggestions(targets)),
                detail=command,
            )
        )
        output = _Output(ctx.scratch / f"bash-{_safe_name(ctx.tool_call_id)}.txt", ctx.on_output)
        watch = await ctx.history.watch_command(ctx.tool_call_id)
        changed: Sequence[CommandChange] = ()
        try:
            ended = await process.run(
                [shell, "-c", command],
                cwd=ctx.workspace,
                env=process.scrubbed_environment(os.environ),
                on_output=output.feed,
                timeout_s=args.timeout,
                merge_stderr=True,
                grace_s=self._kill_grace_s,
            )
        except OSError as error:
            raise ToolError(f"The command could not be started: {error}") from error
        finally:
            output.close()
            changed = await _despite_cancel(watch.ended())
        return _result(args, ended, output, changed, ctx.workspace)


class _Output:
    """Head and tail of what a command writes; all of it in a file once it is long."""

    def __init__(self, spill: Path, live: Callable[[str], None]) -> None:
        self.path = spill
        self.spilled = False
        self.total = 0
        self.cut_bytes = 0
        self._live = live
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._head = ""
        self._tail = ""
        self._file: BinaryIO | None = None
        self._written = 0

    def feed(self, fd: int, data: bytes) -> None:
        """Bytes from the command; a character may be split between two calls."""
        self._add(self._decode(data))

    def close(self) -> None:
        """After the last byte."""
        self._add(self._decode(b"", True))
        if self._file is not None:
            self._file.close()
            self._file = None

    def text(self) -> str:
        """What the model gets."""
        if not self.spilled:
            return self._head + self._tail
        half = MAX_OUTPUT // 2
        left_out = self.total - 2 * half
        where = (
            f"the whole output is in {self.path.as_posix()}" if self._written else "it could not be stored"
        )
        return f"{self._head[:half]}\n\n[… {left_out} characters left out; {where} …]\n\n{self._tail[-half:]}"

    def _add(self, text: str) -> None:
        if not text:
            return
        self._live(text[-_LIVE_CHUNK:])
        self.total += len(text)
        if not self.spilled and self.total > MAX_OUTPUT:
            self.spilled = True
            self._open_spill()
            self._spill(self._head)
        if self.spilled:
            self._spill(text)
            if len(self._head) < MAX_OUTPUT // 2:
                room = MAX_OUTPUT // 2 - len(self._head)
                self._head += text[:room]
            self._tail = (self._tail + text)[-MAX_OUTPUT // 2 :]
        else:
            self._head += text

    def _open_spill(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("wb")
        except OSError:
            # The command's own result matters more than the copy of its output; text() says it is missing.
            self._file = None
        # What came before the limit was passed belongs to the tail as well, when the rest is short.
        self._tail = self._head

    def _spill(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        if self._file is None or self._written + len(data) > MAX_SPILL_BYTES:
            self.cut_bytes += len(data)
            return
        try:
            self._file.write(data)
            self._written += len(data)
        except OSError:
            self.cut_bytes += len(data)


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


def _result(
    args: BashInput,
    ended: process.Ended,
    output: _Output,
    changed: Sequence[CommandChange],
    workspace: Path,
) -> ToolResult:
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
    lines.append(output.text() or "(no output)")
    if changed:
        lines.append(_changed_line(changed, workspace))
    metadata: dict[str, object] = {
        "command": args.command,
        "exit_code": ended.exit_code,
        "timed_out": ended.timed_out,
    }
    if changed:
        metadata["files"] = _changed_metadata(changed, workspace)
        metadata["files_changed"] = len(changed)
    if output.spilled:
        metadata["output_file"] = output.path.as_posix()
    title = args.description.strip() or args.command.strip().splitlines()[0][:100]
    return ToolResult("\n".join(lines), title=title, metadata=metadata, is_error=ended.timed_out)
