"""Texts that grow, cut anywhere, with and without secrets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.deltas import Deltas
from daemon.model.events import Delta, MessageAdded, MessageDiscarded, MessagePartAdded
from daemon.model.messages import Message, TextPart

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KEYS = [
    "sk-ant-api03-abcdefgh12345678ABCDEFGH",
    "ghp_abcdefghij0123456789ABCDEFGHIJ012345",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nabcdefghijklmnopqrstuv\n",
]


def delta(text: str, **fields: object) -> Delta:
    return Delta.model_validate({"trace_id": "t", "kind": "text", "message_id": "m", "text": text, **fields})


def told(deltas: Deltas, *texts: str) -> str:
    return "".join(item.text for text in texts for item in deltas.told([delta(text)]))


@given(
    st.sampled_from(KEYS),
    st.sampled_from(["use ", "KEY=", '"', "so:\n", "鑰匙 "]),
    st.lists(st.integers(1, 9), min_size=1),
)
def test_a_key_in_pieces_is_never_told(key: str, before: str, sizes: list[int]) -> None:
    rest, deltas, heard = f"{before}{key} and then more of it\nthe end\n", Deltas(), ""
    for number in range(len(rest)):
        if not rest:
            break
        size = sizes[number % len(sizes)]
        heard += told(deltas, rest[:size])
        rest = rest[size:]
    secret = key.partition("-----\n")[2] or key
    assert not any(secret[at : at + 12] in heard for at in range(len(secret) - 12))
    assert heard.startswith(
        before[:1].strip("K")
    )  # what stands before it is told, but for the sign it may begin with


@given(st.lists(st.text("ab c\n日本.", max_size=8), max_size=12))
def test_plain_text_arrives_whole_once_a_line_ends(pieces: list[str]) -> None:
    deltas = Deltas()
    heard = told(deltas, *pieces)
    whole = "".join(pieces)
    assert whole.startswith(heard)
    assert heard + told(deltas, "\n") == whole + "\n"


def test_a_text_in_another_script_is_told_at_once() -> None:
    assert told(Deltas(), "我先看看", "项目结构") == "我先看看项目结构"


def test_many_pieces_that_come_at_once_are_told_as_one() -> None:
    deltas = Deltas()
    pieces = [delta("a "), delta("x ", index=1), delta("b "), delta("{ ", kind="tool_input", index=2)]
    assert [(item.kind, item.index, item.text) for item in deltas.told(pieces)] == [
        ("text", 0, "a b "),
        ("text", 1, "x "),
        ("tool_input", 2, "{ "),
    ]


@pytest.mark.parametrize(
    "event",
    [
        MessagePartAdded(trace_id="t", time=NOW, message_id="m", index=0, part=TextPart(text="held")),
        MessageDiscarded(trace_id="t", time=NOW, message_id="m", reason="broke off"),
        MessageAdded(
            trace_id="t",
            time=NOW,
            message=Message(
                message_id="m", trace_id="t", role="assistant", sequence=1, content=(), created_at=NOW
            ),
        ),
    ],
)
def test_what_was_held_back_is_forgotten_with_the_stored_text(
    event: MessageAdded | MessagePartAdded | MessageDiscarded,
) -> None:
    deltas = Deltas()
    assert told(deltas, "see held") == "see "
    deltas.stored(event)
    assert told(deltas, " anew ") == " anew "


def test_a_line_without_an_end_does_not_grow_for_ever() -> None:
    deltas = Deltas()
    text = "".join(told(deltas, "word " * 100) for _ in range(100))
    assert text == "word " * 10_000
    assert told(deltas, "x" * 5_000, " ").count("x") == 5_000
