"""The session of the MCP SDK with a server: what we offer it, the agreement on a version, and its lists.

Import this in a thread: the SDK takes half a second to load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jsonschema  # pyright: ignore[reportUnusedImport]  # noqa: F401 - for the definitions
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from daemon.mcp.content import MOST_PAGES
from daemon.mcp.lists import Lists
from daemon.mcp.server_requests import RunningCalls
from daemon.mcp.transports import Paced
from daemon.version import product_version

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.session import MessageHandlerFnT


@dataclass(slots=True)
class Listing:
    """What a server has answered to the requests for a list."""

    found: list[Any] = field(default_factory=list[Any])
    """The valid entries; those before an error."""
    wrong: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Name and problem of others, for the user."""
    error: Exception | None = None
    endless: bool = False
    """There are more pages than are asked for."""


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
        self._lists.taken(key)  # of a listing that failed
        listing, cursor = Listing(), None
        try:
            for _ in range(MOST_PAGES):
                page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
                valid, wrong = self._lists.taken(key)
                listing.found += valid
                listing.wrong += wrong
                cursor = page.next_cursor
                if cursor is None or len(listing.found) > most:
                    break
        except Exception as error:
            listing.error = error
        listing.endless = cursor is not None and len(listing.found) <= most
        return listing
