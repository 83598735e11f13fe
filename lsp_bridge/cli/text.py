"""Text of models, tools and files, made safe to print on a terminal, and the few styles used there."""

from __future__ import annotations

import unicodedata
from functools import partialmethod
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tools.json_access import integer
from tools.localization import n, noted, t
from tools.text import terminal, truncate
from tools.text.terminal import clean as clean
from tools.text.terminal import shown as shown
from tools.text.terminal import shown_line as shown_line

if TYPE_CHECKING:
    from collections.abc import Sequence


def one_line(text: str, limit: int = 200) -> str:
    """Return ``text`` safe and on one line of at most ``limit`` characters."""
    return truncate.one_line(clean(text), limit)


class Cleaner:
    """``clean`` for text that comes in pieces: an escape sequence may be cut between two of them."""

    def __init__(self) -> None:
        self._whole = terminal.EscapeJoiner()

    def feed(self, piece: str) -> str:
        """Return the safe text that is complete so far; the beginning of an escape sequence is held back."""
        return clean(self._whole.feed(piece))


def fit(text: str, columns: int) -> str:
    """Return ``text`` if it fits into so many columns (East Asian letters take two), else its beginning, without
    colours."""
    plain = terminal.plain(text)
    for position, used in enumerate(accumulate(map(_columns, plain))):
        if used > columns:
            return plain[:position]
    return text


def pad(text: str, columns: int) -> str:
    """Return ``text`` with blanks up to so many columns (East Asian letters take two)."""
    return text + " " * max(0, columns - width(text))


def width(text: str) -> int:
    """Return the columns that ``text`` takes."""
    return sum(map(_columns, text))


def _columns(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(pad, row, widths)).rstrip() for row in rows]


STATES = {
    "pending": noted("pending"),
    "in_progress": noted("in progress"),
    "exploring": noted("exploring"),
    "running": noted("running"),
    "waiting": noted("waiting"),
    "idle": noted("idle"),
    "completed": noted("completed"),
    "failed": noted("failed"),
    "abandoned": noted("abandoned"),
    "canceled": noted("canceled"),
    "removed": noted("removed"),
    "end_turn": noted("ended"),
    "max_tokens": noted("cut off"),
    "permission_denied": noted("permission denied"),
    "error": noted("error"),
}
"""States of sessions, goals, branches and turns, by their names on the wire."""


SIGNS = {"pending": "○", "in_progress": "◐", "completed": "✓", "abandoned": "⊘", "failed": "✗"}
"""Signs of states, as in the graph (``daemon/api/page/format.js``)."""


def sign(name: str) -> str:
    """Return the sign of a state; an unknown one is pending."""
    return SIGNS.get(name, SIGNS["pending"])


def state(name: str) -> str:
    """Return a state in the user's language; an unknown one by its name."""
    return t(STATES[name]) if name in STATES else name.replace("_", " ")


class Style:
    """Colours, or none."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and text else text

    dim = partialmethod(_wrap, "2")
    """Style less important text."""
    bold = partialmethod(_wrap, "1")
    """Style headings."""
    red = partialmethod(_wrap, "31")
    """Style failures and removed lines."""
    green = partialmethod(_wrap, "32")
    """Style success and added lines."""
    yellow = partialmethod(_wrap, "33")
    """Style warnings and questions."""
    cyan = partialmethod(_wrap, "36")
    """Style positions."""

    def diff(self, text: str) -> str:
        """Return a unified diff, coloured, with all that is in it made visible (see ``shown``)."""
        signs = {"+++": self.bold, "---": self.bold, "@@": self.cyan, "+": self.green, "-": self.red}
        lines = [shown(line) for line in text.split("\n")]
        painted = (
            next((signs[sign] for sign in signs if line.startswith(sign)), str)(line) for line in lines
        )
        return "\n".join(painted).rstrip("\n")


def tokens(count: int) -> str:
    """Return e.g. ``12,300 tokens``."""
    return n("{count:,} token", "{count:,} tokens", count)


def total_of(usage: dict[str, Any]) -> int:
    """Return the tokens of ``TokenUsage`` of the wire."""
    return sum(integer(usage.get(kind)) for kind in ("input", "output", "cacheRead", "cacheWrite"))


def window_words(meter: dict[str, Any]) -> str:
    """Return the size of a model's window (``Meter`` of the wire): ``128,000 (assumed)``."""
    window = integer(meter.get("contextWindow"))
    return t("{window:,} (assumed)", window=window) if meter.get("windowAssumed") is True else f"{window:,}"


def share(part: float, whole: float) -> str:
    """Return a part in per cent; ``<1 %`` instead of nothing."""
    if whole <= 0:
        return "0 %"
    per_cent = 100 * part / whole
    return "<1 %" if 0 < per_cent < 1 else f"{per_cent:.0f} %"
