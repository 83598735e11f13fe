"""What can go wrong between us and a language server. Apart from rpc_client, which is slow to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


class MethodNotFound(Exception):
    """The server asked for something that this client does not do."""


class ServerGone(Exception):
    """The server's process has ended, or it stopped speaking JSON-RPC."""


class ServerError(Exception):
    """The server refused a request. ``code`` is JSON-RPC's or LSP's, ``data`` the server's own (JSON)."""

    def __init__(self, message: str, code: int = 0, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @classmethod
    def from_wire(cls, error: object) -> ServerError:
        """From the ``error`` member of a response, which may be anything."""
        body: Mapping[str, Any] = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
        code = body.get("code")
        return cls(str(body.get("message", error)), code if isinstance(code, int) else 0, body.get("data"))
