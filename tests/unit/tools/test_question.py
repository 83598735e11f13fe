"""The tool ``question`` without a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.fakes.tool_context import FakePermission, fake_context
from tools.question import MOST_OPTIONS, MOST_QUESTIONS
from tools.registry import builtin_tools, run_tool
from tools.tool import Approval, PermissionAsk, PermissionDeniedError, QuestionAnswer, ToolResult


class User(FakePermission):
    """Answers the questions; None: skips them with ``words``."""

    def __init__(self, *answers: QuestionAnswer, words: str | None = None) -> None:
        super().__init__()
        self._answers = answers
        self._words = words

    async def ask(self, ask: PermissionAsk) -> Approval:
        self.asks.append(ask)
        if not self._answers:
            raise PermissionDeniedError("refused", self._words)
        return Approval(asked=True, answers=self._answers)


async def run(folder: Path, user: User, questions: object) -> ToolResult:
    ctx = replace(fake_context(folder), permission=user)
    return await run_tool(builtin_tools()["question"], json.dumps({"questions": questions}), ctx)


async def test_options_and_free_text_are_returned_with_their_questions(tmp_path: Path) -> None:
    user = User(QuestionAnswer(chosen=("SQLite",)), QuestionAnswer(text="keep it small"), QuestionAnswer())
    asked = [
        {
            "question": "Which database?",
            "options": ["SQLite", {"label": "PostgreSQL", "description": "in compose"}],
        },
        {"question": "What else?"},
        {"question": "And the name?", "options": ["shop"], "multiple": True},
    ]
    result = await run(tmp_path, user, asked)
    assert result.content.splitlines() == [
        "The user answered:",
        "- Which database?",
        "  Answer: SQLite",
        "- What else?",
        "  Answer: keep it small",
        "- And the name?",
        "  Answer: (skipped: decide yourself, and say what you assumed)",
    ]
    assert (result.title, result.is_error) == ("SQLite; keep it small", False)
    assert result.metadata["answers"][0] == {
        "question": "Which database?",
        "chosen": ["SQLite"],
        "text": "",
    }
    (ask,) = user.asks
    assert ask.title == "3 questions: Which database?"
    assert ask.questions[0].options[1].description == "in compose"
    # One option alone leaves nothing to choose several of.
    assert not ask.questions[2].multiple


@pytest.mark.parametrize(
    "written",
    [
        "Which?",
        ["Which?"],
        {"question": "Which?"},
        '[{"question": "Which?"}]',
        [{"question": " Which? ", "options": None}],
    ],
)
async def test_questions_are_read_as_models_write_them(tmp_path: Path, written: object) -> None:
    user = User(QuestionAnswer(text="this"))
    assert not (await run(tmp_path, user, written)).is_error
    assert [question.text for question in user.asks[0].questions] == ["Which?"]


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ([], "at least one"),
        ([{"question": " "}], "empty"),
        ([{"question": "x"}] * (MOST_QUESTIONS + 1), "most important"),
        ([{"question": "x" * 3000}], "ask briefly"),
        ([{"question": "x", "options": [str(n) for n in range(MOST_OPTIONS + 1)]}], "likeliest"),
        ([{"question": "x", "options": ["a", "a "]}], "the same"),
        ([{"question": "x", "options": [" "]}], "leave it out"),
        ([{"question": "x", "options": ["y" * 501]}], "shorten"),
        (
            [{"question": "x", "choices": ["a"]}],
            "choices: is not known; there are question, options, multiple",
        ),
        ([{"question": "x", "options": [{"label": "a", "value": "b"}]}], "there are label, description"),
        (5, "questions"),
    ],
)
async def test_invalid_question_is_an_error_and_is_not_asked(
    tmp_path: Path, questions: object, words: str
) -> None:
    user = User(QuestionAnswer(text="x"))
    result = await run(tmp_path, user, questions)
    assert result.is_error
    assert words in result.content
    assert user.asks == []


async def test_skipped_question_is_a_result_and_not_an_error(tmp_path: Path) -> None:
    skipped = await run(tmp_path, User(), ["Which?"])
    assert (skipped.title, skipped.is_error) == ("skipped", False)
    assert "say what you assumed" in skipped.content
    nobody = await run(tmp_path, User(words="nobody can answer."), ["Which?"])
    assert nobody.content == "The question was not answered: nobody can answer."


async def test_denial_by_a_rule_stays_a_denial(tmp_path: Path) -> None:
    async def forbid(ask: PermissionAsk) -> None:
        raise PermissionDeniedError("forbidden", by_rule=True)

    permission = FakePermission(on_ask=forbid)
    ctx = replace(fake_context(tmp_path), permission=permission)
    with pytest.raises(PermissionDeniedError):
        await run_tool(builtin_tools()["question"], json.dumps({"questions": ["Which?"]}), ctx)
