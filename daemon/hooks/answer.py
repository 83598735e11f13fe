"""The names of hooks, their answers and their failures. Pure."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from msgspec import Struct

from daemon.model.messages import whole_characters
from daemon.settings import HookName
from tools.localization import t
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES: Final[tuple[HookName, ...]] = get_args(HookName)

Failure = Literal["missing", "start", "timeout", "exit", "crash", "output", "answer", "error"]
"""Kinds of failures: the user is notified once of each."""

MAX_OUTPUT = 64 * 1024
"""Bytes that a hook may answer with."""
MAX_REASON = 2_000
"""Characters."""
MAX_CONTEXT = 20_000
"""Characters."""

_KEYS: Mapping[HookName, frozenset[str]] = {
    "prompt.system": frozenset({"context"}),
    "prompt.submit": frozenset({"decision", "reason", "context"}),
    "tool.execute.before": frozenset({"decision", "reason", "arguments", "context"}),
    "compaction.before": frozenset({"context"}),
}
"""Fields of an answer that count. Hooks that are not listed only watch: their output is not read."""


class HookError(Exception):
    """A hook did not do its part. The text continues "the hook x": "took longer than 10 s and was stopped"."""

    def __init__(self, kind: Failure, text: str) -> None:
        super().__init__(text)
        self.kind: Failure = kind


class HookAnswer(Struct, frozen=True):
    """The answer of a hook; usually empty."""

    denied: bool = False
    reason: str = ""
    arguments: dict[str, Any] | None = None
    """The arguments to use instead; None: unchanged."""
    context: str = ""
    """For the model."""


NOTHING = HookAnswer()


def only_watches(name: HookName) -> bool:
    """Return whether the answers of these hooks are ignored."""
    return name not in _KEYS


def may_deny(name: HookName) -> bool:
    """Return whether these hooks are asked for a decision."""
    return "decision" in _KEYS.get(name, ())


def denial(reason: str) -> HookAnswer:
    """Return a rejection. It always has a reason, because the rejected side must learn one."""
    return HookAnswer(denied=True, reason=head(reason.strip(), MAX_REASON) or t("it gave no reason."))


def concerns(tools: str, tool: str) -> bool:
    """Return whether ``tools`` (wildcards joined by ``|``) covers the tool."""
    return tools == "*" or any(fnmatchcase(tool, pattern.strip()) for pattern in tools.split("|"))


def read_text(name: HookName, text: str) -> HookAnswer:
    """Return the answer in what a program printed. Raises HookError."""
    if only_watches(name) or not text.strip():
        return NOTHING
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise HookError(
            "answer", t("printed output that is not JSON: {text}", text=one_line(head(text, 400), 80))
        ) from None
    return read_value(name, value)


def read_value(name: HookName, value: object) -> HookAnswer:
    """Return the answer in a JSON value. Raises HookError.

    Unknown values are failures and not ignored: a misspelt rejection must not count as consent.
    """
    if only_watches(name) or value is None:
        return NOTHING
    if not isinstance(value, dict):
        raise HookError("answer", t("answered with {value} instead of a JSON object", value=_kind(value)))
    # Lone surrogates cannot be stored, although JSON can express them.
    fields = cast("dict[str, Any]", json.loads(whole_characters(json.dumps(value, ensure_ascii=False))))
    if unknown := sorted(set(fields) - _KEYS[name]):
        known = ", ".join(sorted(_KEYS[name]))
        raise HookError(
            "answer",
            t(
                "answered with {unknown}; {name} allows only {known}",
                unknown=one_line(", ".join(unknown), 80),
                name=name,
                known=known,
            ),
        )
    decision = fields.get("decision")
    if decision not in (None, "continue", "deny"):
        raise HookError(
            "answer",
            t(
                "decided {decision!r}: a hook can deny, but cannot allow what rules ask about",
                decision=one_line(str(decision), 40),
            ),
        )
    reason, context, arguments = fields.get("reason"), fields.get("context"), fields.get("arguments")
    if not isinstance(reason, str | None) or not isinstance(context, str | None):
        raise HookError("answer", t("answered with a reason or context that is not a string"))
    if not isinstance(arguments, dict | None):
        raise HookError(
            "answer",
            t(
                "answered with arguments that are {arguments} instead of an object",
                arguments=_kind(arguments),
            ),
        )
    if decision == "deny":
        return denial(reason or "")
    return HookAnswer(
        arguments=cast("dict[str, Any] | None", arguments), context=head((context or "").strip(), MAX_CONTEXT)
    )


def _kind(value: object) -> str:
    names = {
        "list": t("an array"),
        "str": "a string",
        "bool": t("true or false"),
        "int": "a number",
        "float": "a number",
    }
    return names.get(type(value).__name__, type(value).__name__)
