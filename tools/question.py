"""The ``question`` tool: the model asks the user in the middle of a turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BeforeValidator, WithJsonSchema

from tools.localization import t
from tools.text.truncate import one_line, short
from tools.tool import (
    PermissionAsk,
    PermissionDeniedError,
    Question,
    QuestionAnswer,
    QuestionOption,
    Tool,
    ToolContext,
    ToolError,
    ToolInput,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_QUESTIONS = 8
MOST_OPTIONS = 12
LONGEST_QUESTION = 2_000
LONGEST_OPTION = 500
"""Characters."""


def _objects(value: object) -> object:
    """Models send a list as JSON text, one item without a list, or bare texts now and then."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if isinstance(value, str | dict):
        value = [cast("object", value)]
    return value


def _items(value: object, key: str) -> object:
    found = _objects(value)
    if not isinstance(found, list):
        return found
    return [{key: item} if isinstance(item, str) else item for item in cast("list[object]", found)]


class OptionInput(ToolInput):
    """An option: in the schema a text; the object with a description of other programs is accepted, too."""

    label: str
    description: str = ""


class AskedInput(ToolInput):
    """One question."""

    question: str
    options: Annotated[
        tuple[OptionInput, ...],
        BeforeValidator(lambda value: _items([] if value is None else value, "label")),
    ] = ()
    multiple: bool = False


_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "options": {"type": "array", "items": {"type": "string"}},
            "multiple": {"type": "boolean"},
        },
        "required": ["question"],
    },
}
"""Written out, as small models and their servers do not follow references."""


class QuestionInput(ToolInput):
    """Arguments of ``question``."""

    questions: Annotated[
        list[AskedInput], BeforeValidator(lambda value: _items(value, "question")), WithJsonSchema(_SCHEMA)
    ]


class QuestionTool(Tool[QuestionInput], name="question"):
    """Through the ``Permission`` port, whose inbox reaches the user wherever a client is attached."""

    async def run(self, args: QuestionInput, ctx: ToolContext) -> ToolResult:
        questions = _checked(args.questions)
        asked = len(questions)
        first = one_line(questions[0].text, 200)
        try:
            approval = await ctx.permission.ask(
                PermissionAsk(
                    self.permission,
                    ("user",),
                    first if asked == 1 else t("{asked} questions: {first}", asked=asked, first=first),
                    questions=questions,
                )
            )
        except PermissionDeniedError as denied:
            if denied.by_rule:
                raise
            return _unanswered(denied.feedback)
        return _answered(questions, approval.answers)


def _checked(asked: Sequence[AskedInput]) -> tuple[Question, ...]:
    """Return the questions trimmed. Raises ToolError with their problem."""
    if not asked:
        raise ToolError("questions is empty: give at least one question.")
    if len(asked) > MOST_QUESTIONS:
        raise ToolError(
            f"{len(asked)} questions are more than {MOST_QUESTIONS}: ask the most important ones."
        )
    return tuple(map(_question, asked))


def _question(asked: AskedInput) -> Question:
    text = asked.question.strip()
    if not text:
        raise ToolError("A question is empty: write what the user should decide.")
    if len(text) > LONGEST_QUESTION:
        raise ToolError(
            f"A question has {len(text)} characters; the limit is {LONGEST_QUESTION}. Explain in your "
            "message before the call, and ask briefly."
        )
    if len(asked.options) > MOST_OPTIONS:
        raise ToolError(
            f"{len(asked.options)} options are more than {MOST_OPTIONS}: offer the likeliest; the user can answer "
            "freely, too."
        )
    options = tuple(
        QuestionOption(label=one.label.strip(), description=one.description.strip()) for one in asked.options
    )
    for option in options:
        if not option.label:
            raise ToolError("An option is empty: leave it out. The user can always answer freely.")
        if len(option.label) + len(option.description) > LONGEST_OPTION:
            raise ToolError(f"An option has more than {LONGEST_OPTION} characters: shorten it.")
    labels = [option.label for option in options]
    if len(set(labels)) < len(labels):
        raise ToolError("Two options of a question are the same: make them differ, or drop one.")
    return Question(text=text, options=options, multiple=asked.multiple and len(options) > 1)


def _answered(questions: Sequence[Question], answers: Sequence[QuestionAnswer]) -> ToolResult:
    said = [". ".join(filter(None, (", ".join(answer.chosen), answer.text))) for answer in answers]
    lines = [
        f"- {question.text}\n  Answer: {words or '(skipped: decide yourself, and say what you assumed)'}"
        for question, words in zip(questions, said, strict=True)
    ]
    metadata: dict[str, Any] = {
        "answers": [
            {"question": question.text, "chosen": list(answer.chosen), "text": answer.text}
            for question, answer in zip(questions, answers, strict=True)
        ]
    }
    # Words that answer several questions are shown once.
    title = "; ".join(one_line(words, 120) for words in dict.fromkeys(said) if words)
    return ToolResult("The user answered:\n" + "\n".join(lines), short(title, 160), metadata)


def _unanswered(feedback: str | None) -> ToolResult:
    """Return the result of a skipped question; the turn continues, because that is no rejection of the work."""
    if feedback:
        return ToolResult(f"The question was not answered: {feedback}", t("not answered"), {"answers": []})
    return ToolResult(
        "The user skipped the question. Choose what fits the task best, and say what you assumed.",
        t("skipped"),
        {"answers": []},
    )
