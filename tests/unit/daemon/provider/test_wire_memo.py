"""Wires remember messages that are sent again: nothing that one request gets may show in another."""

from __future__ import annotations

import copy
import gc
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from daemon.model.messages import FilePart
from daemon.provider import anthropic_wire, openai_wire
from daemon.provider.memo import Latest, Memo, Tally
from daemon.provider.model_calls import ModelRequest, PromptMessage, SystemBlock, ToolSpec
from tests.support.scenarios.model_requests import assistant, call, request, result, thought, user

KEYS = object(), object(), object()
PICTURE = FilePart(name="a.png", media_type="image/png", data="iVBO")
TALK = [
    user("a"), assistant(thought("why", "s1"), "b", call("c1")), result("c1", "r1", images=(PICTURE,)), user("steer"),
    assistant(call("c2")), result("c2", "r2"),
]  # fmt: skip


def spoilt(value: Any) -> None:
    """Change everything in a request that can be changed, as a library might."""
    if isinstance(value, dict):
        for item in value.values():
            spoilt(item)
        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            spoilt(item)
        value.append("spoilt")


def test_breakpoints_do_not_leak_into_the_next_request() -> None:
    first = anthropic_wire.build(request(*TALK[:3], tail="plan 1"))
    kept = copy.deepcopy(first)
    longer = anthropic_wire.build(request(*TALK, tail="plan 2"))
    assert longer == anthropic_wire.build(request(*copy.deepcopy(TALK), tail="plan 2"))
    marks = [b for m in longer["messages"] for b in m["content"] if "cache_control" in b]
    assert len(marks) == 2
    assert "plan 1" not in str(longer)
    assert first == kept


