"""Ids of steps: they follow from those of goals, messages and calls, so that they are the same live and read again."""

from __future__ import annotations

import hashlib

_LONGEST = 160
"""An id that is longer than an address can hold, as any model may give its calls, could not be asked for."""
_KEPT = 100


def goal_step_id(goal_id: str) -> str:
    """Id of a goal's step."""
    return f"goal_{_bounded(goal_id)}"


def evaluation_step_id(goal_id: str) -> str:
    """Id of the step that says how a goal ended."""
    return f"goal_{_bounded(goal_id)}_evaluation"


def said_step_id(message_id: str) -> str:
    """Id of what a message says."""
    return _bounded(message_id)


def action_step_id(call_id: str) -> str:
    """Id of a call of a tool."""
    return f"call_{_bounded(call_id)}"


def result_step_id(call_id: str) -> str:
    """Id of what came of a call."""
    return f"result_{_bounded(call_id)}"


def retry_step_id(event_id: int) -> str:
    """Return the id of a model request that failed and is made again; ``event_id`` is that of its event."""
    return f"retry_{event_id}"


def naming_step_id(event_id: int) -> str:
    """Return the id of a request for a title or summary; ``event_id`` is that of its event."""
    return f"naming_{event_id}"


def _bounded(known: str) -> str:
    if len(known) <= _LONGEST:
        return known
    return f"{known[:_KEPT]}_{hashlib.sha256(known.encode(errors='replace')).hexdigest()[:16]}"
