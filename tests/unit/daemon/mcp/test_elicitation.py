"""Forms of MCP servers as questions, and answers as what their schemas ask for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.mcp.elicitation import MOST_FIELDS, BadRequestError, Form, form, page_question
from tests.support.examples import examples
from tools.tool import QuestionAnswer


def made(properties: dict[str, Any], *required: str, message: str = "Where to?") -> Form:
    return form("travel", message, {"type": "object", "properties": properties, "required": [*required]})


def answered(
    properties: dict[str, Any], *answers: QuestionAnswer | str, required: tuple[str, ...] = ()
) -> Any:
    said = [QuestionAnswer(text=one) if isinstance(one, str) else one for one in answers]
    asked = made(properties, *required)
    content, again = asked.content(said)
    wrong = "" if again is None else "; ".join(one.problem for one in again.fields)
    return None if asked.declined(said) else wrong or content


CITY = {"type": "string", "title": "City", "oneOf": [{"const": "vie", "title": "Vienna"}, {"const": "rom"}]}
TAGS = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "maxItems": 2}


def test_the_first_question_says_who_asks() -> None:
    first, second = made(
        {"city": CITY, "people": {"type": "integer", "description": "How many?"}}
    ).questions()
    assert first.text == (
        "Your answer goes to the MCP server travel. Do not enter passwords or keys.\nWhere to?\n\n"
        "City\nYou may leave it empty."
    )
    assert [option.label for option in first.options] == ["Vienna", "rom"]
    assert second.text == "people\nHow many?\nYou may leave it empty."


def test_only_wrong_fields_are_asked_again_with_the_reason() -> None:
    asked = made({"city": CITY, "people": {"type": "integer"}, "when": {"type": "integer"}}, "city")
    content, again = asked.content(
        [QuestionAnswer(chosen=("rom",)), QuestionAnswer(text="two"), QuestionAnswer(text="soon")]
    )
    assert content == {"city": "rom"}
    assert again is not None
    people, when = again.questions()
    assert people.text.startswith("people: write a whole number.\nYour answer goes to the MCP server travel.")
    assert when.text.startswith("when: write a whole number.\nwhen\n")
    assert again.content([QuestionAnswer(text="2"), QuestionAnswer(text="")]) == ({"people": 2}, None)


def test_answers_of_each_kind() -> None:
    assert answered({"c": CITY}, QuestionAnswer(chosen=("Vienna",))) == {"c": "vie"}
    assert answered({"c": CITY}, "vienna") == {"c": "vie"}
    assert answered({"t": TAGS}, QuestionAnswer(chosen=("a", "c"))) == {"t": ["a", "c"]}
    assert answered({"t": TAGS}, "a, b") == {"t": ["a", "b"]}
    assert answered({"n": {"type": "integer"}, "x": {"type": "number"}}, "-3", "2.5") == {"n": -3, "x": 2.5}
    assert answered({"b": {"type": "boolean"}}, QuestionAnswer(chosen=("No",))) == {"b": False}
    assert answered({"b": {"type": "boolean"}}, "true") == {"b": True}
    assert answered({"s": {"type": "string"}, "t": {"type": "string"}}, " hi ", "") == {"s": "hi"}
    assert answered({"s": {"type": "string", "default": "x"}}, "") == {"s": "x"}
    assert answered({}, QuestionAnswer(chosen=("Accept",))) == {}
    assert answered({}, QuestionAnswer(chosen=("Decline",))) is None


@pytest.mark.parametrize(
    ("schema", "answer", "problem"),
    [
        (CITY, "Paris", "City: choose one of the options."),
        (TAGS, "a,b,c", "f: choose at most 2."),
        ({"type": "integer"}, "2.5", "f: write a whole number."),
        ({"type": "number"}, "many", "f: write a number."),
        ({"type": "number"}, "nan", "f: write a number."),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "10", "f: write 1 to 9."),
        ({"type": "string", "minLength": 3}, "ab", "f: write at least 3 characters."),
        ({"type": "string", "format": "email"}, "me", "f: write it in the format email."),
        ({"type": "string", "format": "date"}, "2026-02-30", "f: write it in the format date."),
        ({"type": "string", "format": "uri"}, "example", "f: write it in the format uri."),
        ({"type": "string"}, "", "f needs an answer."),
    ],
)
def test_answers_that_do_not_fit(schema: dict[str, Any], answer: str, problem: str) -> None:
    assert answered({"f": schema}, answer, required=("f",)) == problem


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"type": "object", "properties": {}}},
        {"a": {"type": "array", "items": {"type": "integer"}}},
        {"a": {"type": "string", "enum": [str(number) for number in range(51)]}},
        {"a": {"type": "string", "enum": ["x", 1]}},
        {"a": {"type": "string", "oneOf": [{"const": "a" * 2000}]}},
        {"a" * 1000: {"type": "string"}},
        {str(number): {"type": "string"} for number in range(MOST_FIELDS + 1)},
        {"a": 7},
    ],
)
def test_forms_that_are_not_shown(properties: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        made(properties)


def test_texts_of_servers_are_bounded_and_hide_nothing() -> None:
    wild = "ok\u202e\x1b[2J" + "y" * 1_000_000
    asked = made(
        {"a": {"type": "string", "title": wild, "description": wild, "enum": [wild[:900]]}}, message=wild
    )
    (question,) = asked.questions()
    assert len(question.text) < 4_000 and len(question.options[0].label) < 1_000
    for text in (question.text, question.options[0].label):
        assert "\u202e" not in text and "\x1b" not in text
    twins = {"a": {"type": "string", "oneOf": [{"const": "1", "title": "x"}, {"const": "2", "title": "x"}]}}
    assert [one.label for one in made(twins).questions()[0].options] == ["x", "x (2)"]


def test_pages_are_shown_with_their_host() -> None:
    question = page_question("bank", "Sign in.", "https://bücher.example/a?b=c")
    assert "open a page of xn--bcher-kva.example:\n" in question.text
    assert "https://bücher.example/a?b=c" in question.text
    for url in ("file:///etc/passwd", "javascript:alert(1)", "https://a@b.example", "https://", "https://[x"):
        with pytest.raises(BadRequestError):
            page_question("bank", "", url)
    with pytest.raises(BadRequestError, match="be short"):  # not by way of the slow codec for host names
        page_question("bank", "", f"https://{'ä' * 100_000}.example")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
_FIELD = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "array"])},
    optional={
        key: _JSON for key in ("title", "enum", "oneOf", "items", "default", "minimum", "maxLength", "format")
    },
)


@settings(max_examples=examples(300))
@given(st.dictionaries(st.text(max_size=9), _FIELD | _JSON, max_size=4), st.text(max_size=20), _JSON)
def test_any_schema_is_refused_or_asked(properties: dict[str, Any], text: str, required: object) -> None:
    try:
        asked = form("any", "m", {"properties": properties, "required": required})
    except BadRequestError:
        return
    questions = asked.questions()
    answers = [QuestionAnswer(text=text)] * len(questions)
    content, again = asked.content(answers)
    if again is not None:
        assert not content.keys() & {one.name for one in again.fields}
        assert len(again.questions()) == len(again.fields)
