"""Requests about traces: ``goalwright/api/open``, ``goalwright/trace/messages``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from daemon.api.message_query import MessageRange, SessionLine, begun_with, live_branches, newest, page_of
from daemon.model.branches import BRANCH_ID, child_id
from daemon.plan.goal_index import GoalIndex
from lsp_bridge.protocol import traces as p
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from lsp_bridge.server.requests.declaration import request
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.state.session_state import SessionState
    from lsp_bridge.server.requests.request_context import RequestContext


class TraceRequests:
    """The requests of one connection about traces."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._core = context.core

    @request("goalwright/api/open", changes=False)
    async def open(self, params: p.ApiOpenParams) -> p.ApiOpenResult:
        """Say where the trace API is; opens it when it is not open."""
        found = await self._context.api.open(params.port)
        return p.ApiOpenResult(url=found.url, token=found.token, page=found.page)

    @request("goalwright/trace/messages", changes=False)
    async def messages(self, params: p.TraceMessagesParams) -> p.TraceMessagesResult:
        """Return the messages of a goal or branch, by pages; nothing is opened or subscribed."""
        # Read a live session from memory and another one from the store, in a thread either way.
        branch = params.branch_id
        if branch is not None and not BRANCH_ID.fullmatch(branch):
            raise RequestError(
                ErrorCode.INVALID_PARAMS,
                t(
                    "{branch!a} is not the id of a branch (A, B, …) or a sub-agent (s1, A.s1, …).",
                    branch=branch[:100],
                ),
            )
        session_id = child_id(params.session_id, branch) if branch else params.session_id
        live = self._core.live(session_id)
        if live is None:
            return await asyncio.to_thread(self._stored, session_id, params)
        tree, messages = live.state.plan.snapshot(), list(live.state.messages)
        branches = tuple(live.state.children.branches.values())
        lives = live_branches(self._state, session_id) if params.descendants else {}
        first = begun_with(live.state.trace)

        def choose() -> p.TraceMessagesResult:
            goals = _goals(GoalIndex(tree), params)
            line = SessionLine(newest(messages, _part(params), goals), branches, first)
            return self._page(session_id, line, params, goals, lives)

        return await asyncio.to_thread(choose)

    def _stored(self, session_id: str, params: p.TraceMessagesParams) -> p.TraceMessagesResult:
        goals, branches, first = None, (), 0
        if params.goal_id is not None or params.without_goal or not params.inherited:
            trace = self._core.store.trace(session_id)
            branches, first = trace.carried.branches, begun_with(trace)
            goals = _goals(GoalIndex(self._core.store.goal_tree(session_id)), params)
        found = self._core.store.messages(
            session_id, limit=params.limit + 1, before=params.before, goal_ids=goals
        )
        return self._page(session_id, SessionLine(found, branches, first), params, goals, {})

    def _state(self, session_id: str) -> SessionState | None:
        live = self._core.live(session_id)
        return None if live is None else live.state

    def _page(
        self,
        session_id: str,
        line: SessionLine,
        params: p.TraceMessagesParams,
        goals: frozenset[str | None] | None,
        lives: Mapping[str, SessionLine],
    ) -> p.TraceMessagesResult:
        shown, has_earlier = page_of(self._core.store, lives, session_id, line, goals, _part(params))
        return p.TraceMessagesResult(messages=tuple(shown), has_earlier=has_earlier)


def _part(params: p.TraceMessagesParams) -> MessageRange:
    return MessageRange(
        params.limit, params.before, inherited=params.inherited, descendants=params.descendants
    )


def _goals(goal_index: GoalIndex, params: p.TraceMessagesParams) -> frozenset[str | None] | None:
    """Return the goals whose messages are wanted; None: all messages are."""
    if params.goal_id is None:
        return frozenset((None,)) if params.without_goal else None
    goal = goal_index.goals.get(params.goal_id)
    if goal is None:
        raise RequestError(
            ErrorCode.INVALID_PARAMS,
            t(
                "The plan has no goal with the internal id {goal_id!a}.",
                goal_id=params.goal_id[:100],
            ),
        )
    below = goal_index.descendants(goal.id) if params.descendants else ()
    return frozenset((goal.id, *(one.id for one in below)))
