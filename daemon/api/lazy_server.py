"""The trace API of a daemon, opened on demand. Light: the server's libraries are imported only then."""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING

from daemon.api.address import ApiError, OpenApi, PortTakenError
from tools.localization import t

if TYPE_CHECKING:
    from daemon.api.serving import ApiServer
    from daemon.core import Daemon


log = logging.getLogger(__name__)


class LazyApiServer:
    """Opens the API of one daemon at most once, and closes it with the daemon."""

    def __init__(self, core: Daemon) -> None:
        self._core = core
        core.when_closing(self.close)
        self._server: ApiServer | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self.notice = ""
        """Why it is not on the port of the setting; empty when it is."""

    async def open(self, port: int | None = None) -> OpenApi:
        """Return the API's address; starts it when it is not open yet.

        ``port``: the port to use, 0: any free one. None: that of the setting ``api_port``, else any; also any when that
        one is taken, as by the daemon of another workspace. An open API keeps its port. Raises ApiError when the
        ``port`` is taken, or the API is open on another one.
        """
        async with self._opening:
            if self._closed:
                raise ApiError(t("The daemon is stopping: start it again with `goalwright start`."))
            if self._server is None:
                # The import takes a third of a second, during which the daemon keeps working.
                await asyncio.to_thread(importlib.import_module, "daemon.api.serving")
                self._server = await self._served(port)
            found = self._server.address
        if port and not found.url.endswith(f":{port}"):
            raise ApiError(
                t(
                    "The API of this workspace is already available at {url}. Use that, or stop the daemon "
                    "(`goalwright stop`) to open it on another port.",
                    url=found.url,
                )
            )
        return found

    async def _served(self, port: int | None) -> ApiServer:
        from daemon.api.serving import serve

        if port is not None:
            return await serve(self._core, port)
        wanted = self._core.config().settings.daemon.api_port or 0
        try:
            return await serve(self._core, wanted)
        except PortTakenError as error:
            if not wanted:
                raise
            log.warning("the setting api_port: %s The trace API is on another port.", error)
            self.notice = t(
                "Port {wanted} of the setting api_port cannot be used here (other workspaces have the same "
                "setting). The trace API uses another port.",
                wanted=wanted,
            )
            return await serve(self._core, 0)

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
