"""Plans as a model answers with them, and what becomes of them in a session."""

from __future__ import annotations

import json
from typing import Any

from daemon.loop.session import Session
from daemon.model.events import TurnEnded, TurnStarted
from daemon.model.messages import NotePart
from daemon.provider import anthropic_wire, openai_wire
from tests.support.drivers.core import ALLOW_ALL, Bench
from tests.support.fakes.model_messages import check_anthropic, check_openai
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


def planned(bench: Bench, mode: str, **more: Any) -> Session:
    return bench.session(settings={"planner": mode, **ALLOW_ALL, **more})


def notes(session: Session) -> list[str]:
    """Return the notes of the planner for the model, without their tag, each with its first line."""
    texts = [p.text for m in session.state.messages for p in m.content if isinstance(p, NotePart)]
    return [text.splitlines()[1] for text in texts if text.startswith("<planning>\n")]


def check_wire(bench: Bench) -> None:
    """Each request is valid for every provider."""
    for request in bench.models.requests:
        body = anthropic_wire.build(request)
        check_anthropic(body, anthropic_wire.version_for(body))
        check_openai({"messages": openai_wire.to_messages(request)})


def check_requests(bench: Bench) -> None:
    """Each request is valid for every provider, and none changes what the provider has cached of tools and system."""
    check_wire(bench)
    assert (
        len({(request.system, tuple(t.name for t in request.tools)) for request in bench.models.requests})
        == 1
    )


def one_turn(bench: Bench) -> None:
    assert len(bench.events(TurnStarted)) == len(bench.events(TurnEnded)) == 1
    check_requests(bench)
