"""All requests of one connection: finds the handler of a method, free of any transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.model.branches import branch_of
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from lsp_bridge.server.requests.branches import BranchRequests
from lsp_bridge.server.requests.commands import CommandRequests
from lsp_bridge.server.requests.context import ContextRequests
from lsp_bridge.server.requests.declaration import REQUESTS, refusals
from lsp_bridge.server.requests.history import HistoryRequests
from lsp_bridge.server.requests.mcp import McpRequests
from lsp_bridge.server.requests.models import ModelRequests
from lsp_bridge.server.requests.permissions import PermissionRequests
from lsp_bridge.server.requests.plan import PlanRequests
from lsp_bridge.server.requests.sessions import SessionRequests
from lsp_bridge.server.requests.trace_maintenance import TraceMaintenanceRequests
from lsp_bridge.server.requests.traces import TraceRequests

if TYPE_CHECKING:
    from lsp_bridge.server.requests.request_context import RequestContext


class Requests:
    """The requests of one connection."""

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        self.sessions = SessionRequests(context)
        self.permissions = PermissionRequests(context)
        areas = (
            self.sessions,
            self.permissions,
            ContextRequests(context),
            PlanRequests(context),
            HistoryRequests(context),
            BranchRequests(context),
            TraceRequests(context),
            ModelRequests(context),
            CommandRequests(context),
            McpRequests(context),
            TraceMaintenanceRequests(lambda: context.core.trace_maintenance),
        )
        self._areas: dict[str, object] = {type(area).__name__: area for area in areas}

    async def handle(self, method: str, params: object) -> dict[str, Any]:
        """Answer a request with its result as JSON. Raises RequestError, and ValidationError for bad params."""
        declared = REQUESTS[method]
        parsed = declared.models[0].model_validate({} if params is None else params)
        session_id = getattr(parsed, "session_id", None)
        if declared.changes and isinstance(session_id, str) and branch_of(session_id) is not None:
            # Only the sessions of branches and sub-agents can be read-only.
            with refusals():
                session = await self.context.core.session(session_id)
            if session.sealed:
                raise RequestError(session.sealed, ErrorCode.SEALED)
        return (await declared.handler(self._areas[declared.area], parsed)).wire()
