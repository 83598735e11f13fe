"""Connect the session loop with hooks, planner, explorations, sub-agents and handover.

The loop imports none of them. Explorations, sub-agents and the planner are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.explore.branch_choice import follow_choices
from daemon.hooks.session import HookRunner
from daemon.loop.session import Features, Session
from daemon.loop.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.hooks.python import Hooks
    from daemon.loop.features import Driver, TurnRuns
    from daemon.model.traces import PromptPlanner
    from daemon.permission.service import CallPermission
    from tools.ports import ToolResult
    from tools.tool import Permission


async def _explore(
    session: Session, call_id: str, permission: Permission, branches: Sequence[str], background: str | None
) -> ToolResult:
    from daemon.explore.explorer import explore

    return await explore(session, branches, background, permission, call_id)


async def _select(
    session: Session, call_id: str, permission: Permission, choice: Sequence[str]
) -> ToolResult:
    from daemon.explore.merging import select

    return await select(session, choice, permission, call_id)


async def _run_task(session: Session, call_id: str, agent: str, prompt: str) -> ToolResult:
    from daemon.subagents.runner import SessionSubagents

    return await SessionSubagents(session, call_id).run(agent, prompt)


async def _hand_over(
    session: Session, permission: CallPermission, report: str, success_rate: float | None
) -> ToolResult:
    from daemon.subagents.session_handover import SessionHandOver

    return await SessionHandOver(session, permission).hand_over(report, success_rate)


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
        explore=_explore,
        select=_select,
        run_task=_run_task,
        hand_over=_hand_over,
        files_restored=follow_choices,
    )
