"""A window that did not fit, made shorter for the request that sums it up."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from daemon.context.compaction import shortened
from daemon.context.tokens import message_tokens
from daemon.model.messages import FilePart, TextPart, ToolCallPart, ToolResultPart
from daemon.provider.model_calls import PromptMessage
from tests.support.scenarios.conversation import Conversation


def size(messages: tuple[PromptMessage, ...]) -> int:
    return sum(map(message_tokens, messages))


def check_pairs(messages: tuple[PromptMessage, ...]) -> None:
    calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert [
                part.tool_call_id for part in message.content if isinstance(part, ToolResultPart)
            ] == calls
            calls = []
            continue
        assert not calls
        calls = [part.id for part in message.content if isinstance(part, ToolCallPart)]
    assert not calls


def long_talk() -> Conversation:
    talk = Conversation()
    talk.user("THE MISSION", files=["big.pdf"])
    for number in range(30):
        talk.step("read", {"file_path": f"f{number}"}, f"begin{number} " + "x" * 8_000 + f" end{number}")
    return talk


def test_long_results_keep_both_ends_and_attachments_their_name() -> None:
    window = long_talk().window()
    short = shortened(window.messages, 100_000)
    assert len(short) == len(window.messages)
    results = [part for message in short for part in message.content if isinstance(part, ToolResultPart)]
    assert results[3].content.startswith("begin3 xx")
    assert results[3].content.endswith("xx end3")
    assert all(len(result.content) < 2_200 for result in results)
    assert not any(isinstance(part, FilePart) for message in short for part in message.content)
    assert TextPart(text="[attached: big.pdf]") in short[0].content


def test_shortening_drops_oldest_but_keeps_mission_and_pairs() -> None:
    short = shortened(long_talk().window().messages, 5_000)
    assert "THE MISSION" in str(short[0])
    assert "older messages are left out here" in str(short[1])
    assert "end29" in str(short[-1])
    assert "end3 " not in str(short)
    assert size(short) <= 5_100
    check_pairs(short)


def test_long_arguments_stay_arguments() -> None:
    talk = Conversation()
    talk.user("go")
    talk.step("write", {"file_path": "a.py", "content": "begin" + "x" * 50_000 + "end", "n": [1] * 9_000})
    short = shortened(talk.window().messages, 100_000)
    (call,) = [part for message in short for part in message.content if isinstance(part, ToolCallPart)]
    arguments = json.loads(call.input)
    assert arguments["file_path"] == "a.py"
    assert arguments["content"].startswith("begin")
    assert arguments["content"].endswith("end")
    assert len(call.input) < 6_000


def test_single_too_long_message_is_truncated_to_the_limit() -> None:
    talk = Conversation()
    talk.user("begin" + "x" * 1_000_000 + "end")
    short = shortened(talk.window().messages, 2_000)
    assert size(short) < 2_000
    assert "end" in str(short[0])


@given(
    st.lists(st.sampled_from(["user", "step", "says"]), max_size=25),
    st.integers(min_value=0, max_value=3_000),
)
def test_calls_and_results_are_never_separated(kinds: list[str], limit: int) -> None:
    talk = Conversation()
    for number, kind in enumerate(kinds):
        if kind == "step":
            talk.step("read", {"file_path": "f" * number * 40}, "r" * number * 100)
        elif kind == "user":
            talk.user("u" * number * 50 + ".")
        else:
            talk.says("s" * number * 50 + ".")
    check_pairs(shortened(talk.window().messages, limit))
