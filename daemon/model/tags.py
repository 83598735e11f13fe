"""The tags that Goalwright's own words to the model stand in, and how other text cannot forge them. Pure.

The model is told whose words it reads by these tags. What it wrote itself, what stands in files and what a goal is
called could open or close one, and so put words into the person's mouth.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

OURS = (
    "said",
    "carried",
    "goal_summary",
    "goal_summaries",
    "earlier_attempts",
    "instructions",
    "untrusted_instructions",
    "project_map",
    "compact_summary",
    "init_to_execute_context",
    "execute_to_init_context",
    "handed_over",
    "agent_report",
    "environment",
    "hook_context",
    "planning",
    "changes",
    "recent_subjects",
)
"""Names of the tags."""
HANDOVER_TAGS = ("<init_to_execute_context>", "<execute_to_init_context>")
"""How a hand-over begins (source: seed 001)."""

_GAP = "[\\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*"
"""What a reader does not see between the signs of a tag."""
_ANY = re.compile(rf"<(?={_GAP}/?{_GAP}(?:{'|'.join(OURS)})\b)", re.IGNORECASE)
_END_OF_SAID = re.compile(rf"<(?={_GAP}/{_GAP}said\b)", re.IGNORECASE)
_SAID = re.compile(r"^<said>\n(.*?)\n</said>$", re.DOTALL | re.MULTILINE)


def plain(text: str) -> str:
    """``text`` that cannot open or close a tag of ours; all else as it was. Of what is plain nothing changes."""
    return _ANY.sub("‹", text) if "<" in text else text


def plain_json(text: str) -> str:
    """The same for JSON text, whose strings stay what they are for who reads it as JSON."""
    return _ANY.sub(lambda _: r"\u003c", text) if "<" in text else text


def attribute(text: str, *, keep_spaces: bool = False) -> str:
    """``text`` as the value of a tag's attribute: one line, without the quotes that would end it.

    ``keep_spaces``: two in a row mean something, as in the name of a file.
    """
    line = " ".join(text.splitlines() if keep_spaces else text.split())
    return plain(line.replace('"', "'"))


def within(tag: str, text: str) -> str:
    """Words that are not the person's, in a tag of ours."""
    return f"<{tag}>\n{plain(text)}\n</{tag}>"


def said_block(text: str) -> str:
    """The person's own words: whatever they paste stays as it is, only the end cannot be in the middle of it."""
    return f"<said>\n{_END_OF_SAID.sub('‹', text) if '<' in text else text}\n</said>"


def said_in(text: str) -> list[str]:
    """The person's words out of a text that holds them as ``said_block`` makes them, in order."""
    return _SAID.findall(text)


def without_said(text: str) -> str:
    """The same text without them."""
    return _SAID.sub("", text)


def without(tag: str, text: str) -> str:
    """``text`` without what stands in this tag of ours."""
    return re.sub(rf"^<{tag}>\n.*?\n</{tag}>$", "", text, flags=re.DOTALL | re.MULTILINE)


def is_handover(text: str) -> bool:
    """Whether a message is what another agent handed over: its first words are the tag, and the tag ends."""
    return any(text.startswith(f"{tag}\n") and f"\n</{tag[1:]}\n" in text for tag in HANDOVER_TAGS)


def one_each(lines: Iterable[str]) -> str:
    """``lines`` of other people's words below each other, each really one line."""
    return "\n".join(plain(" ".join(line.split())) for line in lines)
