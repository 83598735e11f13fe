"""What a client can ask about traces: ``goalwright/api/open``, ``goalwright/trace/messages``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from daemon.api.door import ApiError
from daemon.api.lines import Line, Part, begun_with, live_branches, with_branches
from daemon.core import Daemon
from daemon.loop.state import SessionState
from daemon.model.base import Model
from daemon.model.branches import BRANCH_ID, BranchMeta, child_id
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
        branches = tuple(live.state.children.branches.values())
        lives = live_branches(self._state, session_id) if params.descendants else {}
        first = begun_with(live.state.trace)

        def choose() -> p.TraceMessagesResult:
            goals = _goals(GoalForest(tree), params)
            found = _own(_newest(messages, goals, params), first, goals, params)
            return self._page(session_id, found, params, goals, branches, lives)

        return await asyncio.to_thread(choose)

    def _stored(self, session_id: str, params: p.TraceMessagesParams) -> p.TraceMessagesResult:
        goals, branches, first = None, (), 0
        if params.goal_id is not None or params.without_goal or not params.inherited:
            trace = self._core.store.trace(session_id)
            branches, first = trace.carried.branches, begun_with(trace)
            goals = _goals(GoalForest(self._core.store.goal_tree(session_id)), params)
        found = self._core.store.messages(
            session_id, limit=params.limit + 1, before=params.before, goal_ids=goals
        )
        return self._page(session_id, _own(found, first, goals, params), params, goals, branches, {})

    def _state(self, session_id: str) -> SessionState | None:
        live = self._core.live(session_id)
        return None if live is None else live.state

    def _page(
        self,
        session_id: str,
        found: list[Message],
        params: p.TraceMessagesParams,
        goals: frozenset[str | None] | None,
        branches: tuple[BranchMeta, ...],
        lives: Mapping[str, Line],
    ) -> p.TraceMessagesResult:
        """Of one message more than wanted, when the line has so many."""
        if params.descendants and goals is not None:
            part = Part(params.limit, params.before)
            store = self._core.store
            shown, has_earlier = with_branches(store, lives, session_id, branches, goals, found, part)
        else:
            has_earlier = len(found) > params.limit
            shown = found[1:] if has_earlier else found
        return p.TraceMessagesResult(messages=tuple(shown), has_earlier=has_earlier)


def _goals(forest: GoalForest, params: p.TraceMessagesParams) -> frozenset[str | None] | None:
    """The goals whose messages are wanted; None: all messages are."""
    if params.goal_id is None:
        return frozenset((None,)) if params.without_goal else None
    goal = forest.goals.get(params.goal_id)
    if goal is None:
        raise RequestError(
            p.INVALID_PARAMS,
            f"There is no goal with the internal id {params.goal_id[:100]!a} in this plan any more.",
        )
    below = forest.descendants(goal.id) if params.descendants else ()
    return frozenset((goal.id, *(one.id for one in below)))


def _own(
    found: list[Message], first: int, goals: frozenset[str | None] | None, params: p.TraceMessagesParams
) -> list[Message]:
    """Without those that a branch began with: where they are not wanted, and of goals, whose ids are another plan's."""
    return found if goals is None and params.inherited else [one for one in found if one.sequence > first]


def _newest(
    messages: Sequence[Message], goals: frozenset[str | None] | None, params: p.TraceMessagesParams
) -> list[Message]:
    """The newest, oldest first, and one more than a page has."""
    found: list[Message] = []
    for message in reversed(messages):
        if len(found) > params.limit:
            break
        if params.before is not None and message.sequence >= params.before:
            continue
        if goals is None or message.goal_id in goals:
            found.append(message)
    return found[::-1]
