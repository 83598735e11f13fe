"""Answers of models to the question for steps."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.model.messages import ToolCallPart
from daemon.planner.plan_parser import MAX_SIGNPOSTS, BadPlanError, PlanStep, read_plan


def goals(text: str, *calls: ToolCallPart) -> list[str]:
    return [step.goal or f"keep {step.keep}" for step in read_plan(text, calls)]


TWO = ["Read it", "Fix it"]


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": [{"goal": "Read it"}, {"goal": "Fix it"}]}',
        '```json\n{"steps": [{"goal": "Read it"}, {"goal": "Fix it"}]}\n```',
        'Here is [my] plan:\n\n```\n{"steps": [{"goal": "Read it"}, {"goal": "Fix it"}]}\n```\nGood luck {you}.',
        'I think: {"steps": [{"goal": "Read it"}, {"goal": "Fix it"},],} is best.',
        '{"plan": {"steps": ["Read it", "Fix it"]}}',
        '{"todo": [{"task": "Read it"}, {"task": "Fix it"}]}',
        '[{"description": "Read it"}, {"description": "Fix it"}]',
        '["Read it", "Fix it"]',
        '{"steps": ["1. Read it", "Step 2: Fix it"]}',
        '{"thought": {"a": 1}, "goals": [{"title": "**Read it**"}, {"title": "Fix\\nit"}]}',
        "1. Read it\n2. Fix it",
        "The plan:\n\n1) **Read it**\n\n   - carefully\n2) Fix it\n",
        "* [ ] Read it\n* [x] Fix it",
        "### 1. Read it\nwords\n### 2. Fix it",
        "Step 1: Read it\nStep 2: Fix it",
        "**Step 1:** Read it\n**Step 2:** Fix it",
        "一、Read it\n二、Fix it",
        "第一步：Read it\n第二步：Fix it",
        "计划如下：\n\n第1步 Read it\n第2步 Fix it",
        "步骤一：Read it\n步骤 2: Fix it",
        "1、Read it\n2、Fix it",
        "（1）Read it\n（2）Fix it",
        "① Read it\n② Fix it",
        '{"steps": ["第一步：Read it", "二、Fix it"]}',
        '{"steps": {"1": {"goal": "Read it"}, "2": {"goal": "Fix it"}}}',
        '{"steps": {"step_2": "Fix it", "step_1": "Read it"}}',
    ],
)
def test_steps_are_found_in_every_format(text: str) -> None:
    assert goals(text) == TWO


ANSWERS = [
    "- Read it\n- Fix it",
    "It reads three files:\n\n- `a.py`\n- `b.py`\n- `c.py`\n\nDo you want more?",
    "1. Only one thing.",
    f"The cause is this. {'It is long. ' * 30}\n\n1. The first is in a.py.\n2. The second is in b.py.\n",
    "没有问题：\n- 甲\n- 乙",
]


@pytest.mark.parametrize("text", ANSWERS)
def test_list_that_answers_a_question_is_no_plan(text: str) -> None:
    with pytest.raises(BadPlanError, match="no plan in the answer"):
        read_plan(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_any_list_counts_as_a_plan_on_the_second_request(text: str) -> None:
    assert read_plan(text, any_list=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": []}',
        '{"steps": {}}',
        '{"plan": {"steps": []}}',
        'No plan needed.\n```json\n{ "steps" : [ ] }\n```',
    ],
)
def test_empty_plan_is_a_valid_answer(text: str) -> None:
    assert read_plan(text) == ()


def test_reason_and_check_become_the_goals_reason() -> None:
    (step,) = read_plan('{"steps": [{"goal": "A", "why": "because", "verify": ["pytest", "ruff"]}]}')
    assert step.why == "because\nCheck: pytest; ruff"


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": [{"goal": "A", "steps": ["a one", {"goal": "a two"}]}, {"goal": "B"}]}',
        "1. A\n   1. a one\n   2. a two\n2. B",
        "1. A\n1.1 a one\n1.2 a two\n2. B",
        "- A\n  - a one\n  - a two\n- B",
        "一、A\n1. a one\n2. a two\n二、B",
        "一、A\n（1）a one\n（2）a two\n二、B",
        "1、A\n（1）a one\n（2）a two\n2、B",
        "第一步：A\n1.a one\n   2. a two\n第二步：B".replace("1.a", "1、a"),
    ],
)
def test_one_level_of_substeps_is_parsed(text: str) -> None:
    first, second = read_plan(text, any_list=True)
    assert (first.goal, [below.goal for below in first.steps], second.goal, second.steps) == (
        "A",
        ["a one", "a two"],
        "B",
        (),
    )


def test_an_open_goal_is_kept_by_its_number() -> None:
    assert goals('{"steps": [{"keep": 2.1}, {"keep": "3"}, {"goal": "New"}]}') == [
        "keep 2.1",
        "keep 3",
        "New",
    ]


def test_goal_call_is_the_answer_if_the_text_has_no_steps() -> None:
    call = ToolCallPart(id="c", name="goal", input=json.dumps({"add": ["Read it", "Fix it"]}))
    assert goals("I add goals.", call) == TWO
    assert goals('{"steps": ["Do another thing"]}', call) == ["Do another thing"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no plan"),
        ("Sure, I will do it at once.", "no plan"),
        ('{"answer": 42}', "no plan"),
        ('{"steps": [{"goal": "A"}, {"goal": ', "could not be read"),
        ('{"steps": [{"reason": "x"}]}', "had no goal"),
        ('{"steps": [{"goal": "\\u200b"}]}', "had no goal"),
        ('{"steps": [7]}', "must be an object"),
        ('{"steps": null}', '"steps" was null; it must be a list'),
        ('{"steps": "Read it, then fix it"}', '"steps" was .* it must be a list'),
        ('{"steps": {"goal": "Read it"}}', '"steps" was an object; it must be a list'),
        (
            '{"steps": {"goal": "Read it", "1": {"goal": "Fix it"}}}',
            '"steps" was an object; it must be a list',
        ),
        ('{"steps": ["' + "a" * 501 + '"]}', "501 characters"),
        (json.dumps({"steps": [f"Step no {n}" for n in range(13)]}), "13 steps; at most 12"),
        ('{"steps": [{"goal": "A", "steps": [{"goal": "B", "steps": ["C"]}]}]}', "nested"),
        ("[" * 5_000, "no plan"),
        ('{"steps": ' * 5_000, "could not be read"),
    ],
)
def test_invalid_plan_error_gives_the_reason(text: str, words: str) -> None:
    with pytest.raises(BadPlanError, match=words):
        read_plan(text)


def test_signposts_are_few_and_flat() -> None:
    with pytest.raises(BadPlanError, match="at most 5"):
        read_plan(json.dumps({"steps": [f"Step no {n}" for n in range(6)]}), most=MAX_SIGNPOSTS, nested=False)
    with pytest.raises(BadPlanError, match="plain list"):
        read_plan('{"steps": [{"goal": "A", "steps": ["a one"]}]}', most=MAX_SIGNPOSTS, nested=False)


_names = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=20)


@given(st.lists(_names.map(lambda name: f"Do {name}"), max_size=12))
def test_json_steps_round_trip(names: list[str]) -> None:
    text = json.dumps({"steps": [{"goal": name, "reason": "r", "check": "c"} for name in names]})
    assert read_plan(text) == tuple(PlanStep(name, "r", "c") for name in names)


@given(st.text(st.sampled_from('{}[]":,\n -*1.2)steps goal`\\'), max_size=200))
def test_any_answer_is_parsed_or_a_bad_plan(text: str) -> None:
    try:
        found = read_plan(text, any_list=True)
    except BadPlanError as problem:
        assert str(problem)
    else:
        assert all(step.goal or step.keep for step in found)
