"""Language services of the working copies of branches.

Made at the composition root and handed to the daemon as ``daemon.files.folder_language_services.OpenLanguageServices``.
No editor opens a copy, so its files are those on disk.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lsp_bridge.language_client.diagnostics.server_source import ServerSource
from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.navigation.server_navigation import ServerNavigation
from lsp_bridge.language_client.pool.server_pool import LanguageServers, ServerLimit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lsp_bridge.language_client.pool.server_choice import Chooser

MAX_ALIVE = 6
"""Servers of all copies together, beside those of the workspace."""


class CopyLanguageServices:
    """Language services of one copy: implements ``daemon.files.folder_language_services.FolderLanguageServices``."""

    def __init__(self, servers: LanguageServers, closed: Callable[[CopyLanguageServices], None]) -> None:
        self.servers = servers
        self.diagnostics = DiagnosticsService(servers.workspace, [ServerSource(servers)])
        self.navigation = ServerNavigation(servers)
        self._closed = closed
        self._closing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        # A caller that is canceled while waiting must not leave a process behind.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self.diagnostics.close()
        finally:
            self._closed(self)


class BranchLanguageServices:
    """Language services for working copies of branches. Use it on one event loop; it costs nothing before a
    copy is opened."""

    def __init__(self, workspace: Path, choose: Chooser, *, max_alive: int = MAX_ALIVE) -> None:
        """``workspace``: the one that is copied, absolute and resolved. ``choose``: as for its own servers. Of all
        servers in copies at most ``max_alive`` run at once, the least recently used one makes place."""
        self._workspace = workspace
        self._choose = choose
        self._room = ServerLimit(max_alive)
        self._open: set[CopyLanguageServices] = set()

    def open(self, root: Path) -> CopyLanguageServices:
        """Language services for the copy at ``root`` (absolute, resolved). No server runs before something in it is
        looked at."""
        servers = LanguageServers(root, self._choose, origin=self._workspace, room=self._room)
        services = CopyLanguageServices(servers, self._open.discard)
        self._open.add(services)
        return services

    async def close(self) -> None:
        """Close all; returns when no process is left."""
        await asyncio.gather(*(services.close() for services in tuple(self._open)))
