"""Branches and sub-agents that were at work when the daemon was killed: their own records are brought to rest, too.

That happens when the session that started them is opened: whoever looks at one of them by itself is told the same as by
the main line. Each is opened as a client would open it, so what closes a record is in one place, and let go of again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from daemon.loop.interrupted import Took
from daemon.model.branches import branch_of, child_id
from daemon.model.traces import BranchTrace
from daemon.store.base import StoreError, TraceStore, UnknownTraceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from daemon.loop.services import Services
    from daemon.loop.session import Session
    from daemon.state.session_state import SessionState

log = logging.getLogger(__name__)


class LeftChildren:
    """See the module. ``open_session``: opens a stored session, or gives the live one."""

    def __init__(
        self,
        services: Services,
        sessions: Mapping[str, Session],
        open_session: Callable[[str], Awaitable[Session]],
    ) -> None:
        self._services = services
        self._sessions = sessions
        self._open = open_session

    async def close(self, state: SessionState) -> dict[str, Took]:
        """Close those that are at work by the record of ``state``; returns how they ended, by their id. Never raises.

        As many as worked at once, so that opening a session does not take longer the more children it has.
        """
        children = state.children
        names = [branch.id for branch in children.branches.values() if branch.status == "exploring"]
        names += [agent.id for agent in children.subagents.values() if agent.status == "running"]
        found: dict[str, Took] = {}
        for name in names:
            took = await self._close(child_id(state.trace.trace_id, name))
            if took is not None:
                found[name] = took
        return found

    async def close_others(self, known: Collection[str]) -> None:
        """Close what is open of the children ``known`` (ids of sessions), and of theirs, though by the record above
        them they have ended: the kill came between the two. Never raises. Takes its time: nobody should wait for it.
        """
        for session_id in known:
            try:
                unfinished = await asyncio.to_thread(_unfinished, self._services.store, session_id)
            except StoreError as error:
                log.warning("it is not known whether %s is at rest: %s", session_id, error)
                continue
            for left in unfinished:
                await self._close(left)

    async def _close(self, session_id: str) -> Took | None:
        services = self._services
        if (live := self._sessions.get(session_id)) is not None:
            # Somebody looks at it, or it works: it was opened by this daemon, and that closed it.
            return None if live.state.trace.running else Took.of(live.state.trace)
        try:
            child = await self._open(session_id)
            if child.state.trace.running or child.running:
                return None
            child.record.snapshot()
        except UnknownTraceError:
            return None  # it had not begun
        except StoreError as error:
            log.warning("the record of %s stays as it is: %s", session_id, error)
            return None
        except Exception:  # whatever is wrong with it must not cost the person the session above it
            log.exception("the record of %s cannot be brought to rest", session_id)
            return None
        took = Took.of(child.state.trace)
        if session_id not in services.bus.heard():
            from daemon.loop.children import close_child

            await close_child(child)
        return took


def _unfinished(store: TraceStore, session_id: str) -> list[str]:
    """Itself or those below it, when their metadata does not say that they are at rest. Blocking."""
    try:
        trace = store.trace(session_id)
        open_still = trace.running or (isinstance(trace, BranchTrace) and trace.status == "exploring")
        if open_still or trace.last_event_id != store.last_event_id(session_id):
            return [session_id]  # opening it closes those below
    except UnknownTraceError:
        return []
    except StoreError:
        return [session_id] if branch_of(session_id) else []
    return [left for below in store.children(session_id) for left in _unfinished(store, below)]
