"""Reads traces for the API: live sessions from memory, stored ones in threads. Opens no session, writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daemon.loop.state import SessionState
from daemon.model.messages import Role
from daemon.model.traces import TraceStatus
from daemon.store.base import TraceStore

JsonObject = dict[str, Any]
"""As the API answers it, in snake_case. Not free of secrets before ``daemon.store.encoding`` has encoded it."""


class NotFound(Exception):
    """There is no such trace, branch, goal or step; the message says what to do."""


class TooLarge(Exception):
    """More than one answer can hold; the message says what to ask instead."""


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """What ``/api/traces`` lists."""

    limit: int = 50
    before: str | None = None
    """Only those older than this trace."""
    status: frozenset[TraceStatus] = frozenset()
    """Empty: any."""
    agent: str | None = None
    model: str | None = None
    q: str | None = None
    """Words that stand in title, summary or task, in any case."""
    since: datetime | None = None
    until: datetime | None = None
    """Made in this time."""


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """Which messages of a trace."""

    goal_id: str | None = None
    """Display number, e.g. ``2.1``."""
    internal_goal_id: str | None = None
    branch_id: str | None = None
    role: Role | None = None
    descendants: bool = False
    """With the messages of the goals below."""
    limit: int = 100
    before: int | None = None
    """Only those with a sequence below."""


class TraceReader:
    """What the API knows of the traces of one workspace."""

    def __init__(
        self,
        store: TraceStore,
        live: Callable[[str], SessionState | None],
        *,
        is_foreign: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """``live``: the state of an open session (a branch or sub-agent too), None of any other."""
        self.store = store
        self.live = live
        self.is_foreign = is_foreign

    async def traces(self, query: TraceQuery) -> JsonObject:
        """``{"traces": [meta…], "more": bool, "next": id|null}``, newest first."""
        raise NotImplementedError

    async def meta(self, trace_id: str) -> JsonObject:
        """A trace's metadata as lists have it. Raises NotFound, StoreError."""
        raise NotImplementedError

    async def trace(self, trace_id: str) -> JsonObject:
        """Metadata, goal tree, goal numbers, branches and sub-agents of a main line. Raises NotFound, StoreError."""
        raise NotImplementedError

    async def branch(self, trace_id: str, branch_id: str) -> JsonObject:
        """A branch or sub-agent with its goal tree, as seed 000 has it. Raises NotFound, StoreError."""
        raise NotImplementedError

    async def messages(self, trace_id: str, query: MessageQuery) -> JsonObject:
        """``{"messages": […oldest first], "has_earlier": bool}``. Raises NotFound, StoreError."""
        raise NotImplementedError

    async def tree(self, trace_id: str, branch_id: str | None = None) -> JsonObject:
        """The whole step tree. Raises NotFound, StoreError, and TooLarge above 2 000 steps."""
        raise NotImplementedError

    async def node(
        self,
        trace_id: str,
        step_id: str | None,
        *,
        expand: bool = False,
        max_depth: int = 1,
        branch_id: str | None = None,
    ) -> JsonObject:
        """Children of a step (source: seed 003 ``get_node_with_children``); None: the roots. Raises as ``tree``."""
        raise NotImplementedError

    def connected(self, session_id: str, state: SessionState | None) -> JsonObject:
        """``goal_tree``, ``goal_numbers``, ``branches``, ``trace`` (its meta) of a ``connected`` frame.

        ``state``: of the live session, at the event that the frame names. For the WebSocket.
        """
        raise NotImplementedError

    async def stored_state(self, session_id: str) -> SessionState:
        """The state of a session that is not live, read-only and cached. Raises NotFound, StoreError."""
        raise NotImplementedError
