"""The wire, its part about traces: the API that serves them, and what is looked at of them here.

Part of ``lsp_bridge.protocol``, which has the rules and the list of methods.
"""

from __future__ import annotations

from pydantic import Field

from daemon.model.base import Wire


class ApiOpenParams(Wire):
    """Open the trace API (REST, WebSocket, web page) of this workspace, if it is not open yet."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """On 127.0.0.1; 0: any free one; null: as the setting ``apiPort`` says."""


class ApiOpenResult(Wire):
    """Where it is. Each request needs the token: ``Authorization: Bearer …`` or ``?token=…``."""

    url: str
    """``http://127.0.0.1:PORT``."""
    token: str
    page: str
    """The web page's address, with the token."""
