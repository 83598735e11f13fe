"""The handover from one agent to the next: the first message of the next session. Pure.

``init`` designs and ``execute`` implements. Each works in a session of its own and knows of the other one only this
text and the files that it names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.context.compaction import MAX_GOALS, cut_to, open_goals, user_text, verbatim
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
from tools.json_access import mappings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from daemon.model.choices import TakingOver as Target
    from daemon.plan.tree import PlanTree

HANDOVER_TOKENS = 10_000
"""Estimated; a handover is the first message of a session and stays in it to the end."""
_MAX_FILES = 100
_REPORT_SHARE = 0.2
_SUMMARY_SHARE = 0.4
_BEFORE_SHARE = 0.15
_BEFORE = "handed_over"
_LEFT_OVER = re.compile(
    r"^(?:## What the (?:user|person) said, .*|"
    r"## What the \w+ agent was handed over itself|\[\d+ more left out here\])$",
    re.M,
)
"""Headings and notes that are left around removed text."""
_REPORT = "agent_report"
_TAGS: Mapping[Target, str] = {"execute": HANDOVER_TAGS[0], "init": HANDOVER_TAGS[1]}
_DUTY: Mapping[Target, str] = {
    "execute": "Carry out the design: read its files first. Anything that awaits the user's decision is still "
    "undecided.",
    "init": "Analyse the report and find the causes; read the files named here for details. Changes to the "
    "design need the user's approval.",
}


class HandoverSource(Struct, frozen=True):
    """The session that hands its work over."""

    trace_id: str
    agent: str
    plan: PlanTree
    messages: Sequence[Message]
    changed_files: Sequence[str] = ()
    """Paths of files it changed, the newest last."""
    report: str = ""
    """The report of the agent that hands over; empty: its last report is used."""
    facts: Sequence[str] = ()
    """One line each, ours: which iteration this is, its success rate."""
    earlier: str = ""
    """The report of the agent that worked before the receiving one."""


def handover_text(source: HandoverSource, target: Target, limit_tokens: int = HANDOVER_TOKENS) -> str:
    """Return the text between ``<init_to_execute_context>`` or ``<execute_to_init_context>`` for the agent ``target``.

    It has the mission, the user's words, ended and open goals, the newest summary with its key paths, the changed
    files, and the agent's last report. Of an earlier handover to the giving agent, the user's words count as said here,
    and the rest is set apart from them, but not an even earlier handover: so it does not grow from one agent to the
    other and back.
    """
    messages, before = _unpacked(source.messages)
    summary = newest_summary(source.messages, source.agent)
    shown_summary = "" if summary is None else summary_text(summary)
    report = source.report.strip() or last_report(source.messages)
    known = [f"Handed over by the {source.agent} agent; its session is {source.trace_id}.", *source.facts]
    parts: list[str] = ["\n".join(known)]
    first = next((said for message in messages if (said := user_text(message))), "")
    if source.plan.mission and source.plan.mission not in first:  # otherwise the user's own words contain it
        parts += ["## Mission", plain(source.plan.mission)]
    ends: list[str] = []
    if before:
        ends += [
            f"## What the {source.agent} agent was handed over itself",
            within(_BEFORE, cut_to(before, int(limit_tokens * _BEFORE_SHARE))),
        ]
    if shown_summary:
        ends += ["## Its summary of the work", cut_to(shown_summary, int(limit_tokens * _SUMMARY_SHARE))]
    if still_open := open_goals(source.plan):
        ends += ["## Still open", one_each(still_open, MAX_GOALS)]
    if source.changed_files:
        files = [f"- {path}" for path in source.changed_files[-_MAX_FILES:]]
        left_out = len(source.changed_files) - len(files)
        ends += ["## Files it changed", one_each([*([f"[{left_out} more]"] if left_out else []), *files])]
    reports = {"## What the last iteration reported": source.earlier, "## What it reported last": report}
    for title, said in reports.items():
        if said:
            ends += [title, within(_REPORT, cut_to(said, int(limit_tokens * _REPORT_SHARE)))]
    left = limit_tokens - sum(map(estimate_tokens, (*parts, *ends)))
    everything = max((message.sequence for message in messages), default=0) + 1
    parts += verbatim(messages, source.plan, everything, max(left, limit_tokens // 5)).blocks
    tag = _TAGS[target]
    return "\n\n".join([tag, *parts, *ends, f"</{tag[1:]}", _DUTY[target]])


def _unpacked(messages: Sequence[Message]) -> tuple[Sequence[Message], str]:
    """Return the messages with the user's own words in place of an initial handover, and the rest of the handover.

    Only a session's first message is a handover; a later one was pasted by the user.
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
    """Return the newest summary that a model wrote in a full compaction; None when there is none."""
    for message in reversed(messages):
        mark = message.compaction()
        if mark is not None and mark.kind == "summary":
            read = read_summary(message.text(), agent)
            if not isinstance(read, SummaryProblem):
                return read
    return None


def last_words(messages: Sequence[Message], *, with_calls: bool = True) -> str:
    """Return the last text of the agent; empty when there is none. ``with_calls``: also one beside tool calls."""
    own = (m for m in reversed(messages) if m.role == "assistant" and m.compaction() is None)
    said = (m.text().strip() for m in own if with_calls or not m.tool_calls())
    return next(filter(None, said), "")


def last_report(messages: Sequence[Message]) -> str:
    """Return the last text of the agent in a message without tool calls; empty when there is none."""
    return last_words(messages, with_calls=False)


def changed_paths(messages: Iterable[Message]) -> list[str]:
    """Return files that were changed according to tool results, once each, the newest last."""
    found: dict[str, None] = {}
    for message in messages:
        result = message.tool_result()
        files = result.metadata.get("files") if result is not None and not result.is_error else None
        for entry in mappings(files):
            path = entry.get("path")
            if isinstance(path, str) and "kind" in entry:
                found.pop(path, None)
                found[path] = None
    return list(found)
