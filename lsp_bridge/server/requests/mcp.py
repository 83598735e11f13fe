"""Requests about MCP servers (``goalwright/mcp/…``)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from daemon.mcp.service import SHOWN_WAIT_S, set_enabled
from daemon.model.branches import root_of
from daemon.settings import McpServerSetting
from lsp_bridge.protocol import mcp as p
from lsp_bridge.protocol.handshake import ErrorCode
from lsp_bridge.protocol.sessions import Empty
from lsp_bridge.server.requests.declaration import RequestArea, request
from tools.localization import t
from tools.text.truncate import short
from tools.tool import ToolError

if TYPE_CHECKING:
    from daemon.mcp.service import McpServer

_LISTED = 1_000
"""Characters of the names of tools in an error."""


class McpRequests(RequestArea):
    """The requests of one connection about MCP servers."""

    @request("goalwright/mcp/list", changes=False)
    async def list(self, params: p.McpListParams) -> p.McpListResult:
        """List the MCP servers with their states and tools."""
        return await self._listed(start=params.start)

    @request("goalwright/mcp/log", changes=False, failed=ErrorCode.INVALID_PARAMS)
    async def log(self, params: p.McpServerParams) -> p.McpLogResult:
        """Return the end of a server's log."""
        await self._look()
        return p.McpLogResult(text=self._core.mcp.log(params.name))

    @request("goalwright/mcp/restart", changes=False, failed=ErrorCode.INVALID_PARAMS)
    async def restart(self, params: p.McpServerParams) -> p.McpListResult:
        """Stop a server and start it again."""
        await self._look()
        await self._core.mcp.restart(params.name)
        return await self._listed(start=True)

    @request("goalwright/mcp/set", changes=False, failed=ErrorCode.INVALID_PARAMS)
    async def set(self, params: p.McpSetParams) -> p.McpListResult:
        """Enable or disable a server or tool in the user's settings."""
        file = self._core.state_folder / "config.json"
        name, slash, tool = params.name.partition("/")
        # The tools of a server are only known when it has been started.
        known = {server.name: server for server in (await self._listed(start=bool(slash))).servers}
        wanted = params.name
        if wanted not in self._core.config().settings.mcp.mcp_disabled:
            if name not in known:
                listed = ", ".join(sorted(known)) or t("none")
                raise ToolError(
                    t("There is no MCP server {name}. There are: {known}.", name=name, known=listed)
                )
            if slash:
                wanted = f"{name}/{_tool(known[name], tool)}"
        await asyncio.to_thread(set_enabled, file, wanted, params.enabled)
        return await self._listed(start=True)

    @request("goalwright/mcp/session", changes=True)
    async def session(self, params: p.McpSessionParams) -> Empty:
        """Use MCP servers of the client in a session, until the connection ends."""
        given = [
            (
                one.name,
                McpServerSetting(type="stdio" if one.command else "http", **one.model_dump(exclude={"name"})),
            )
            for one in params.servers
        ]
        await self._core.mcp.lend(self._context.client, root_of(params.session_id), given)
        return Empty()

    @request("goalwright/mcp/resources", changes=False)
    async def resources(self, params: p.McpResourcesParams) -> p.McpResourcesResult:
        """Search the resources of running servers, for a mention."""
        found = self._core.mcp.resources(
            self._context.client_trust(), params.query, params.limit, params.session_id or ""
        )
        return p.McpResourcesResult(resources=found)

    @request("goalwright/mcp/login", changes=False, failed=ErrorCode.INVALID_PARAMS)
    async def login(self, params: p.McpServerParams) -> p.McpLoginResult:
        """Begin to sign in to a server; the client opens the page in a browser."""
        await self._look()
        return p.McpLoginResult(url=await self._core.mcp.sign_in(params.name))

    @request("goalwright/mcp/loggedIn", changes=False, failed=ErrorCode.INVALID_PARAMS)
    async def logged_in(self, params: p.McpServerParams) -> p.McpListResult:
        """Wait until the user has signed in on that page, at most some minutes. When canceled, the sign-in ends."""
        await self._core.mcp.signed_in(params.name)
        return await self._listed(start=True)

    @request("goalwright/mcp/logout", changes=False, failed=ErrorCode.INVALID_PARAMS)
    async def logout(self, params: p.McpServerParams) -> p.McpListResult:
        """Forget the tokens of a server."""
        await self._look()
        await self._core.mcp.sign_out(params.name)
        return await self._listed(start=True)

    async def _look(self) -> None:
        """Read which servers are configured, so that one that does not run is known."""
        self._core.configuration.forget()
        await self._core.mcp.look(self._context.client_trust())

    async def _listed(self, *, start: bool) -> p.McpListResult:
        servers, trust = self._core.mcp, self._context.client_trust()
        await self._look()
        if start:
            await servers.begin(trust, SHOWN_WAIT_S)
            await servers.listed(trust, None)
        found, problems = servers.servers(trust, None)
        config = self._context.client_config()
        return p.McpListResult(
            servers=tuple(one.shown for one in found),
            problems=(*config.blocking, *config.problems, *problems, *servers.unknown_keys(trust)),
        )


def _tool(server: McpServer, name: str) -> str:
    """Return a tool's name at its server, from that name or the one for the model. Raises ToolError."""
    for tool in server.tools:
        if name in (tool.tool, tool.name):
            return tool.tool
    if server.state == "ready":
        known = short(", ".join(tool.tool for tool in server.tools), _LISTED) or t("none")
        raise ToolError(
            t(
                "The MCP server {server} has no tool {name}. It has: {known}.",
                server=server.name,
                name=name,
                known=known,
            )
        )
    return name
