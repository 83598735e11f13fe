"""Unfinished parts of a turn that is under way: messages that are coming in, and tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.events import (
    Event,
    FileChanged,
    FilesRestored,
    GoalAdded,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    MessageAdded,
    MessageDiscarded,
    MessagePartAdded,
    MessageTextAdded,
    PermissionReplied,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from daemon.model.messages import Message, Part, ReasoningPart, SubtaskPart, TextPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.model.permissions import PermissionRequest


class OpenTurn:
    """The open parts of one turn; empty between two turns."""

    def __init__(self) -> None:
        self.prompt: Message | None = None
        """The prompt of the turn, as soon as it is among the messages."""
        self.subtasks: tuple[SubtaskPart, ...] = ()
        """Tasks that the user's prompts gave to sub-agents, and that are still to be started."""
        self.streaming: dict[str, dict[int, MessagePartAdded]] = {}
        """Complete parts of messages that are not complete yet, by message id."""
        self.calls: dict[str, bool] = {}
        """Tool calls under way by id, and whether each was allowed or did more than ask: see
        daemon.loop.interrupted_turn."""

    @property
    def has_prompt(self) -> bool:
        """Whether the prompt of the turn is among the messages."""
        return self.prompt is not None

    def parts(self, message_id: str) -> tuple[Part, ...]:
        """Return the stored parts of an unfinished message in order."""
        return tuple(event.part for _, event in sorted(self.streaming.get(message_id, {}).items()))

    def apply(self, event: Event, pending: Mapping[str, PermissionRequest]) -> None:
        """Take one event into account; ``pending``: the requests that wait for an answer before it, by id."""
        match event:
            case TurnStarted():
                self.prompt, self.subtasks = None, ()
            case TurnEnded():
                self.calls.clear()
                self.streaming.clear()
            case ToolStarted():
                self.calls[event.tool_call_id] = False
            case MessageAdded():
                message = event.message
                if message.role == "user" and message.compaction() is None:
                    self.prompt = self.prompt or message
                    self.subtasks += tuple(part for part in message.content if isinstance(part, SubtaskPart))
                elif message.role == "assistant":
                    self.subtasks = ()  # they come before the next answer of the model
                self.calls.pop(message.tool_call_id or "", None)
                self.streaming.pop(message.message_id, None)
            case MessagePartAdded():
                self.streaming.setdefault(event.message_id, {})[event.index] = event
            case MessageTextAdded():
                self._grow(event)
            case MessageDiscarded():
                self.streaming.pop(event.message_id, None)
            case PermissionReplied():
                request = pending.get(event.request_id)
                # Whether a repeated call may run is asked before the tool runs at all, so an answer changes nothing.
                if request is None or request.permission in ("doom_loop", "question"):
                    return
                # Calls of children, attachments and the budget are asked about, too, and are no calls of the turn.
                if event.reply in ("once", "always") and request.tool_call_id in self.calls:
                    self.calls[request.tool_call_id] = True
            case FileChanged():
                # Edits that wait for an answer are not affected by one that was accepted before them.
                ours = event.tool_call_id
                self.calls.update(dict.fromkeys([ours] if ours in self.calls else self.calls, True))
            case GoalAdded() | GoalUpdated() | GoalMoved() | GoalRemoved() | FilesRestored() if not event.by:
                self.calls.update(dict.fromkeys(self.calls, True))
            case _:
                pass

    def _grow(self, event: MessageTextAdded) -> None:
        parts = self.streaming.setdefault(event.message_id, {})
        known = parts[event.index].part if event.index in parts else None
        before = known.text if isinstance(known, TextPart | ReasoningPart) else ""
        parts[event.index] = MessagePartAdded(
            event_id=event.event_id,
            trace_id=event.trace_id,
            time=event.time,
            message_id=event.message_id,
            goal_id=event.goal_id,
            index=event.index,
            part=(TextPart if event.kind == "text" else ReasoningPart)(text=before + event.text),
        )
