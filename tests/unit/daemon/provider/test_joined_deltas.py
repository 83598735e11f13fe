"""Deltas that arrive at once: fewer events, and the same text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from daemon.model.messages import TextPart
from daemon.provider.anthropic_stream import joined
from daemon.provider.model_calls import (
    PartStop,
    ProviderError,
    ProviderEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)


def test_deltas_of_one_part_become_one() -> None:
    stop = PartStop(0, TextPart(text="abc"))
    start = ToolCallStart(1, "c1", "read")
    events: list[ProviderEvent] = [
        TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(0, "c"), stop, start,
        ToolCallDelta(1, "c1", "{"), ToolCallDelta(1, "c1", "}"), ReasoningDelta(2, "x"), ReasoningDelta(3, "y"),
        TextDelta(3, "z"), ReasoningDelta(3, "u"), ReasoningDelta(3, "v"),
    ]  # fmt: skip
    assert list(joined(events)) == [
        TextDelta(0, "abc"), stop, start, ToolCallDelta(1, "c1", "{}"), ReasoningDelta(2, "x"),
        ReasoningDelta(3, "y"), TextDelta(3, "z"), ReasoningDelta(3, "uv"),
    ]  # fmt: skip
    assert list(joined([])) == []


def test_what_came_before_an_error_is_not_lost() -> None:
    def broken() -> Iterator[ProviderEvent]:
        yield TextDelta(0, "a")
        yield TextDelta(0, "b")
        raise ProviderError("malformed", "broken off")

    seen: list[ProviderEvent] = []
    with pytest.raises(ProviderError):
        seen.extend(joined(broken()))
    assert seen == [TextDelta(0, "ab")]
