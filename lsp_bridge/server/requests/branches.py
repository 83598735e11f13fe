"""Requests about branches, sub-agents and agents: ``goalwright/explore/…``, ``agent/…``."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

from daemon.agents.loader import COMPACTION, AgentProfile
from daemon.explore.branch_actions import (
    branch_content,
    branch_files,
    branch_patch,
    remove_branch,
    select_for_user,
)
from daemon.explore.branch_choice import choose_none, delegable_choices, leave_to_model, pending_choices
from daemon.explore.results import find_branch
from lsp_bridge.protocol import branches as p
from lsp_bridge.protocol.handshake import ErrorCode, RequestError
from lsp_bridge.protocol.sessions import AnySessionParams, Empty
from lsp_bridge.server.requests.declaration import RequestArea, refusals, request
from tools.errors import PermissionDeniedError, ToolError
from tools.localization import t
from tools.text.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.loop.session import Session
    from daemon.model.branches import BranchMeta
    from daemon.model.goals import Goal


class BranchRequests(RequestArea):
    """The requests of one connection about branches, sub-agents and agents."""

    # -- explorations --

    @request("goalwright/explore/list", changes=False)
    async def list(self, params: p.ExploreListParams) -> p.ExploreListResult:
        """List the session's explorations, or one of them, and its own sub-agents."""
        session = await self._core.session(params.session_id)
        found = explorations(session)
        wanted = params.explore_start_id
        if wanted is not None and not any(one.explore_start_id == wanted for one in found):
            raise RequestError(
                t("The goal {wanted} did not start an exploration in this session.", wanted=wanted),
                ErrorCode.UNKNOWN_BRANCH,
            )
        return p.ExploreListResult(
            explorations=tuple(one for one in found if wanted in (None, one.explore_start_id)),
            subagents=tuple(session.state.children.subagents.values()),
        )

    @request("goalwright/explore/files", changes=False, failed=ErrorCode.UNKNOWN_BRANCH)
    async def files(self, params: p.BranchParams) -> p.BranchFilesResult:
        """List what a branch changed."""
        session, branch = await self._branch(params.session_id, params.branch_id)
        files, ignored = await branch_files(session, branch.id)
        return p.BranchFilesResult(files=files, ignored=ignored)

    @request("goalwright/explore/content", changes=False, failed=ErrorCode.UNKNOWN_BRANCH)
    async def content(self, params: p.BranchContentParams) -> p.BranchContentResult:
        """Return both sides of a file that a branch changed."""
        session, branch = await self._branch(params.session_id, params.branch_id)
        sides = await branch_content(session, branch.id, params.path)
        return await asyncio.to_thread(_texts, *sides)

    @request("goalwright/explore/select", changes=True, failed=ErrorCode.HISTORY_CONFLICT)
    async def select(self, params: p.ExploreSelectParams) -> p.ExploreSelectResult:
        """Merge a branch or parts of several; answers when its write was decided."""
        if not any(item.partition(":")[0].strip() for item in params.choice):
            raise RequestError(t('Nothing is chosen. Name a branch ("A") or a file ("A:a.py").'))
        for item in params.choice:
            await self._branch(params.session_id, item.partition(":")[0])
        self._context.check_rules()
        session = await self._context.at_hand(params.session_id)
        try:
            told = await select_for_user(session, params.choice, self._context.client_name)
        except PermissionDeniedError as error:
            return p.ExploreSelectResult(
                applied=False, title=t("Not merged: the change was rejected."), detail=str(error)
            )
        return p.ExploreSelectResult(applied=True, title=told.title, detail=told.content)

    @request("goalwright/explore/leave", changes=True)
    async def leave(self, params: p.ExploreLeaveParams) -> p.ExploreLeaveResult:
        """Leave the choice to the model, or want none of the branches."""
        session = await self._core.session(params.session_id)
        # Choosing none needs a waiting call; the choice can be left to the model at any time.
        theirs = pending_choices(session) if params.none else delegable_choices(session)
        start = params.explore_start_id or next(iter(theirs), "")
        if start not in theirs:
            return p.ExploreLeaveResult(left=False)
        (choose_none if params.none else leave_to_model)(session, start, self._context.client_name)
        return p.ExploreLeaveResult(left=True)

    @request("goalwright/explore/remove", changes=True, failed=ErrorCode.UNKNOWN_BRANCH)
    async def remove(self, params: p.BranchParams) -> Empty:
        """Delete what a branch changed."""
        session, branch = await self._branch(params.session_id, params.branch_id)
        await remove_branch(session, branch.id, self._context.client_name)
        return Empty()

    @request("goalwright/explore/patch", changes=False, failed=ErrorCode.UNKNOWN_BRANCH)
    async def patch(self, params: p.BranchParams) -> p.BranchPatchResult:
        """Return all that a branch changed, for ``git apply``."""
        session, branch = await self._branch(params.session_id, params.branch_id)
        patch = await branch_patch(session, branch.id)
        try:
            return p.BranchPatchResult(patch=patch.decode("utf-8"))
        except UnicodeDecodeError:
            return p.BranchPatchResult(patch=base64.b64encode(patch).decode("ascii"), base64=True)

    # -- agents and plans --

    @request("goalwright/agent/list", changes=False)
    async def agents(self, params: AnySessionParams) -> p.AgentListResult:
        """List the agents there are, and files that should be some and are not."""
        found = await asyncio.to_thread(self._core.found_agents, self._context.client_trust())
        models = self._context.client_config().settings.model.models
        return p.AgentListResult(
            agents=tuple(_agent(agent, models) for agent in found.agents if agent.name != COMPACTION),
            problems=tuple(filter(None, (*found.problems, found.unread))),
        )

    # -- helpers --

    async def _branch(self, session_id: str, branch_id: str) -> tuple[Session, BranchMeta]:
        """Return a session and its branch. Raises UnknownTraceError, StoreError, and RequestError without such a
        branch."""
        session = await self._core.session(session_id)
        with refusals(ErrorCode.UNKNOWN_BRANCH):
            return session, find_branch(session, branch_id)


