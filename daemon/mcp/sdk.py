"""The session of the MCP SDK with a server: what we offer it, and the agreement on a version.

Import this in a thread: the SDK takes half a second to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema  # pyright: ignore[reportUnusedImport]  # noqa: F401 - for the definitions
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from daemon.version import product_version

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.session import MessageHandlerFnT

    from daemon.mcp.server_requests import RunningCalls


def new_session(
    streams: tuple[Any, Any],
    timeout_s: float,
    workspace: Path,
    heard: MessageHandlerFnT,
    calls: RunningCalls,
) -> ClientSession:
    """Return a session that is not begun. ``timeout_s``: of requests that name none of their own.

    ``calls``: answers what the server asks.
    """
    root = types.Root(uri=workspace.as_uri(), name=workspace.name)  # pyright: ignore[reportArgumentType]

    async def roots(context: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[root])

    return ClientSession(
        *streams,
        read_timeout_seconds=timeout_s,
        list_roots_callback=roots,
        elicitation_callback=calls.elicit,
        sampling_callback=calls.sample,
        message_handler=heard,
        client_info=types.Implementation(name="goalwright", version=product_version()),
    )


async def greet(session: ClientSession) -> None:
    """Agree on a version: as all servers can, else as only new ones can. Raises what the SDK raises."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
            raise
        await session.discover()
