"""Messages: the description the system makes, the arguments of a call, and both spellings."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from daemon.model.events import Event, GoalUpdated, MessageAdded
from daemon.model.messages import (
    FilePart,
    FinishPart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    describe,
)

NOW = datetime(2025, 1, 1, tzinfo=UTC)
CALL = ToolCallPart(id="1", name="read", input="{}")
OTHER = ToolCallPart(id="2", name="edit", input="{}")
FINISH = FinishPart(reason="end_turn", time=NOW)


@pytest.mark.parametrize(
    ("role", "parts", "described"),
    [
        ("assistant", (TextPart(text="  I look "), CALL, FINISH), "I look"),
        ("assistant", (ReasoningPart(text="hm"), CALL, OTHER, FINISH), "tool call: read, edit"),
        ("assistant", (TextPart(text=" \n"), CALL), "tool call: read"),
        ("assistant", (TextPart(text=""), TextPart(text="second")), "second"),
        ("assistant", (FINISH,), ""),
        ("tool", (ToolResultPart(tool_call_id="1", name="read", content="text"),), "read"),
        ("tool", (), "tool"),
        ("user", (TextPart(text="do it"),), "do it"),
        ("user", (FilePart(name="a.png", media_type="image/png"),), "a.png"),
        ("user", (), ""),
    ],
)
def test_description_is_first_text_then_calls_then_tool_name(
    role: Role, parts: tuple[Part, ...], described: str
) -> None:
    assert describe(role, parts) == described


@pytest.mark.parametrize("text", ["{", "[1]", "null", '"x"', "[" * 100_000], ids=lambda t: t[:5])
def test_non_object_arguments_raise_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        ToolCallPart(id="1", name="x", input=text).arguments()


def test_a_call_without_input_has_no_arguments() -> None:
    assert ToolCallPart(id="1", name="x", input="").arguments() == {}


def message() -> Message:
    return Message(
        message_id="m1",
        trace_id="t",
        role="assistant",
        sequence=1,
        goal_id="1",
        content=(
            ReasoningPart(text="hm", signature="s"),
            TextPart(text="a"),
            TextPart(text="b"),
            CALL,
            FINISH,
        ),
        created_at=NOW,
        usage=Usage(input=1, output=2, cache_read=3, cache_write=4),
    )


def test_message_accessors_return_its_parts() -> None:
    assert message().text() == "ab"
    assert message().tool_calls() == [CALL]
    assert message().tool_result() is None
    assert message().stop_reason() == "end_turn"
    assert message().usage == Usage(input=1, output=2, cache_read=3, cache_write=4)
    assert Usage(input=1, output=2, cache_read=3, cache_write=4).total == 10


def test_an_event_is_read_from_the_store_and_from_the_wire() -> None:
    adapter: TypeAdapter[Event] = TypeAdapter(Event)
    event = MessageAdded(event_id=3, trace_id="t", time=NOW, message=message())
    assert adapter.validate_python(json.loads(json.dumps(event.stored()))) == event
    assert adapter.validate_python(json.loads(json.dumps(event.wire()))) == event
    assert event.wire()["eventId"] == 3
    assert event.stored()["event_id"] == 3


def test_unknown_fields_are_ignored_and_unknown_events_refused() -> None:
    adapter: TypeAdapter[Event] = TypeAdapter(Event)
    event = GoalUpdated(trace_id="t", time=NOW, goal_id="1", updates={"status": "completed"})
    assert adapter.validate_python({**event.stored(), "shiny": True}) == event
    with pytest.raises(ValidationError):
        adapter.validate_python({"event": "from_the_future", "trace_id": "t", "time": NOW})


def test_models_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        message().role = "user"  # type: ignore[misc]  # that is the test


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (r'{"path": "a\ud800"}', {"path": "a\ufffd"}),
        (r'{"\udc00": ["\uDBFF x"]}', {"\ufffd": ["\ufffd x"]}),
        (r'{"path": "\ud83d\ude00"}', {"path": "😀"}),
        (r'{"path": "\\ud800"}', {"path": r"\ud800"}),
    ],
)
def test_half_a_character_in_an_argument_is_replaced(text: str, arguments: dict[str, object]) -> None:
    call = ToolCallPart(id="1", name="read", input=text)
    assert call.arguments() == arguments
