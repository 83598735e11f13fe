"""Valid answers of hooks, and answers that count as failures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.hooks.answer import (
    MAX_CONTEXT,
    MAX_REASON,
    NAMES,
    NOTHING,
    HookAnswer,
    HookError,
    HookName,
    concerns,
    only_watches,
    read_text,
    read_value,
)

BEFORE = "tool.execute.before"


@pytest.mark.parametrize("text", ["", " \n", "null", "{}", '{"decision": "continue"}', '{"decision": null}'])
def test_nothing_said_is_consent_to_what_would_happen_anyway(text: str) -> None:
    assert read_text(BEFORE, text) == NOTHING


def test_a_refusal_has_a_reason() -> None:
    assert read_text(BEFORE, '{"decision": "deny", "reason": "no"}') == HookAnswer(denied=True, reason="no")
    assert read_text(BEFORE, '{"decision": "deny"}').reason == "it gave no reason."
    assert len(read_value(BEFORE, {"decision": "deny", "reason": "x" * 9_000}).reason) == MAX_REASON


def test_a_refusal_counts_whatever_else_is_said() -> None:
    said = read_value(BEFORE, {"decision": "deny", "reason": "no", "arguments": {"a": 1}, "context": "c"})
    assert said == HookAnswer(denied=True, reason="no")


def test_other_arguments_and_words_for_the_model() -> None:
    assert read_value(BEFORE, {"arguments": {"a": [1]}}).arguments == {"a": [1]}
    assert read_value("prompt.submit", {"context": " c\n"}).context == "c"
    assert len(read_value("compaction.before", {"context": "x" * 99_999}).context) == MAX_CONTEXT


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (BEFORE, "deny"),
        (BEFORE, []),
        (BEFORE, 1),
        (BEFORE, {"decision": "allow"}),
        (BEFORE, {"decision": "approve"}),
        (BEFORE, {"decision": "DENY"}),
        (BEFORE, {"decision": True}),
        (BEFORE, {"decision": ["deny"]}),
        (BEFORE, {"descision": "deny"}),
        (BEFORE, {"decision": "deny", "reason": 1}),
        (BEFORE, {"context": ["c"]}),
        (BEFORE, {"arguments": "rm"}),
        (BEFORE, {"arguments": [1]}),
        ("prompt.submit", {"arguments": {}}),
        ("compaction.before", {"decision": "deny"}),
    ],
)
def test_what_cannot_be_understood_is_a_failure_and_no_consent(name: Any, said: object) -> None:
    with pytest.raises(HookError) as failed:
        read_text(name, json.dumps(said))
    assert failed.value.kind == "answer"


@pytest.mark.parametrize("text", ["no", "{", '{"decision": "deny"} and more', "[" * 50_000])
def test_what_is_not_json_is_a_failure(text: str) -> None:
    with pytest.raises(HookError, match="not JSON") as failed:
        read_text(BEFORE, text)
    assert len(str(failed.value)) < 200


def test_who_only_watches_is_not_read() -> None:
    watchers: list[HookName] = [name for name in NAMES if only_watches(name)]
    assert watchers == [
        "session.start",
        "session.end",
        "tool.execute.after",
        "permission.asked",
        "goal.completed",
    ]
    for name in watchers:
        assert read_text(name, "what I did") == NOTHING
        assert read_value(name, {"decision": "deny"}) == NOTHING


def test_half_characters_become_whole_ones() -> None:
    said = read_text(BEFORE, r'{"arguments": {"a\ud83d": "\ud83d\ude00 \ud83d"}, "context": "\udfff"}')
    assert said.arguments == {"a\ufffd": "😀 \ufffd"}
    assert said.context == "\ufffd"


@pytest.mark.parametrize(
    ("tools", "yes", "no"),
    [
        ("*", ["bash", "edit"], []),
        ("edit|write", ["edit", "write"], ["bash", "edits", ""]),
        ("edit | w*", ["edit", "write"], ["bash"]),
        ("", [], ["bash"]),
        ("BASH", [], ["bash"]),
    ],
)
def test_tools_are_wildcards_joined_by_a_stroke(tools: str, yes: list[str], no: list[str]) -> None:
    assert all(concerns(tools, tool) for tool in yes)
    assert not any(concerns(tools, tool) for tool in no)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["decision", "reason", "arguments", "context"]), inner)
        ),
        max_leaves=8,
    ),
    st.sampled_from(NAMES),
)
def test_whatever_a_hook_says_there_is_an_answer_or_a_failure(said: object, name: Any) -> None:
    try:
        answer = read_value(name, said)
    except HookError:
        return
    json.dumps(answer.arguments, ensure_ascii=False).encode()
    if answer.denied:
        assert isinstance(said, dict)
        assert said["decision"] == "deny"
        assert answer.reason
