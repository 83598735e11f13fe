"""The session of the MCP SDK with a server: what we offer it, the agreement on a version, and its lists.

The SDK validates a page of a list as one, on the event loop. So the entries, and parts of the results of tools, are
taken out of a message before the SDK sees it, and are checked in a thread, one by one: one that is not valid does not
cost the others. Import this in a thread: the SDK takes half a second to load.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import jsonschema  # pyright: ignore[reportUnusedImport]  # noqa: F401 - for the definitions
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from msgspec import Struct, field
from pydantic import ValidationError

from daemon.mcp.server_requests import asking, without_secrets
from daemon.mcp.transports import Paced
from daemon.version import product_version
from tools.json_access import mapping, string
from tools.localization import t

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.session import MessageHandlerFnT

    from daemon.mcp.server_requests import CallRequests

_METHODS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
"""The request for each list, by the key of its entries."""
MOST_ENTRIES = 2_001
"""Entries of a list that are looked at: one more than are ever used, to notice that there are more."""
_MOST_WRONG = 20
_MOST_PAGES = 50


class Listing(Struct):
    """The answers of a server to the requests for a list."""

    found: list[Any] = field(default_factory=list[Any])
    """The valid entries; those before an error."""
    wrong: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Name and problem of others, for the user."""
    error: Exception | None = None
    endless: int = 0
    """The number of pages that were asked for, when there are more."""


class ServerSession(ClientSession):
    """A session that is not begun."""

    def __init__(
        self, streams: tuple[Any, Any], timeout_s: float, workspace: Path, heard: MessageHandlerFnT
    ) -> None:
        """``timeout_s``: of requests that name none of their own. ``heard``: gets notifications."""
        self.calls: list[CallRequests] = []
        """The calls of tools that run."""
        self._asked: dict[str, Listing] = {}
        """The lists that are asked for now, by the key of their entries."""
        root = types.Root(uri=workspace.as_uri(), name=workspace.name)  # pyright: ignore[reportArgumentType]

        async def roots(context: object) -> types.ListRootsResult:
            return types.ListRootsResult(roots=[root])

        async def elicit(
            context: object, params: types.ElicitRequestParams
        ) -> types.ElicitResult | types.ErrorData:
            call = asking(self.calls)
            return call if isinstance(call, types.ErrorData) else await call.elicit(params)

        async def sample(
            context: object, params: types.CreateMessageRequestParams
        ) -> types.CreateMessageResult | types.ErrorData:
            call = asking(self.calls)
            return call if isinstance(call, types.ErrorData) else await call.sample(params)

        read, write = streams
        paced: Any = Paced(read, self._look)
        super().__init__(
            paced,
            write,
            read_timeout_seconds=timeout_s,
            list_roots_callback=roots,
            elicitation_callback=elicit,
            sampling_callback=sample,
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
        listing = self._asked[key] = Listing()
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
            del self._asked[key]
        if cursor is not None and len(listing.found) <= most:
            listing.endless = _MOST_PAGES
        return listing

    async def _look(self, received: SessionMessage | Exception) -> None:
        """Take the entries out of a message of the server, if it has a list."""
        if not isinstance(received, SessionMessage) or not isinstance(received.message, JSONRPCResponse):
            return
        result = received.message.result
        version = self.protocol_version or LATEST_HANDSHAKE_VERSION
        if isinstance(parts := result.get("content"), list):
            result["content"] = await asyncio.to_thread(_parts, version, cast("list[Any]", parts))
        for key, method in _METHODS.items():
            entries: Any = result.get(key)
            if isinstance(entries, list):
                listing = self._asked.get(key, Listing())  # nobody wants that of an answer to nothing
                part: list[Any] = entries[: MOST_ENTRIES - len(listing.found)]  # pyright: ignore[reportUnknownVariableType]
                valid, wrong = await asyncio.to_thread(_checked, method, version, key, part)
                listing.found += [model for model, _ in valid]
                listing.wrong = (listing.wrong + wrong)[:_MOST_WRONG]
                # Of newer tools the SDK has to know which arguments go into headers.
                again = key == "tools" and version in MODERN_PROTOCOL_VERSIONS
                result[key] = [entry for _, entry in valid] if again else []


def _checked(
    method: str, version: str, key: str, entries: list[Any]
) -> tuple[list[tuple[Any, Any]], list[tuple[str, str]]]:
    """Return the valid entries, as models and as they came, and name and problem of the others."""
    valid: list[tuple[Any, Any]] = []
    wrong: list[tuple[str, str]] = []
    for entry in entries:
        try:
            entry = without_secrets(entry)
            result: Any = methods.parse_server_result(method, version, {**_FRAME, key: [entry]})
            valid.append((getattr(result, _ATTRIBUTES.get(key, key))[0], entry))
        except (ValueError, RecursionError) as error:
            wrong.append((_name(entry), _problem(error)))
    return valid, wrong


def _parts(version: str, parts: list[Any]) -> list[Any]:
    """Return the valid parts of a tool's result, and a note in place of others."""

    def valid(some: list[Any]) -> bool:
        try:
            methods.validate_server_result("tools/call", version, {**_FRAME, "content": some})
        except (ValueError, KeyError, RecursionError):
            return False
        return True

    if valid(parts):
        return parts
    good = [part for part in parts if valid([part])]
    note = f"[The server sent {len(parts) - len(good)} of {len(parts)} parts that are no valid content.]"
    return [*good, {"type": "text", "text": note}]


_FRAME = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Fields that newer versions of the protocol want beside the entries; the SDK checks those of the page."""
_ATTRIBUTES = {"resourceTemplates": "resource_templates"}


def _name(entry: object) -> str:
    named = mapping(entry)
    return string(named.get("name")) or string(named.get("uri")) or "?"


def _problem(error: Exception) -> str:
    """Say what is wrong with an entry, by the place that pydantic names."""
    errors: list[Any] = error.errors() if isinstance(error, ValidationError) else []
    place = ".".join(str(one) for one in (errors[0]["loc"] if errors else ())[2:])
    if place:
        return t("{place} is not valid", place=place)
    return t("it is not valid") if errors or not str(error) else str(error)
