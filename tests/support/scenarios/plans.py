"""Plans as a model answers with them, and what becomes of them in a session."""

from __future__ import annotations

import json
from typing import Any

from daemon.loop.session import Session
from tests.support.fakes.models import Call


def plan(*steps: Any) -> str:
    """The answer to the question for a plan; a text is a step's goal."""
    return json.dumps({"steps": [{"goal": step} if isinstance(step, str) else step for step in steps]})


def step(name: str, goal: str, *needs: str, parallel: bool = False) -> dict[str, Any]:
    """A step with an id, and what it needs."""
    return {"id": name, "goal": goal, "needs": list(needs), **({"parallel": True} if parallel else {})}


def done(summary: str = "did it") -> Call:
    """The goal in focus is reached."""
    return Call("goal", {"done": summary})


def abandon(why: str = "impossible") -> Call:
    """It cannot be."""
    return Call("goal", {"abandon": why})


def tree(session: Session) -> list[str]:
    """A line a live goal: x done, > in progress; number and description."""
    numbers = session.state.plan.numbers()
    goals = session.state.plan.goals
    marks = {"completed": "x", "in_progress": ">", "pending": " "}
    return [f"{marks[goals[i].status]} {number} {goals[i].description}" for i, number in numbers.items()]
