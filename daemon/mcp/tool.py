"""A tool of an MCP server as a tool of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.mcp.failures import brief, host_of
from daemon.mcp.results import tool_result
from daemon.outside_tools.tool import OutsideInput, OutsideTool, limited_progress
from tools.localization import noted, t
from tools.text.terminal import shown_line
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from daemon.mcp.connection import Connection
    from daemon.outside_tools.approvals import Approvals
    from daemon.outside_tools.definitions import Definition
    from tools.tool import ToolContext, ToolResult


class McpServerTool(OutsideTool):
    """One tool of one server, with the definition that the model was shown."""

    changed = noted(
        "The server has changed this tool since you approved it. Its description is now: {description}"
    )

    def __init__(
        self,
        name: str,
        tool: Definition,
        connection: Connection,
        approved: Approvals,
        timeout_s: float,
        sampling_file: Path | None = None,
    ) -> None:
        """``name``: as the model calls it. ``timeout_s``: of each call. ``sampling_file``: see ``CallRequests``."""
        super().__init__(name, tool, approved, whose=shown_line(tool.origin))
        self._connection = connection
        self._timeout_s = timeout_s
        self._sampling_file = sampling_file

    @property
    def description(self) -> str:
        return f"[MCP server {shown_line(self.definition.origin)}] {self.definition.description}"

    async def run(self, args: OutsideInput, ctx: ToolContext) -> ToolResult:
        arguments = args.model_extra or {}
        await self.approve(arguments, ctx, digest=self.definition.digest, notes=self._notes())
        if not await self._connection.still_has(self.definition):
            raise ToolError(
                f"The MCP server {self.definition.origin} has changed or removed this tool. Read its current "
                "description, and call it again if it still does what you need."
            )
        show = limited_progress(ctx.on_output)

        async def said(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            show(f"{amount} {brief(message or '')}".rstrip())

        from daemon.mcp.server_requests import CallRequests  # with the SDK, which is loaded by now

        spec = self._connection.spec
        requests = CallRequests(self.definition.origin, ctx, spec.digest, self._sampling_file)
        result = await self._connection.call(self.definition.name, arguments, self._timeout_s, said, requests)
        return await tool_result(self.definition, result, ctx)

    def _notes(self) -> Sequence[str]:
        spec = self._connection.spec
        where = t("It runs outside of the sandbox, with your rights.") if spec.command else host_of(spec.url)
        said = t(
            "MCP server {server} ({source}). {where}",
            server=self.definition.origin,
            source=spec.source,
            where=where,
        )
        if not self.definition.read_only:
            return [said]
        return [said, t("The server says that this tool changes nothing. Nobody has checked that.")]
