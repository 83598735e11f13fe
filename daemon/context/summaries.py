"""The summary of a full compaction: the prompt for it, and the check of the answer. Pure.

Each kind of agent has its own set of fields.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from daemon.context.tokens import estimate_tokens
from daemon.model.tags import plain_json
from tools.json_access import array, mapping

MAX_SUMMARY_TOKENS = 4_000
"""Most tokens of the model's answer."""
_TOO_LONG = 2 * MAX_SUMMARY_TOKENS
"""Estimated tokens: some servers exceed the requested limit."""
_MAX_TRIES = 500
"""Places of an answer where an object could begin that are looked at."""

Fields = Mapping[str, Any]
"""Fields by name: text, a number, a list or an object of fields. The values are examples; JSON, hence ``Any``."""

_INIT: Fields = {
    "current_design_summary": {
        "unified_scenario_design": "key points of the scenario's design",
        "business_rules_key_points": ["a key business rule"],
        "format_specifications": "the formats in brief",
    },
    "execute_feedback_summary": {
        "execution_output_dir": "path",
        "total_failure_samples": 0,
        "layer1_problems_summary": ["type of problem: description"],
    },
    "analysis_conclusions": [
        "sample analysed and findings; fault of the design and its root cause; part that has to change"
    ],
    "pending_actions": ["what is still to analyse or change; what the user has to decide or approve"],
    "key_paths": {"execution_output_dir": "path", "layer1_problems_report": "path"},
}
_EXECUTE: Fields = {
    "generated_components": {
        "tools": ["file: what it does"],
        "checkers": ["file: what it checks"],
        "samples": "how many, and what they cover",
    },
    "evaluation_progress": {
        "current_iteration": 0,
        "success_rate": "passed/all (percent)",
        "layer_status": "which layers are done, which one is in progress",
    },
    "identified_issues": {
        "layer2_problems": ["problem and its cause"],
        "layer3_problems": ["problem and its cause"],
        "fix_attempts": ["what was tried, and the result"],
    },
    "pending_work": ["remaining work, next first; when to stop, continue, or report back"],
    "key_paths": {"execution_output_dir": "path"},
}
_OTHERS: Fields = {
    "current_work": "what is being worked on, how far it is, and the next step",
    "requests_and_rulings": ["what the user asked for, decided or rejected"],
    "decisions": ["decision: why"],
    "findings": ["findings; an error and its cause"],
    "files_changed": ["path: what was changed, and its state (works, untested, broken)"],
    "failed_attempts": ["what was tried: why it failed"],
    "pending_actions": ["remaining work, next first; what waits for the user"],
    "key_paths": {"what": "path, command or place"},
}
_FIELDS: Mapping[str, Fields] = MappingProxyType({"init": _INIT, "execute": _EXECUTE})
_KEYWORDS = ("current", "progress", "pending", "execution_output_dir")
"""Words of which a summary must mention at least one."""

_PROMPT = """\
The conversation has become too long. Summarize the work so far: answer with one JSON object and nothing else, \
no tool call and no text around it.

{skeleton}

After this you no longer see the messages before this one, and anything you leave out is lost. So be complete \
but concise: exact names, paths, numbers, error messages; no file contents, they can be read again. Include \
what an earlier summary says if it is still true. Use these fields; leave one empty when there is nothing to \
say, and add one for what fits nowhere."""


class SummaryProblem(str):
    """Why an answer is no usable summary, as text for the model."""

    __slots__ = ()


def summary_fields(agent: str) -> Fields:
    """Return the fields of an agent's summary, by the name of its context profile."""
    return _FIELDS.get(agent, _OTHERS)


def summary_prompt(agent: str, *, instructions: str = "") -> str:
    """Return the user message that asks for the summary. ``instructions``: the user's wishes for this one."""
    skeleton = json.dumps(dict(summary_fields(agent)), indent=1)
    prompt = _PROMPT.format(skeleton=skeleton)
    if wanted := instructions.strip():
        prompt += f"\n\nThe user says of this summary: {wanted}"
    return prompt


