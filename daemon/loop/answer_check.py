"""A check of answers that end a turn although nothing was done: empty ones, and tool calls written as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.loop import text_tool_calls
from daemon.loop.step import StepOutcome
from daemon.model.messages import ReasoningPart
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.loop.record import SessionRecord
    from daemon.model.messages import Message
    from daemon.provider.model_calls import ToolSpec

_MOST_NUDGES = 3
"""Most times a turn corrects a model that wrote a tool call as text; never twice in a row."""


class AnswerCheck:
    """Check the answers of one turn, and find words for the model a few times."""

    def __init__(self, record: SessionRecord) -> None:
        self.prompt = ""
        """The user's own words."""
        self._record = record
        self._written = False
        """The last answer was a tool call written as text."""
        self._worked = False
        """Calls of this turn were run."""
        self._nudges = 0

    def check(
        self,
        outcome: StepOutcome,
        messages: Sequence[Message],
        tools_offered: Callable[[], Sequence[ToolSpec]],
        model: str,
    ) -> StepOutcome | str:
        """Return the outcome of a step, or the correction for a model that gave no answer or wrote a call as text."""
        if outcome.stop == "tool_use":
            self._written, self._worked = False, True
        if outcome.stop != "end_turn":
            return outcome
        tools = tools_offered()
        answer, worked = _answer(messages), self._worked
        if answer is None:
            return outcome
        if not worked and text_tool_calls.is_empty(answer, self.prompt):
            noticed = t("The model returned an empty response. It is asked once more.")
            gave_up, nudge = text_tool_calls.gave_up_empty(model), text_tool_calls.NUDGE_EMPTY
        elif text_tool_calls.asks_for_one(self.prompt):
            return outcome
        elif call := text_tool_calls.text_tool_call(answer, tools):
            noticed = text_tool_calls.noticed(call)
            gave_up = text_tool_calls.gave_up(call, model, worked=worked)
            nudge = text_tool_calls.nudge(call, tools)
        else:
            return outcome
        if self._written or self._nudges == _MOST_NUDGES:
            self._record.notice("warning" if worked else "error", gave_up, text_tool_calls.CODE)
            return StepOutcome("error", gave_up)
        self._written = True
        self._nudges += 1
        self._record.notice("info", noticed, text_tool_calls.CODE)
        return nudge


def _answer(messages: Sequence[Message]) -> str | None:
    """Return the model's last text, or its reasoning when it has no text; None when it called tools."""
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if last is None or last.tool_calls():
        return None
    thoughts = [part.text for part in last.content if isinstance(part, ReasoningPart)]
    return last.text().strip() or "\n".join(thoughts)
