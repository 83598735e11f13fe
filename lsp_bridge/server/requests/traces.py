"""Requests about traces: ``goalwright/api/open``, ``goalwright/trace/messages``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.api.message_query import MessageQuery
from daemon.api.reader import Goals, TraceReader, wanted_goals
from daemon.model.branches import BRANCH_ID, child_id
from lsp_bridge.protocol import traces as p
from lsp_bridge.protocol.handshake import RequestError
from lsp_bridge.server.requests.declaration import RequestArea, request
from tools.localization import t

if TYPE_CHECKING:
    from daemon.plan.goal_index import GoalIndex
    from daemon.state.session_state import SessionState
    from lsp_bridge.server.requests.request_context import RequestContext


class TraceRequests(RequestArea):
    """The requests of one connection about traces."""

    def __init__(self, context: RequestContext) -> None:
        super().__init__(context)
        self._reader = TraceReader(self._core.store, self._state, is_foreign=self._core.is_foreign)

    @request("goalwright/api/open", changes=False)
    async def open(self, params: p.ApiOpenParams) -> p.ApiOpenResult:
        """Say where the trace API is; opens it when it is not open."""
        found = await self._context.api.open(params.port)
        return p.ApiOpenResult(url=found.url, token=found.token, page=found.page)

    @request("goalwright/trace/messages", changes=False)
    async def messages(self, params: p.TraceMessagesParams) -> p.TraceMessagesResult:
        """Return the messages of a goal or branch, by pages; nothing is opened or subscribed."""
        branch = params.branch_id
        if branch is not None and not BRANCH_ID.fullmatch(branch):
            raise RequestError(
                t(
                    "{branch!a} is not the id of a branch (A, B, …) or a sub-agent (s1, A.s1, …).",
                    branch=branch[:100],
                )
            )
        session_id = child_id(params.session_id, branch) if branch else params.session_id
        query = MessageQuery.model_construct(
            without_goal=params.without_goal,
            internal_goal_id=params.goal_id,
            inherited=params.inherited,
            descendants=params.descendants,
            limit=params.limit,
            before=params.before,
        )

        def goals_of(goal_index: GoalIndex) -> Goals:
            if params.goal_id is not None and params.goal_id not in goal_index.goals:
                raise RequestError(
                    t("The plan has no goal with the internal id {goal_id!a}.", goal_id=params.goal_id[:100])
                )
            return wanted_goals(goal_index, query)

        messages, has_earlier = await self._reader.message_page(session_id, query, goals_of)
        return p.TraceMessagesResult(messages=tuple(messages), has_earlier=has_earlier)

    def _state(self, session_id: str) -> SessionState | None:
        live = self._core.live(session_id)
        return None if live is None else live.state
