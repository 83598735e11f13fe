"""Chosen branches in the plan: ``selected_branch`` of the goal that records the choice.

That is the ``explore_merge`` goal, and the ``explore_start`` goal while other branches are still at work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.model.events import BranchSelected, ExploreCompleted
from daemon.plan.explore_goals import merge_of, plan_timed
from daemon.plan.goal_index import ENDED
from daemon.plan.tree import Change, PlanError, Updated
from daemon.state.goal_events import goal_event
from tools.localization import t
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.loop.session import Session
    from daemon.model.branches import Choice
    from daemon.model.goals import Goal

PERSON = "person"
_MAX_SUMMARY = 2_400


def who_chose(by: str) -> str:
    """Return the author of a choice for messages, with the client's name if there is one."""
    return t("The user") if by in ("", PERSON) else t("The user ({by})", by=by)


def exploration_ended(session: Session, explore_start_id: str, text: str, took_ms: int) -> None:
    """Record the end of an exploration, and the time of its branches. Raises StoreError."""
    for change in plan_timed(session.state.plan, explore_start_id, took_ms):
        session.record.goal(change)
    merge = merge_of(session.state.plan, explore_start_id)
    session.emit(
        ExploreCompleted(
            trace_id=session.session_id,
            time=session.services.now(),
            explore_start_id=explore_start_id,
            explore_merge_id=merge.id if merge is not None else None,
            merge_summary=text,
            duration_ms=took_ms,
        )
    )


def note_choice(session: Session, explore_start_id: str, choice: Choice) -> None:
    """Branches were chosen, or none: the log has it, and the goal of the choice is done. Raises StoreError."""
    session.emit(
        BranchSelected(
            trace_id=session.session_id,
            time=session.services.now(),
            explore_start_id=explore_start_id,
            choice=choice,
        )
    )
    if (goal := merge_of(session.state.plan, explore_start_id)) is None:
        follow_choices(session)
    else:
        _emit(session, _chosen(session, goal, choice.summary))


def carry_over(session: Session, explore_start_id: str) -> None:
    """End the goal of the choice by a choice that was made before it existed. Idempotent. Raises StoreError."""
    chosen = session.state.children.chosen(explore_start_id)
    goal = merge_of(session.state.plan, explore_start_id)
    if chosen and goal is not None and goal.status not in ENDED:
        _emit(session, _chosen(session, goal, early_words(chosen)))


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
        _emit(session, [Updated(goal.id, updates, plan.current_id)])


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


def _emit(session: Session, changes: Sequence[Change]) -> None:
    for change in changes:
        session.emit(goal_event(change, session.session_id, session.services.now(), plan=session.state.plan))
