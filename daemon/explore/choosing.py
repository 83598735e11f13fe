"""The person chooses among the branches (setting ``explore_choice: person``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon.loop.session import Session


async def awaited_choice(session: Session, explore_start_id: str) -> str:
    """Wait until the person has chosen, or left it to the model; returns what the model is told about it."""
    return ""
