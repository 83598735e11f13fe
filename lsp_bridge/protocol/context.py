"""The protocol's messages about the model's context: inspection, compaction, handover.

See ``lsp_bridge.protocol.sessions`` for the rules.
"""

from typing import Any, Literal

from daemon.model.choices import TakingOver
from daemon.model.messages import Part
from daemon.model.meters import Meter
from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import SessionParams


class ContextPart(Model):
    """A layer of the next request, or the messages of one goal, with its share of the tokens (estimated)."""

    layer: Literal["system", "tools", "messages", "plan"]
    name: str
    """E.g. ``agent``, ``environment``, ``instructions …/AGENTS.md``; for messages the goal's number and description, or
    the instruction file that came with a result."""
    goal_id: str | None = None
    tokens: int


class ContextMessage(Model):
    """A message as the model would get it."""

    role: Literal["user", "assistant", "tool"]
    goal_id: str | None = None
    kind: Literal["message", "goal_summary", "compaction", "history"] = "message"
    """``goal_summary`` replaces the messages of an ended goal; ``history`` is the rest of a past turn."""
    tokens: int
    content: tuple[Part, ...]


class ContextTool(Model):
    """A tool as offered to the model."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ContextResult(Model):
    """The exact next input of the model, if the user sent nothing more."""

    model: str
    system: tuple[str, ...]
    tools: tuple[ContextTool, ...]
    messages: tuple[ContextMessage, ...]
    tail: str
    """The plan at the end of the last message (empty when it is part of the system prompt)."""
    parts: tuple[ContextPart, ...]
    tokens: int
    meter: Meter


class SessionCompactParams(SessionParams):
    """Compact the context now. ``instructions``: what to keep, in the user's words."""

    instructions: str = ""


class SessionHandoverParams(SessionParams):
    """Begin a session of ``agent`` that takes over from another one (``init`` or ``execute``)."""

    agent: TakingOver
