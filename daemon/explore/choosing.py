"""The person chooses among the branches (setting ``explore_choice: person``).

While a tool call waits for it the session's status is ``waiting``, and two notices frame it: ``CHOICE_AWAITED`` and
``CHOICE_MADE``, both about the goal that started the exploration. Nothing of it is stored: after a restart the call
has ended like every interrupted one, and the person may still choose.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tools.errors import ToolError

if TYPE_CHECKING:
    from daemon.loop.live import LiveSession

CHOICE_AWAITED = "explore_choice_awaited"
"""Code of the notice that the person is to choose; ``about`` is the explore_start goal's id."""
CHOICE_MADE = "explore_choice_made"
"""Code of the notice that this is over, however it ended."""


@dataclass(slots=True)
class _Waiting:
    """One exploration of a session."""

    answer: asyncio.Future[str]
    branches: tuple[str, ...] = ()


@dataclass(slots=True)
class _Choices:
    by_start: dict[str, _Waiting] = field(default_factory=dict[str, _Waiting])


_choices: WeakKeyDictionary[LiveSession, _Choices] = WeakKeyDictionary()


def awaited(session: LiveSession) -> tuple[str, ...]:
    """Ids of the explore_start goals whose branches the person is to choose from now."""
    choices = _choices.get(session)
    return () if choices is None else tuple(choices.by_start)


async def awaited_choice(session: LiveSession, explore_start_id: str) -> str:
    """Wait until the person has chosen, or left it to the model; returns what the model is told about it.

    Empty when the model is to choose by the settings. Nobody answering in time means that nothing is chosen.
    """
    settings = session.config.settings
    if settings.explore_choice != "person" or session.foreign:
        return ""
    branches = tuple(
        branch.id for branch in session.state.children.of(explore_start_id) if not branch.removed
    )
    if not branches:
        return ""
    choices = _choices.setdefault(session, _Choices())
    waiting = _Waiting(asyncio.get_running_loop().create_future(), branches)
    choices.by_start[explore_start_id] = waiting
    outcome = "The choice was not made: the turn ended."
    try:
        session.notice(
            "info",
            f"The exploration has ended: choose among the branches {', '.join(branches)}, or leave it to the model.",
            CHOICE_AWAITED,
            about=explore_start_id,
        )
        async with asyncio.timeout(settings.permission_timeout_s):
            told = await waiting.answer
        outcome = told.split("\n", 1)[0]
        return told
    except TimeoutError:
        outcome = f"Nobody chose within {settings.permission_timeout_s:g} s."
        return (
            f"{outcome} The choice is the person's, so nothing was merged: do not select a branch yourself. Go on "
            "without it; say at the end that the branches wait for a choice."
        )
    finally:
        if choices.by_start.get(explore_start_id) is waiting:
            del choices.by_start[explore_start_id]
        session.notice("info", outcome, CHOICE_MADE, about=explore_start_id)


def settle(session: LiveSession, explore_start_id: str, told: str) -> bool:
    """The person has decided; ``told`` is for the model. False when nobody waits for it (any more)."""
    choices = _choices.get(session)
    waiting = None if choices is None else choices.by_start.get(explore_start_id)
    if waiting is None or waiting.answer.done():
        return False
    waiting.answer.set_result(told)
    return True


def leave_to_model(session: LiveSession, explore_start_id: str, by: str = "") -> None:
    """The person lets the model choose. Raises ToolError when nothing waits for the person."""
    told = f"{by or 'The person'} leaves the choice to you: choose with explore(select=[…]), or go on without any."
    _settled(session, explore_start_id, told)


def choose_none(session: LiveSession, explore_start_id: str, by: str = "") -> None:
    """The person wants none of the branches. Raises ToolError when nothing waits for the person."""
    told = (
        f"{by or 'The person'} wants none of the branches: nothing was merged. Do not select one; go on another way, "
        "or ask what is wanted."
    )
    _settled(session, explore_start_id, told)


def _settled(session: LiveSession, explore_start_id: str, told: str) -> None:
    if not settle(session, explore_start_id, told):
        known = awaited(session)
        there = (
            f" Choices that are awaited: {', '.join(known)}."
            if known
            else " No choice is awaited in this session."
        )
        raise ToolError(f"Nobody waits for a choice about the exploration {explore_start_id[:80]}.{there}")
