"""Requests about the plan: the user's changes of goals, planning again, and building."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.files.restore import RestoreRefusedError
from daemon.loop.session import BusyError, Session
from daemon.loop.user_plan import UserPlan
from lsp_bridge.protocol import plan as p
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from lsp_bridge.server.requests.declaration import RequestArea, request
from tools.localization import t
from tools.process.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.model.permissions import FileDiff

_AboutGoal = p.GoalRenameParams | p.GoalMoveParams | p.GoalParams | p.GoalDoneParams


_BUILDING = Background("building a plan")


class PlanRequests(RequestArea):
    """The requests of one connection about the plan."""

    @request("goalwright/goal/add", changes=True)
    async def add(self, params: p.GoalAddParams) -> p.GoalResult:
        """Add a goal."""
        session = await self._core.session(params.session_id)
        added = self._plan(session).add(
            params.description, params.reason, parent_id=params.parent_id, before_id=params.before_id
        )
        return _result(session, added)

    @request("goalwright/goal/rename", changes=True)
    async def rename(self, params: p.GoalRenameParams) -> p.GoalResult:
        """Change the description of a goal."""
        return await self._changed(params, lambda plan: plan.rename(params.goal_id, params.description))

    @request("goalwright/goal/move", changes=True)
    async def move(self, params: p.GoalMoveParams) -> p.GoalResult:
        """Move a goal, with all below it."""
        return await self._changed(
            params, lambda plan: plan.move(params.goal_id, params.parent_id, params.before_id)
        )

    @request("goalwright/goal/focus", changes=True)
    async def focus(self, params: p.GoalParams) -> p.GoalResult:
        """Say which goal the model is to work on."""
        return await self._changed(params, lambda plan: plan.focus(params.goal_id))

    @request("goalwright/goal/done", changes=True)
    async def done(self, params: p.GoalDoneParams) -> p.GoalResult:
        """Call a goal reached."""
        return await self._changed(params, lambda plan: plan.done(params.goal_id, params.summary))

    @request("goalwright/goal/abandon", changes=True)
    async def abandon(self, params: p.GoalAbandonParams) -> p.GoalResult:
        """Abandon a goal, and optionally revert its changes."""
        session = await self._core.session(params.session_id)
        try:
            files = await self._plan(session).abandon(
                params.goal_id, params.reason, revert_files=params.revert_files, dry_run=params.dry_run
            )
        except BusyError as error:
            raise RequestError(
                t("{error} Without revertFiles a goal can be abandoned at any time.", error=error),
                ErrorCode.BUSY,
            ) from error
        except RestoreRefusedError as error:
            raise RequestError(
                t(
                    "{error}\n\nThe goal is still open. To keep the files as they are, abandon it without "
                    "revertFiles.",
                    error=error,
                ),
                ErrorCode.HISTORY_CONFLICT,
            ) from error
        return _result(session, params.goal_id, files)

    @request("goalwright/plan/replan", changes=True)
    async def replan(self, params: p.PlanReplanParams) -> p.PlanReplanResult:
        """Plan again for the remaining work; answers when the plan was made."""
        from daemon.planner.driver import replan

        self._context.check_rules()
        session = await self._context.at_hand(params.session_id)
        done = await replan(session, params.reason)
        return p.PlanReplanResult(stop_reason=done.stop, detail=done.detail)

    @request("goalwright/plan/build", changes=True)
    async def build(self, params: p.PlanBuildParams) -> p.PlanBuildResult:
        """Hand the plan over to the agent that builds."""
        from daemon.subagents.session_handover import hand_over_plan

        self._context.check_rules()
        session = await self._context.at_hand(params.session_id)
        prompt = await hand_over_plan(session, self._context.client_name)
        if params.start:
            # The session's events show the progress, so the caller need not stay.
            _BUILDING.start(session.prompt(prompt), name=f"build {session.session_id}")
        return p.PlanBuildResult(session=await self._context.info(session), prompt=prompt)

    def _plan(self, session: Session) -> UserPlan:
        return UserPlan(session, self._context.client_name)

    async def _changed(self, params: _AboutGoal, change: Callable[[UserPlan], None]) -> p.GoalResult:
        session = await self._core.session(params.session_id)
        change(self._plan(session))
        return _result(session, params.goal_id)


def _result(session: Session, goal_id: str, files: tuple[FileDiff, ...] = ()) -> p.GoalResult:
    plan = session.state.plan
    number = plan.number_of(goal_id) if goal_id in plan.goals else None
    return p.GoalResult(goal_id=goal_id, number=number, current_id=plan.current_id, files=files)
