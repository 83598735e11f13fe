"""``goalwright trace …``: who does which action."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.launch import Launcher
    from lsp_bridge.cli.trace.options import TraceOptions


async def trace(options: TraceOptions, launcher: Launcher, console: Console) -> int:
    """Do it, and return the exit code. Each action imports what it needs."""
    if options.action in ("list", "show", "dump", "tail"):
        return await _steps(options, console)
    if options.action == "page":
        from lsp_bridge.cli.trace import web_page

        return await web_page.trace_page(options, launcher, console)
    from lsp_bridge.cli.trace import maintenance

    return await maintenance.trace_keeping(options, launcher, console)


async def _steps(options: TraceOptions, console: Console) -> int:
    """What is only read: nobody else works on this loop."""
    from lsp_bridge.cli.trace import steps

    which = options.trace or "latest"
    if options.action == "list":
        return steps.list_traces(
            options.workspace, limit=options.limit, as_json=options.json, console=console
        )
    if options.action == "show":
        return steps.show_trace(
            options.workspace,
            which,
            branch=options.branch,
            full=options.full,
            system_prompt=options.system_prompt,
            as_json=options.json,
            console=console,
        )
    if options.action == "dump":
        return steps.dump_trace(
            options.workspace,
            which,
            form="json" if options.json else options.format,
            branch=options.branch,
            output=options.output,
            force=options.force,
            console=console,
        )
    return await steps.tail_trace(
        options.workspace,
        which,
        branch=options.branch,
        since=options.since,
        as_json=options.json,
        follow=options.follow,
        console=console,
    )
