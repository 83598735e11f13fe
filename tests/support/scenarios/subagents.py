"""Sub-agents under test: each plays steps of its own, and what they leave in the record of the session above."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from daemon.loop.session import Session
from daemon.model.branches import SubagentMeta
from daemon.model.messages import ToolResultPart
from tests.support.drivers.core import Bench, daemon
from tests.support.fakes.models import Call, Step
from tests.support.scenarios.branches import BranchModels


@asynccontextmanager
async def with_subagents(
    folder: Path, main: Iterable[Step], agents: Mapping[str, Iterable[Step]], **options: Any
) -> AsyncGenerator[tuple[Bench, BranchModels]]:
    """A daemon whose main line plays ``main``, and whose sub-agents (``s1``, ``s1.s1``) theirs."""
    models = BranchModels(main, {name: list(steps) for name, steps in agents.items()})
    async with daemon(folder, models=models, **options) as bench:
        yield bench, models
    left = {name: each.left for name, each in models.branches.items() if each.left}
    assert not left, f"steps that nobody played: {left}"


def task(prompt: str, agent: str = "general", call_id: str = "") -> Call:
    """The call."""
    return Call("task", {"agent": agent, "prompt": prompt}, id=call_id)


def results(session: Session) -> list[ToolResultPart]:
    """All results of a session, in order."""
    found = (message.tool_result() for message in session.state.messages)
    return [result for result in found if result is not None]


def subagents(session: Session) -> dict[str, SubagentMeta]:
    """Those that a session started."""
    return session.state.children.subagents
