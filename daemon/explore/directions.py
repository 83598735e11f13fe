"""The start of an exploration: its directions, and the task of each branch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.explore.branch_task import BranchTask
from daemon.explore.inherited_context import InheritedContext, conversation
from daemon.model.branches import branch_name
from daemon.model.permissions import Rule
from daemon.model.tags import plain
from daemon.plan.text import plan_to_prompt
from tools.text.truncate import head
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.agents.loader import AgentProfile
    from daemon.copies.working_copy import Base
    from daemon.loop.session import Session

MAX_BRANCHES = 8
MAX_DIRECTION = 4_000
MAX_BACKGROUND = 100_000
"""Characters."""
_NOT_IN_BRANCHES = ("explore", "hand_over")
"""Permissions: a branch neither explores itself nor passes its work on."""


def checked_directions(branches: Sequence[str]) -> list[str]:
    """Return the directions, trimmed. Raises ToolError with the reason."""
    directions = [text.strip() for text in branches]
    if not directions or not any(directions):
        raise ToolError("branches is empty: give one text for each approach to explore.")
    if not all(directions):
        raise ToolError("One of the branches is empty: say what each should try.")
    if len(directions) > MAX_BRANCHES:
        raise ToolError(
            f"{len(directions)} branches are too many; the limit is {MAX_BRANCHES}. Choose the most "
            "promising."
        )
    for text in directions:
        if len(text) > MAX_DIRECTION:
            raise ToolError(
                f"A direction of {len(text)} characters is too long; the limit is {MAX_DIRECTION}. Put "
                "what all branches must know into background."
            )
    known = [" ".join(text.split()).casefold() for text in directions]
    twice = next((text for text, key in zip(directions, known, strict=True) if known.count(key) > 1), None)
    if twice is not None:
        raise ToolError(
            f"Two branches have the same direction ({head(twice, 100)!r}): make them differ, or drop one."
        )
    return directions


def checked_background(background: str | None) -> str | None:
    """Return the background, trimmed; None when there is none. Raises ToolError when it is too long."""
    if background is not None and len(background) > MAX_BACKGROUND:
        raise ToolError(
            f"The background has {len(background)} characters; the limit is {MAX_BACKGROUND}: summarize it."
        )
    return (background or "").strip() or None


def branch_tasks(
    session: Session, directions: Sequence[str], background: str | None, base: Base
) -> list[BranchTask]:
    """Return the task of each branch of an exploration; its explore goal is filled in once that exists."""
    state, services = session.state, session.services
    taken = len(state.children.branches)
    while branch_name(taken) in state.children.branches:
        taken += 1
    names = [branch_name(taken + at) for at in range(len(directions))]
    named = list(zip(names, directions, strict=True))
    inherits = background is None
    said: tuple[InheritedContext, ...] = ()
    if inherits:
        without = {call_id for _, call_id, _ in state.open_tool_calls()}
        said = conversation(session.request_builder.window().entries, without)
    return [
        BranchTask(
            trace_id=session.session_id,
            branch_id=name,
            explore_start_id="",
            base=base,
            direction=direction,
            others=tuple(other for other in named if other[0] != name),
            background=None if background is None else plain(background),
            workspace=str(services.workspace),
            conversation=said,
            seen=dict(state.given.files) if inherits else {},
            instructions=dict(state.given.instructions) if inherits else {},
            untrusted_instructions=dict(state.given.untrusted_instructions) if inherits else {},
            mission=state.plan.mission,
            plan=plan_to_prompt(state.plan) if inherits and state.plan.goals else "",
            agent=_within_branch(session.agent),
            model=session.model,
            settings=session.config.settings,
            home=str(Path.home()),
        )
        for name, direction in named
    ]


def _within_branch(agent: AgentProfile) -> AgentProfile:
    words = "a branch works on its own direction, to its end."
    denied = tuple(
        Rule(permission=name, pattern="*", action="deny", source="agent", words=words)
        for name in _NOT_IN_BRANCHES
    )
    return dataclasses.replace(agent, rules=(*agent.rules, *denied))
