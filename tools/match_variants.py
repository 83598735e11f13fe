"""Other readings of an edit that models send: text with escapes in it, or with copied line numbers. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_NUMBERED = re.compile(r"[ \t]*(\d{1,7})(→|\t|\|(?: |$)|:(?: |$))")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_UNSURE = (
    "its \\n were read as line ends, but in new_string it is unclear which \\n are line ends and which belong to "
    "the code. Send both with real line ends."
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A reading of ``old_string`` and ``new_string``."""

    rung: Literal["escaped characters", "line numbers"]
    old: str
    new: str
    only_at_line: int | None = None
    """The place counts only when it is at this line: a single number could as well be part of the text."""
    refuse: str = ""
    """Why it cannot be used although ``old`` may be found, in words for the model."""


def variants(old: str, new: str) -> Iterator[Variant]:
    """All other readings of the two, the likelier first."""
    if unescaped := _unescape(old, new):
        yield unescaped
    if unnumbered := _without_numbers(old, new):
        yield unnumbered


def _unescape(old: str, new: str) -> Variant | None:
    if "\n" in old or "\\" not in old:
        return None
    strict = _fully_escaped(old) and _fully_escaped(new) and ('\\"' in old or "\\\\" in old)
    if strict:
        decoded = _ESCAPE.sub(lambda m: _PLAIN[m.group(1)], old)
        return Variant("escaped characters", decoded, _ESCAPE.sub(lambda m: _PLAIN[m.group(1)], new))
    if "\\n" not in old or "\\\\n" in old or "\\\\n" in new:
        return None
    plain_old = old.replace("\\n", "\n").replace("\\t", "\t")
    if "\n" in new:
        refuse = _UNSURE if "\\n" in new else ""
        return Variant("escaped characters", plain_old, new, refuse=refuse)
    plain_new = new.replace("\\n", "\n").replace("\\t", "\t")
    refuse = _UNSURE if _breaks_a_string(plain_old, plain_new) else ""
    return Variant("escaped characters", plain_old, plain_new, refuse=refuse)


def _fully_escaped(text: str) -> bool:
    """Whether the text reads like the inside of a JSON string: every quote and backslash escaped."""
    rest = _ESCAPE.sub(lambda m: "" if m.group(1) in _PLAIN else "\\", text)
    return "\n" not in text and '"' not in rest and "\\" not in rest


def _breaks_a_string(old: str, new: str) -> bool:
    """Whether unescaping put a line end into a quoted string of a line that old_string does not have."""
    known = set(old.split("\n"))
    return any(
        line not in known and (line.count('"') % 2 == 1 or line.count("'") % 2 == 1)
        for line in new.split("\n")
    )


def _without_numbers(old: str, new: str) -> Variant | None:
    lines = old.split("\n")
    final = lines.pop() if lines[-1] == "" and len(lines) > 1 else None
    found = [_NUMBERED.match(line) for line in lines]
    heads = [head for head in found if head is not None]
    if len(heads) != len(lines) or len({head.group(2).strip(" ") for head in heads}) != 1:
        return None
    numbers = [int(head.group(1)) for head in heads]
    if any(b != a + 1 for a, b in itertools.pairwise(numbers)):
        return None
    separator = heads[0].group(2).strip(" ")
    stripped = [line[head.end() :] for line, head in zip(lines, heads, strict=True)]
    if final is not None:
        stripped.append("")
    certain = len(lines) > 1 or separator == "→"
    return Variant(
        "line numbers",
        "\n".join(stripped),
        "\n".join(_strip_number(line, separator) for line in new.split("\n")),
        only_at_line=None if certain else numbers[0],
    )


def _strip_number(line: str, separator: str) -> str:
    head = _NUMBERED.match(line)
    return line[head.end() :] if head is not None and head.group(2).strip(" ") == separator else line
