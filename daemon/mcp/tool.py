"""A tool of an MCP server as a tool of a session: it asks by its permission, and grants count for one definition."""

from __future__ import annotations

import copy
import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ConfigDict

from daemon.mcp.results import tool_result
from daemon.runtime import write_private
from tools.access import suggestions
from tools.json_access import mapping
from tools.localization import t
from tools.text.terminal import LONGEST_TITLE, shown_brief, shown_line
from tools.tool import PermissionAsk, Tool, ToolError, ToolInput

if TYPE_CHECKING:
    from pathlib import Path

    from daemon.mcp.connection import Connection
    from daemon.mcp.definitions import Definition
    from tools.tool import ToolContext, ToolResult

log = logging.getLogger(__name__)

_LONGEST_PROGRESS = 200
_MOST_PROGRESS = 500
"""Lines of progress that one call shows."""


class McpInput(ToolInput):
    """Arguments of any kind: the server checks them."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Approved:
    """The definitions that the user approved last, by tool: a changed one is pointed out when it asks again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] | None = None

    def changed(self, tool: str, digest: str) -> bool:
        """Return whether another definition of the tool was approved."""
        return self._read().get(tool, digest) != digest

    def add(self, tool: str, digest: str) -> None:
        """Remember an approval."""
        known = self._read()
        if known.get(tool) == digest:
            return
        known[tool] = digest
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._path, json.dumps(known, indent=1).encode())
        except OSError as error:  # then the user is not told of a change, but still asked
            log.warning("%s cannot be written: %s", self._path, error)

    def _read(self) -> dict[str, str]:
        if self._known is None:
            try:
                value: object = json.loads(self._path.read_text("utf-8"))
            except (OSError, ValueError):
                value = None
            self._known = {name: one for name, one in mapping(value).items() if isinstance(one, str)}
        return self._known


class McpTool(Tool[McpInput]):
    """One tool of one server, with the definition that the model was shown."""

    Input = McpInput

    def __init__(
        self, name: str, tool: Definition, connection: Connection, approved: Approved, timeout_s: float
    ) -> None:
        """``name``: as the model calls it. ``timeout_s``: of each call."""
        self.name = name
        self.permission = name
        self.definition = tool
        self._connection = connection
        self._approved = approved
        self._timeout_s = timeout_s

    @property
    def description(self) -> str:
        return f"[MCP server {shown_line(self.definition.server)}] {self.definition.description}"

    def schema(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self.definition.schema))

    async def run(self, args: McpInput, ctx: ToolContext) -> ToolResult:
        arguments = args.model_extra or {}
        approval = await ctx.permission.ask(self._question(arguments))
        if approval.asked and not approval.unseen:
            self._approved.add(self.name, self.definition.digest)
        if self.definition not in self._connection.tools and self._connection.state == "ready":
            raise ToolError(
                f"The MCP server {self.definition.server} has changed or removed this tool. Read its current "
                "description, and call it again if it still does what you need."
            )
        left = _MOST_PROGRESS

        async def said(progress: float, total: float | None, message: str | None) -> None:
            nonlocal left
            if left > 0:
                left -= 1
                ctx.on_output(_progress(progress, total, message))

        from daemon.mcp.server_requests import CallRequests  # with the SDK, which is loaded by now

        requests = CallRequests(self.definition.server, ctx)
        result = await self._connection.call(self.definition.name, arguments, self._timeout_s, said, requests)
        return await tool_result(self.definition, result, ctx)

    def _question(self, arguments: dict[str, Any]) -> PermissionAsk:
        tool, spec = self.definition, self._connection.spec
        whole = json.dumps(arguments, indent=2, ensure_ascii=False)
        brief = json.dumps(arguments, ensure_ascii=False) if arguments else ""
        target = f"definition {tool.digest}"
        where = t("It runs outside of the sandbox, with your rights.") if spec.command else _host(spec.url)
        notes = [
            t("MCP server {server} ({source}). {where}", server=tool.server, source=spec.source, where=where)
        ]
        if tool.read_only:
            notes.append(t("The server says that this tool changes nothing. Nobody has checked that."))
        if self._approved.changed(self.name, tool.digest):
            notes.append(
                t(
                    "The server has changed this tool since you approved it. Its description is now: {description}",
                    description=shown_brief(tool.description, 500),
                )
            )
        return PermissionAsk(
            self.permission,
            (target,),
            f"{shown_line(tool.server)}: {shown_brief(f'{tool.name} {brief}'.rstrip(), LONGEST_TITLE)}",
            suggestions=suggestions(self.permission, (target,)),
            detail=f"{tool.server}: {tool.name}\n{whole}",
            notes=tuple(map(shown_line, notes)),
        )


def _host(url: str) -> str:
    """Return where a URL leads, without what may be a key in it."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _progress(done: float, total: float | None, message: str | None) -> str:
    amount = f"{done:g}" if total is None else f"{done:g}/{total:g}"
    return f"{amount} {shown_brief(message or '', _LONGEST_PROGRESS)}".rstrip() + "\n"
