"""Messages and their parts.

A message belongs to a trace, maybe to a branch, and to the goal that was current when it was made. The system prompt is
built for each call and never stored.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field

from daemon.model.stored_model import Cost, Count, Model

if TYPE_CHECKING:
    from collections.abc import Iterable

Role = Literal["user", "assistant", "tool"]
StopReason = Literal["end_turn", "max_tokens", "tool_use", "canceled", "error", "permission_denied"]


def whole_characters(text: str) -> str:
    """Return ``text`` as valid UTF-8: halves of a surrogate pair are joined, a lone half becomes U+FFFD.

    Servers split their streams anywhere, also inside an emoji, and JSON preserves the halves. No file, socket or SDK
    accepts them afterwards.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")

_Text = Annotated[str, AfterValidator(whole_characters)]


class TextPart(Model):
    """Plain text (markdown from the model)."""

    type: Literal["text"] = "text"
    text: _Text


class ReasoningPart(Model):
    """The model's reasoning. ``signature`` and ``redacted`` go back to the provider unchanged."""

    type: Literal["reasoning"] = "reasoning"
    text: _Text
    signature: str | None = None
    redacted: str | None = None


OPEN_FILE = "text/x-open-file"


class FilePart(Model):
    """An attached file or image: ``data`` is base64, or None for a mere path.

    The media type ``OPEN_FILE`` without ``data`` marks the file and lines that the user's editor shows.
    """

    type: Literal["file"] = "file"
    name: str
    media_type: str
    data: str | None = None


class ToolCallPart(Model):
    """The model wants a tool run. ``input`` is the JSON text as the model sent it, valid or not."""

    type: Literal["tool_call"] = "tool_call"
    id: _Text
    name: _Text
    input: _Text
    finished: bool = True

    def arguments(self) -> dict[str, Any]:
        """Return the arguments as a dict. Raises ValueError when the text is not a JSON object.

        Halves of surrogate pairs, which JSON can spell as escapes, are replaced as in every other text.
        """
        try:
            value: object = json.loads(self.input or "{}")
            if _ESCAPED_HALF.search(self.input):
                value = json.loads(whole_characters(json.dumps(value, ensure_ascii=False)))
        except RecursionError as error:
            raise ValueError("arguments are nested too deeply") from error
        if not isinstance(value, dict):
            raise ValueError(f"arguments must be a JSON object, not {type(value).__name__}")
        return cast("dict[str, Any]", value)

    def argument(self, name: str) -> str:
        """Return a text among the arguments; empty when there is none, or they are no JSON object."""
        try:
            value = self.arguments().get(name)
        except ValueError:
            return ""
        return value if isinstance(value, str) else ""


class ToolResultPart(Model):
    """The result of a tool; exactly one for each tool call."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: _Text
    name: _Text
    content: _Text
    metadata: dict[str, Any] = Field(default_factory=dict)
    is_error: bool = False
    title: _Text = ""
    images: tuple[FilePart, ...] = ()


class SubtaskPart(Model):
    """A sub-agent's task: its first message, or the prompt of a user who started one."""

    type: Literal["subtask"] = "subtask"
    agent: str
    prompt: str


class AgentPart(Model):
    """The user's prompt switched the session to this agent."""

    type: Literal["agent"] = "agent"
    agent: str


class CommandPart(Model):
    """The user's prompt called a command: ``text`` is what the user typed, and the parts after it are its meaning."""

    type: Literal["command"] = "command"
    text: _Text


class NotePart(Model):
    """A note by Goalwright for the model within a user message, e.g. about the user's changes to the plan."""

    type: Literal["note"] = "note"
    text: _Text


