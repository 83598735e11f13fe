"""What a client can ask about branches, sub-agents and agents: ``goalwright/explore/…``, ``agent/…``, ``plan/…``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from daemon.core import Daemon
from daemon.loop.session import Session
from daemon.model.base import Model
from daemon.model.branches import BranchMeta
from daemon.model.goals import Goal
from lsp_bridge import protocol as p
from lsp_bridge.context_requests import Hands
from lsp_bridge.request_error import RequestError


class BranchRequests:
    """The requests of one connection about branches, sub-agents and agents."""

    def __init__(self, core: Daemon, hands: Hands, client_name: Callable[[], str]) -> None:
        self._core = core
        self._hands = hands
        self._client_name = client_name
        self.handlers: Mapping[str, Callable[[Any], Awaitable[Model]]] = {
            "goalwright/explore/list": self.list,
            "goalwright/explore/files": self.files,
            "goalwright/explore/content": self.content,
            "goalwright/explore/select": self.select,
            "goalwright/explore/leave": self.leave,
            "goalwright/explore/remove": self.remove,
            "goalwright/explore/patch": self.patch,
            "goalwright/agent/list": self.agents,
            "goalwright/plan/replan": self.replan,
            "goalwright/plan/build": self.build,
        }

    # -- explorations --

    async def list(self, params: p.ExploreListParams) -> p.ExploreListResult:
        """The session's explorations, or one of them, and its own sub-agents."""
        session = await self._core.session(params.session_id)
        found = explorations(session)
        wanted = params.explore_start_id
        if wanted is not None and not any(one.explore_start_id == wanted for one in found):
            raise RequestError(p.UNKNOWN_BRANCH, f"The goal {wanted} began no exploration in this session.")
        return p.ExploreListResult(
            explorations=tuple(one for one in found if wanted in (None, one.explore_start_id)),
            subagents=tuple(session.state.children.subagents.values()),
        )

    async def files(self, params: p.BranchParams) -> p.BranchFilesResult:
        """What a branch changed."""
        await self._branch(params.session_id, params.branch_id)
        raise _later()

    async def content(self, params: p.BranchContentParams) -> p.BranchContentResult:
        """Both sides of a file."""
        await self._branch(params.session_id, params.branch_id)
        raise _later()

    async def select(self, params: p.ExploreSelectParams) -> p.ExploreSelectResult:
        """The person's choice; answers when what it would write was decided."""
        raise _later()

    async def leave(self, params: p.ExploreLeaveParams) -> p.ExploreLeaveResult:
        """The model is to choose."""
        raise _later()

    async def remove(self, params: p.BranchParams) -> p.Empty:
        """Forget what a branch had done."""
        await self._branch(params.session_id, params.branch_id)
        raise _later()

    async def patch(self, params: p.BranchParams) -> p.BranchPatchResult:
        """All that a branch changed, for ``git apply``."""
        await self._branch(params.session_id, params.branch_id)
        raise _later()

    # -- agents and plans --

    async def agents(self, params: p.AgentListParams) -> p.AgentListResult:
        """Shipped agents and the person's own."""
        raise _later()

    async def replan(self, params: p.PlanReplanParams) -> p.PlanReplanResult:
        """Plan again from here."""
        raise _later()

    async def build(self, params: p.PlanBuildParams) -> p.SessionResult:
        """Hand the plan over to the agent that builds."""
        raise _later()

    # -- helpers --

    async def _branch(self, session_id: str, branch_id: str) -> tuple[Session, BranchMeta]:
        """The main line and its branch. Raises UnknownTrace, StoreError, and RequestError without such a branch."""
        session = await self._core.session(session_id)
        branches = session.state.children.branches
        if (branch := branches.get(branch_id)) is None:
            known = ", ".join(branches)
            raise RequestError(
                p.UNKNOWN_BRANCH,
                f"There is no branch {branch_id}. "
                + (f"Branches: {known}." if known else "Nothing was explored in this session."),
            )
        return session, branch


def _later() -> RequestError:
    return RequestError(-32601, "This daemon cannot do that yet.")


def awaiting(session: Session) -> tuple[str, ...]:
    """Explorations in which the daemon waits for the person's choice."""
    return ()


def explorations(session: Session) -> list[p.Exploration]:
    """All explorations of a session, oldest first."""
    merges: dict[str, Goal] = {}
    for goal in session.state.plan.goals.values():
        if goal.type == "explore_merge" and goal.explore_start_id is not None:
            merges[goal.explore_start_id] = goal
    waiting = awaiting(session)
    by_start: dict[str, list[BranchMeta]] = {}
    for branch in session.state.children.branches.values():
        by_start.setdefault(branch.explore_start_id, []).append(branch)
    return [
        p.Exploration(
            explore_start_id=start,
            explore_merge_id=merge.id if (merge := merges.get(start)) is not None else None,
            merge_summary=(merge.merge_summary or "") if merge is not None else "",
            selected_branch=merge.selected_branch if merge is not None else None,
            awaits_choice=start in waiting,
            branches=tuple(branches),
        )
        for start, branches in by_start.items()
    ]
