"""Lists of an MCP server and results of its tools, entry by entry: one that is not valid does not cost the others.

The SDK validates a page as one, on the event loop. So entries are taken out of a message before the SDK sees it, and
are checked in a thread. Import this in a thread: it loads the SDK.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tools.json_access import mapping, string
from tools.localization import t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

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
_LONGEST_ENTRY = 256 * 1024
"""Bytes of an entry, as JSON."""


@dataclass(slots=True)
class Listing:
    """The answers of a server to the requests for a list."""

    found: list[Any] = field(default_factory=list[Any])
    """The valid entries; those before an error."""
    wrong: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Name and problem of others, for the user."""
    error: Exception | None = None
    endless: int = 0
    """The number of pages that were asked for, when there are more."""


class Lists:
    """Takes the entries of lists out of messages of a server."""

    def __init__(self, session: ClientSession) -> None:
        """``session``: the one that the messages are of; it knows the version of the protocol."""
        self._session = session
        self.asked: dict[str, Listing] = {}
        """The lists that are asked for now, by the key of their entries."""

    async def receive(self, received: SessionMessage | Exception) -> None:
        """Take the entries out of a message, if it has a list."""
        if not isinstance(received, SessionMessage) or not isinstance(received.message, JSONRPCResponse):
            return
        result = received.message.result
        version = self._session.protocol_version or LATEST_HANDSHAKE_VERSION
        if isinstance(parts := result.get("content"), list):
            result["content"] = await asyncio.to_thread(_parts, version, cast("list[Any]", parts))
        for key, method in _METHODS.items():
            entries: Any = result.get(key)
            if isinstance(entries, list):
                listing = self.asked.get(key, Listing())  # nobody wants that of an answer to nothing
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


def without_secrets(value: Any) -> Any:
    """Return a value of the server, in which it may repeat a key that it was given, without known secrets.

    Raises ValueError when it is too large to be looked at.
    """
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(data) > _LONGEST_ENTRY:
        raise ValueError(t("it is too large"))
    return json.loads(SECRETS.json(data))


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
