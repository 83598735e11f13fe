"""The choice among the branches of an exploration: its record in the plan, and the user's part in it.

``selected_branch`` of a goal has it: of the ``explore_merge`` goal, and of the ``explore_start`` goal while other
branches are still at work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from daemon.model import notice_codes
from daemon.model.branches import Choice
from daemon.model.events import BranchSelected, ExploreCompleted
from daemon.plan.explore_goals import merge_of, plan_timed
from daemon.plan.goal_index import ENDED
from daemon.plan.tree import Change, PlanError, Updated
from tools.errors import ToolError
from tools.localization import t
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.loop.session import Session
    from daemon.model.goals import Goal

PERSON = "person"
_MAX_SUMMARY = 2_400


def who_chose(by: str) -> str:
    """Return the author of a choice for messages, with the client's name if there is one."""
    return t("The user") if by in ("", PERSON) else t("The user ({by})", by=by)


def exploration_ended(session: Session, explore_start_id: str, text: str, took_ms: int) -> None:
    """Record the end of an exploration, and the time of its branches. Raises StoreError."""
    session.record.goals(plan_timed(session.state.plan, explore_start_id, took_ms))
    merge = merge_of(session.state.plan, explore_start_id)
    session.emit(
        ExploreCompleted(
            **session.record.here(),
            explore_start_id=explore_start_id,
            explore_merge_id=merge.id if merge is not None else None,
            merge_summary=text,
            duration_ms=took_ms,
        )
    )


def note_choice(session: Session, explore_start_id: str, choice: Choice) -> None:
    """Branches were chosen, or none: the log has it, and the goal of the choice is done. Raises StoreError."""
    session.emit(BranchSelected(**session.record.here(), explore_start_id=explore_start_id, choice=choice))
    if (goal := merge_of(session.state.plan, explore_start_id)) is None:
        follow_choices(session)
    else:
        session.record.goals(_chosen(session, goal, choice.summary))


def carry_over(session: Session, explore_start_id: str) -> None:
    """End the goal of the choice by a choice that was made before it existed. Idempotent. Raises StoreError."""
    chosen = session.state.children.chosen(explore_start_id)
    goal = merge_of(session.state.plan, explore_start_id)
    if chosen and goal is not None and goal.status not in ENDED:
        session.record.goals(_chosen(session, goal, early_words(chosen)))


def follow_choices(session: Session) -> None:
    """Update the choices after an undo or redo, which may include merges. Raises StoreError."""
    children, plan = session.state.children, session.state.plan
    for start_id, choices in children.choices.items():
        goal = merge_of(plan, start_id) or plan.goals.get(start_id)
        used = children.used(start_id)
        if goal is None or goal.selected_branch == used:
            continue
        updates: dict[str, object] = {"selected_branch": used}
        if goal.type == "explore_merge" and goal.status == "completed":
            gone = [name for choice in choices if choice.undone for name in choice.branch_ids]
            back = (
                t("The merge of branch {gone} was undone.", gone=", ".join(dict.fromkeys(gone)))
                if gone
                else ""
            )
            said = " ".join(choice.summary for choice in choices if not choice.undone)
            updates["summary"] = one_line(" ".join(filter(None, (said, back))), _MAX_SUMMARY)
        session.record.goal(Updated(goal.id, updates, plan.current_id))


def early_words(chosen: Sequence[Choice]) -> str:
    """Return a text about choices that were made while other branches were still at work."""
    return " ".join(
        t(
            "{by} chose branch {branch_ids} while other branches were still working. {summary}",
            by=who_chose(choice.by),
            branch_ids=", ".join(choice.branch_ids),
            summary=choice.summary,
        )
        if choice.branch_ids
        else choice.summary
        for choice in chosen
    )


def decided_early(session: Session, explore_start_id: str) -> str:
    """Return a text for the model about a choice that was made before the exploration had ended; empty for none."""
    words = early_words(session.state.children.chosen(explore_start_id))
    return f"{words} Continue from there." if words else ""


def _chosen(session: Session, goal: Goal, summary: str) -> list[Change]:
    plan = session.state.plan
    selected = session.state.children.used(goal.explore_start_id or "")
    try:
        changes = plan.plan_done(one_line(summary, _MAX_SUMMARY), goal)
    except PlanError:
        # The goal has ended before, or has open sub-goals; the selection is recorded anyway.
        updates: dict[str, object] = {"selected_branch": selected}
        if goal.status == "completed":
            updates["summary"] = one_line(
                t("{summary} Then: {summary2}", summary=goal.summary or "", summary2=summary).strip(),
                _MAX_SUMMARY,
            )
        return [Updated(goal.id, updates, plan.current_id)]
    return [
        replace(change, updates={**change.updates, "selected_branch": selected})
        if isinstance(change, Updated) and change.goal_id == goal.id
        else change
        for change in changes
    ]


# -- a choice that is the user's (setting ``explore_choice: person``) --
#
# While a tool call waits for it the session's status is ``waiting``, and two notices frame it: ``CHOICE_AWAITED`` and
# ``CHOICE_MADE``, both about the goal that started the exploration. After a restart the call has ended like every
# interrupted one; the log records that the choice is the user's, so it stays theirs until they leave it to the model.


