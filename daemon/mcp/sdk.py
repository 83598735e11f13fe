"""The session of the MCP SDK with a server: what we offer it, the agreement on a version, and its lists.

Import this in a thread: the SDK takes half a second to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema  # pyright: ignore[reportUnusedImport]  # noqa: F401 - for the definitions
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from daemon.mcp.lists import Listing, Lists
from daemon.mcp.server_requests import RunningCalls
from daemon.mcp.transports import Paced
from daemon.version import product_version

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.session import MessageHandlerFnT

_MOST_PAGES = 50


class ServerSession(ClientSession):
    """A session that is not begun."""

    def __init__(
        self, streams: tuple[Any, Any], timeout_s: float, workspace: Path, heard: MessageHandlerFnT
    ) -> None:
        """``timeout_s``: of requests that name none of their own. ``heard``: gets notifications."""
        self.calls = RunningCalls()
        self._lists = Lists(self)
        root = types.Root(uri=workspace.as_uri(), name=workspace.name)  # pyright: ignore[reportArgumentType]

        async def roots(context: object) -> types.ListRootsResult:
            return types.ListRootsResult(roots=[root])

        read, write = streams
        paced: Any = Paced(read, self._lists.receive)
        super().__init__(
            paced,
            write,
            read_timeout_seconds=timeout_s,
            list_roots_callback=roots,
            elicitation_callback=self.calls.elicit,
            sampling_callback=self.calls.sample,
            message_handler=heard,
            client_info=types.Implementation(name="goalwright", version=product_version()),
        )

    async def greet(self) -> None:
        """Agree on a version: as all servers can, else as only new ones can. Raises what the SDK raises."""
        try:
            await self.initialize()
        except MCPError as error:
            if error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
                raise
            await self.discover()

    async def listed(self, key: str, most: int) -> Listing:
        """Return a list, by the key of its entries; no further pages when there are more than ``most``."""
        ask: Any = {
            "tools": self.list_tools,
            "prompts": self.list_prompts,
            "resources": self.list_resources,
            "resourceTemplates": self.list_resource_templates,
        }[key]
        listing = self._lists.asked[key] = Listing()
        cursor: str | None = None
        try:
            for _ in range(_MOST_PAGES):
                page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
                cursor = page.next_cursor
                if cursor is None or len(listing.found) > most:
                    break
        except Exception as error:
            listing.error = error
        finally:
            del self._lists.asked[key]
        if cursor is not None and len(listing.found) <= most:
            listing.endless = _MOST_PAGES
        return listing
