"""Translates what happens in a session into the updates of the Agent Client Protocol. Pure.

Texts are sent as they grow; the stored part that follows has what was lost on the way. Calls of tools for the plan are
not shown: the plan itself is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Cost,
    CurrentModeUpdate,
    SessionInfoUpdate,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)

from lsp_bridge.cli.acp.content import (
    KINDS,
    PLAN_TOOLS,
    arguments_of,
    files_of_call,
    locations,
    replayed,
    result_content,
    result_files,
    text_block,
    usage_of,
)
from lsp_bridge.cli.run.view import asks_for_plan, call_title, is_plan, typed_texts
from lsp_bridge.cli.text import clean, one_line, shown_line
from tools.json_access import integer, mapping, mappings, string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Update = (
        AgentMessageChunk
        | AgentThoughtChunk
        | UserMessageChunk
        | ToolCallStart
        | ToolCallProgress
        | SessionInfoUpdate
        | CurrentModeUpdate
        | UsageUpdate
    )

_QUIET = ("run_limit", "written_call")
"""Notices that the answer to the prompt repeats."""
_MOST_REPLAYED = 32 * 1024 * 1024
"""Characters of base64 in attachments of earlier prompts; further ones are only named."""


class Translator:
    """Follows one session."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._sent: dict[tuple[str, int], str] = {}
        """The text that was sent of each part of a message."""
        self._planning = False
        """The model was asked for a plan as JSON, and its answer is coming."""
        self._hidden: set[str] = set()
        """Ids of calls that are not shown."""
        self._is_own = False
        """The next prompt is one that the editor sent itself and shows already."""
        self._room = _MOST_REPLAYED
        self._handlers: dict[str, Callable[[dict[str, Any]], list[Update]]] = {
            "message_added": self._message,
            "message_part_added": self._part_event,
            "message_discarded": self._discarded,
            "tool_started": self._started,
            "notice": self._notice,
            "model_retry": self._retry,
            "session_updated": self._session,
            "files_restored": self._restored,
        }

    def own_turn(self) -> None:
        """A turn begins whose prompt the editor sent and shows itself."""
        self._is_own = True

    def has_shown(self, call_id: str) -> bool:
        """Return whether the editor knows this tool call, whose result will follow."""
        return (call_id, -1) in self._sent and call_id not in self._hidden

    def streaming(self, received: dict[str, Any]) -> list[Update]:
        """Return what a message that is being received has so far (``Streaming`` of the wire)."""
        if self._planning:
            return []
        parts = enumerate(mappings(received.get("parts")))
        return [
            one for index, part in parts for one in self._part(string(received.get("messageId")), index, part)
        ]

    def event(self, event: dict[str, Any]) -> list[Update]:
        """Return the updates for a stored event."""
        handler = self._handlers.get(string(event.get("event")))
        return [] if handler is None else handler(event)

    def delta(self, delta: dict[str, Any]) -> list[Update]:
        """Return the updates for a piece of something growing."""
        kind, text = string(delta.get("kind")), string(delta.get("text"))
        if kind in ("text", "reasoning") and not self._planning:
            return self._grow(string(delta.get("messageId")), integer(delta.get("index")), text, kind)
        return []

    def message(self, message: dict[str, Any]) -> list[Update]:
        """Return a stored message whole, for a session that is loaded."""
        return self._message({"message": message})

    @staticmethod
    def meter(meter: dict[str, Any]) -> list[Update]:
        """Return how full the context is, and the cost so far."""
        used, size, cost = usage_of(meter)
        if not size:
            return []
        spent = None if cost is None else Cost(amount=cost, currency="USD")
        return [UsageUpdate(session_update="usage_update", used=used, size=size, cost=spent)]

    # -- messages --

    def _message(self, event: dict[str, Any]) -> list[Update]:
        message = mapping(event.get("message"))
        parts = mappings(message.get("content"))
        if any(part.get("type") == "compaction" for part in parts):
            return []  # meant for the model
        role, message_id = message.get("role"), string(message.get("messageId"))
        if role == "user":
            self._planning = asks_for_plan(parts)
            return self._prompt(parts, message_id)
        if role == "tool":
            return [one for part in parts for one in self._result(part)]
        planned, self._planning = self._planning, False
        return [
            one
            for index, part in enumerate(parts)
            if not (planned and part.get("type") == "text" and is_plan(string(part.get("text"))))
            for one in self._part(message_id, index, part)
        ]

    def _prompt(self, parts: list[dict[str, Any]], message_id: str) -> list[Update]:
        own, self._is_own = self._is_own, False
        if own:
            return []
        typed = typed_texts(parts)
        texts = "\n".join(typed)
        found: list[Update] = [self._said(text, message_id) for text in typed]
        for part in parts:
            block = replayed(part, texts, self._workspace) if part.get("type") == "file" else None
            if block is not None:
                self._room -= len(string(part.get("data"))) if block.type != "resource_link" else 0
                if self._room < 0:
                    block = text_block(f"[{shown_line(string(part.get('name')))}]")
                found.append(
                    UserMessageChunk(
                        session_update="user_message_chunk", content=block, message_id=message_id
                    )
                )
        return found

    @staticmethod
    def _said(text: str, message_id: str) -> UserMessageChunk:
        return UserMessageChunk(
            session_update="user_message_chunk", content=text_block(text), message_id=message_id
        )

    def _part_event(self, event: dict[str, Any]) -> list[Update]:
        if event.get("role") != "assistant" or self._planning:
            return []
        return self._part(
            string(event.get("messageId")), integer(event.get("index")), mapping(event.get("part"))
        )

    def _part(self, message_id: str, index: int, part: dict[str, Any]) -> list[Update]:
        kind = string(part.get("type"))
        if kind == "tool_call":
            return self._call(part)
        if kind not in ("text", "reasoning"):
            return []
        text, sent = string(part.get("text")), self._sent.get((message_id, index), "")
        rest = text[len(sent) :] if text.startswith(sent) else ""
        return self._grow(message_id, index, rest, kind)

    def _grow(self, message_id: str, index: int, text: str, kind: str) -> list[Update]:
        if not text:
            return []
        self._sent[message_id, index] = self._sent.get((message_id, index), "") + text
        if kind == "text":
            return [_chunk(text, message_id)]
        return [
            AgentThoughtChunk(
                session_update="agent_thought_chunk", content=text_block(text), message_id=message_id
            )
        ]

    def _discarded(self, event: dict[str, Any]) -> list[Update]:
        message_id = string(event.get("messageId"))
        self._sent = {key: text for key, text in self._sent.items() if key[0] != message_id}
        return []

    # -- tools --

    def _call(self, part: dict[str, Any]) -> list[Update]:
        call_id, name = string(part.get("id")), string(part.get("name"))
        if (call_id, -1) in self._sent:
            return []  # known by its part
        self._sent[call_id, -1] = name
        if name in PLAN_TOOLS:
            self._hidden.add(call_id)
            return []
        arguments = arguments_of(part)
        return [
            ToolCallStart(
                session_update="tool_call",
                tool_call_id=call_id,
                title=call_title(part),
                kind=KINDS.get(name, "other"),
                status="pending",
                locations=locations(files_of_call(arguments), self._workspace),
                raw_input=arguments,
            )
        ]

    def _started(self, event: dict[str, Any]) -> list[Update]:
        call_id = string(event.get("toolCallId"))
        if call_id in self._hidden:
            return []
        return [
            ToolCallProgress(session_update="tool_call_update", tool_call_id=call_id, status="in_progress")
        ]

    def _result(self, part: dict[str, Any]) -> list[Update]:
        call_id, failed = string(part.get("toolCallId")), part.get("isError") is True
        if part.get("type") != "tool_result" or call_id in self._hidden:
            return []
        title = one_line(string(part.get("title")))
        name = string(part.get("name"))
        return [
            ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id=call_id,
                title=title if title.startswith(name) or not title else f"{name} {title}",
                status="failed" if failed else "completed",
                content=[*result_content(part, self._workspace)],
                locations=locations(result_files(part), self._workspace) or None,
            )
        ]

    # -- the rest --

    @staticmethod
    def _notice(event: dict[str, Any]) -> list[Update]:
        if event.get("code") in _QUIET:
            return []
        return [notice(clean(string(event.get("text"))))]

    @staticmethod
    def _retry(event: dict[str, Any]) -> list[Update]:
        words = t("{reason}: trying again …", reason=one_line(string(event.get("reason"))))
        return [notice(words)]

    @staticmethod
    def _restored(event: dict[str, Any]) -> list[Update]:
        target = shown_line(string(event.get("target")))
        if event.get("action") == "redo":
            return [notice(t("Redone: {target}", target=target))]
        return [notice(t("Undone: {target}", target=target))]

    @staticmethod
    def _session(event: dict[str, Any]) -> list[Update]:
        updates = mapping(event.get("updates"))
        found: list[Update] = []
        if title := string(updates.get("title")):
            found.append(SessionInfoUpdate(session_update="session_info_update", title=title))
        if mode := string(updates.get("mode")):
            found.append(CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode))
        return found


def notice(text: str) -> AgentMessageChunk:
    """Return a line that is not the model's."""
    quoted = "\n".join(f"> {line}" for line in text.splitlines())
    return AgentMessageChunk(session_update="agent_message_chunk", content=text_block(f"\n\n{quoted}\n\n"))


def _chunk(text: str, message_id: str) -> AgentMessageChunk:
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=text_block(text), message_id=message_id
    )
