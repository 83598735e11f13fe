"""Translates what happens in a session into the updates of the Agent Client Protocol. Pure.

Texts are sent as they grow; the stored part that follows has what was lost on the way. Calls of tools for the plan are
not shown: the plan itself is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp import helpers, schema

from daemon.model import notice_codes
from lsp_bridge.cli.acp.content import (
    KINDS,
    PLAN_TOOLS,
    files_of_call,
    locations,
    replayed,
    result_content,
    result_files,
)
from lsp_bridge.cli.run.view import arguments_of, asks_for_plan, call_title, is_plan, typed_texts
from lsp_bridge.cli.text import clean, one_line, shown_line
from tools.json_access import integer, mapping, mappings, number, string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Chunk = schema.AgentMessageChunk | schema.AgentThoughtChunk | schema.UserMessageChunk
    Update = (
        Chunk
        | schema.ToolCallStart
        | schema.ToolCallProgress
        | schema.SessionInfoUpdate
        | schema.CurrentModeUpdate
        | schema.UsageUpdate
    )

_QUIET = (notice_codes.RUN_LIMIT, notice_codes.WRITTEN_CALL)
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
        self._handlers: dict[str, Callable[[dict[str, Any]], Iterator[Update]]] = {
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
        message_id, parts = string(received.get("messageId")), enumerate(mappings(received.get("parts")))
        hidden = self._planning
        return [one for at, part in parts if not hidden for one in self._part(message_id, at, part)]

    def event(self, event: dict[str, Any]) -> list[Update]:
        """Return the updates for a stored event."""
        handler = self._handlers.get(string(event.get("event")))
        return [] if handler is None else list(handler(event))

    def delta(self, delta: dict[str, Any]) -> list[Update]:
        """Return the updates for a piece of something growing."""
        kind, text = string(delta.get("kind")), string(delta.get("text"))
        if kind in ("text", "reasoning") and not self._planning:
            return list(self._grow(string(delta.get("messageId")), integer(delta.get("index")), text, kind))
        return []

    def message(self, message: dict[str, Any]) -> list[Update]:
        """Return a stored message whole, for a session that is loaded."""
        return list(self._message({"message": message}))

    @staticmethod
    def meter(meter: dict[str, Any]) -> list[Update]:
        """Return how full the context is, and the cost so far; nothing while the size of the window is not known."""
        size, cost = integer(meter.get("contextWindow")), meter.get("cost")
        known = meter.get("costKnown") is True and isinstance(cost, int | float)
        spent = schema.Cost(amount=number(cost), currency="USD") if known else None
        used = integer(meter.get("contextTokens"))
        update = schema.UsageUpdate(session_update="usage_update", used=used, size=size, cost=spent)
        return [update] if size else []

    # -- messages --

    def _message(self, event: dict[str, Any]) -> Iterator[Update]:
        message = mapping(event.get("message"))
        parts = mappings(message.get("content"))
        if any(part.get("type") == "compaction" for part in parts):
            return  # meant for the model
        role, message_id = message.get("role"), string(message.get("messageId"))
        if role == "user":
            self._planning = asks_for_plan(parts)
            yield from self._prompt(parts, message_id)
        elif role == "tool":
            for part in parts:
                yield from self._result(part)
        else:
            planned, self._planning = self._planning, False
            for index, part in enumerate(parts):
                if not (planned and part.get("type") == "text" and is_plan(string(part.get("text")))):
                    yield from self._part(message_id, index, part)

    def _prompt(self, parts: list[dict[str, Any]], message_id: str) -> Iterator[Update]:
        own, self._is_own = self._is_own, False
        if own:
            return
        typed = typed_texts(parts)
        for text in typed:
            yield _of(message_id, helpers.update_user_message_text(text))
        for part in parts:
            block = replayed(part, "\n".join(typed), self._workspace) if part.get("type") == "file" else None
            if block is not None:
                self._room -= len(string(part.get("data"))) if block.type != "resource_link" else 0
                if self._room < 0:
                    block = helpers.text_block(f"[{shown_line(string(part.get('name')))}]")
                yield _of(message_id, helpers.update_user_message(block))

    def _part_event(self, event: dict[str, Any]) -> Iterator[Update]:
        if event.get("role") == "assistant" and not self._planning:
            message_id, part = string(event.get("messageId")), mapping(event.get("part"))
            yield from self._part(message_id, integer(event.get("index")), part)

    def _part(self, message_id: str, index: int, part: dict[str, Any]) -> Iterator[Update]:
        kind = string(part.get("type"))
        if kind == "tool_call":
            yield from self._call(part)
        elif kind in ("text", "reasoning"):
            text, sent = string(part.get("text")), self._sent.get((message_id, index), "")
            rest = text[len(sent) :] if text.startswith(sent) else ""
            yield from self._grow(message_id, index, rest, kind)

    def _grow(self, message_id: str, index: int, text: str, kind: str) -> Iterator[Update]:
        if text:
            self._sent[message_id, index] = self._sent.get((message_id, index), "") + text
            thought = kind == "reasoning"
            update = helpers.update_agent_thought_text if thought else helpers.update_agent_message_text
            yield _of(message_id, update(text))

    def _discarded(self, event: dict[str, Any]) -> Iterator[Update]:
        message_id = string(event.get("messageId"))
        self._sent = {key: text for key, text in self._sent.items() if key[0] != message_id}
        return iter(())

    # -- tools --

    def _call(self, part: dict[str, Any]) -> Iterator[Update]:
        call_id, name = string(part.get("id")), string(part.get("name"))
        if (call_id, -1) in self._sent:
            return  # known by its part
        self._sent[call_id, -1] = name
        if name in PLAN_TOOLS:
            self._hidden.add(call_id)
            return
        arguments = arguments_of(part)
        yield helpers.start_tool_call(
            call_id,
            call_title(part),
            kind=KINDS.get(name, "other"),
            status="pending",
            locations=locations(files_of_call(arguments), self._workspace),
            raw_input=arguments,
        )

    def _started(self, event: dict[str, Any]) -> Iterator[Update]:
        call_id = string(event.get("toolCallId"))
        if call_id not in self._hidden:
            yield helpers.update_tool_call(call_id, status="in_progress")

    def _result(self, part: dict[str, Any]) -> Iterator[Update]:
        call_id, failed = string(part.get("toolCallId")), part.get("isError") is True
        if part.get("type") != "tool_result" or call_id in self._hidden:
            return
        title, name = one_line(string(part.get("title"))), string(part.get("name"))
        yield helpers.update_tool_call(
            call_id,
            title=title if title.startswith(name) or not title else f"{name} {title}",
            status="failed" if failed else "completed",
            content=result_content(part, self._workspace),
            locations=locations(result_files(part), self._workspace) or None,
        )

    # -- the rest --

    @staticmethod
    def _notice(event: dict[str, Any]) -> Iterator[Update]:
        if event.get("code") not in _QUIET:
            yield notice(clean(string(event.get("text"))))

    @staticmethod
    def _retry(event: dict[str, Any]) -> Iterator[Update]:
        yield notice(t("{reason}: trying again …", reason=one_line(string(event.get("reason")))))

    @staticmethod
    def _restored(event: dict[str, Any]) -> Iterator[Update]:
        target, redone = shown_line(string(event.get("target"))), event.get("action") == "redo"
        yield notice(t("Redone: {target}", target=target) if redone else t("Undone: {target}", target=target))

    @staticmethod
    def _session(event: dict[str, Any]) -> Iterator[Update]:
        updates = mapping(event.get("updates"))
        if title := string(updates.get("title")):
            yield schema.SessionInfoUpdate(session_update="session_info_update", title=title)
        if mode := string(updates.get("mode")):
            yield helpers.update_current_mode(mode)


def notice(text: str) -> schema.AgentMessageChunk:
    """Return a line that is not the model's."""
    quoted = "\n".join(f"> {line}" for line in text.splitlines())
    return helpers.update_agent_message_text(f"\n\n{quoted}\n\n")


def _of(message_id: str, update: Chunk) -> Chunk:
    update.message_id = message_id
    return update