class CompactionPart(Model):
    """Marks the messages of a full compaction.

    Three messages in a row: the ``request`` (user), the ``summary`` (assistant), and the text that is ``carried`` over
    word for word (user). They replace all messages with a sequence below ``keep_from``; without the third one they are
    incomplete and are ignored.
    """

    type: Literal["compaction"] = "compaction"
    kind: Literal["request", "summary", "carried"] = "request"
    reason: str = ""
    """Reason for the user: ``threshold``, ``overflow``, ``manual``."""
    keep_from: int = 0
    """Sequence of the first message that stays whole; on all three messages."""
    before: int = 0
    after: int = 0
    """Estimated tokens of the next request before and after the compaction, for the user."""
    cut_results: bool = False
    """Long tool results of the messages that stay are cut: they were too long for the window even so."""


class FinishPart(Model):
    """Why the message ended, and when."""

    type: Literal["finish"] = "finish"
    reason: StopReason
    time: datetime
    detail: str = ""


Part = Annotated[
    TextPart
    | ReasoningPart
    | FilePart
    | ToolCallPart
    | ToolResultPart
    | NotePart
    | SubtaskPart
    | AgentPart
    | CommandPart
    | CompactionPart
    | FinishPart,
    Field(discriminator="type"),
]


class Usage(Model):
    """Tokens of one model call, as the provider counted them. ``input`` excludes the cached ones."""

    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0
    unpriced: Count = 0
    """In a sum: tokens of these whose price is not known, so that the cost lacks them."""

    @property
    def total(self) -> int:
        """All tokens that went in or came out."""
        return self.input + self.output + self.cache_read + self.cache_write


def added(one: Usage, other: Usage) -> Usage:
    """Return the sum of both."""
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in Usage.model_fields})


def subtracted(one: Usage, other: Usage) -> Usage:
    """Return what the first took without the second, which is a part of it."""
    left = {name: getattr(one, name) - getattr(other, name) for name in Usage.model_fields}
    return Usage(**{name: max(0, tokens) for name, tokens in left.items()})


def priced(usage: Usage | None, cost: float | None) -> Usage:
    """Return the usage of a model call for a sum: without a cost, all its tokens are ``unpriced``."""
    if usage is None or cost is not None:
        return usage or Usage()
    return usage.model_copy(update={"unpriced": usage.total})


class Message(Model):
    """One message of a trace."""

    message_id: str
    trace_id: str
    branch_id: str | None = None
    role: Role
    sequence: int
    goal_id: str | None = None
    tool_call_id: str | None = None
    content: tuple[Part, ...]
    description: str = ""
    tokens: Count | None = None
    cost: Cost | None = None
    created_at: datetime
    model: str | None = None
    usage: Usage | None = None
    duration_ms: Count | None = None
    overlap_ms: Count | None = None
    """The part of ``duration_ms`` that another call of the same answer, run at the same time, accounts for."""

    def text(self) -> str:
        """Return all text parts joined."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    def tool_calls(self) -> list[ToolCallPart]:
        """Return the tool calls, in order."""
        return [part for part in self.content if isinstance(part, ToolCallPart)]

    def tool_result(self) -> ToolResultPart | None:
        """Return the result a tool message carries."""
        return next((part for part in self.content if isinstance(part, ToolResultPart)), None)

    def compaction(self) -> CompactionPart | None:
        """Return the mark of a full compaction, on its three messages."""
        return next((part for part in self.content if isinstance(part, CompactionPart)), None)

    def stop_reason(self) -> StopReason | None:
        """Return why the message ended, if it has a reason."""
        return next((part.reason for part in self.content if isinstance(part, FinishPart)), None)


def describe(role: Role, content: Iterable[Part]) -> str:
    """Return a generated description of a message: its first text, as the user typed it, else ``tool call: X, Y``, or
    the tool's name."""
    parts = list(content)
    if role == "tool":
        return next((part.name for part in parts if isinstance(part, ToolResultPart)), "tool")
    said = (part.text.strip() for part in parts if isinstance(part, TextPart | CommandPart))
    text = next(filter(None, said), "")
    if text:
        return text
    calls = [part.name for part in parts if isinstance(part, ToolCallPart)]
    if calls:
        return "tool call: " + ", ".join(calls)
    task = next((part.prompt.strip() for part in parts if isinstance(part, SubtaskPart)), "")
    return task or next((part.name for part in parts if isinstance(part, FilePart)), "")
