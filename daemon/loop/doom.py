"""Notices when the model runs in circles (source: seed 004 §5.5: three identical calls in a row)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from daemon.model.messages import Message, ToolCallPart

REPEATS = 3


def same_call(one: ToolCallPart, other: ToolCallPart) -> bool:
    """Same tool and equal input; the order of keys and white space in the JSON do not matter."""
    return one.name == other.name and _canonical(one) == _canonical(other)


def is_doomed(messages: Sequence[Message], call: ToolCallPart) -> bool:
    """Whether ``call`` (already in the last message) is the third identical one in a row, across goals."""
    earlier: list[ToolCallPart] = []
    for message in reversed(messages):
        if message.compaction() is not None:
            continue  # nobody said anything in between
        if message.role == "user":
            break
        if message.role == "assistant":
            earlier.extend(reversed(message.tool_calls()))
    position = next((i for i, other in enumerate(earlier) if other.id == call.id), None)
    if position is None:
        return False
    last = earlier[position : position + REPEATS]
    return len(last) == REPEATS and all(same_call(call, other) for other in last)


def _canonical(call: ToolCallPart) -> str:
    try:
        return json.dumps(call.arguments(), sort_keys=True)
    except ValueError:
        return call.input
