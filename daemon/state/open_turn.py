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
from daemon.model.messages import Part, ReasoningPart, TextPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.model.permissions import PermissionRequest


class OpenTurn:
    """The open parts of one turn; empty between two turns."""

    def __init__(self) -> None:
        self.has_prompt = False
        """The prompt of the turn is among the messages."""
        self.streaming: dict[str, dict[int, MessagePartAdded]] = {}
        """Complete parts of messages that are not complete yet, by message id."""
        self.calls: dict[str, bool] = {}
        """Tool calls under way by id, and whether each was allowed or did more than ask: see
        daemon.loop.interrupted_turn."""

    def parts(self, message_id: str) -> tuple[Part, ...]:
        """Return the stored parts of an unfinished message in order."""
        return tuple(event.part for _, event in sorted(self.streaming.get(message_id, {}).items()))

    def apply(self, event: Event, pending: Mapping[str, PermissionRequest]) -> None:
        """Take one event into account; ``pending``: the requests that wait for an answer before it, by id."""
        match event:
            case TurnStarted():
                self.has_prompt = False
            case TurnEnded():
                self.calls.clear()
                self.streaming.clear()
            case ToolStarted():
                self.calls[event.tool_call_id] = False
            case MessageAdded():
                message = event.message
                self.has_prompt |= message.role == "user" and message.compaction() is None
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
                if event.reply in ("once", "always"):
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
