"""The trace API of a daemon, opened when somebody wants it. Light: what it serves with is imported only then."""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon.api.serving import ApiServer
    from daemon.core import Daemon


class ApiError(Exception):
    """The API cannot be opened; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class OpenApi:
    """Where an open API is."""

    url: str
    """``http://127.0.0.1:PORT``, without a slash at its end."""
    token: str

    @property
    def page(self) -> str:
        """The address of the web page, with the token."""
        return f"{self.url}/?token={self.token}"


class ApiDoor:
    """Opens the API of one daemon at most once, and closes it with the daemon."""

    def __init__(self, core: Daemon) -> None:
        self._core = core
        self._server: ApiServer | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def open(self, port: int | None = None) -> OpenApi:
        """The API's address; starts it when it is not there yet.

        ``port``: on this one, 0: on any free one. None: on that of the setting ``api_port``, else on any. One that is
        open already stays where it is. Raises ApiError when the port is taken, or the API is open on another one.
        """
        async with self._opening:
            if self._closed:
                raise ApiError("The daemon is stopping: start it again with `goalwright start`.")
            if self._server is None:
                # A third of a second, in which the daemon goes on.
                await asyncio.to_thread(importlib.import_module, "daemon.api.serving")
                from daemon.api.serving import serve

                wanted = self._core.config().settings.api_port if port is None else port
                self._server = await serve(self._core, wanted or 0)
            found = self._server.address
        if port and not found.url.endswith(f":{port}"):
            raise ApiError(
                f"The API of this workspace is open already, at {found.url}: use that, or stop the daemon "
                "(`goalwright stop`) to have it on another port."
            )
        return found

    @property
    def address(self) -> OpenApi | None:
        """Where it is, when it is open."""
        return self._server.address if self._server is not None else None

    async def close(self) -> None:
        """Close it: WebSockets with 1001, requests under way are finished."""
        async with self._opening:
            self._closed = True
            server, self._server = self._server, None
        if server is not None:
            await server.close()
