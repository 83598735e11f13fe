"""Detect repeated failures, so that a new plan is worthwhile. Pure.

A row is one thing that fails: changes of files are one row, each command line is a row of its own, and every other tool
is one. Other calls do not break a row (between two failing tests there is an edit); a success of the same thing does,
and so does a message of the user.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.loop.loop_detection import key_of
from daemon.model.messages import FilePart, Message, TextPart, ToolCallPart, ToolResultPart
from tools.localization import t
from tools.text.truncate import short

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILURES = 3
"""Failures of a row, after which a new plan is asked for."""
_CHANGES = frozenset({"edit", "write", "patch"})
_NOT_TRIED = frozenset({"denied", "not_run", "canceled"})
"""Results that do not reflect on the work."""


@dataclass(slots=True)
class Failures:
    """The rows of one turn, from the message with this index on."""

    taken: int
    _calls: dict[str, ToolCallPart] = field(default_factory=dict[str, ToolCallPart])
    _rows: dict[object, int] = field(default_factory=dict[object, int])

    def seen(self, messages: Sequence[Message]) -> str:
        """Read new messages. Returns a description of repeated failures; empty when there are none.

        All rows start over after a report.
        """
        new = messages[self.taken :]
        self.taken = len(messages)
        told = ""
        for message in new:
            if message.role == "user" and any(
                isinstance(part, TextPart | FilePart) for part in message.content
            ):
                if message.compaction() is None:
                    self._rows.clear()
                    told = ""
            elif message.role == "assistant":
                self._calls.update((call.id, call) for call in message.tool_calls())
            elif (result := message.tool_result()) is not None:
                told = self._result(result) or told
        if told:
            self._rows.clear()
        return told

    def _result(self, result: ToolResultPart) -> str:
        call = self._calls.pop(result.tool_call_id, None)
        if call is None or not _NOT_TRIED.isdisjoint(result.metadata):
            return ""
        row: object = (
            "changes" if call.name in _CHANGES else key_of(call) if call.name == "bash" else call.name
        )
        if not failed(result):
            self._rows.pop(row, None)
            return ""
        self._rows[row] = count = self._rows.get(row, 0) + 1
        if count < FAILURES:
            return ""
        if call.name in _CHANGES:
            return t(
                "{count} file changes in a row failed, the last one with: {result}",
                count=count,
                result=_brief(result),
            )
        if call.name == "bash":
            return t(
                "The same command failed {count} times, despite changes in between: {call}",
                count=count,
                call=_command(call),
            )
        return t(
            "{name} failed {count} times in a row, the last time with: {result}",
            name=call.name,
            count=count,
            result=_brief(result),
        )


def failed(result: ToolResultPart) -> bool:
    """Return whether a result is an error, or of a command with another exit code than 0."""
    code = result.metadata.get("exit_code")
    return result.is_error or (isinstance(code, int) and code != 0)


def _brief(result: ToolResultPart) -> str:
    line = " ".join(result.content.split())
    return short(line, 300)


def _command(call: ToolCallPart) -> str:
    try:
        command = call.arguments().get("command")
    except ValueError:
        command = call.input
    line = " ".join(str(command).split())
    return short(line, 300)
