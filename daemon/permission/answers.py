"""Messages and checks around a question: the text of a prohibition, and the grants that "always" may store. Pure."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from tools.localization import n, t
from tools.text.truncate import short
from tools.tool import PermissionAsk, Question, QuestionAnswer, ToolError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from daemon.model.permissions import Grant, PermissionRequest, Reason, Reply, Rule, Scope
    from daemon.permission.rules import Verdict

MOST_GRANTS = 20
"""Most grants of one answer."""
LONGEST_PATTERN = 500
"""Characters."""
LONGEST_ANSWER = 20_000
"""Characters in the user's own words."""
SESSION_ONLY = frozenset({"budget", "doom_loop"})
"""Permissions about the run itself; an answer to them is of no use to another session."""

_DOES = {
    "read": "read",
    "edit": "change",
    "ls": "list",
    "webfetch": "fetch",
    "private_address": "reach the private address",
    "external_directory": "reach outside of the workspace to",
}
_SHOWN = 3


def denial(ask: PermissionAsk, verdict: Verdict) -> str:
    """Return why rules reject a call, for the model and the user: the rules, their files, and what they forbid."""
    denied = [reason for reason in verdict.reasons if reason.action == "deny"]
    words = " ".join(_denied(ask, reason) for reason in denied[:_SHOWN])
    return f"{words} (And {len(denied) - _SHOWN} more.)" if len(denied) > _SHOWN else words


def _denied(ask: PermissionAsk, reason: Reason) -> str:
    because = f" ({reason.why})" if reason.why else ""
    if reason.rule.words:
        words = reason.rule.words.rstrip(".")
        return f"{_would(ask, reason)}{because}: {words}."
    rule = _rule(reason.rule)
    if reason.permission == ask.permission and reason.target in ask.targets:
        return f"{rule[0].upper()}{rule[1:]} forbids {reason.permission} on {reason.target}{because}."
    return f"{_would(ask, reason)}{because}, and {rule} forbids that."


def _would(ask: PermissionAsk, reason: Reason) -> str:
    does = _DOES.get(reason.permission, f"need {reason.permission} on")
    what = "The command" if ask.permission == "bash" else f"This {ask.permission}"
    return f"{what} would {does} {reason.target}"


def _rule(rule: Rule) -> str:
    """Return a rule and its file for the model. ``rule_words`` is for the user: its "your" means the user."""
    if rule.source == "mode":
        return rule.pattern
    where = f" of {rule.file}" if rule.file else ""
    return f"the {rule.source} rule `{rule.permission}: {rule.pattern} → {rule.action}`{where}"


def subjects(ask: PermissionAsk) -> frozenset[str]:
    """Return the permissions that a question is about."""
    offered = {suggestion.permission for suggestion in ask.suggestions}
    return frozenset({ask.permission, *(access.permission for access in ask.all_accesses), *offered})


def remembered(
    request: PermissionRequest,
    about: Collection[str],
    grants: Sequence[Grant] | None,
    scope: Scope,
) -> tuple[Grant, ...]:
    """Return the grants that "always" stores: the suggestions, or ``grants`` as the user edited them.

    ``about``: the permissions that the question is about. Raises ToolError, with advice, when the answer is not usable.
    """
    if grants is None:
        found = request.suggestions
        if not found and scope != "session":
            raise ToolError(
                t("There is nothing to remember for this question: write a pattern, or answer once.")
            )
    else:
        found = tuple(dict.fromkeys(grants))
        if not found:
            raise ToolError(t("No pattern to remember was given: write a pattern, or answer once."))
        if len(found) > MOST_GRANTS:
            raise ToolError(
                t(
                    "{count} patterns are too many; one answer can remember {most_grants}. Leave some out, "
                    "or write a more general one.",
                    count=len(found),
                    most_grants=MOST_GRANTS,
                )
            )
        for grant in found:
            # A suggestion may be an exact command line; no user typed it, so it has no typing errors.
            if grant not in request.suggestions:
                _check(grant, about)
    own = sorted({grant.permission for grant in found} & SESSION_ONLY)
    if own and scope != "session":
        raise ToolError(
            t("{own} can only be allowed for this session: choose the scope session.", own=", ".join(own))
        )
    return found


def check_answers(
    request: PermissionRequest, reply: Reply, answers: Sequence[QuestionAnswer]
) -> tuple[QuestionAnswer, ...]:
    """Return the answers to a request's questions, each trimmed.

    Raises ToolError, with what to do, when they do not fit the questions or nothing is answered.
    """
    questions = request.questions
    if not questions:
        if answers:
            raise ToolError(t("This request has no questions: reply without answers."))
        return ()
    if reply == "reject":
        return ()
    if reply == "always":
        raise ToolError(t("Answers apply to this question only: reply once, with the answers."))
    if len(answers) != len(questions):
        raise ToolError(
            t(
                "{questions}, but {answers}: give one answer for each, empty for those to skip, or reject to skip all.",
                questions=n(
                    "The request has one question", "The request has {count} questions", len(questions)
                ),
                answers=n("one answer was given", "{count} answers were given", len(answers)),
            )
        )
    made = tuple(_answer(question, answer) for question, answer in zip(questions, answers, strict=True))
    if not any(one.chosen or one.text for one in made):
        raise ToolError(t("No question is answered: choose an option, write an answer, or reject to skip."))
    return made


def _answer(question: Question, answer: QuestionAnswer) -> QuestionAnswer:
    chosen, text = tuple(dict.fromkeys(answer.chosen)), answer.text.strip()
    labels = [option.label for option in question.options]
    unknown = next((label for label in chosen if label not in labels), None)
    if unknown is not None:
        raise ToolError(
            t(
                "{unknown} is not an option of {text}: give the label exactly as offered, or the answer as "
                "text.",
                unknown=_quoted(unknown),
                text=_quoted(question.text),
            )
        )
    if len(chosen) > 1 and not question.multiple:
        raise ToolError(
            t(
                "{text} takes one option, but {count} are chosen: choose one.",
                text=_quoted(question.text),
                count=len(chosen),
            )
        )
    if len(text) > LONGEST_ANSWER:
        raise ToolError(
            t(
                "An answer has {count} characters; the limit is {longest_answer}. Shorten it, or put it "
                "into a file and name the file.",
                count=len(text),
                longest_answer=LONGEST_ANSWER,
            )
        )
    return QuestionAnswer(chosen=chosen, text=text)


def _check(grant: Grant, about: Collection[str]) -> None:
    if grant.permission not in about:
        raise ToolError(
            t(
                "The question is not about {permission}: it can remember patterns for {about}.",
                permission=_quoted(grant.permission),
                about=", ".join(sorted(about)),
            )
        )
    pattern = grant.pattern
    if not pattern.strip():
        raise ToolError(
            t(
                "A pattern for {permission} is empty: write what it should match, or leave it out.",
                permission=grant.permission,
            )
        )
    if len(pattern) > LONGEST_PATTERN:
        raise ToolError(
            t(
                "A pattern for {permission} has {count} characters; the limit is {longest_pattern}. Write "
                "a more general one, e.g. with * at its end.",
                permission=grant.permission,
                count=len(pattern),
                longest_pattern=LONGEST_PATTERN,
            )
        )
    if any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in pattern):
        raise ToolError(
            t(
                "The pattern {pattern} contains an invisible control character or line break: write it "
                "without.",
                pattern=_quoted(pattern),
            )
        )


def _quoted(text: str) -> str:
    return ascii(short(text, 60))