_choices: WeakKeyDictionary[Session, dict[str, asyncio.Future[str]]] = WeakKeyDictionary()
"""The answers that are waited for, by the goals that started the explorations."""


def pending_choices(session: Session) -> tuple[str, ...]:
    """Return the ids of the explore_start goals whose branches the user has to choose from now."""
    return tuple(_choices.get(session, ()))


async def awaited_choice(session: Session, explore_start_id: str) -> str:
    """Wait until the user has chosen, or left it to the model; returns the message for the model.

    Empty when the model chooses by the settings. If nobody answers in time, nothing is chosen.
    """
    settings = session.config.settings
    if settings.agents.explore_choice != "person" or session.foreign:
        return ""
    if session.state.children.chosen(explore_start_id):
        return ""  # chosen while the branches were running; their report has it
    branches = [branch.id for branch in session.state.children.of(explore_start_id) if not branch.removed]
    if not branches:
        return ""
    choices = _choices.setdefault(session, {})
    answer = choices[explore_start_id] = asyncio.get_running_loop().create_future()
    outcome = t("No branch was chosen: the turn ended.")
    try:
        session.notice(
            "info",
            t(
                "The exploration has ended. Choose one of the branches {branches}, or let the model choose.",
                branches=", ".join(branches),
            ),
            notice_codes.CHOICE_AWAITED,
            about=explore_start_id,
        )
        async with asyncio.timeout(settings.approval.permission_timeout_s):
            told = await answer
        outcome = told.split("\n", 1)[0]
        return told
    except TimeoutError:
        outcome = t(
            "Nobody chose a branch within {permission_timeout_s:g} s.",
            permission_timeout_s=settings.approval.permission_timeout_s,
        )
        return (
            f"{outcome} The user decides, so nothing was merged: do not select a branch yourself. Continue "
            "without it; say at the end that the branches await a choice."
        )
    finally:
        if choices.get(explore_start_id) is answer:
            del choices[explore_start_id]
        session.notice("info", outcome, notice_codes.CHOICE_MADE, about=explore_start_id)


def settle(session: Session, explore_start_id: str, told: str) -> bool:
    """Record the user's decision; ``told`` is for the model. False when nothing waits for it (any more)."""
    answer = _choices.get(session, {}).get(explore_start_id)
    if answer is None or answer.done():
        return False
    answer.set_result(told)
    return True


def leave_to_model(session: Session, explore_start_id: str, by: str = "") -> None:
    """Let the model choose, also when no call waits for it any more. Raises ToolError when the choice already is the
    model's."""
    who = by or t("The user")
    theirs = explore_start_id in session.state.children.persons_choice
    told = f"{who} lets you choose: use explore(select=[…]), or continue without a branch."
    if not theirs:
        _settled(session, explore_start_id, told)
    else:
        settle(session, explore_start_id, told)
    session.notice(
        "info", t("{who} lets the model choose.", who=who), notice_codes.CHOICE_LEFT, about=explore_start_id
    )


def delegable_choices(session: Session) -> tuple[str, ...]:
    """Return explorations whose choice the user may leave to the model: waiting ones first, then the newest."""
    theirs = reversed(session.state.children.persons_choice)
    return tuple(dict.fromkeys((*pending_choices(session), *theirs)))


def refuse_model(session: Session, explore_start_ids: Iterable[str]) -> None:
    """Raises ToolError when the model may not choose among the branches of one of these explorations."""
    children = session.state.children
    theirs = [start_id for start_id in explore_start_ids if start_id in children.persons_choice]
    if session.config.settings.agents.explore_choice != "person" or not theirs:
        return
    if all(start_id in children.choices for start_id in theirs):
        made = [choice.summary for start_id in theirs for choice in children.chosen(start_id)]
        raise ToolError(
            "The user chooses among the branches of this exploration (setting explore_choice), and has "
            f"done so: {' '.join(made) or 'their choice was undone.'} Nothing was merged "
            "now. Continue from there; if another branch is needed, ask them: they can use `goalwright "
            "explore pick` or let you choose."
        )
    raise ToolError(
        "The user chooses among the branches of this exploration (setting explore_choice), so nothing was "
        "merged. They do it in the editor or with `goalwright explore pick`, where they can also let you "
        "choose. Continue without it; say at the end that the branches await a choice."
    )


def choose_none(session: Session, explore_start_id: str, by: str = "") -> None:
    """Record that the user wants none of the branches, which ends the goal of the choice. Raises ToolError when nothing
    waits for the user."""
    who = who_chose(by)
    told = (
        f"{who} rejected all branches: nothing was merged. Do not select one; continue in another way, or "
        "ask what is wanted."
    )
    _settled(session, explore_start_id, told)
    summary = t("{who} rejected all branches.", who=who)
    choice = Choice(branch_ids=(), tool_call_id="", summary=summary, used=False, by=by or PERSON)
    note_choice(session, explore_start_id, choice)


def _settled(session: Session, explore_start_id: str, told: str) -> None:
    if not settle(session, explore_start_id, told):
        known = pending_choices(session)
        there = (
            t(" Open choices: {known}.", known=", ".join(known))
            if known
            else t(" No choice is open in this session.")
        )
        raise ToolError(
            t(
                "There is no open choice for the exploration {explore_start_id}.{there}",
                explore_start_id=explore_start_id[:80],
                there=there,
            )
        )
