"""Open stored sessions, also those whose daemon was killed: main sessions, branches and sub-agents alike.

This is the only recovery of a session. It does this, in this order, because each step needs the one before:

1. **The files.** An imported folder is rejected when it has links. A half-written event is cut off the log, and the
   files of messages that a kill prevented are written.
2. **The state.** From the snapshot when it was written at rest and the log has nothing newer; else from the log.
3. **The children** that were at work by this record. Each is opened by this same procedure and comes to rest, so that
   its parent can record how it ended.
4. **What is open.** Half messages, sub-agents, tool calls without a result, questions, and the turn are closed. A turn
   of a main session that only waited for an answer stays open: it is asked again when a client is there.
5. **The explorations.** Branches that broke off have ended, and so has their exploration. Their copies of the working
   tree are gone by then: their changes are stored first.
6. **The other children**, in the background: those that had ended by this record, but not by their own.

Nothing is ever taken out of the log, so a kill in the middle of any step is only another crash. Other remains of a
crash are handled when the daemon starts: the journal of file changes (``tools.writing.recovery``), copies of branches
(``daemon.explore.copy_manager``), unfinished sessions and imports (``daemon.store.pruning``).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from daemon.loop.children import close_child, has_ended
from daemon.loop.interrupted_turn import waits_for_answer
from daemon.loop.session import Features, Session
from daemon.model import notice_codes
from daemon.model.branches import branch_of, child_id, root_of
from daemon.model.traces import BranchTrace, Trace
from daemon.store.replay import beginning_lost, read_state
from daemon.store.trace_store import StoreError, UnknownTraceError
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from daemon.explore.copy_manager import BranchCopies
    from daemon.loop.services import Services
    from daemon.state.session_state import Order, SessionState
    from tools.process.background import Background

log = logging.getLogger(__name__)

TORN = noted(
    "The last line of this session's log was incomplete because Goalwright was stopped while writing it. "
    "Its {size} bytes were removed; everything before it is intact."
)
HEADLESS = noted(
    "The first event of this session's log is damaged. All others are intact, and its data is taken from "
    "meta.json. Keep a copy of the session's folder."
)
FOREIGN = noted(
    "This session was not started by you on this machine: it came with the folder. Its permissions, queued "
    "prompts and model are ignored, and its prompts may have been written by anyone."
)
RESTRICTS = noted(
    " Only the restrictions of your agent {name} apply until you choose it yourself: write @{name}."
)


class Recovery:
    """The procedure for the sessions of one daemon."""

    def __init__(
        self,
        services: Services,
        features: Features,
        copies: BranchCopies,
        *,
        is_foreign: Callable[[str], bool],
        order: Callable[[str], Awaitable[Order]],
        open_session: Callable[[str], Awaitable[Session]],
        background: Background,
    ) -> None:
        """``order``: numbers the messages of a main session and its children. ``open_session``: opens a stored session
        by this procedure, or gives the live one."""
        self._store = services.store
        self._services = services
        self.features = features
        self.copies = copies
        self._is_foreign = is_foreign
        self._order = order
        self._open_session = open_session
        self._background = background

    async def open(self, session_id: str) -> Session:
        """Open a stored session. Raises UnknownTraceError, StoreError."""
        store, child, foreign = self._store, branch_of(session_id), self._is_foreign(session_id)
        if foreign:
            await asyncio.to_thread(store.refuse_links, session_id)
        torn = await asyncio.to_thread(store.recover, session_id)

        state = await asyncio.to_thread(read_state, store, session_id, foreign=foreign)
        headless = await asyncio.to_thread(beginning_lost, store, session_id)
        session = await self._session(state, foreign=foreign)

        below: list[str] = []
        ended: dict[str, Trace] = {}
        if not foreign:
            below = await asyncio.to_thread(store.children, session_id)
            ended = await self._close_children(state)

        if foreign or child or not waits_for_answer(state):
            session.close_open(ended=ended)
        if child:
            session.make_read_only(has_ended(child))
        session.restore_queue(state.queue)
        if foreign:
            restricts = t(RESTRICTS, name=session.agent.name) if session.agent.imported else ""
            session.notice("warning", t(FOREIGN) + restricts, notice_codes.IMPORTED)
        if headless:
            session.notice("warning", t(HEADLESS), notice_codes.TORN)
        if torn:
            session.notice("warning", t(TORN, size=torn), notice_codes.TORN)
        session.commands.notify_lost_jobs()

        if not foreign:
            await self._settle_explorations(session, ended)
        self.features.sessions[session_id] = session
        if below and child is None:
            self._background.start(self._close_others(below))
        return session

    async def _session(self, state: SessionState, *, foreign: bool) -> Session:
        if foreign:
            state.disown()
        # Use another agent only until a client with more trust sends a prompt, or until its file is back.
        services = self._services
        agent = await asyncio.to_thread(services.agents.find_or_stand_in, state.trace.agent, services.trust())
        state.share_order(await self._order(root_of(state.trace.trace_id)))
        return Session(state, agent, services, self.features, foreign=foreign)

    async def _close_children(self, state: SessionState) -> dict[str, Trace]:
        """Bring the children to rest that are at work by the record of ``state``; return their own records, by id.

        Never raises. As many as worked at once, so opening a session does not take longer the more children it has.
        """
        children = state.children
        names = [branch.id for branch in children.branches.values() if branch.status == "exploring"]
        names += [agent.id for agent in children.subagents.values() if agent.status == "running"]
        found = {name: await self._close_child(child_id(state.trace.trace_id, name)) for name in names}
        return {name: trace for name, trace in found.items() if trace is not None}

    async def _close_others(self, known: list[str]) -> None:
        """Close children ``known`` (ids of sessions) that are open, and their children. Never raises."""
        for session_id in known:
            try:
                unfinished = await asyncio.to_thread(self._unfinished, session_id)
            except StoreError as error:
                log.warning("it is not known whether %s is at rest: %s", session_id, error)
                continue
            for left in unfinished:
                await self._close_child(left)

    async def _close_child(self, session_id: str) -> Trace | None:
        """Return the record of a child when it is at rest."""
        if (live := self.features.sessions.get(session_id)) is not None:
            # The session is in use: this daemon opened it, and thereby closed its old turn.
            return None if live.state.trace.running else live.state.trace
        try:
            child = await self._open_session(session_id)
            if child.state.trace.running or child.running:
                return None
            child.record.snapshot()
        except UnknownTraceError:
            return None  # it had not started
        except StoreError as error:
            log.warning("the record of %s stays as it is: %s", session_id, error)
            return None
        except Exception:  # a damaged child must not cost the user the session above it
            log.exception("the record of %s cannot be brought to rest", session_id)
            return None
        trace = child.state.trace
        if session_id not in self._services.bus.heard():
            await close_child(child)
        return trace

    def _unfinished(self, session_id: str) -> list[str]:
        """Return a child, or those below it, if their metadata does not show them at rest. Blocking."""
        try:
            trace = self._store.trace(session_id)
            open_still = trace.running or (isinstance(trace, BranchTrace) and trace.status == "exploring")
            if open_still or trace.last_event_id != self._store.last_event_id(session_id):
                return [session_id]  # opening it closes its children
        except UnknownTraceError:
            return []
        except StoreError:
            return [session_id] if branch_of(session_id) else []
        return [left for below in self._store.children(session_id) for left in self._unfinished(below)]

    async def _settle_explorations(self, session: Session, ended: Mapping[str, Trace]) -> None:
        trace = session.state.trace
        explores = bool(session.state.children.unended()) or any(
            goal.type == "explore_start" and goal.status in ("pending", "in_progress")
            for goal in session.state.plan.goals.values()
        )
        if explores or (isinstance(trace, BranchTrace) and trace.status == "exploring"):
            from daemon.explore.crash_recovery import settle_branches

            await self.copies.recovered()
            await settle_branches(session, ended)
