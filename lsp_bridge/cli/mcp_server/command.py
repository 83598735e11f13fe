"""``goalwright mcp serve``: speaks the protocol on stdin and stdout until the other agent hangs up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsp_bridge.cli.invocation import reporting
from lsp_bridge.cli.launch import runtime_paths

if TYPE_CHECKING:
    from lsp_bridge.cli.invocation import Invocation


@reporting()
async def serve(cli: Invocation, *, allow_changes: bool) -> None:
    """Serve the sessions of the workspace. ``allow_changes``: goals may be added, and explorations started."""
    runtime_paths(cli.workspace, cli.launcher.home)  # raises for a folder that does not exist
    from lsp_bridge.cli.mcp_server.server import server_of
    from lsp_bridge.cli.mcp_server.sessions import FolderSessions

    sessions = FolderSessions(cli.workspace, cli.launcher)
    try:
        await server_of(sessions, allow_changes=allow_changes).run_stdio_async()
    finally:
        await sessions.close()
