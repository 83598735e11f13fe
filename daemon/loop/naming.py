"""What a session is called in lists, made from what was said in it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.localization import t
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.model.messages import Message
    from daemon.model.traces import Trace
    from daemon.plan.tree import PlanTree

_LABEL = re.compile(r"^(?:title|summary|\u6807\u9898|\u6458\u8981)\s*[:：]", re.IGNORECASE)
"""What a model may put before a title or a summary, in English or Chinese."""
_MARKS = " \t#*_`\"'“”„‘’«»「」『』《》"
"""Quotes and marks of Markdown that a model may put around its answer."""

TITLE_LENGTH = 60
SUMMARY_LENGTH = 200
MISSION_LENGTH = 2_000
"""Characters."""


def names_after(prompt: str, trace: Trace, plan: PlanTree) -> dict[str, str]:
    """What the first prompt of a session settles: its title and its mission."""
    names: dict[str, str] = {}
    if not trace.title:
        names["title"] = one_line(prompt, TITLE_LENGTH) or t("Untitled")
        names["titled_by"] = "prompt"
    if not plan.mission:
        names["mission"] = head(prompt.strip(), MISSION_LENGTH)
    return names


def plain_line(answer: str, length: int) -> str:
    """Return a model's answer as one line of at most ``length`` characters, without quotes and Markdown."""
    line = next((line for line in answer.splitlines() if line.strip()), "")
    line = _LABEL.sub("", line.strip(_MARKS))
    return one_line(line.strip(_MARKS), length)


def summary_of(messages: Sequence[Message]) -> str:
    """The last thing the agent said, in one line; empty when it said nothing yet."""
    for message in reversed(messages):
        if message.role == "assistant" and message.compaction() is None and (text := message.text()):
            return one_line(text, SUMMARY_LENGTH)
    return ""
