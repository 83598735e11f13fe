"""What can happen to a goal tree, as data: the operations return it, events store it, ``apply`` makes it so."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from daemon.model.events import AffectedGoal
from daemon.model.goals import Goal

MAX_GOALS_AT_ONCE = 50
MAX_DESCRIPTION = 500
MAX_SUMMARY = 8_000
"""Also of a reason for goals that are added."""
MAX_DEPTH = 50
"""Each message is counted for all goals above its own, and stored with their numbers."""


class PlanError(Exception):
    """The operation is not possible; the message is for the model and the person: what is, and what to do."""


class Focus(enum.Enum):
    """Stands for "the goal in focus" where None means the top level."""

    CURRENT = "current"


Parent = str | None | Literal[Focus.CURRENT]


@dataclass(frozen=True, slots=True)
class Added:
    """``goal`` joins the flat list at ``index`` (None: at the end)."""

    goal: Goal
    index: int | None


@dataclass(frozen=True, slots=True)
class Updated:
    """Fields of a goal change; goals that change with it are in ``affected``."""

    goal_id: str
    updates: Mapping[str, Any]
    current_id: str | None
    """The focus after the change."""
    affected: tuple[AffectedGoal, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """A goal that nobody worked on leaves the plan without a trace in it."""

    goal_id: str
    current_id: str | None
    """The focus after the change."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A goal stands under another parent, or elsewhere among its siblings: before ``before_id``, None: last."""

    goal_id: str
    parent_id: str | None
    before_id: str | None
    affected: tuple[AffectedGoal, ...] = ()
    """Old and new ancestors whose cumulative numbers change; new ones that begin with the goal."""


Change = Added | Updated | Moved | Removed
