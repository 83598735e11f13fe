"""What both ends agree on besides the messages.

Apart from ``protocol`` because the terminal client needs it, and must start without pydantic.
"""

from __future__ import annotations

PROTOCOL_VERSION = 1
"""Grows when a client of the old version would break."""

PREAMBLE = "GOALWRIGHT/1"
"""The first line of a connection is ``GOALWRIGHT/1 <token>\\n``; LSP framing begins after it."""

UNAUTHORIZED = -32001
"""With ``"id": null``: the first line of the connection had a wrong token."""
BUSY = -32010
UNKNOWN_SESSION = -32011
UNKNOWN_REQUEST = -32012
STORE_FAILED = -32014
CONFIG_BROKEN = -32015
HISTORY_CONFLICT = -32016
SEALED = -32017
"""The session is the record of a branch or sub-agent that has ended: read it, and prompt the session it belongs to."""
UNKNOWN_BRANCH = -32018
API_FAILED = -32019
INVALID_PARAMS = -32602
INCOMPATIBLE = -32013
"""JSON-RPC error codes; the message always says what to do."""


def preamble(token: str) -> bytes:
    """The first line of a connection."""
    return f"{PREAMBLE} {token}\n".encode("ascii")


class RequestError(Exception):
    """Becomes a JSON-RPC error; the message says what to do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
