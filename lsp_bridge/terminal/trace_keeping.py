"""``goalwright trace rebuild``, ``export``, ``import`` and ``prune``."""

from __future__ import annotations

from lsp_bridge.launch import Launcher
from lsp_bridge.terminal.console import Console
from lsp_bridge.terminal.run import EXIT_FAILED
from lsp_bridge.terminal.trace_options import TraceOptions


async def trace_keeping(options: TraceOptions, launcher: Launcher, console: Console) -> int:
    """Do it, and return the exit code."""
    console.warn(f"{options.action} is not there yet.")
    return EXIT_FAILED
