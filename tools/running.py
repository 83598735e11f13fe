"""Helpers of every tool that runs a program: its sandbox, its environment, and the files that it changed."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tools.diff.unified_diff import shown_name
from tools.paths import rule_target
from tools.process.background import finish
from tools.process.environment import scrubbed_environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tools.sandbox.policy import Sandbox
    from tools.tool import CommandChange, ToolContext

MAX_NAMED = 20
MAX_LISTED = 200
"""Most changed files in the text for the model, and in the result for display."""


def environment(ctx: ToolContext) -> dict[str, str]:
    """Return the variables that commands get: no secrets."""
    return scrubbed_environment(os.environ) | dict(ctx.branch.environment)


async def sandbox_of(
    ctx: ToolContext, *, network: bool, limited: bool = True, readable: tuple[Path, ...] = ()
) -> Sandbox | None:
    """Return a sandbox for the command; None where it cannot be made (then the user is notified).

    ``limited``: the command ends within minutes. ``readable``: more folders that it sees.
    """
    from tools.sandbox.policy import UnavailableError, no_sandbox
    from tools.sandbox.prepare import prepare

    work = asyncio.ensure_future(
        asyncio.to_thread(
            prepare,
            replace(ctx.sandbox, network=network, readable=(*ctx.sandbox.readable, *readable)),
            ctx.workspace,
            ctx.scratch,
            ctx.permission.decide,
            key=ctx.permission.rules_key,
            concealed=ctx.permission.concealed,
            private=ctx.journal.with_name(f"{ctx.journal.name}-sandbox"),
            limited=limited,
        )
    )
    canceled = await finish(work)
    try:
        sandbox = work.result()
    except UnavailableError as error:
        ctx.notify_user(no_sandbox(error))
        sandbox = None
    if canceled:
        await leave(sandbox, ctx)
        raise asyncio.CancelledError
    for line in sandbox.earlier if sandbox is not None else ():
        ctx.notify_user(line)
    return sandbox


async def leave(sandbox: Sandbox | None, ctx: ToolContext) -> list[str]:
    """Leave the sandbox and return its sentences about the command, after a notice to the user."""
    if sandbox is None:
        return []
    work = asyncio.ensure_future(asyncio.to_thread(sandbox.leave))
    canceled = await finish(work)
    lines = work.result()
    for line in lines:
        ctx.notify_user(line)
    if canceled:
        raise asyncio.CancelledError
    return lines


def changed_line(changed: Sequence[CommandChange], workspace: Path) -> str:
    """Return a line for the model with the files that the command changed."""
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
    return line + (
        f" {lost} of these cannot be undone: there are too many, or they are too large." if lost else ""
    )


def changed_metadata(changed: Sequence[CommandChange], workspace: Path) -> list[dict[str, object]]:
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


def safe_name(tool_call_id: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in tool_call_id)[:100] or "call"
