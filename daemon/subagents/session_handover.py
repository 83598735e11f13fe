"""Pass the work on to another agent: the tool ``hand_over`` of a session.

``plan`` → ``build``: the same session goes on as another agent, when the user approves. ``init`` → ``execute`` →
``init``: see ``daemon.subagents.iteration``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.loop.interrupted_turn import waits_for_answer
from daemon.loop.mentions import become
from daemon.loop.session import BusyError, ReadOnlySessionError
from daemon.loop.undo import PERSON
from daemon.permission.rules import RuleSet
from daemon.permission.service import AskerByRules, CallPermission
from daemon.plan.text import progress_text
from daemon.plan.tree import PlanError
from daemon.subagents import iteration
from tools.localization import noted, t
from tools.ports import ToolResult
from tools.text.truncate import cut_text
from tools.tool import PermissionAsk, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.agents.loader import AgentProfile
    from daemon.loop.session import Session
    from daemon.model.goals import Goal
    from daemon.model.permissions import Rule

BUILD = "build"
PERMISSION = "hand_over"
BUILD_PROMPT = "Build this plan."
"""Prompt for the model after ``hand_over_plan``."""
_NO_GOALS = noted("The plan has no open goals: there is nothing to build.")
_LONGEST_DETAIL = 20_000
_LIFTS_MODE = noted("If you accept, plan mode ends: files may then be changed, within your rules.")
"""Characters."""


class SessionHandOver(Struct, frozen=True):
    """The handover that one call of a session makes."""

    session: Session
    permission: CallPermission

    async def hand_over(self, report: str, success_rate: float | None) -> ToolResult:
        """Hand the plan over. Raises PermissionDeniedError when the user rejects the plan."""
        name = self.session.agent.name
        if name == "plan":
            return await self._plan(report)
        if name == "init":
            return await iteration.iterate(self.session, self.permission, report)
        if name == "execute":
            return await iteration.report_back(self.session, self.permission, report, success_rate)
        raise ToolError("There is no agent to hand over to: answer the user.")

    async def _plan(self, report: str) -> ToolResult:
        session = self.session
        if session.parent is not None:
            raise ToolError(
                "You plan for another agent here: answer with the plan as text; that agent decides what is "
                "built."
            )
        tree = session.state.plan
        if tree.next_step(None) is None:
            raise ToolError(
                f"{_NO_GOALS} Write the plan with the {session.config.settings.plan.plan_front} tool first, "
                "then hand it over."
            )
        planning = session.mode == "plan"
        shown = (tree.revision, tree.mission)
        asker = AskerByRules(
            session.session_id, partial(_approval_rules, session), session.asked, session.replied
        )
        permission = replace(self.permission, asker=asker, place=None)
        approval = await permission.ask(
            PermissionAsk(
                permission=PERMISSION,
                targets=(BUILD,),
                title=t("Build this plan?"),
                detail=cut_text(f"{progress_text(tree)}\n\n{report}", _LONGEST_DETAIL),
                notes=(t(_LIFTS_MODE),) if planning else (),
            )
        )
        profile = await _profile(session, BUILD)
        # Use the current plan, because the user may have changed it before the answer.
        goal = tree.next_step(None)
        if goal is None:
            raise ToolError(f"{_NO_GOALS} The user removed its goals in the meantime: ask what is wanted.")
        changed = approval.asked and (tree.revision, tree.mission) != shown
        lifts = planning and approval.asked
        await _go_on_as(profile, session, goal, lifts_mode=lifts)
        told = ["The user approved the plan." if approval.asked else "A rule approved the plan."]
        if changed:
            told.append("The user changed it in the meantime: follow the current plan.")
        told.append(
            "You are now the build agent: continue at once, and carry it out goal by goal. Focus: "
            f"{tree.title(goal.id)}."
        )
        return ToolResult(
            " ".join(told), t("the build agent carries out the plan"), {"agent": BUILD, "goal_id": goal.id}
        )


async def hand_over_plan(session: Session, by: str) -> str:
    """Start building the plan of an idle session, as the user at the client ``by`` wants.

    The agent ``plan`` becomes ``build``, and mode plan is lifted. Returns the first prompt of the building
    (``BUILD_PROMPT``); the caller sends it. Raises BusyError while a turn runs or waits, PlanError when there is
    nothing to build or the session is not a planning one, and ReadOnlySessionError, StoreError.
    """
    if session.sealed or session.parent is not None:
        raise ReadOnlySessionError(session.sealed or "It works for another session. Hand over there.")
    _check_idle(session)
    planning = session.agent.name == "plan"
    if not planning and session.mode != "plan":
        raise PlanError(
            t(
                "This session uses the {name} agent, not plan. Just say what it should do.",
                name=session.agent.name,
            )
        )
    profile = await _profile(session, BUILD if planning else session.agent.name)
    _check_idle(session)  # a prompt may have come meanwhile
    goal = session.state.plan.next_step(None)
    # Without goals the plan is what the agent wrote.
    written = not session.state.plan.goals and any(m.role == "assistant" for m in session.state.messages)
    if goal is None and not written:
        raise PlanError(t("{no_goals} Add goals, or ask for a plan.", no_goals=t(_NO_GOALS)))
    lifts_mode = session.mode == "plan"
    await _go_on_as(profile, session, goal, lifts_mode=lifts_mode, by=by or PERSON)
    return BUILD_PROMPT


def _check_idle(session: Session) -> None:
    if session.running or waits_for_answer(session.state):
        raise BusyError(
            t("The session is running. Answer its question, cancel the turn or wait until it ends.")
        )


async def _profile(session: Session, name: str) -> AgentProfile:
    return await asyncio.to_thread(session.services.agents.find, name, session.trust)


async def _go_on_as(
    profile: AgentProfile, session: Session, goal: Goal | None, *, lifts_mode: bool, by: str = ""
) -> None:
    """From the next step on the session has the prompt, tools and rules of an agent."""
    updates: dict[str, object] = {}
    if lifts_mode:
        # The session's own mode is removed; where the settings say plan, too, the user's approval overrides them.
        updates["mode"] = "ask" if session.config.settings.approval.mode == "plan" else None
    become(session, profile, updates)
    if goal is not None and session.state.plan.current_id != goal.id:
        session.record.goals(session.state.plan.plan_focus(goal), by)
    await session.request_builder.prepare()
    session.request_builder.publish()


def _approval_rules(session: Session) -> RuleSet:
    """Rules that name ``hand_over``: modes and ``"*": "allow"`` do not approve plans. In mode plan only the user's yes
    counts."""
    config = session.config
    if session.mode == "plan":
        return RuleSet(base=())
    granted, granted_here = session.services.permissions.keeper.rules()
    return RuleSet(
        base=_naming(config.base_rules),
        workspace=_naming(config.workspace_rules),
        session=_naming(session.record.main.state.granted),
        trusted=config.trusted,
        granted=_naming(granted),
        granted_here=_naming(granted_here),
    )


def _naming(rules: Iterable[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule.permission == PERMISSION and rule.source != "shipped"]
