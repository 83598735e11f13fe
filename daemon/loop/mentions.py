"""Prompts that begin with an agent's name: ``@explore TASK`` starts a sub-agent, ``@plan TEXT`` switches the agent.

An agent that takes tasks gets the rest of the prompt as its task. One that only begins sessions takes over this one.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from daemon.agents.loader import AgentProfile, UnknownAgent
from daemon.loop.offered import TASK
from daemon.model.events import SessionUpdated
from daemon.model.messages import AgentPart, Part, SubtaskPart, TextPart, ToolCallPart

if TYPE_CHECKING:
    from daemon.loop.live import LiveSession
    from daemon.loop.session import Session

EXECUTED = "The following tool was executed by the user."
"""What the model is told in front of a call that it did not make."""
NOT_DONE = "The task for the sub-agent was refused."
_MENTION = re.compile(r"\s*@([a-z0-9][a-z0-9-]{0,63})\s+(\S.*)", re.DOTALL)


def prompt_parts(session: Session, text: str) -> tuple[Part, ...]:
    """Return the parts of a user message for a prompt, and switch the session's agent when the prompt says so.

    A name that no agent has is text like any other, and so is every name in the task of a child: models write those.
    Reads the file of the agent. Raises StoreError.
    """
    match = _MENTION.fullmatch(text) if session.parent is None else None
    agent = None if match is None else _agent(session, match[1])
    if match is None or agent is None or agent.name == session.agent.name:
        return (TextPart(text=text),) if text else ()
    rest = match[2].rstrip()
    if agent.serves:
        return (SubtaskPart(agent=agent.name, prompt=rest),)
    become(session, agent)
    return AgentPart(agent=agent.name), TextPart(text=rest)


def become(session: Session, agent: AgentProfile, updates: Mapping[str, object] | None = None) -> None:
    """Have another agent go on with a session, with its own prompt, tools, rules and model. Raises StoreError.

    ``updates``: what else changes in the trace. The system prompt is the old one until the next ``Assembly.prepare``.
    """
    now = session.services.now()
    changes: dict[str, object] = {"agent": agent.name, **(updates or {})}
    session.emit(SessionUpdated(trace_id=session.session_id, time=now, updates=changes))
    session.agent = agent
    session.services.models.ask_window(session.model, session.env)


def calls_of(tasks: Iterable[SubtaskPart]) -> tuple[ToolCallPart, ...]:
    """Return the tool calls that have sub-agents do these tasks."""
    return tuple(
        ToolCallPart(
            id=f"user_task_{uuid.uuid4().hex[:12]}",
            name=TASK,
            input=json.dumps({"agent": task.agent, "prompt": task.prompt}, ensure_ascii=False),
        )
        for task in tasks
    )


def _agent(session: LiveSession, name: str) -> AgentProfile | None:
    try:
        agent = session.services.agents.find(name, session.trust)
    except UnknownAgent:
        return None
    return agent if agent.serves or agent.begins else None
