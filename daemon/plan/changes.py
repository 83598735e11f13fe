"""Changes of a goal tree, as data: operations return them, and ``apply`` carries them out.

Events with fields of the same names store them, see ``daemon.state.goal_events``.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from daemon.model.messages import whole_characters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.model.events import AffectedGoal
    from daemon.model.goals import Goal

MAX_GOALS_AT_ONCE = 50
MAX_DESCRIPTION = 500
MAX_SUMMARY = 8_000
"""Also of a reason for goals that are added."""
MAX_DEPTH = 50
"""Each message is counted for all goals above its own, and stored with their numbers."""


_JOINERS = "\u200c\u200d"
"""ZWNJ and ZWJ: within a word they belong to it, e.g. in Persian and in emoji."""
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that look like nothing."""


class PlanError(Exception):
    """Raised when an operation is not possible; the message tells the model and the user the state and the
    alternatives."""


class Focus(enum.Enum):
    """Stands for "the goal in focus" where None means the top level."""

    CURRENT = "current"


Parent = str | None | Literal[Focus.CURRENT]


class Added(Struct, frozen=True):
    """``goal`` joins the flat list at ``index`` (None: at the end)."""

    goal: Goal
    index: int | None


class Updated(Struct, frozen=True):
    """Fields of a goal change; goals that change with it are in ``affected_goals``."""

    goal_id: str
    updates: Mapping[str, Any]
    current_id: str | None
    """The focus after the change."""
    affected_goals: tuple[AffectedGoal, ...] = ()


class Removed(Struct, frozen=True):
    """A goal without any work leaves the plan without a trace."""

    goal_id: str
    current_id: str | None
    """The focus after the change."""


class Moved(Struct, frozen=True):
    """A goal moves under another parent, or among its siblings: before ``before_id``, None: last."""

    goal_id: str
    parent_id: str | None
    before_id: str | None
    affected_goals: tuple[AffectedGoal, ...] = ()
    """Old and new ancestors whose cumulative numbers change; new ones that begin with the goal."""


Change = Added | Updated | Moved | Removed


def stored_line(text: str) -> str:
    """Return a description for storage: one line without control and format characters; empty when nothing is visible.

    It is shown in terminals and lists, where such characters would reverse, hide or forge the text around it.
    """
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", whole_characters(text))
    if not text.isascii():
        text = "".join(sign for sign in text if sign in _JOINERS or unicodedata.category(sign) != "Cf")
    line = " ".join(word for raw in text.split() if (word := raw.strip(_JOINERS)))
    return line if any(map(_is_seen, line)) else ""


def _is_seen(sign: str) -> bool:
    return sign not in _BLANK and unicodedata.category(sign)[0] not in "MZ" and sign not in _JOINERS
