"""What a client can ask about traces: ``goalwright/api/open``, ``goalwright/trace/messages``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from daemon.api.door import ApiError
from daemon.core import Daemon
from daemon.model.base import Model
from daemon.model.branches import BRANCH_ID, child_id
from daemon.model.messages import Message
from daemon.plan.forest import GoalForest
from lsp_bridge import protocol as p
from lsp_bridge.request_error import RequestError


class TraceRequests:
    """The requests of one connection about traces."""

    def __init__(self, core: Daemon) -> None:
        self._core = core
        self.handlers: Mapping[str, Callable[[Any], Awaitable[Model]]] = {
            "goalwright/api/open": self.open,
            "goalwright/trace/messages": self.messages,
        }

    async def open(self, params: p.ApiOpenParams) -> p.ApiOpenResult:
        """Where the trace API is; opened when it is not."""
        try:
            found = await self._core.api.open(params.port)
        except ApiError as error:
            raise RequestError(p.API_FAILED, str(error)) from error
        return p.ApiOpenResult(url=found.url, token=found.token, page=found.page)

    async def messages(self, params: p.TraceMessagesParams) -> p.TraceMessagesResult:
        """Messages of a goal. Of a live session from memory, of another one from the store, in a thread either way."""
        branch = params.branch_id
        if branch is not None and not BRANCH_ID.fullmatch(branch):
            raise RequestError(
                p.INVALID_PARAMS,
                f"{branch[:100]!a} is not the id of a branch (A, B, …) or a sub-agent (s1, A.s1, …).",
            )
        session_id = child_id(params.session_id, branch) if branch else params.session_id
        live = self._core.live(session_id)
        if live is None:
            return await asyncio.to_thread(self._stored, session_id, params)
        tree, messages = live.state.plan.snapshot(), list(live.state.messages)

        def choose() -> p.TraceMessagesResult:
            return _newest(reversed(messages), _goals(GoalForest(tree), params), params)

        return await asyncio.to_thread(choose)

    def _stored(self, session_id: str, params: p.TraceMessagesParams) -> p.TraceMessagesResult:
        goals = None
        if params.goal_id is not None:
            goals = _goals(GoalForest(self._core.store.goal_tree(session_id)), params)
        found = self._core.store.messages(
            session_id, limit=params.limit + 1, before=params.before, goal_ids=goals
        )
        return _newest(reversed(found), None, params)


def _goals(forest: GoalForest, params: p.TraceMessagesParams) -> frozenset[str | None] | None:
    """The goals whose messages are wanted; None: all messages are."""
    if params.goal_id is None:
        return None
    goal = forest.goals.get(params.goal_id)
    if goal is None:
        raise RequestError(
            p.INVALID_PARAMS,
            f"There is no goal with the internal id {params.goal_id[:100]!a} in this plan any more.",
        )
    below = forest.descendants(goal.id) if params.descendants else ()
    return frozenset((goal.id, *(one.id for one in below)))


def _newest(
    messages: Iterable[Message], goals: frozenset[str | None] | None, params: p.TraceMessagesParams
) -> p.TraceMessagesResult:
    """One page of messages that come newest first."""
    found: list[Message] = []
    for message in messages:
        if params.before is not None and message.sequence >= params.before:
            continue
        if goals is not None and message.goal_id not in goals:
            continue
        found.append(message)
        if len(found) > params.limit:
            break
    shown = found[: params.limit]
    return p.TraceMessagesResult(messages=tuple(reversed(shown)), has_earlier=len(found) > params.limit)
