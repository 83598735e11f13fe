"""What one agent hands over to the other: the first message of the session that goes on (source: seed 001). Pure.

``init`` designs and ``execute`` carries out; each works in a session of its own and knows of the other one only what
stands in this text and in the files it names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from daemon.context.compaction import cut_middle, open_goals, person_said, verbatim_blocks
from daemon.context.summaries import SummaryProblem, read_summary, summary_text
from daemon.context.tokens import estimate_tokens
from daemon.model.messages import Message, TextPart
from daemon.model.tags import (
    HANDOVER_TAGS,
    is_handover,
    one_each,
    plain,
    said_in,
    within,
    without,
    without_said,
)
from tools.json_access import mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from daemon.model.choices import TakingOver as Target
    from daemon.plan.tree import PlanTree

HANDOVER_TOKENS = 10_000
"""Estimated; a hand-over is the first message of a session and stays in it to the end."""
_MAX_FILES = 100
_MAX_GOALS = 60
_REPORT_SHARE = 0.2
_SUMMARY_SHARE = 0.4
_BEFORE_SHARE = 0.15
_BEFORE = "handed_over"
_LEFT_OVER = re.compile(
    r"^(?:## What the person said, .*|## What the \w+ agent was handed over itself|\[\d+ more left out here\])$",
    re.M,
)
"""What stands around words that were taken out."""
_REPORT = "agent_report"
_TAGS: Mapping[Target, str] = {"execute": HANDOVER_TAGS[0], "init": HANDOVER_TAGS[1]}
_DUTY: Mapping[Target, str] = {
    "execute": "Carry the design out: read its files first. What waits for the person's decision is not decided.",
    "init": "Analyse what is reported and find the causes; read the files named here for the details. Changes of the "
    "design need the person's approval.",
}


@dataclass(frozen=True, slots=True)
class Giving:
    """The session that hands its work over."""

    trace_id: str
    agent: str
    plan: PlanTree
    messages: Sequence[Message]
    changed_files: Sequence[str] = ()
    """Paths of files it changed, the newest last."""
    report: str = ""
    """What it hands over with; empty: what it reported last."""
    facts: Sequence[str] = ()
    """One line each, ours: which iteration this is, its success rate."""
    earlier: str = ""
    """What the agent that worked before the receiving one reported."""


def handover_text(giving: Giving, target: Target, limit_tokens: int = HANDOVER_TOKENS) -> str:
    """The text between ``<init_to_execute_context>`` or ``<execute_to_init_context>`` for the agent ``target``.

    Mission, what the person said, how goals ended and what is open, the newest summary with its key paths, the files
    that were changed, and what the agent reported last. Of what was handed over to the giving agent itself, the
    person's words count as said here, and the rest is told apart from them, but not what was handed over before that:
    so it does not grow from one agent to the other and back.
    """
    messages, before = _unpacked(giving.messages)
    summary = newest_summary(giving.messages, giving.agent)
    shown_summary = "" if summary is None else summary_text(summary)
    report = giving.report.strip() or last_report(giving.messages)
    known = [f"Handed over by the {giving.agent} agent; its session is {giving.trace_id}.", *giving.facts]
    parts: list[str] = ["\n".join(known)]
    first = next((said for message in messages if (said := person_said(message))), "")
    if giving.plan.mission and giving.plan.mission not in first:  # else it comes in the person's own words
        parts += ["## Mission", plain(giving.plan.mission)]
    ends: list[str] = []
    if before:
        ends += [
            f"## What the {giving.agent} agent was handed over itself",
            within(_BEFORE, _cut(before, int(limit_tokens * _BEFORE_SHARE))),
        ]
    if shown_summary:
        ends += ["## Its summary of the work", _cut(shown_summary, int(limit_tokens * _SUMMARY_SHARE))]
    if still_open := open_goals(giving.plan):
        ends += ["## Still open", _first(still_open, _MAX_GOALS)]
    if giving.changed_files:
        files = [f"- {path}" for path in giving.changed_files[-_MAX_FILES:]]
        left_out = len(giving.changed_files) - len(files)
        ends += ["## Files it changed", one_each([*([f"[{left_out} more]"] if left_out else []), *files])]
    if giving.earlier:
        ends += [
            "## What the last iteration reported",
            within(_REPORT, _cut(giving.earlier, int(limit_tokens * _REPORT_SHARE))),
        ]
    if report:
        ends += [
            "## What it reported last",
            within(_REPORT, _cut(report, int(limit_tokens * _REPORT_SHARE))),
        ]
    left = limit_tokens - sum(map(estimate_tokens, (*parts, *ends)))
    everything = max((message.sequence for message in messages), default=0) + 1
    parts += verbatim_blocks(messages, giving.plan, everything, max(left, limit_tokens // 5))
    tag = _TAGS[target]
    return "\n\n".join([tag, *parts, *ends, f"</{tag[1:]}", _DUTY[target]])


def _unpacked(messages: Sequence[Message]) -> tuple[Sequence[Message], str]:
    """The messages with the person's own words in the place of a hand-over that they begin with, and its other words.

    Only a session's first message is a hand-over; who pastes one later says it himself.
    """
    first = messages[0] if messages else None
    if first is None or first.role != "user" or not is_handover(text := first.text()):
        return messages, ""
    said = [first.model_copy(update={"content": (TextPart(text=words),)}) for words in said_in(text)]
    tag = next(tag for tag in HANDOVER_TAGS if text.startswith(tag))
    inner = text[len(tag) :].rpartition(f"\n</{tag[1:]}\n")[0]
    others = without(_BEFORE, without_said(inner))
    return [*said, *messages[1:]], re.sub(r"\n{3,}", "\n\n", _LEFT_OVER.sub("", others)).strip()


def newest_summary(messages: Sequence[Message], agent: str) -> dict[str, Any] | None:
    """The summary of the newest full compaction that a model wrote; None when there is none."""
    for message in reversed(messages):
        mark = message.compaction()
        if mark is not None and mark.kind == "summary":
            read = read_summary(message.text(), agent)
            if not isinstance(read, SummaryProblem):
                return read
    return None


def last_report(messages: Sequence[Message]) -> str:
    """What the agent said last that was more than a word with a tool call."""
    return next(
        (
            message.text().strip()
            for message in reversed(messages)
            if message.role == "assistant"
            and message.compaction() is None
            and not message.tool_calls()
            and message.text().strip()
        ),
        "",
    )


def changed_paths(messages: Iterable[Message]) -> list[str]:
    """Files that tool results say were changed, once each, the newest last."""
    found: dict[str, None] = {}
    for message in messages:
        result = message.tool_result()
        files: object = result.metadata.get("files") if result is not None and not result.is_error else None
        for entry in cast("list[object]", files) if isinstance(files, list) else ():
            fields: dict[str, object] = mapping(entry)
            path = fields.get("path")
            if isinstance(path, str) and "kind" in fields:
                found.pop(path, None)
                found[path] = None
    return list(found)


def _first(lines: Sequence[str], count: int) -> str:
    more = len(lines) - count
    return one_each([*lines[:count], *([f"[{more} more]"] if more > 0 else [])])


def _cut(text: str, limit: int) -> str:
    tokens = estimate_tokens(text)
    return text if tokens <= limit else cut_middle(text, len(text) * limit // tokens)
