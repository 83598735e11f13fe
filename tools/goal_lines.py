"""Goals as models list them: lines with marks before them. Without pydantic, as the plan needs it from the start."""

from __future__ import annotations

import re

_MARK = re.compile(
    r"""\s*(?:
        (?:[-*•]|\(?\d+[.)]|\(?[A-Za-z]\))(?:\s+|$)  # of a list
        | \d+[、．）]\s*
        | (?:\[[ xX✓✔✅✗✘❌→►>~*/-]?\](?:\s+|$)|[☐☑☒✓✔✅❌⬜◻▢]\ufe0f?\s*)  # of what is done
    )""",
    re.VERBOSE,
)


def split_goals(add: str | list[str] | None) -> list[str]:
    """Return the goals of an ``add``: list items, else lines, else parts between commas.

    A full-width comma is part of a sentence, and separates nothing. Marks of lists and of finished goals are removed:
    they are habit, or copied from a shown plan.
    """
    return [goal for line in goal_lines(add) if (goal := without_marks(line))]


def goal_lines(add: str | list[str] | None) -> list[str]:
    """Return the lines of a list of goals with their marks."""
    if add is None:
        return []
    parts = add if isinstance(add, list) else add.splitlines() if "\n" in add.strip() else _at_commas(add)
    return [part for line in parts if (part := line.strip())]


def without_marks(line: str) -> str:
    """Return a line of a list without the marks before its text: ``- [x] 1. Look`` is ``Look``."""
    start = 0
    while (mark := _MARK.match(line, start)) is not None:
        start = mark.end()
    return line[start:].strip()


def _at_commas(text: str) -> list[str]:
    """Split at commas outside brackets and numbers: ``fix f(a, b), test 1,000 rows`` are two goals."""
    parts: list[str] = []
    depth, current = 0, ""
    for place, char in enumerate(text):
        depth += (char in "([{（") - (char in ")]}）")
        within = text[place - 1 : place].isdigit() and text[place + 1 : place + 2].isdigit()
        if char == "," and depth <= 0 and not within:
            parts.append(current)
            current = ""
        else:
            current += char
    return [*parts, current]
