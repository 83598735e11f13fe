from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from daemon.model.messages import TextPart, ToolCallPart, Usage
from daemon.provider.call_ids import unique_call_ids
from daemon.provider.model_calls import (
    Complete,
    PartStop,
    ProviderEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)


def answer(ids: Sequence[str]) -> list[ProviderEvent]:
    events: list[ProviderEvent] = [TextDelta(0, "hm"), PartStop(0, TextPart(text="hm"))]
    calls = [ToolCallPart(id=each, name="read", input="{}") for each in ids]
    for index, call in enumerate(calls, 1):
        events += [
            ToolCallStart(index, call.id, call.name),
            ToolCallDelta(index, call.id, "{}"),
            PartStop(index, call),
        ]
    return [*events, Complete((TextPart(text="hm"), *calls), "tool_use", Usage(), "m")]


async def played(events: Sequence[ProviderEvent]) -> AsyncGenerator[ProviderEvent, None]:
    for event in events:
        yield event


@given(
    st.lists(st.sampled_from(["", "a", "b", "a_2"]), max_size=5),
    st.sets(st.sampled_from(["a", "b", "a_2", "a_3"])),
)
async def test_every_call_gets_one_id_of_its_own_and_keeps_it(ids: list[str], used: set[str]) -> None:
    got = [event async for event in unique_call_ids(played(answer(ids)), used.__contains__)]
    complete = got[-1]
    assert isinstance(complete, Complete)
    final = [part.id for part in complete.parts if isinstance(part, ToolCallPart)]
    assert len(set(final)) == len(final) == len(ids)
    assert not set(final) & used
    assert "" not in final
    assert [event.id for event in got if isinstance(event, ToolCallStart)] == final
    assert [event.id for event in got if isinstance(event, ToolCallDelta)] == final
    stops = [
        event.part.id for event in got if isinstance(event, PartStop) and isinstance(event.part, ToolCallPart)
    ]
    assert stops == final


async def test_ids_that_are_fine_are_left_alone() -> None:
    events = answer(["x", "y"])
    assert [event async for event in unique_call_ids(played(events), set[str]().__contains__)] == events


async def test_the_stream_is_closed_when_the_reader_leaves_early() -> None:
    closed: list[bool] = []

    async def source() -> AsyncGenerator[ProviderEvent, None]:
        try:
            for event in answer(["x"]):
                yield event
        finally:
            closed.append(True)

    stream = unique_call_ids(source(), set[str]().__contains__)
    await anext(stream)
    await stream.aclose()
    assert closed == [True]
