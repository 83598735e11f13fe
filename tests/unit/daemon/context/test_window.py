"""The window on the history: valid for every provider, whatever the history looks like."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.context.window import (
    CLEARED,
    INTERRUPTED,
    PRUNE_MINIMUM,
    PRUNE_PROTECT,
    Window,
    build_window,
    estimate_tokens,
)
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
)

NOW = datetime(2025, 1, 1, tzinfo=UTC)
FINISH = FinishPart(reason="end_turn", time=NOW)


def message(role: Role, *parts: Part, sequence: int = 1) -> Message:
    call_id = next((part.tool_call_id for part in parts if isinstance(part, ToolResultPart)), None)
    return Message(
        message_id=f"m{sequence}",
        trace_id="t",
        role=role,
        sequence=sequence,
        tool_call_id=call_id,
        content=parts,
        created_at=NOW,
    )


def user(text: str = "do it") -> Message:
    return message("user", TextPart(text=text))


def asks(*call_ids: str, text: str = "") -> Message:
    calls = [ToolCallPart(id=call_id, name="read", input="{}") for call_id in call_ids]
    return message("assistant", *([TextPart(text=text)] if text else []), *calls, FINISH)


def answer(call_id: str, content: str = "result") -> Message:
    return message("tool", ToolResultPart(tool_call_id=call_id, name="read", content=content))


def says(text: str) -> Message:
    return message("assistant", TextPart(text=text), FINISH)


def results(window: Window) -> list[ToolResultPart]:
    return [p for m in window.messages for p in m.content if isinstance(p, ToolResultPart)]


def check(window: Window) -> None:
    """What a provider insists on."""
    for position, sent in enumerate(window.messages):
        assert sent.content
        assert not any(isinstance(part, FinishPart) for part in sent.content)
        calls = [part.id for part in sent.content if isinstance(part, ToolCallPart)]
        if calls:
            assert sent.role == "assistant"
            answers = window.messages[position + 1]
            assert answers.role == "tool"
            assert [p.tool_call_id for p in answers.content if isinstance(p, ToolResultPart)] == calls
        if sent.role == "tool":
            assert all(isinstance(part, ToolResultPart) for part in sent.content)
            before = window.messages[position - 1]
            assert position > 0
            assert any(isinstance(part, ToolCallPart) for part in before.content)


def test_a_plain_history_is_sent_as_it_is() -> None:
    history = [user(), asks("1", "2", text="let me see"), answer("1", "a"), answer("2", "b"), says("done")]
    window = build_window(history)
    check(window)
    assert [m.role for m in window.messages] == ["user", "assistant", "tool", "assistant"]
    assert [r.content for r in results(window)] == ["a", "b"]
    assert window.pruned_tokens == 0


def test_results_stand_in_the_order_of_their_calls() -> None:
    window = build_window([user(), asks("1", "2"), answer("2", "b"), answer("1", "a")])
    assert [r.content for r in results(window)] == ["a", "b"]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    window = build_window([user(), asks("1", "2"), answer("1")])
    check(window)
    assert results(window)[1].content == INTERRUPTED
    assert results(window)[1].is_error


def test_a_result_without_its_call_is_left_out() -> None:
    window = build_window([user(), answer("9"), says("x")])
    check(window)
    assert [m.role for m in window.messages] == ["user", "assistant"]


def test_messages_without_content_are_left_out() -> None:
    history = [
        user(),
        message("assistant", TextPart(text=" \n"), FINISH),
        message("assistant", FINISH),
        user(""),
    ]
    assert [m.role for m in build_window(history).messages] == ["user"]


def test_an_image_alone_is_content() -> None:
    picture = FilePart(name="a.png", media_type="image/png", data="AAAA")
    assert build_window([message("user", picture)]).messages[0].content == (picture,)


def test_reasoning_goes_back_unchanged() -> None:
    thought = ReasoningPart(text="hm", signature="sig")
    window = build_window([user(), message("assistant", thought, TextPart(text="x"), FINISH)])
    assert window.messages[1].content == (thought, TextPart(text="x"))


def test_the_call_ids_of_a_server_that_counts_from_one_in_each_answer_do_not_mix() -> None:
    history = [user(), asks("call_0"), answer("call_0", "first"), asks("call_0"), answer("call_0", "second")]
    window = build_window(history)
    check(window)
    assert [r.content for r in results(window)] == ["first", "second"]


def test_a_result_that_came_in_after_the_persons_word_still_belongs_to_its_call() -> None:
    # A damaged or foreign log; the session itself never writes one in this order.
    window = build_window([user(), asks("1"), user("wait"), answer("1", "late")])
    check(window)
    assert results(window)[0].content == "late"


tools_of_turn = st.lists(st.integers(0, 4), max_size=4)


@st.composite
def histories(draw: st.DrawFn) -> Sequence[Message]:
    """Turns with steps, of which anything may be missing, doubled or empty."""
    found: list[Message] = []
    ids = itertools.count()
    for _ in range(draw(st.integers(0, 4))):
        found.append(user(draw(st.sampled_from(["do", "", " "]))))
        for count in draw(tools_of_turn):
            calls = [f"c{next(ids)}" for _ in range(count)]
            text = draw(st.sampled_from(["", "text", "  "]))
            found.append(asks(*calls, text=text))
            for call_id in draw(st.permutations(calls)):
                for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2]))):
                    found.append(answer(call_id, "x" * draw(st.sampled_from([1, 30_000, 200_000]))))
    if draw(st.booleans()):
        found.insert(draw(st.integers(0, len(found))), answer("orphan"))
    return found


@given(histories(), st.booleans())
def test_any_history_makes_a_valid_window(history: Sequence[Message], prune: bool) -> None:
    window = build_window(history, prune=prune)
    check(window)
    asked = [c.id for m in history if m.role == "assistant" for c in m.tool_calls()]
    assert [r.tool_call_id for r in results(window)] == asked
    if window.pruned_tokens:
        assert window.pruned_tokens >= PRUNE_MINIMUM


@given(histories())
def test_pruning_never_touches_the_last_two_turns(history: Sequence[Message]) -> None:
    starts = [i for i, m in enumerate(history) if m.role == "user"]
    safe = {p.tool_call_id for m in history[starts[-2] if len(starts) > 1 else 0 :] if (p := m.tool_result())}
    for result in results(build_window(history, prune=True)):
        if result.tool_call_id in safe:
            assert result.content != CLEARED


def big(tokens: int) -> str:
    return "x" * (4 * tokens)


def turns(*sizes: int) -> list[Message]:
    """One turn for each size, each with one tool result of so many tokens; then two turns without tools."""
    found: list[Message] = []
    for number, tokens in enumerate(sizes):
        found += [user(), asks(str(number)), answer(str(number), big(tokens)), says("ok")]
    return [*found, user(), says("ok"), user(), says("ok")]


def test_old_results_beyond_the_protected_tokens_are_cleared() -> None:
    history = turns(25_000, PRUNE_PROTECT)
    window = build_window(history, prune=True)
    assert window.pruned_tokens == 25_000
    assert [r.content == CLEARED for r in results(window)] == [True, False]
    assert not results(window)[0].is_error
    # The record itself is not touched.
    assert history[2].tool_result() == ToolResultPart(tool_call_id="0", name="read", content=big(25_000))


def test_nothing_is_cleared_for_less_than_the_minimum() -> None:
    for freed, expected in ((PRUNE_MINIMUM - 1, 0), (PRUNE_MINIMUM, PRUNE_MINIMUM)):
        assert build_window(turns(freed, PRUNE_PROTECT), prune=True).pruned_tokens == expected


def test_the_result_that_crosses_the_protected_amount_is_cleared() -> None:
    window = build_window(turns(PRUNE_PROTECT + 1), prune=True)
    assert window.pruned_tokens == PRUNE_PROTECT + 1


def test_results_of_the_last_two_turns_are_never_cleared() -> None:
    history = [user(), asks("0"), answer("0", big(200_000)), user(), asks("1"), answer("1", big(200_000))]
    assert build_window(history, prune=True).pruned_tokens == 0
    assert build_window([*history, user()], prune=True).pruned_tokens == 200_000


def test_without_pruning_everything_is_sent() -> None:
    assert all(r.content != CLEARED for r in results(build_window(turns(100_000, 100_000))))


def test_a_cleared_result_loses_its_images() -> None:
    picture = FilePart(name="a", media_type="image/png", data="AAAA")
    history = turns(30_000, PRUNE_PROTECT)
    result = history[2].tool_result()
    assert result is not None
    history[2] = message("tool", result.model_copy(update={"images": (picture,)}))
    assert results(build_window(history, prune=True))[0].images == ()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本", 2), ("日本abcd", 3), ("é" * 4, 1)],
)
def test_tokens_are_estimated(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
