"""Streams of the Anthropic API that a server or a gateway repeats."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.provider.anthropic_stream import MessageBuilder
from daemon.provider.model_calls import ProviderError

START = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}}
STOP = {"type": "content_block_stop", "index": 0}


def begin(**block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": block}


CALL = begin(type="tool_use", id="c1", name="read", input={})


@pytest.mark.parametrize(
    "events",
    [
        (START, CALL, STOP, START),  # each call of it would run twice
        (START, CALL, CALL),
        (START, begin(type="text", text="hello"), CALL),  # the text would be shown and never stored
    ],
)
def test_a_message_or_block_that_begins_again_is_malformed(events: tuple[dict[str, Any], ...]) -> None:
    builder = MessageBuilder("host", "m")
    for event in events[:-1]:
        builder.feed(event)
    with pytest.raises(ProviderError, match="not valid") as caught:
        builder.feed(events[-1])
    assert (caught.value.kind, caught.value.retryable) == ("malformed", True)


def test_a_message_that_only_begins_twice_is_one() -> None:
    builder = MessageBuilder("host", "m")
    for event in (START, START, CALL, STOP, {"type": "message_stop"}):
        builder.feed(event)
    assert len(builder.complete().parts) == 1
