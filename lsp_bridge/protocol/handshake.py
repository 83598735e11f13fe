"""Constants that both ends share, besides the messages.

Separate from the models because the terminal client needs them, and must start without pydantic.
"""

from __future__ import annotations

from enum import IntEnum

PROTOCOL_VERSION = 1
"""Grows when a client of the old version would break."""

PREAMBLE = "GOALWRIGHT/1"
"""The first line of a connection is ``GOALWRIGHT/1 <token>\\n``; LSP framing begins after it."""


class ErrorCode(IntEnum):
    """JSON-RPC error codes; the message always has advice."""

    UNAUTHORIZED = -32001
    """The first line of the connection had a wrong token. Comes with ``"id": null``."""
    BUSY = -32010
    """The session or trace is at work."""
    UNKNOWN_SESSION = -32011
    """There is no such session."""
    UNKNOWN_REQUEST = -32012
    """The subject of the request, such as a question, queued prompt, change or job, does not exist or no longer
    waits."""
    INCOMPATIBLE = -32013
    """The client speaks another version of the protocol."""
    STORE_FAILED = -32014
    """A trace cannot be read or written."""
    CONFIG_BROKEN = -32015
    """The configuration's rules cannot be read, so nothing is done."""
    HISTORY_CONFLICT = -32016
    """A change cannot be undone or merged without guessing."""
    SEALED = -32017
    """The session is the record of a branch or sub-agent that has ended: prompt the session it belongs to."""
    UNKNOWN_BRANCH = -32018
    """There is no such branch, or its result is gone."""
    API_FAILED = -32019
    """The trace API cannot be opened."""
    INVALID_PARAMS = -32602
    """The params are wrong, or not possible now."""


def preamble(token: str) -> bytes:
    """Return the first line of a connection."""
    return f"{PREAMBLE} {token}\n".encode("ascii")


class RequestError(Exception):
    """Raised to answer with a JSON-RPC error; the message says what to do."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_PARAMS) -> None:
        super().__init__(message)
        self.code = code
