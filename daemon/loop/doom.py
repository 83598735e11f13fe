"""Notices when the model runs in circles (source: seed 004 §5.5: three identical calls in a row)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence

from daemon.model.messages import Message, ToolCallPart

REPEATS = 3


def same_call(one: ToolCallPart, other: ToolCallPart) -> bool:
    """Same tool and equal input; the order of keys and white space in the JSON do not matter."""
    return one.name == other.name and _canonical(one) == _canonical(other)


def is_doomed(messages: Sequence[Message], call: ToolCallPart) -> bool:
    """Whether ``call`` (already in the last message) is the third identical one in a row, across goals."""
    row = itertools.dropwhile(lambda other: other.id != call.id, _calls_backwards(messages))
    last = list(itertools.islice(row, REPEATS))
    return len(last) == REPEATS and all(same_call(call, other) for other in last)


def _calls_backwards(messages: Sequence[Message]) -> Iterator[ToolCallPart]:
    """The calls since the person said something, the newest first. Lazily: a turn may be long."""
    for message in reversed(messages):
        if message.role == "user":
            if message.compaction() is None:
                return
        elif message.role == "assistant":
            yield from reversed(message.tool_calls())


def _canonical(call: ToolCallPart) -> str:
    try:
        return json.dumps(call.arguments(), sort_keys=True)
    except ValueError:
        return call.input
