"""Three identical calls in a row (seed 004 §5.5)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from daemon.loop.doom import is_doomed, same_call
from daemon.model.messages import Message, Part, Role, TextPart, ToolCallPart

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def message(role: Role, *parts: Part, goal: str | None = None) -> Message:
    return Message(
        message_id="m", trace_id="t", role=role, sequence=1, goal_id=goal, content=parts, created_at=NOW
    )


def call(number: int, name: str = "read", arguments: str = '{"file_path": "a"}') -> ToolCallPart:
    return ToolCallPart(id=f"c{number}", name=name, input=arguments)


def steps(*calls: ToolCallPart, goals: tuple[str, ...] = ()) -> list[Message]:
    """One step for each call."""
    named = goals or ("1",) * len(calls)
    return [
        message("user", TextPart(text="go")),
        *(message("assistant", c, goal=g) for c, g in zip(calls, named, strict=True)),
    ]


def test_the_third_equal_call_in_a_row_is_noticed() -> None:
    assert not is_doomed(steps(call(1)), call(1))
    assert not is_doomed(steps(call(1), call(2)), call(2))
    assert is_doomed(steps(call(1), call(2), call(3)), call(3))
    assert is_doomed(steps(call(1), call(2), call(3), call(4)), call(4))


def test_calls_of_one_step_count_one_by_one() -> None:
    history = [message("assistant", call(1), call(2), call(3), call(4, "ls"))]
    assert not is_doomed(history, call(2))
    assert is_doomed(history, call(3))
    assert not is_doomed(history, call(4, "ls"))


def test_other_calls_in_between_break_the_row() -> None:
    assert not is_doomed(steps(call(1), call(2, "ls"), call(3), call(4)), call(4))
    assert not is_doomed(steps(call(1), call(2, arguments="{}"), call(3)), call(3))


def test_changing_goals_do_not_break_the_row() -> None:
    assert is_doomed(steps(call(1), call(2), call(3), goals=("1", "2", "3")), call(3))


def test_the_persons_word_breaks_the_row() -> None:
    history = [
        *steps(call(1), call(2)),
        message("user", TextPart(text="again")),
        message("assistant", call(3)),
    ]
    assert not is_doomed(history, call(3))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ("", "{}", True),
        ('{"a": 1}', '{"a": 2}', False),
        ("{broken", "{broken", True),
        ("{broken", "{broken ", False),
        ("[" * 100_000, "[" * 100_000, True),
        ('{"a": "日"}', '{"a": "\\u65e5"}', True),
    ],
    ids=["order", "empty", "value", "broken", "broken-other", "deep", "escapes"],
)
def test_equal_input_is_equal_json(one: str, other: str, same: bool) -> None:
    assert same_call(call(1, arguments=one), call(2, arguments=other)) is same


def test_a_call_that_is_not_in_the_history_is_no_loop() -> None:
    assert not is_doomed(steps(call(1), call(2), call(3)), call(9))
