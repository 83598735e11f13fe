"""Connect the session loop with hooks, planner, explorations, sub-agents and handover.

The loop imports none of them. Explorations, sub-agents and the planner are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.explore.branch_choice import follow_choices, pending_choices
from daemon.hooks.session import HookRunner
from daemon.loop.session import Features, Session
from daemon.loop.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.hooks.python import Hooks
    from daemon.loop.features import Driver, TurnRuns
    from daemon.model.traces import PromptPlanner
    from daemon.permission.service import CallPermission
    from tools.ports import HandOver, Subagents, ToolResult
    from tools.tool import Permission


class LazyExplorer:
    """Implements ``tools.ports.Explorer`` for one call of ``session``."""

    def __init__(self, session: Session, call_id: str, permission: Permission) -> None:
        self._session = session
        self._call_id = call_id
        self._permission = permission

    async def explore(self, branches: Sequence[str], background: str | None) -> ToolResult:
        from daemon.explore.explorer import explore

        return await explore(self._session, branches, background, self._permission, self._call_id)

    async def select(self, choice: Sequence[str]) -> ToolResult:
        from daemon.explore.merging import select

        return await select(self._session, choice, self._permission, self._call_id)


def _subagents(session: Session, call_id: str) -> Subagents:
    from daemon.subagents.runner import SessionSubagents

    return SessionSubagents(session, call_id)


def _hand_over(session: Session, permission: CallPermission) -> HandOver:
    from daemon.subagents.session_handover import SessionHandOver

    return SessionHandOver(session, permission)


def _driver(turn: TurnRuns, session: Session, planner: PromptPlanner | None) -> Driver:
    from daemon.planner.driver import PlanDriver  # with the tools, see Daemon.load_tools

    return PlanDriver(turn, session, planner)


def features(hooks: Hooks, sessions: dict[str, Session]) -> Features:
    """Return the features for the sessions of a daemon with these hooks. ``sessions``: loaded ones, by id."""
    return Features(
        sessions=sessions,
        turn=Turn,
        hooks=lambda session: HookRunner(session, hooks),
        driver=_driver,
        explorer=LazyExplorer,
        subagents=_subagents,
        hand_over=_hand_over,
        awaits_choice=lambda session: bool(pending_choices(session)),
        files_restored=follow_choices,
    )
