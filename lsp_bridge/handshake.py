"""What both ends agree on before the first message.

Apart from ``protocol`` because the terminal client needs it and must start without pydantic.
"""

from __future__ import annotations

PROTOCOL_VERSION = 1
"""Grows when a client of the old version would break."""

PREAMBLE = "GOALWRIGHT/1"
"""The first line of a connection is ``GOALWRIGHT/1 <token>\\n``; LSP framing begins after it."""

UNAUTHORIZED = -32001
"""JSON-RPC error code, with ``"id": null``, for a connection whose first line had a wrong token."""
INCOMPATIBLE = -32013
"""JSON-RPC error code for a client of another protocol version."""


def preamble(token: str) -> bytes:
    """The first line of a connection."""
    return f"{PREAMBLE} {token}\n".encode("ascii")
