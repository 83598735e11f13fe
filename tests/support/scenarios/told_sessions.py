"""Sessions told message by message, with short texts: for tests of what the window makes of each."""

from __future__ import annotations

from typing import Any

from daemon.context.window import Window, build_window
from daemon.model.messages import (
    CompactionPart,
    Message,
    NotePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from tests.support.scenarios.sessions import FINISH, FakeSession


class Told(FakeSession):
    """A session told message by message, with short texts."""

    def user(self, text: str = "do it") -> Message:
        return self.add("user", TextPart(text=text), goal_id=self.plan.current_id)

    def says(self, text: str, goal_id: str | None = None) -> Message:
        return self.add("assistant", TextPart(text=text), FINISH, goal_id=goal_id or self.plan.current_id)

    def asks(self, *ids: str, text: str = "", goal_id: str | None = None, name: str = "read") -> Message:
        parts: list[Part] = [TextPart(text=text)] if text else []
        parts += [ToolCallPart(id=call_id, name=name, input="{}") for call_id in ids]
        return self.add("assistant", *parts, FINISH, goal_id=goal_id or self.plan.current_id)

    def answer(
        self, call_id: str, content: str = "result", goal_id: str | None = None, **more: object
    ) -> Message:
        result = ToolResultPart(tool_call_id=call_id, name="read", content=content).model_copy(update=more)
        return self.add("tool", result, goal_id=goal_id or self.plan.current_id)

    def step(self, call_id: str, content: str = "result", text: str = "") -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.asks(call_id, text=text)
        self.answer(call_id, content)

    def goal(self, description: str) -> str:
        """Add a goal at the focus and focus it."""
        for change in self.plan.plan_add([description], ""):
            self.plan.apply(change)
        goal_id = str(self.plan.last_id)
        self.focus(goal_id)
        return goal_id

    def focus(self, goal_id: str) -> None:
        for change in self.plan.plan_focus(self.plan.goals[goal_id]):
            self.plan.apply(change)

    def done(self, summary: str) -> None:
        for change in self.plan.plan_done(summary):
            self.plan.apply(change)

    def abandon(self, reason: str) -> None:
        for change in self.plan.plan_abandon(reason):
            self.plan.apply(change)

    def compacted(
        self, keep: int, *, cut: bool = False, kinds: tuple[str, ...] = ("request", "summary", "carried")
    ) -> None:
        """A full compaction that keeps what has this sequence and more."""
        mark = CompactionPart(keep_from=keep, cut_results=cut)
        for kind in kinds:
            role = "assistant" if kind == "summary" else "user"
            self.add(role, TextPart(text=f"<{kind}>"), mark.model_copy(update={"kind": kind}))

    def window(self) -> Window:
        return build_window(self.messages, self.plan, self.marks, self.profile)

    def lines(self) -> list[str]:
        """The window, a line a part: its role's first letter and what it says."""
        return lines(self.window())


def lines(window: Window) -> list[str]:
    found: list[str] = []
    for message in window.messages:
        for part in message.content:
            match part:
                case ToolCallPart():
                    said = f"call {part.id}"
                case ToolResultPart():
                    said = f"{part.tool_call_id}={part.content}"
                case TextPart() | NotePart() | ReasoningPart():
                    said = part.text
                case _:
                    said = part.type
            found.append(f"{message.role[0]}: {said}")
    return found


def rules(**texts: str) -> dict[str, Any]:
    return {"metadata": {"instructions": {f"{name}/AGENTS.md": text for name, text in texts.items()}}}
