"""Each kind of event is shown in a transcript or not, and copied into a fork or not: a new kind must be decided."""

from __future__ import annotations

from typing import get_args

from daemon.loop.forking import COPIED
from daemon.model import events
from daemon.store.paging import SHOWN

KINDS: frozenset[type[object]] = frozenset(get_args(get_args(events.Event)[0]))
NOT_SHOWN = {
    events.SessionCreated, events.SessionUpdated, events.SystemPromptChanged, events.MessageAdded,
    events.MessagePartAdded, events.MessageTextAdded, events.MessageDiscarded, events.ContextMarked,
    events.TurnStarted, events.TraceCompleted, events.QueueChanged, events.ToolStarted, events.PermissionAsked,
    events.FileChanged, events.ModelRetry, events.BranchStarted, events.BranchPlaced, events.BranchGoalAdded,
    events.BranchGoalUpdated, events.BranchMessageAdded, events.BranchCompleted, events.ExploreCompleted,
    events.BranchSelected, events.BranchRemoved, events.SubagentStarted, events.SubagentCompleted,
}  # fmt: skip
"""Messages come by themselves; the others change what is shown, without a line of their own."""
NOT_COPIED = {
    events.SessionCreated, events.MessagePartAdded, events.MessageTextAdded, events.MessageDiscarded,
    events.TraceCompleted, events.QueueChanged, events.ToolStarted, events.PermissionAsked, events.PermissionReplied,
    events.PermissionForgotten, events.FileChanged, events.ModelRetry, events.BranchStarted, events.BranchPlaced,
    events.BranchGoalAdded, events.BranchGoalUpdated, events.BranchMessageAdded, events.BranchCompleted,
    events.ExploreCompleted, events.BranchSelected, events.BranchRemoved, events.SubagentStarted,
    events.SubagentCompleted,
}  # fmt: skip
"""A fork has its own creation, grants, jobs and children."""


def test_each_kind_of_event_is_shown_or_not() -> None:
    assert not NOT_SHOWN & set(SHOWN)
    assert NOT_SHOWN | set(SHOWN) == KINDS, "see 'An event' in CONTRIBUTING.md"


def test_each_kind_of_event_is_copied_into_a_fork_or_not() -> None:
    assert not NOT_COPIED & set(COPIED)
    assert NOT_COPIED | set(COPIED) == KINDS, "see 'An event' in CONTRIBUTING.md"