@pytest.mark.parametrize("block_bytes", [1, 200, 128 * 1024])
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=12), st.booleans())
def test_grown_and_cut_conversations_equal_fresh_ones(
    block_bytes: int, steps: list[tuple[int, int]], replay: bool
) -> None:
    kinds = [
        lambda n: user(f"said {n}"),
        lambda n: assistant(f"text {n}", call(f"c{n}")),
        lambda n: result(f"c{n - 1}", f"result {n}"),
        lambda n: assistant(thought("why", f"s{n}"), f"b {n}"),
        lambda n: assistant(thought("broken off", f"s{n}")),
        lambda n: user(" "),
        lambda n: assistant(call(f"c{n}")),
    ]
    talk = [user("a")]
    for number, (kind, cut) in enumerate(steps):
        del talk[max(1, len(talk) - (cut if cut < 3 else 0)) :]
        talk.append(kinds[kind](number))
        one = request(*talk, tail=f"plan {number}", stays=len(talk) // 2)
        made = anthropic_wire.build(one, replay_thinking=replay)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(anthropic_wire, "_BLOCK_BYTES", block_bytes)
            assert json.loads(b"".join(anthropic_wire.encode(made))) == made
        again = request(*copy.deepcopy(talk), tail=f"plan {number}", stays=len(talk) // 2)
        assert made == anthropic_wire.build(again, replay_thinking=replay)


def test_a_message_that_was_sent_is_not_encoded_again() -> None:
    first = anthropic_wire.build(request(*TALK))
    anthropic_wire.encode(first)
    more = anthropic_wire.build(request(*TALK, assistant(call("c3")), result("c3", "r3")))
    more = anthropic_wire.build(request(*TALK, assistant(call("c3")), result("c3", "r3"), user("on")))
    body = anthropic_wire.encode(more)
    assert json.loads(b"".join(body)) == more
    later = anthropic_wire.build(
        request(*TALK, assistant(call("c3")), result("c3", "r3"), user("on"), assistant("d"))
    )
    assert later["messages"][0] is more["messages"][0]
    assert later["tools"] is more["tools"]


def test_long_conversation_is_sent_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anthropic_wire, "_BLOCK_BYTES", 1_000)
    encoded: list[object] = []
    to_json = anthropic_wire._json
    monkeypatch.setattr(anthropic_wire, "_json", lambda value: (encoded.append(value), to_json(value))[1])
    talk = [user("a")]
    large: dict[int, bytes] = {}
    body: list[bytes] = []
    for number in range(40):
        talk += [assistant(f"text {number}", call(f"c{number}")), result(f"c{number}", "r")]
        made = anthropic_wire.build(request(*talk, stays=8 if number > 30 else 0))
        encoded.clear()
        body = anthropic_wire.encode(made)
        # The messages that are new or have a breakpoint, however many were sent before.
        assert sum(one in made["messages"] for one in encoded) <= 6
        assert json.loads(b"".join(body)) == made
        before, large = large, {id(piece): piece for piece in body[:-1] if len(piece) >= 1_000}
        # From then on a breakpoint is in the first block: it is sent in two parts, with a message between them.
        assert len(before.keys() - large.keys()) == (number >= 31)
    assert sum(map(len, large.values())) > 0.7 * sum(map(len, body))


def test_request_encoded_after_a_later_one_of_its_conversation() -> None:
    anthropic_wire.encode(anthropic_wire.build(request(*TALK)))
    more = [*TALK, assistant(call("c3")), result("c3", "r3")]
    one = anthropic_wire.build(request(*more))
    other = anthropic_wire.build(request(*more, assistant(call("c4")), result("c4", "r4")))
    assert json.loads(b"".join(anthropic_wire.encode(other))) == other
    assert json.loads(b"".join(anthropic_wire.encode(one))) == one


def test_request_without_thinking_leaves_memoized_ones_intact() -> None:
    with_it = anthropic_wire.to_messages(TALK)
    without = anthropic_wire.to_messages(TALK, replay_thinking=False)
    assert anthropic_wire.has_thinking(with_it)
    assert not anthropic_wire.has_thinking(without)
    assert anthropic_wire.to_messages(TALK) == with_it


def test_library_changes_to_a_request_do_not_leak_into_the_next() -> None:
    fresh = openai_wire.to_messages(request(*copy.deepcopy(TALK)), replay_reasoning=True)
    found = openai_wire.to_messages(request(*TALK), replay_reasoning=True)
    assert found == fresh
    for message in found:
        message["content"] = None
        for made in message.get("tool_calls", ()):
            spoilt(made)
    assert openai_wire.to_messages(request(*TALK), replay_reasoning=True) == fresh
    plain = openai_wire.to_messages(request(*TALK))
    assert not any("reasoning_content" in message for message in plain)


def test_requests_with_the_same_messages_are_equal() -> None:
    one: ModelRequest = request(*TALK)
    assert anthropic_wire.build(one) == anthropic_wire.build(replace(one))


def test_two_sessions_in_turn_encode_their_frames_once() -> None:
    tool = ToolSpec("read", "Reads.", {"type": "object"})
    one, other = (
        replace(request(*TALK), system=(SystemBlock(text, cache=True),), tools=(tool,))
        for text in ("one", "other")
    )
    first, second = anthropic_wire.build(one), anthropic_wire.build(other)
    again, later = anthropic_wire.build(one), anthropic_wire.build(other)
    assert again["system"] is first["system"] and again["tools"] is first["tools"]
    assert later["system"] is second["system"] is not first["system"]
    assert [first["system"][0]["text"], second["system"][0]["text"]] == ["one", "other"]


def test_latest_keeps_the_few_that_were_wanted_last() -> None:
    latest: Latest[int] = Latest(2)
    made: list[int] = []

    def get(number: int) -> int:
        def make() -> int:
            made.append(number)
            return number

        return latest.get(make, same=(KEYS[number],), equal=number)

    assert [get(number) for number in (0, 1, 0, 2, 0, 1)] == [0, 1, 0, 2, 0, 1]
    assert made == [0, 1, 2, 1]
    assert latest.get(lambda: 9, same=(object(),), equal=1) == 9  # equal, and another object


def test_tally_looks_only_at_new_items_and_follows_changes() -> None:
    looked: list[str] = []

    def add(found: dict[str, int], item: str) -> None:
        looked.append(item)
        found[item] = found.get(item, 0) + 1

    tally: Tally[str, dict[str, int]] = Tally(dict, add)
    assert tally.of(()) == {}
    assert tally.of(("a", "b", "a")) == {"a": 2, "b": 1}
    looked.clear()
    assert tally.of(("a", "b", "a", "c")) == {"a": 2, "b": 1, "c": 1}
    assert looked == ["c"]
    assert tally.of(("a", "b")) == {"a": 1, "b": 1}  # the end was cut off
    assert tally.of(("b", "b", "c")) == {"b": 2, "c": 1}  # the beginning is another one


def test_memo_computes_once_and_releases_its_entries() -> None:
    memo: Memo[PromptMessage, int] = Memo()
    asked: list[PromptMessage] = []

    def count(message: PromptMessage) -> int:
        asked.append(message)
        return len(message.content)

    message, equal = user("a"), user("a")
    assert [memo.get(message, count), memo.get(message, count), memo.get(equal, count)] == [1, 1, 1]
    assert len(asked) == 2
    asked.clear()
    assert len(memo) == 2
    del equal
    gc.collect()
    assert len(memo) == 1
    assert memo.get(message, count) == 1
    assert asked == []
