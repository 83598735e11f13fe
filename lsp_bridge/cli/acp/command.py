"""``goalwright acp``: speaks the protocol on stdin and stdout until the editor hangs up."""

from __future__ import annotations

import logging
import os
import stat
import sys
from typing import TYPE_CHECKING, TextIO

from lsp_bridge.cli.invocation import EXIT_OK, EXIT_USAGE
from tools.localization import t

if TYPE_CHECKING:
    from lsp_bridge.cli.invocation import Invocation


def _is_pipe(stream: TextIO) -> bool:
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()


async def acp(cli: Invocation) -> int:
    """Serve the editor at the other end of stdin and stdout. Log lines go to stderr."""
    if not all(map(_is_pipe, (sys.stdin, sys.stdout))):
        # The event loop reads and writes nothing else, and would wait for ever, as at /dev/null.
        print(t("goalwright acp is started by an editor, which speaks with it over a pipe."), file=sys.stderr)
        return EXIT_USAGE
    from acp import run_agent
    from acp.stdio import stdio_streams

    from lsp_bridge.cli.acp.agent import AcpAgent
    from lsp_bridge.cli.acp.lines import MAX_LINE, Lines

    logging.basicConfig(level=logging.WARNING)
    agent = AcpAgent(cli.launcher)
    try:
        await run_agent(agent, Lines(*await stdio_streams(MAX_LINE)), use_unstable_protocol=True)
    finally:
        await agent.close()
    return EXIT_OK
