"""uvicorn within the daemon's event loop, on 127.0.0.1."""

from __future__ import annotations

from daemon.api.door import OpenApi
from daemon.core import Daemon


class ApiServer:
    """A running API."""

    def __init__(self, address: OpenApi) -> None:
        self.address = address

    async def close(self) -> None:
        """Stop: WebSockets are closed with 1001, requests under way are finished."""
        raise NotImplementedError


async def serve(core: Daemon, port: int) -> ApiServer:
    """Serve the API of a daemon. ``port`` 0: any free one. Raises ApiError."""
    raise NotImplementedError
