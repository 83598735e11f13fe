"""What the person can do to the plan: ``goalwright/goal/…``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.files.restore import RestoreRefusedError
from daemon.loop.planning import PersonPlan
from daemon.loop.session import BusyError, Session
from daemon.plan.tree import PlanError
from lsp_bridge.protocol import methods as p
from lsp_bridge.protocol.handshake import RequestError
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from daemon.core import Daemon
    from daemon.model.base import Model
    from daemon.model.permissions import FileDiff

_AboutGoal = p.GoalRenameParams | p.GoalMoveParams | p.GoalParams | p.GoalDoneParams


class GoalRequests:
    """The goal requests of one connection. ``client_name`` is who is told to have done it."""

    def __init__(self, core: Daemon, client_name: Callable[[], str]) -> None:
        self._core = core
        self._client_name = client_name
        self.handlers: Mapping[str, Callable[[Any], Awaitable[Model]]] = {
            "goalwright/goal/add": self.add,
            "goalwright/goal/rename": self.rename,
            "goalwright/goal/move": self.move,
            "goalwright/goal/focus": self.focus,
            "goalwright/goal/done": self.done,
            "goalwright/goal/abandon": self.abandon,
        }

    async def add(self, params: p.GoalAddParams) -> p.GoalResult:
        """A new goal."""
        session = await self._core.session(params.session_id)
        try:
            added = self._plan(session).add(
                params.description, params.reason, parent_id=params.parent_id, before_id=params.before_id
            )
        except PlanError as error:
            raise _wrong(error) from error
        return _result(session, added)

    async def rename(self, params: p.GoalRenameParams) -> p.GoalResult:
        """Another description."""
        return await self._changed(params, lambda plan: plan.rename(params.goal_id, params.description))

    async def move(self, params: p.GoalMoveParams) -> p.GoalResult:
        """Another place."""
        return await self._changed(
            params, lambda plan: plan.move(params.goal_id, params.parent_id, params.before_id)
        )

    async def focus(self, params: p.GoalParams) -> p.GoalResult:
        """What the model is to work on."""
        return await self._changed(params, lambda plan: plan.focus(params.goal_id))

    async def done(self, params: p.GoalDoneParams) -> p.GoalResult:
        """Reached."""
        return await self._changed(params, lambda plan: plan.done(params.goal_id, params.summary))

    async def abandon(self, params: p.GoalAbandonParams) -> p.GoalResult:
        """Given up, maybe with what was changed for it."""
        session = await self._core.session(params.session_id)
        try:
            files = await self._plan(session).abandon(
                params.goal_id, params.reason, revert_files=params.revert_files, dry_run=params.dry_run
            )
        except PlanError as error:
            raise _wrong(error) from error
        except BusyError as error:
            raise RequestError(
                p.BUSY, t("{error} Without revertFiles a goal can be abandoned at any time.", error=error)
            ) from error
        except RestoreRefusedError as error:
            raise RequestError(
                p.HISTORY_CONFLICT,
                t(
                    "{error}\n\nThe goal is still open: give it up without revertFiles to keep the files as "
                    "they are.",
                    error=error,
                ),
            ) from error
        return _result(session, params.goal_id, files)

    def _plan(self, session: Session) -> PersonPlan:
        return PersonPlan(session, self._client_name())

    async def _changed(self, params: _AboutGoal, change: Callable[[PersonPlan], None]) -> p.GoalResult:
        session = await self._core.session(params.session_id)
        try:
            change(self._plan(session))
        except PlanError as error:
            raise _wrong(error) from error
        return _result(session, params.goal_id)


def _wrong(error: PlanError) -> RequestError:
    return RequestError(p.INVALID_PARAMS, str(error))


def _result(session: Session, goal_id: str, files: tuple[FileDiff, ...] = ()) -> p.GoalResult:
    plan = session.state.plan
    number = plan.number_of(goal_id) if goal_id in plan.goals else None
    return p.GoalResult(goal_id=goal_id, number=number, current_id=plan.current_id, files=files)
