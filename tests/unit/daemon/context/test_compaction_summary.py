"""The request of a full compaction, and the answers that count as summaries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.context.summaries import (
    SummaryProblem,
    read_summary,
    retry_prompt,
    summary_fields,
    summary_prompt,
    summary_text,
)

GOOD: dict[str, Any] = {
    "current_work": "The parser; next: quotes.",
    "requests_and_rulings": ["never touch vendor/"],
    "decisions": ["recursive descent: easier to read"],
    "findings": ["E42 comes from tabs"],
    "files_changed": ["src/a.py: parser begun, untested"],
    "failed_attempts": [],
    "pending_actions": ["quotes"],
    "key_paths": {"tests": "tests/test_a.py"},
}
INIT: dict[str, Any] = {
    "current_design_summary": {
        "unified_scenario_design": "a shop",
        "business_rules_key_points": ["no refunds"],
        "format_specifications": "JSON",
    },
    "execute_feedback_summary": {
        "execution_output_dir": "out/iteration_12",
        "total_failure_samples": 15,
        "layer1_problems_summary": ["dates: wrong zone"],
    },
    "analysis_conclusions": ["s7: the rule is ambiguous"],
    "pending_actions": ["ask about refunds"],
    "key_paths": {"execution_output_dir": "out/iteration_12", "layer1_problems_report": "out/l1.md"},
}
EXECUTE: dict[str, Any] = {
    "generated_components": {
        "tools": ["t.py: adds"],
        "checkers": ["c.py: sums"],
        "samples": "15 in 3 classes",
    },
    "evaluation_progress": {"current_iteration": 5, "success_rate": "12/15 (80%)", "layer_status": "3 done"},
    "identified_issues": {"layer2_problems": ["t.py"], "layer3_problems": [], "fix_attempts": ["t.py: open"]},
    "pending_work": ["c.py"],
    "key_paths": {"execution_output_dir": "out/iteration_5"},
}


def problem(text: str, agent: str = "build") -> str:
    read = read_summary(text, agent)
    assert isinstance(read, SummaryProblem)
    return read


@pytest.mark.parametrize(
    ("agent", "summary"), [("build", GOOD), ("plan", GOOD), ("init", INIT), ("execute", EXECUTE)]
)
def test_summary_prompt_shows_exactly_the_fields_that_are_read(agent: str, summary: Any) -> None:
    prompt = summary_prompt(agent)
    shown = json.loads(prompt[prompt.index("{") : prompt.rindex("}") + 1])
    assert shown == summary_fields(agent)
    assert {
        name: sorted(value) if isinstance(value, dict) and name != "key_paths" else None
        for name, value in shown.items()
    } == {
        name: sorted(value) if isinstance(value, dict) and name != "key_paths" else None
        for name, value in summary.items()
    }
    assert read_summary(json.dumps(summary), agent) == summary


def test_the_fields_of_init_and_execute_are_those_of_the_seed() -> None:
    assert list(summary_fields("init")) == list(INIT)
    assert list(summary_fields("execute")) == list(EXECUTE)
    for agent, like in (("init", INIT), ("execute", EXECUTE)):
        for name, value in summary_fields(agent).items():
            assert type(value) is type(like[name])
            if isinstance(value, dict):
                assert list(value) == list(like[name])


def test_summary_prompt_asks_for_json_and_adds_user_instructions() -> None:
    assert (
        "After this you no longer see the messages before this one, and anything you leave out is lost."
        in summary_prompt("build")
    )
    assert "one JSON object and nothing else" in summary_prompt("build")
    assert summary_prompt("build", instructions="  keep the API names ").endswith("keep the API names")
    assert "The user says" not in summary_prompt("build", instructions="  ")
    assert len(summary_prompt("init")) < 2_500


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "```\n{}\n```\nDone.",
        "<compact_summary>{}</compact_summary>",
        '<think>Fields like {{x}} or {{"a": 1}}?</think>\nHere it is:\n\n{}\n\nShall I go on?',
        "I did the following...\n<compact_summary>\n```json\n{}\n```\n</compact_summary>",
    ],
)
def test_summary_object_is_found_in_surrounding_text(around: str) -> None:
    head, _, tail = around.replace("{{", "\1").replace("}}", "\2").partition("{}")
    text = (head + json.dumps(GOOD, indent=2) + tail).replace("\1", "{").replace("\2", "}")
    assert read_summary(text, "build") == GOOD


def test_stored_summary_round_trips_in_any_script() -> None:
    summary = GOOD | {"current_work": '修改 "配置" </compact_summary> 🙂'}
    assert read_summary(summary_text(summary), "build") == summary
    assert "修改" in summary_text(summary)


def test_line_breaks_inside_json_strings_are_accepted() -> None:
    text = json.dumps(GOOD).replace("next: quotes", "next:\nquotes")
    read = read_summary(text, "build")
    assert isinstance(read, dict)
    assert read["current_work"] == "The parser; next:\nquotes."


def test_unknown_summary_fields_are_kept_and_half_may_be_missing() -> None:
    few = {name: GOOD[name] for name in list(GOOD)[:4]} | {"risks": ["time"]}
    assert read_summary(json.dumps(few), "build") == few
    assert "missing: findings, files_changed" in problem(json.dumps({n: GOOD[n] for n in list(GOOD)[:3]}))


@pytest.mark.parametrize("cut", range(20, 330, 31))
def test_truncated_summary_is_reported_as_cut_off(cut: int) -> None:
    text = "Here: " + json.dumps(EXECUTE | GOOD)[:cut]
    assert "cut off" in problem(text)
    assert "cut off" in problem("```json\n" + text)


def test_empty_text_and_prose_are_no_summary() -> None:
    assert "empty" in problem("  \n")
    assert "no valid JSON object" in problem("I have finished the parser.")
    assert "no valid JSON object" in problem('["current_work"]')
    assert "missing" in problem("{}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decisions": "one"}, '"decisions" must be a list, not text'),
        ({"current_work": ["one"]}, '"current_work" must be text, not a list'),
        ({"key_paths": 3}, '"key_paths" must be an object, not a number'),
        ({"key_paths": True}, '"key_paths" must be an object, not true or false'),
        ({"pending_actions": {"a": 1}}, '"pending_actions" must be a list, not an object'),
    ],
)
def test_a_field_of_another_kind_is_named(change: dict[str, Any], said: str) -> None:
    assert said in problem(json.dumps(GOOD | change))


def test_nested_field_types_are_checked_and_numeric_text_passes() -> None:
    wrong = EXECUTE | {"identified_issues": {"layer2_problems": "t.py"}}
    assert '"identified_issues.layer2_problems" must be a list' in problem(json.dumps(wrong), "execute")
    rate = EXECUTE | {"evaluation_progress": {"current_iteration": "5", "success_rate": 0.8}}
    assert read_summary(json.dumps(rate), "execute") == rate


def test_summary_accepts_null_and_lists_of_paths() -> None:
    summary = GOOD | {"failed_attempts": None, "key_paths": {"what": ["a", "b"]}}
    assert read_summary(json.dumps(summary), "build") == summary


@pytest.mark.parametrize("agent", ["build", "init", "execute"])
def test_empty_or_echoed_summary_is_rejected(agent: str) -> None:
    assert "it is empty:" in problem(json.dumps(summary_fields(agent)), agent)
    empty = {name: type(value)() for name, value in summary_fields(agent).items()}
    assert "it is empty:" in problem(json.dumps(empty), agent)


def test_overlong_summary_is_refused() -> None:
    assert "too long" in problem(json.dumps(GOOD | {"current_work": "word " * 10_000}))
    assert "too long" in problem("blah " * 50_000)


def test_numbers_that_json_does_not_know_become_empty() -> None:
    text = json.dumps(EXECUTE).replace(
        '"current_iteration": 5', '"current_iteration": NaN, "x": -Infinity, "y": 1e999'
    )
    read = read_summary(text, "execute")
    assert isinstance(read, dict)
    assert read["evaluation_progress"]["current_iteration"] is None
    json.loads(json.dumps(read, allow_nan=False))


@pytest.mark.parametrize(
    "text", ['{"a":' * 50_000, "{" * 100_000, '{"a": ' + "9" * 5_000 + "}", "[" * 100_000]
)
def test_hostile_answers_are_refused_soon(text: str) -> None:
    assert problem(text)


@given(st.text(alphabet=st.sampled_from('{}[]",:\\ntru0e- `<>/'), max_size=80) | st.text(max_size=40))
def test_any_text_is_read_or_gets_a_retry_prompt(text: str) -> None:
    read = read_summary(text, "build")
    assert isinstance(read, SummaryProblem)
    assert read in retry_prompt(read)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_value_in_an_unknown_field_survives(value: Any) -> None:
    summary = GOOD | {"more": value}
    assert read_summary(summary_text(summary), "build") == summary
