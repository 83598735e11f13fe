"""Prompts that begin with an agent's name: ``@explore TASK`` starts a sub-agent, ``@plan TEXT`` switches the agent.

An agent that takes tasks gets the rest of the prompt as its task. One that only begins sessions takes over this one.
"""

from __future__ import annotations

import difflib
import json
import re
import uuid
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.agents.loader import AgentProfile, UnknownAgentError
from daemon.loop.command_use import CalledCommand, agent_missing, called
from daemon.loop.tool_selection import TASK
from daemon.model import notice_codes
from daemon.model.events import SessionUpdated
from daemon.model.messages import (
    AgentPart,
    CommandPart,
    FilePart,
    Message,
    Part,
    SubtaskPart,
    TextPart,
    ToolCallPart,
)
from tools.localization import t
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from daemon.loop.session import Session

EXECUTED = "The following tool was executed by the user."
"""The model's note before a call that the user made."""
NOT_DONE = "The task for the sub-agent was rejected."
_MENTION = re.compile(r"\s*@([A-Za-z0-9][A-Za-z0-9-]{0,63})[,:]?(?:\s+(.*))?", re.DOTALL)
_USER_TASK = "user_task_"
_ALIKE = 0.75


class AgentMention(Struct, frozen=True):
    """An agent at the start of a prompt, and the rest of the prompt; ``text`` is empty for the name alone."""

    agent: AgentProfile
    text: str


def mentioned(session: Session, text: str) -> AgentMention | None:
    """Return the agent that a user's prompt names first; None for a name that no agent has. Reads the agent's file.

    No name counts in the task of a child: models write those.
    """
    match = _MENTION.fullmatch(text) if session.parent is None else None
    agent = None if match is None else _agent(session, match[1].lower())
    return None if match is None or agent is None else AgentMention(agent, (match[2] or "").strip())


def prompt_parts(session: Session, text: str) -> tuple[Part, ...]:
    """Return the parts of a user message for a prompt, and switch the session's agent if the prompt asks for it.

    Notifies the user of a switch, and of a name that is similar to an agent's. Reads the files of agent and command.
    Raises StoreError.
    """
    command = called(session, text)
    if command is None:
        return _meaning(session, text)
    return (CommandPart(text=text), *_meaning(session, with_agent(session, command)))


def with_agent(session: Session, command: CalledCommand) -> str:
    """Return the text of a command as a prompt for the agent that its file names. Reads the agent's file."""
    if not command.agent:
        return command.text
    agent = _agent(session, command.agent)
    if agent is None:
        session.record.notice_once(agent_missing(command.agent))
    if agent is None or agent.name == session.agent.name:
        return command.text
    return f"@{command.agent} {command.text}"


def _meaning(session: Session, text: str) -> tuple[Part, ...]:
    to = mentioned(session, text)
    if to is None:
        _notify_similar_agents(session, text)
    elif _frees(session, to.agent):
        switch(session, to.agent)
    if to is None or to.agent.name == session.agent.name or (to.agent.serves and not to.text):
        return (TextPart(text=text),) if text else ()
    if to.agent.serves:
        return (SubtaskPart(agent=to.agent.name, prompt=to.text),)
    switch(session, to.agent)
    said = AgentPart(agent=to.agent.name)
    return (said, TextPart(text=to.text)) if to.text else (said,)


def switch_alone(session: Session, text: str) -> bool:
    """Switch the agent when a prompt is nothing but its name; return False for any other prompt.

    Raises ToolError, with what to do, for an agent that needs a task and while a turn is under way.
    """
    to = mentioned(session, text)
    if to is None or to.text:
        return False
    switch_to(session, to.agent)
    return True


def switch_to(session: Session, agent: AgentProfile) -> None:
    """Switch the agent of a session between two turns. Raises ToolError as ``switch_alone`` does."""
    name = agent.name
    if agent.serves and not _frees(session, agent):
        raise ToolError(
            t("The agent {name} needs a task: write it after the name, `@{name} TASK`.", name=name)
        )
    if session.running or session.state.turn is not None:
        raise ToolError(
            t(
                "The agent cannot be switched during a turn. Wait until it ends, or write `@{name}` and a "
                "task.",
                name=name,
            )
        )
    session.check_writable()
    if name == session.agent.name and not _frees(session, agent):
        session.notice("info", t("The agent {name} is already active here.", name=name), notice_codes.AGENT)
    else:
        switch(session, agent)


def _frees(session: Session, agent: AgentProfile) -> bool:
    """Return whether the user chooses the agent that an imported session named, which only tightens until then."""
    return agent.name == session.agent.name and session.agent.imported


def switch(session: Session, agent: AgentProfile) -> None:
    """Switch a session's agent at the user's request, and notify the session. Raises StoreError."""
    become(session, agent)
    session.notice("info", t("This session now uses the agent {name}.", name=agent.name), notice_codes.AGENT)


def _notify_similar_agents(session: Session, text: str) -> None:
    match = _MENTION.fullmatch(text) if session.parent is None else None
    if match is None or not match[2]:
        return
    known = [
        agent.name
        for agent in session.services.agents.all(session.trust).agents
        if agent.begins or agent.serves
    ]
    near = difflib.get_close_matches(match[1].lower(), known, n=1, cutoff=_ALIKE)
    if near and near[0] != match[1].lower():
        words = t(
            "There is no agent {name}: the message goes to the model unchanged. Did you mean @{near}?",
            name=match[1],
            near=near[0],
        )
        session.notice("warning", words, notice_codes.AGENT)


def become(session: Session, agent: AgentProfile, updates: Mapping[str, object] | None = None) -> None:
    """Switch a session's agent, with its own prompt, tools, rules and model. Raises StoreError.

    ``updates``: further changes of the trace. The system prompt stays the old one until the next
    ``RequestBuilder.prepare``.
    """
    changes: dict[str, object] = {"agent": agent.name, **(updates or {})}
    session.emit(SessionUpdated(**session.record.here(), updates=changes))
    session.policy.choose(agent)
    session.services.models.ask_window(session.model, session.env)


def calls_of(tasks: Iterable[SubtaskPart]) -> tuple[ToolCallPart, ...]:
    """Return the tool calls that have sub-agents do these tasks."""
    return tuple(
        ToolCallPart(
            id=f"{_USER_TASK}{uuid.uuid4().hex[:12]}",
            name=TASK,
            input=json.dumps({"agent": task.agent, "prompt": task.prompt}, ensure_ascii=False),
        )
        for task in tasks
    )


def calls_by_user(message: Message) -> set[str]:
    """Return the ids of the calls of a message that ``calls_of`` made: no model wrote it."""
    ids = {call.id for call in message.tool_calls()} if message.model is None else set[str]()
    return {call_id for call_id in ids if call_id.startswith(_USER_TASK)}


def attachments_of(call_id: str, prompt: str, messages: Sequence[Message]) -> tuple[FilePart, ...]:
    """Return what the user attached to the prompt that started a sub-agent; none where a model started it."""
    if not call_id.startswith(_USER_TASK):
        return ()
    for message in reversed(messages):
        if any(isinstance(part, SubtaskPart) and part.prompt == prompt for part in message.content):
            return tuple(part for part in message.content if isinstance(part, FilePart))
    return ()


def _agent(session: Session, name: str) -> AgentProfile | None:
    try:
        agent = session.services.agents.find(name, session.trust)
    except UnknownAgentError:
        return None
    return agent if agent.serves or agent.begins else None
