"""The tags around Goalwright's own text for the model, and protection against forged ones. Pure.

The tags show the model who wrote what. Its own text, contents of files and names of goals could open or close a tag,
and so imitate the user.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS = (
    "said",
    "carried",
    "goal_summary",
    "goal_summaries",
    "earlier_attempts",
    "instructions",
    "untrusted_instructions",
    "project_map",
    "skills",
    "compact_summary",
    "init_to_execute_context",
    "execute_to_init_context",
    "handed_over",
    "agent_report",
    "environment",
    "hook_context",
    "mcp_result",
    "mcp_prompt",
    "mcp_resource",
    "planning",
    "changes",
    "recent_subjects",
)
"""Names of the tags."""
HANDOVER_TAGS = ("<init_to_execute_context>", "<execute_to_init_context>")
"""The tags that begin a handover."""

ASKS_FOR_PLAN = '{"steps": [{"goal"'
"""Begins the JSON that a ``planning`` note asks the model for: clients recognize such notes, and the answers, by it."""

_GAP = "[\\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*"
"""Invisible characters that may hide between the signs of a tag."""
_ANY = re.compile(rf"<(?={_GAP}/?{_GAP}(?:{'|'.join(OURS)})\b)", re.IGNORECASE)
_END_OF_SAID = re.compile(rf"<(?={_GAP}/{_GAP}said\b)", re.IGNORECASE)
_SAID = re.compile(r"^<said>\n(.*?)\n</said>$", re.DOTALL | re.MULTILINE)


def plain(text: str) -> str:
    """Return ``text`` so that it cannot open or close a reserved tag. Idempotent."""
    return _ANY.sub("‹", text) if "<" in text else text


def plain_json(text: str) -> str:
    """Make JSON text safe in the same way; its strings keep their value for a JSON parser."""
    return _ANY.sub(lambda _: r"\u003c", text) if "<" in text else text


def attribute(text: str, *, keep_spaces: bool = False) -> str:
    """Return ``text`` as the value of a tag's attribute: one line, without the quotes that would end it.

    ``keep_spaces``: two in a row mean something, as in the name of a file.
    """
    line = " ".join(text.splitlines() if keep_spaces else text.split())
    return plain(line.replace('"', "'"))


def within(tag: str, text: str) -> str:
    """Return text that is not the user's, in a reserved tag."""
    return f"<{tag}>\n{plain(text)}\n</{tag}>"


def said_block(text: str) -> str:
    """Return the user's own words in a tag: pasted text stays unchanged, only the end tag cannot occur in it."""
    return f"<said>\n{_END_OF_SAID.sub('‹', text) if '<' in text else text}\n</said>"


def said_in(text: str) -> list[str]:
    """Return the user's words from a text with blocks of ``said_block``, in order."""
    return _SAID.findall(text)


def without_said(text: str) -> str:
    """Return the text without the quotes of users' words."""
    return _SAID.sub("", text)


def without(tag: str, text: str) -> str:
    """Return ``text`` without this reserved tag and its content."""
    return re.sub(rf"^<{tag}>\n.*?\n</{tag}>$", "", text, flags=re.DOTALL | re.MULTILINE)


def is_handover(text: str) -> bool:
    """Return whether a message is what another agent handed over: its first words are the tag, and the tag ends."""
    return any(text.startswith(f"{tag}\n") and f"\n</{tag[1:]}\n" in text for tag in HANDOVER_TAGS)


def one_each(lines: Sequence[str], most: int | None = None) -> str:
    """Return ``lines`` of other people's text one below the other, each on exactly one line; those beyond ``most`` are
    counted."""
    shown = [plain(" ".join(line.split())) for line in lines[:most]]
    left_out = len(lines) - len(shown)
    return "\n".join([*shown, f"[{left_out} more]"] if left_out else shown)