def retry_prompt(problem: SummaryProblem) -> str:
    """Return the user message after an answer that was no summary."""
    return f"This cannot be used as the summary: {problem} Answer again, with the JSON object only."


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return a summary as it is stored and sent from then on. Its values cannot end it, nor imitate the user."""
    values = plain_json(json.dumps(summary, ensure_ascii=False, indent=1))
    return f"<compact_summary>{values}</compact_summary>"


def read_summary(text: str, agent: str) -> dict[str, Any] | SummaryProblem:
    """Return the summary in the model's answer, taken out of fences, tags or prose around it.

    Fields that were not asked for are kept.
    """
    fields = summary_fields(agent)
    if not text.strip():
        return SummaryProblem("it is empty.")
    if estimate_tokens(text) > 3 * _TOO_LONG:
        return SummaryProblem(f"it is too long; keep it below {MAX_SUMMARY_TOKENS:,} tokens.")
    found, cut_off = _objects(text)
    best = max(found, key=lambda value: sum(name in fields for name in value), default=None)
    known = [] if best is None else [name for name in fields if name in best]
    if best is None or 2 * len(known) < len(fields):
        if cut_off:
            return SummaryProblem(
                f"it was cut off before its end; keep it below {MAX_SUMMARY_TOKENS:,} tokens."
            )
        if best is None:
            return SummaryProblem("there is no valid JSON object in it.")
        missing = ", ".join(name for name in fields if name not in best)
        return SummaryProblem(f"these fields are missing: {missing}.")
    return _checked(best, fields)


def _checked(summary: dict[str, Any], fields: Fields) -> dict[str, Any] | SummaryProblem:
    if wrong := next(_wrong_kinds(summary, fields, ""), None):
        return SummaryProblem(wrong)
    if not any(_says_something(value, fields.get(name)) for name, value in summary.items()):
        return SummaryProblem("it is empty: fill the fields with facts about this work.")
    text = json.dumps(summary, ensure_ascii=False)
    if estimate_tokens(text) > _TOO_LONG:
        return SummaryProblem(f"it is too long; keep it below {MAX_SUMMARY_TOKENS:,} tokens.")
    if not any(word in text.lower() for word in _KEYWORDS):
        return SummaryProblem("it does not say how far the work is and what is pending.")
    return summary


def _wrong_kinds(value: Mapping[str, Any], fields: Fields, path: str) -> Iterator[str]:
    """Known fields whose value is of another kind than asked for. Null is as good as empty."""
    for name, wanted in fields.items():
        given: object = value.get(name)
        if given is None:
            continue
        shown = f'"{path}{name}"'
        if isinstance(wanted, Mapping):
            if isinstance(given, dict):
                yield from _wrong_kinds(value[name], fields[name], f"{path}{name}.")
            else:
                yield f"{shown} must be an object, not {_kind(given)}."
        elif isinstance(wanted, list):
            if not isinstance(given, list):
                yield f"{shown} must be a list, not {_kind(given)}."
        # Text and numbers are equivalent: "15", 15 and 0.8 all have a clear meaning.
        elif isinstance(given, dict | list) and path != "key_paths.":
            kind = "text" if isinstance(wanted, str) else "a number"
            yield f"{shown} must be {kind}, not {_kind(value[name])}."


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "text" if isinstance(value, str) else "a number"


def _says_something(value: object, placeholder: object) -> bool:
    """Return whether a leaf is neither empty nor the example of the prompt."""
    fields, items = mapping(value), array(value)
    if fields or items:
        shown, first = mapping(placeholder), next(iter(array(placeholder)), None)
        told = (
            *((item, shown.get(name)) for name, item in fields.items()),
            *((item, first) for item in items),
        )
        return any(_says_something(*one) for one in told)
    if isinstance(value, str):
        return bool(re.search(r"\w", value)) and value != placeholder
    return isinstance(value, int | float) and not isinstance(value, bool) and value != placeholder


def _finite(text: str) -> float | None:
    """Return a number; None for one that JSON cannot express: 1e999 is read as infinity."""
    number = float(text)
    return number if math.isfinite(number) else None


def _objects(text: str) -> tuple[list[dict[str, Any]], bool]:
    """Return all top-level JSON objects in a text, and whether one of them has no end."""
    # Not strict: models write raw line breaks into strings.
    decoder = json.JSONDecoder(strict=False, parse_constant=_finite, parse_float=_finite)
    found: list[dict[str, Any]] = []
    cut_off = False
    at = text.find("{")
    for _ in range(_MAX_TRIES):
        if at < 0:
            break
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            rest = text[error.pos :].strip().removesuffix("</compact_summary>").strip("` \n")
            cut_off = cut_off or not rest or error.msg.startswith("Unterminated string")
            end = at + 1
        except (ValueError, RecursionError):  # an absurd number or nesting
            end = at + 1
        else:
            found.append(value)
        at = text.find("{", end)
    return found, cut_off