def _texts(base: bytes | None, branch: bytes | None) -> p.BranchContentResult:
    try:
        sides = [None if side is None else decode(side).text for side in (base, branch)]
    except ToolError:
        return p.BranchContentResult(base=None, branch=None, binary=True)
    return p.BranchContentResult(base=sides[0], branch=sides[1])


def _agent(agent: AgentProfile, models: Mapping[str, str]) -> p.AgentInfo:
    return p.AgentInfo(
        name=agent.name,
        description=t(agent.description),
        source=agent.source,
        file=agent.file,
        model=agent.model_by(models) or None,
        # A list of names starts with no tools anyway, so the leading "!*" is redundant.
        tools=(agent.tools[1:] if agent.tools[0] == "!*" else agent.tools) if agent.tools else None,
        primary=agent.begins,
        serves=agent.serves,
    )


def _used(session: Session, start: str, merge: Goal | None) -> str | None:
    children = session.state.children
    if start in children.choices:
        return children.used(start)
    return merge.selected_branch if merge is not None else None


def explorations(session: Session) -> list[p.Exploration]:
    """Return all explorations of a session, oldest first."""
    merges: dict[str, Goal] = {}
    for goal in session.state.plan.goals.values():
        if goal.type == "explore_merge" and goal.explore_start_id is not None:
            merges[goal.explore_start_id] = goal
    waiting = pending_choices(session)
    by_start: dict[str, list[BranchMeta]] = {}
    for branch in session.state.children.branches.values():
        by_start.setdefault(branch.explore_start_id, []).append(branch)
    return [
        p.Exploration(
            explore_start_id=start,
            explore_merge_id=merge.id if (merge := merges.get(start)) is not None else None,
            merge_summary=(merge.merge_summary or "") if merge is not None else "",
            selected_branch=_used(session, start, merge),
            awaits_choice=start in waiting,
            branches=tuple(branches),
        )
        for start, branches in by_start.items()
    ]
