"""Reads traces for the API: live sessions from memory, stored ones in threads. Opens no session, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from daemon.api.listing import TraceLister, TraceQuery
from daemon.api.message_query import MessageQuery, SessionLine, begun_with, live_branches, newest, page_of
from daemon.api.session_summary import (
    JsonObject,
    SessionSummary,
    branch_detail,
    held_by,
    is_recent,
    status_of,
    subagent_detail,
)
from daemon.api.step_views import NodeQuery, NotFoundError, StepViews
from daemon.gc_tuning import COLLECTOR
from daemon.model.branches import BRANCH_ID, branch_of, root_of, session_of
from daemon.model.goals import Goal
from daemon.model.messages import Message
from daemon.plan.changes import PlanError
from daemon.plan.goal_index import GoalIndex
from daemon.state.session_state import SessionState
from daemon.store.replay import replayed, snapshot_at_rest
from daemon.store.trace_store import NewerFormatError, StoreError, TraceStore, UnknownTraceError

if TYPE_CHECKING:
    from datetime import datetime

    from daemon.model.choices import StatsBy
    from daemon.store.sql.store import SqlTraceStore

_CHILDREN = NodeQuery()
Goals = frozenset[str | None] | None
"""Ids of the goals whose messages are wanted, None among them: those without a goal. None: all messages are."""
_STATES = 4
"""States of traces whose snapshots are behind their logs that are kept."""


class TraceReader:
    """A reader of the traces of one workspace, for the API."""

    def __init__(
        self,
        store: TraceStore,
        live: Callable[[str], SessionState | None],
        *,
        is_foreign: Callable[[str], bool] = lambda _: False,
        elsewhere: bool = False,
        database: Callable[[], SqlTraceStore] | None = None,
        missions: Callable[[Collection[str]], Mapping[str, str]] | None = None,
    ) -> None:
        """``live``: the state of an open session (a branch or sub-agent too), None of any other. ``elsewhere``: other
        daemons may work on the sessions. ``database``: has the same sessions, to search and count them, which finds
        nothing without it; blocking. ``missions``: see ``TraceLister``."""
        self.store = store
        self.live = live
        self.is_foreign = is_foreign
        self._elsewhere = elsewhere
        self._database = database
        self._listing = TraceLister(
            store,
            live,
            is_foreign,
            lambda trace_id: self._replayed(trace_id).plan.mission,
            elsewhere=elsewhere,
            missions=missions,
        )
        self.steps = StepViews(store)

        def replay(session_id: str, _last_event_id: int) -> SessionState:
            return replayed(store, session_id)

        self._replay = lru_cache(_STATES)(replay)

    # -- responses of the endpoints --

    async def traces(self, query: TraceQuery) -> JsonObject:
        """``{"traces": [meta…], "more": bool, "next": id|null}``, newest first."""
        return await COLLECTOR.aside(self._listing.page, query)

    async def trace(self, trace_id: str) -> JsonObject:
        """Return metadata, goal tree, goal numbers, branches and sub-agents of a main session. Raises NotFoundError,
        StoreError."""
        seen = await self.seen(_main(trace_id))
        return await COLLECTOR.aside(seen.detail)

    async def branch(self, trace_id: str, branch_id: str) -> JsonObject:
        """Return a branch or sub-agent with its goal tree. Raises NotFoundError, StoreError."""
        session_id = session_id_of(trace_id, branch_id)
        above, _, name = branch_id.rpartition(".")
        parent = await self.seen(session_of(trace_id, above or None))
        try:
            own = await self.seen(session_id)
        except NotFoundError:
            own = None  # its copy is still being created
        if (branch := parent.branch(name) or parent.branch(branch_id)) is not None:
            return await COLLECTOR.aside(branch_detail, branch, own)
        if (agent := parent.subagent(name) or parent.subagent(branch_id)) is not None:
            state = self.live(session_id)
            messages = list(state.messages) if state is not None else None

            def tell() -> JsonObject:
                held = held_by(self._messages_of(session_id) if messages is None else messages)
                return subagent_detail(agent, own, held)

            return await COLLECTOR.aside(tell)
        known = ", ".join([one.id for one in (*parent.branches, *parent.subagents)][:30])
        raise NotFoundError(
            f"There is no branch or sub-agent {branch_id} in this trace"
            + (f"; there are: {known}." if known else ": it has none.")
        )

    async def messages(self, trace_id: str, query: MessageQuery) -> JsonObject:
        """``{"messages": […oldest first], "has_earlier": bool}``. Raises NotFoundError, StoreError."""
        session_id = session_id_of(trace_id, query.branch_id)
        with found(session_id):
            if self.live(session_id) is not None:
                await COLLECTOR.aside(self._check_stored, session_id)
            shown, has_earlier = await self.message_page(
                session_id, query, lambda goal_index: wanted_goals(goal_index, query)
            )
        messages = await COLLECTOR.aside(lambda: [message.stored() for message in shown])
        return {"messages": messages, "has_earlier": has_earlier}

    async def message_page(
        self, session_id: str, query: MessageQuery, goals_of: Callable[[GoalIndex], Goals]
    ) -> tuple[list[Message], bool]:
        """Return a page of messages, oldest first, and whether there are earlier ones. Raises StoreError.

        ``goals_of``: the goals of the plan whose messages are wanted, None: all messages are; what it raises is raised.
        """
        state = self.live(session_id)
        if state is None:
            return await COLLECTOR.aside(self._stored_page, session_id, query, goals_of)
        tree, messages = state.plan.snapshot(), list(state.messages)
        branches, first = tuple(state.children.branches.values()), begun_with(state.trace)
        lives = live_branches(self.live, session_id) if query.descendants else {}

        def choose() -> tuple[list[Message], bool]:
            goals = goals_of(GoalIndex(tree))
            line = SessionLine(newest(messages, query, goals), branches, first)
            return page_of(self.store, lives, session_id, line, goals, query)

        return await COLLECTOR.aside(choose)

    async def tree(self, trace_id: str, branch_id: str | None = None) -> JsonObject:
        """Return the whole step tree. Raises NotFoundError, StoreError, and TooLarge above 2 000 steps."""
        session_id = session_id_of(trace_id, branch_id)
        return await COLLECTOR.aside(self._tree, session_id, trace_id)

    async def node(self, trace_id: str, step_id: str | None, query: NodeQuery = _CHILDREN) -> JsonObject:
        """Return the children of a step, or the root steps if ``step_id`` is None. Raises as ``tree``."""
        session_id = session_id_of(trace_id, query.branch_id)

        def look() -> JsonObject:
            with found(session_id):
                is_live = self.live(session_id) is not None or self._runs_elsewhere(session_id)
                return self.steps.node(session_id, step_id, query, is_live=is_live)

        return await COLLECTOR.aside(look)

    async def search(self, query: str, limit: int, before: str | None) -> JsonObject:
        """``{"found": [session…], "next": id|null}``, newest first. Raises StoreError."""

        def find() -> JsonObject:
            from daemon.store.sql.search import search

            database = self._database and self._database()
            found = search(database, query, limit=limit + 1, before=before) if database else []
            shown = found[:limit]
            return {
                "found": [
                    {
                        "trace_id": root_of(one.trace_id),
                        "branch_id": branch_of(one.trace_id),
                        "title": one.title,
                        "workspace": one.folder,
                        "user": one.owner,
                        "kind": one.kind,
                        "excerpt": one.excerpt,
                    }
                    for one in shown
                ],
                "next": root_of(shown[-1].trace_id) if len(found) > limit else None,
            }

        return await COLLECTOR.aside(find)

    async def stats(self, by: StatsBy, since: datetime | None, limit: int) -> JsonObject:
        """``{"by": …, "groups": [sums…], "more": bool}``. Raises StoreError."""

        def count() -> JsonObject:
            from daemon.store.sql.stats import sums

            database = self._database and self._database()
            found = sums(database, by, since=since, limit=limit + 1) if database else []
            groups = [one.stored() for one in found[:limit]]
            return {"by": by, "groups": groups, "more": len(found) > limit}

        return await COLLECTOR.aside(count)

    # -- for the WebSocket --

    async def seen(self, session_id: str) -> SessionSummary:
        """Return the current state of a session, live or stored. Raises NotFoundError, StoreError."""
        state = self.live(session_id)
        with found(session_id):
            if state is None:
                return await COLLECTOR.aside(self._stored, session_id)
            seen = SessionSummary.live(state, foreign=self.is_foreign(session_id), others=self.live)
            await COLLECTOR.aside(self._check_stored, session_id)
            return seen

    # -- stored traces, in threads --

    def _check_stored(self, session_id: str) -> None:
        """Raise UnknownTraceError for a session whose folder was deleted, NewerFormatError for one that cannot be read:
        no view shows what another one refuses, and what memory still has of a session must not look like a trace."""
        try:
            self.store.trace(session_id)
        except (NewerFormatError, UnknownTraceError):
            raise
        except StoreError:
            pass  # only its snapshot is damaged, or cannot be read now

    def _stored(self, session_id: str) -> SessionSummary:
        """Raises StoreError."""
        foreign = self.is_foreign(session_id)
        found = None
        try:
            if foreign:  # its snapshot may show things that the log does not have
                self._check_stored(session_id)
            else:
                found = snapshot_at_rest(self.store, session_id)
        except (NewerFormatError, UnknownTraceError):
            raise
        except StoreError:
            pass  # the snapshot is damaged, but the log has everything
        if found is not None:
            carried = found[0].carried
            parts = *found, carried.branches, carried.subagents
        else:
            seen = SessionSummary.live(self._replayed(session_id), foreign=foreign)
            parts = seen.trace, seen.tree, seen.branches, seen.subagents
        return SessionSummary.stored(*parts, foreign=foreign, elsewhere=self._elsewhere)

    def _runs_elsewhere(self, session_id: str) -> bool:
        """Return whether another daemon may work on a session. Raises StoreError."""
        return self._elsewhere and is_recent(self.store.trace(session_id))

    def _replayed(self, session_id: str) -> SessionState:
        return self._replay(session_id, self.store.last_event_id(session_id))

    def _messages_of(self, session_id: str) -> list[Message]:
        """Return all of a stored session, from its log; none of one whose folder is gone."""
        try:
            return self._replayed(session_id).messages
        except UnknownTraceError:
            return []

    def _stored_page(
        self, session_id: str, query: MessageQuery, goals_of: Callable[[GoalIndex], Goals]
    ) -> tuple[list[Message], bool]:
        goals, branches, first = None, (), 0
        if query.goals or not query.inherited:
            seen = self._stored(session_id)
            goals, branches, first = goals_of(seen.goal_index()), seen.branches, begun_with(seen.trace)
        self._check_stored(session_id)
        found = self.store.messages(
            session_id, limit=query.limit + 1, before=query.before, goal_ids=goals, role=query.role
        )
        return page_of(self.store, {}, session_id, SessionLine(found, branches, first), goals, query)

    def _tree(self, session_id: str, trace_id: str) -> JsonObject:
        state = self.live(session_id)
        with found(session_id):
            status = self._stored(session_id).status if state is None else status_of(state.trace, state)
            is_live = state is not None or self._runs_elsewhere(session_id)
            return self.steps.tree(session_id, trace_id, status, is_live=is_live)


@contextmanager
def found(session_id: str) -> Generator[None]:
    """Raise NotFoundError for a session that the store does not know."""
    try:
        yield
    except UnknownTraceError as error:
        raise unknown(session_id) from error


def unknown(session_id: str) -> NotFoundError:
    """Return the error for an unknown trace or branch, with a message for HTTP clients."""
    branch = branch_of(session_id)
    if branch is not None:
        return NotFoundError(f"There is no branch or sub-agent {branch[:100]!a} in this trace.")
    return NotFoundError(f"There is no trace {session_id[:100]!a}. /api/traces lists all traces.")


def _main(trace_id: str) -> str:
    if branch_of(trace_id) is not None or ":" in trace_id:
        raise NotFoundError(
            f"{trace_id[:100]!a} is not the id of a trace; a branch A of it is /api/traces/TRACE_ID/branches/A."
        )
    return trace_id


def session_id_of(trace_id: str, branch_id: str | None) -> str:
    """Return the session that a path and a query name. Raises NotFoundError for an impossible one."""
    _main(trace_id)
    if branch_id is not None and not BRANCH_ID.fullmatch(branch_id):
        raise NotFoundError(
            f"{branch_id[:100]!a} is not the id of a branch (A, B, …) or a sub-agent (s1, A.s1, …)."
        )
    return session_of(trace_id, branch_id)


def wanted_goals(goal_index: GoalIndex, query: MessageQuery) -> Goals:
    """Return the goals whose messages are wanted; None: all messages are. Raises NotFoundError."""
    if query.internal_goal_id is not None:
        goal = goal_index.goals.get(query.internal_goal_id)
        if goal is None:
            raise NotFoundError(
                f"There is no goal with the internal id {query.internal_goal_id[:100]!a} in this plan."
            )
    elif query.number is not None:
        goal = _numbered(goal_index, query.number)
    elif query.goal_id is not None:
        goal = _named(goal_index, query.goal_id)
    else:
        return frozenset((None,)) if query.without_goal else None
    below = goal_index.descendants(goal.id) if query.descendants else ()
    return frozenset((goal.id, *(one.id for one in below)))


def _named(goal_index: GoalIndex, goal_id: str) -> Goal:
    """Return the goal with an id, else with a display number that cannot be an id. Raises NotFoundError.

    A bare number is always an id, as in payloads: its meaning must not depend on whether the id exists.
    """
    goal = goal_index.goals.get(goal_id)
    if goal is not None:
        return goal
    if not goal_id.isdecimal():
        return _numbered(goal_index, goal_id)
    raise NotFoundError(
        f"There is no goal with the id {goal_id[:100]!a} in this plan. To ask for the goal that is shown as number "
        f"{goal_id[:100]}, use number={goal_id[:100]} or goal_id=%23{goal_id[:100]}."
    )


def _numbered(goal_index: GoalIndex, number: str) -> Goal:
    try:
        return goal_index.find(number)
    except PlanError as error:
        # The plan's own message is meant for a model, which could add the goal.
        known = list(goal_index.numbers().values())
        raise NotFoundError(
            f"There is no goal {number[:100]!a} in this plan"
            + (
                f"; there are: {', '.join(known[:30])}{', …' if len(known) > 30 else ''}."
                if known
                else ": it has none with a number."
            )
        ) from error
