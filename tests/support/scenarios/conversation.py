"""Conversations to feed pure functions with: messages with sequences, and the plan they belong to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from daemon.context.window import Window, build_window
from daemon.model.events import Marks
from daemon.model.messages import (
    CompactionPart,
    FilePart,
    FinishPart,
    Message,
    NotePart,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from daemon.plan.tree import Change, PlanTree
from tests.support.scenarios.sessions import PROFILE

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Conversation:
    """Grows message by message; what is said belongs to the goal in focus."""

    def __init__(self, mission: str = "") -> None:
        self.messages: list[Message] = []
        self.plan = PlanTree()
        self.plan.mission = mission
        self._calls = 0

    @property
    def next(self) -> int:
        """Sequence of the next message."""
        return len(self.messages) + 1

    def window(self) -> Window:
        """What a request shows of it."""
        return build_window(self.messages, self.plan, Marks(), PROFILE)

    def add(self, role: Role, *parts: Part, goal_id: str | None = None, **fields: Any) -> Message:
        """A message; it belongs to the goal in focus unless told otherwise."""
        goal_id = goal_id or self.plan.current_id
        message = Message(
            message_id=f"m{self.next}",
            trace_id="t",
            role=role,
            sequence=self.next,
            goal_id=goal_id,
            content=parts,
            created_at=NOW,
            **fields,
        )
        self.messages.append(message)
        self.plan.apply_counts(self.plan.count(goal_id, tokens=0, cost=0.0, tools=()))
        return message

    def user(self, text: str = "", *, files: Sequence[str] = (), note: str = "") -> Message:
        """Return a message of the user, with attachments by name and a note of ours."""
        parts: list[Part] = [TextPart(text=text)] if text else []
        parts += [FilePart(name=name, media_type="text/plain", data="aGk=") for name in files]
        if note:
            parts.append(NotePart(text=note))
        return self.add("user", *parts)

    def says(self, text: str) -> Message:
        """The model's last word of a turn."""
        return self.add("assistant", TextPart(text=text), FinishPart(reason="end_turn", time=NOW))

    def step(
        self,
        name: str,
        arguments: Mapping[str, Any],
        content: str = "ok",
        *,
        text: str = "",
        **fields: Any,
    ) -> Message:
        """One call with its result, both of the goal in focus. Returns the result."""
        self._calls += 1
        ident = f"call_{self._calls}"
        call = ToolCallPart(id=ident, name=name, input=json.dumps(arguments))
        self.add(
            "assistant",
            *([TextPart(text=text)] if text else []),
            call,
            FinishPart(reason="tool_use", time=NOW),
        )
        result = ToolResultPart(tool_call_id=ident, name=name, content=content, **fields)
        return self.add("tool", result, tool_call_id=ident)

    def compacted(self, summary: str, carried: str, keep_from: int) -> None:
        """The three messages of a full compaction."""
        for role, kind, text in (
            ("user", "request", "Sum up."),
            ("assistant", "summary", summary),
            ("user", "carried", carried),
        ):
            message = self.add(
                role,  # pyright: ignore[reportArgumentType]
                CompactionPart(kind=kind, keep_from=keep_from),  # pyright: ignore[reportArgumentType]
                TextPart(text=text),
            )
            self.messages[-1] = message.model_copy(update={"goal_id": None})

    # -- the plan --

    def goals(self, *descriptions: str) -> list[str]:
        """Goals under the focus; their ids."""
        changes = self.plan.plan_add(descriptions, "")
        self._apply(changes)
        return [str(self.plan.last_id - len(descriptions) + 1 + n) for n in range(len(descriptions))]

    def focus(self, goal_id: str) -> None:
        """Work on a goal."""
        self._apply(self.plan.plan_focus(self.plan.goals[goal_id]))

    def done(self, summary: str) -> None:
        """Finish the goal in focus."""
        self._apply(self.plan.plan_done(summary))

    def abandon(self, reason: str) -> None:
        """Give the goal in focus up."""
        self._apply(self.plan.plan_abandon(reason))

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.plan.apply(change)
