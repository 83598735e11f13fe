"""Notes for the model about the user's actions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from daemon.model.events import (
    AffectedGoal,
    FilesRestored,
    GoalAdded,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    RestoredFile,
)
from daemon.model.goals import Goal
from daemon.plan.tree import Added, PlanTree, Updated
from daemon.state.notes import MAX_NOTES, OLDER, PLAN_COUNTS, READ_AGAIN, notes_text, plan_note, with_note

BY: Mapping[str, Any] = {"trace_id": "t", "time": datetime(2026, 1, 2, tzinfo=UTC), "by": "VS Code"}


def tree() -> PlanTree:
    """1 Cart (in progress) > 2 Rounding (in focus), 3 Coupons; 4 Docs."""
    plan = PlanTree()
    for goal in (
        Goal(id="1", description="Cart", status="in_progress"),
        Goal(id="2", parent_id="1", description="Rounding", status="in_progress"),
        Goal(id="3", parent_id="1", description="Coupons"),
        Goal(id="4", description="Docs"),
    ):
        plan.apply(Added(goal, None))
    plan.apply(Updated("2", {"status": "in_progress"}, current_id="2"))
    return plan


def updated(
    goal_id: str, current_id: str | None = "2", *affected: AffectedGoal, **updates: str
) -> GoalUpdated:
    return GoalUpdated(goal_id=goal_id, updates=updates, current_id=current_id, affected_goals=affected, **BY)


def restored(path: str = "a.py") -> FilesRestored:
    files = (RestoredFile(path=path, kind="update", added=1, removed=2),)
    return FilesRestored(action="undo", files=files, target=f"edit of {path}", **BY)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            GoalAdded(goal=Goal(id="5", parent_id="1", description="Taxes"), parent_id="1", **BY),
            'added the goal "Taxes" under "Cart".',
        ),
        (
            GoalAdded(goal=Goal(id="5", description="Taxes", reason="the law"), **BY),
            'added the goal "Taxes" at the top level. Why: the law.',
        ),
        (updated("3", description="Vouchers"), 'renamed the goal "Coupons" to "Vouchers".'),
        (updated("3", "3", status="in_progress"), 'put the focus on "Coupons": work on it now.'),
        (
            updated("2", "1", status="completed", summary="rounds half up"),
            'marked the goal "Rounding" as done: rounds half up. The focus is on "Cart" now.',
        ),
        (
            updated(
                "3",
                "2",
                AffectedGoal(goal_id="1", status="completed", summary="x"),
                status="completed",
                summary="ok!",
            ),
            'marked the goal "Coupons" as done: ok! With it, "Cart" is completed.',
        ),
        (
            updated(
                "1",
                None,
                AffectedGoal(goal_id="2", status="abandoned"),
                status="abandoned",
                summary="no\ntime",
            ),
            'abandoned the goal "Cart" and its open sub-goals: no time. No goal has the focus now.',
        ),
        (GoalMoved(goal_id="3", parent_id="4", **BY), 'moved the goal "Coupons" under "Docs".'),
        (
            GoalMoved(goal_id="3", before_id="1", **BY),
            'moved the goal "Coupons" to the top level, before "Cart".',
        ),
        (
            GoalMoved(goal_id="3", parent_id="1", before_id="2", **BY),
            'moved the goal "Coupons" before "Rounding".',
        ),
        (GoalMoved(goal_id="2", parent_id="1", **BY), 'moved the goal "Rounding" behind its siblings.'),
        (
            GoalRemoved(goal_id="3", current_id="2", reason="not wanted", **BY),
            'removed the goal "Coupons", which was not started: not wanted.',
        ),
        (
            GoalRemoved(goal_id="4", current_id="2", **BY),
            'removed the goal "Docs", which was not started.',
        ),
    ],
)
def test_plan_change_by_the_user_becomes_one_sentence(
    event: GoalAdded | GoalUpdated | GoalMoved | GoalRemoved, words: str
) -> None:
    assert plan_note(event, tree()) == f"the user {words}"


@pytest.mark.parametrize(
    "event",
    [
        updated("2", "2", status="in_progress"),
        updated("2", "2"),
    ],
)
def test_ineffective_change_gives_no_note(event: GoalUpdated) -> None:
    assert with_note((), event, tree()) == ()


def test_change_by_the_model_gives_no_note() -> None:
    for event in (updated("3", description="Vouchers"), restored()):
        assert with_note((), event.model_copy(update={"by": ""}), tree()) == ()


def test_only_the_last_focus_move_is_noted() -> None:
    plan, notes = tree(), ()
    for goal_id in ("3", "4", "1"):
        event = updated(goal_id, goal_id, status="in_progress")
        notes = with_note(notes, event, plan)
        plan.apply(Updated(goal_id, event.updates, current_id=goal_id))
    assert notes == ('the user put the focus on "Cart": work on it now.',)


def test_repeated_renames_become_one_note_or_none() -> None:
    plan, notes = tree(), ()
    told: list[tuple[str, ...]] = []
    for description in ("Vouchers", "Gift cards", "Coupons"):
        event = updated("3", description=description)
        notes = with_note(notes, event, plan)
        told.append(notes)
        plan.apply(Updated("3", event.updates, current_id="2"))
    assert told == [
        ('the user renamed the goal "Coupons" to "Vouchers".',),
        ('the user renamed the goal "Coupons" to "Gift cards".',),
        (),
    ]


def test_renames_of_two_goals_give_two_notes() -> None:
    notes = with_note((), updated("3", description="Vouchers"), tree())
    assert len(with_note(notes, updated("4", description="Manual"), tree())) == 2


def test_only_the_last_move_of_a_goal_is_noted() -> None:
    notes = with_note((), GoalMoved(goal_id="3", parent_id="4", **BY), tree())
    notes = with_note(notes, GoalMoved(goal_id="3", before_id="1", **BY), tree())
    assert notes == ('the user moved the goal "Coupons" to the top level, before "Cart".',)
    assert len(with_note(notes, GoalMoved(goal_id="2", **BY), tree())) == 2


def test_read_again_hint_follows_the_last_file_note_only() -> None:
    files = with_note(with_note((), restored(), tree()), restored("b.py"), tree())
    plan = with_note((), updated("3", description="Vouchers"), tree())
    assert notes_text(files).splitlines()[-1] == READ_AGAIN
    assert PLAN_COUNTS not in notes_text(files)
    assert READ_AGAIN not in notes_text(plan)
    assert notes_text((*files, *plan)).splitlines() == [
        "Note: since your last message the user undid your edit of a.py. Written on disk: a.py (+1 -2). "
        "What you had changed there is now as before.",
        "Then the user undid your edit of b.py. Written on disk: b.py (+1 -2). What you had changed there "
        "is now as before.",
        READ_AGAIN,
        'Then the user renamed the goal "Coupons" to "Vouchers".',
        PLAN_COUNTS,
    ]
    assert notes_text(()) == ""


def test_notes_are_limited_and_mark_missing_older_ones() -> None:
    notes: tuple[str, ...] = ()
    for number in range(MAX_NOTES + 5):
        notes = with_note(
            notes, GoalRemoved(goal_id="3", current_id="2", reason=f"{number} " + "x" * 9000, **BY), tree()
        )
    assert len(notes) == MAX_NOTES
    assert notes_text(notes).startswith(OLDER)
    assert len(notes_text(notes)) < MAX_NOTES * 1_000
    assert OLDER not in notes_text(notes[1:])
