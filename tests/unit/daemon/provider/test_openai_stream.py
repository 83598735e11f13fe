"""Chunks of chat completions, put together."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace as Obj
from typing import Any

import pytest

from daemon.model.messages import Part, ReasoningPart, TextPart, ToolCallPart, Usage
from daemon.provider.model_calls import Complete, PartStop, ProviderError, ProviderEvent, ToolCallStart
from daemon.provider.openai_stream import AnswerBuilder


def delta(**fields: Any) -> Obj:
    return Obj(choices=[Obj(delta=Obj(**fields), finish_reason=None)])


def piece(
    index: int = 0, ident: str | None = None, name: str | None = None, arguments: str | None = ""
) -> Obj:
    return delta(tool_calls=[Obj(index=index, id=ident, function=Obj(name=name, arguments=arguments))])


def stop(reason: str) -> Obj:
    return Obj(choices=[Obj(delta=Obj(), finish_reason=reason)])


def play(*chunks: Obj) -> tuple[list[ProviderEvent], Complete]:
    numbers = count(1)
    builder = AnswerBuilder("m", "host", lambda: f"new{next(numbers)}")
    events = [event for chunk in chunks for event in builder.feed(chunk)]
    events += builder.end(True)
    last = events[-1]
    assert isinstance(last, Complete)
    return events, last


def calls(parts: tuple[Part, ...]) -> list[tuple[str, str, str]]:
    return [(part.id, part.name, part.input) for part in parts if isinstance(part, ToolCallPart)]


def test_reasoning_text_and_calls_are_parts_in_stream_order() -> None:
    _, end = play(
        delta(reasoning_content="wh"),
        delta(reasoning_content="y"),
        delta(content="I "),
        delta(content="read"),
        piece(0, "c1", "read"),
        piece(0, arguments='{"a":'),
        piece(0, arguments="1}"),
        stop("tool_calls"),
    )
    reasoning, text, use = end.parts
    assert isinstance(reasoning, ReasoningPart)
    assert reasoning.text == "why"
    assert isinstance(text, TextPart)
    assert text.text == "I read"
    assert calls((use,)) == [("c1", "read", '{"a":1}')]
    assert end.stop_reason == "tool_use"


def test_calls_that_grow_in_turn_keep_their_pieces_apart() -> None:
    _, end = play(
        piece(0, "c1", "read"),
        piece(1, "c2", "ls"),
        piece(0, arguments='{"a"'),
        piece(1, arguments='{"b"'),
        piece(0, arguments=":1}"),
        piece(1, arguments=":2}"),
    )
    assert calls(end.parts) == [("c1", "read", '{"a":1}'), ("c2", "ls", '{"b":2}')]


def test_complete_calls_at_index_zero_are_kept_apart() -> None:
    _, end = play(piece(0, "c1", "read", '{"a":1}'), piece(0, "c2", "read", '{"a":1}'))
    assert [ident for ident, _, _ in calls(end.parts)] == ["c1", "c2"]


def test_arguments_that_nest_endlessly_are_kept_as_they_are() -> None:
    _, end = play(piece(0, "c1", "read", "[" * 5_000), piece(0, "c2", "read", "["))
    assert calls(end.parts) == [("c1", "read", "[" * 5_001)]


def test_calls_without_ids_get_some() -> None:
    _, end = play(piece(0, None, "read", '{"a":1}'), piece(0, None, "read", '{"a":2}'))
    assert calls(end.parts) == [("call_new1", "read", '{"a":1}'), ("call_new2", "read", '{"a":2}')]


def test_tool_name_repeated_in_each_chunk_starts_no_new_call() -> None:
    _, end = play(piece(0, "c1", "read", '{"a"'), piece(0, "c1", "read", ":1}"), piece(0, "c1", "read", ""))
    assert calls(end.parts) == [("c1", "read", '{"a":1}')]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    _, end = play(piece(0, "c1", "ls", None), piece(0, "c2", "ls", None))
    assert calls(end.parts) == [("c1", "ls", "{}"), ("c2", "ls", "{}")]


def test_every_part_starts_first_and_stops_once() -> None:
    events, end = play(delta(content="a"), piece(0, "c1", "read", "{}"), delta(content="b"))
    stops = [event.index for event in events if isinstance(event, PartStop)]
    assert sorted(stops) == list(range(len(end.parts)))
    assert [event.index for event in events if isinstance(event, ToolCallStart)] == [1]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("tool_calls", "tool_use"), ("odd", "end_turn")],
)
def test_finish_reasons(reason: str, expected: str) -> None:
    assert play(delta(content="a"), stop(reason))[1].stop_reason == expected


def test_stop_with_a_tool_call_means_tool_use() -> None:
    assert play(piece(0, "c1", "read", "{}"), stop("stop"))[1].stop_reason == "tool_use"


def test_content_filter_is_reported() -> None:
    end = play(delta(content="a"), stop("content_filter"))[1]
    assert end.stop_reason == "end_turn"
    assert "filter" in end.detail


def test_cached_tokens_are_not_counted_as_input_again() -> None:
    usage = Obj(prompt_tokens=100, completion_tokens=7, prompt_tokens_details=Obj(cached_tokens=60))
    end = play(delta(content="a"), Obj(choices=[], usage=usage))[1]
    assert end.usage == Usage(input=40, output=7, cache_read=60)


def test_truncated_answer_is_a_retryable_error() -> None:
    builder = AnswerBuilder("m", "host", lambda: "x")
    builder.feed(delta(content="a"))
    with pytest.raises(ProviderError) as caught:
        builder.end(False)
    assert (caught.value.kind, caught.value.retryable) == ("malformed", True)
