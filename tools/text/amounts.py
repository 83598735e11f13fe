"""Money, counts and durations as text: the one place for terminals and reports to the model.

``daemon/api/page/format.js`` writes them alike for the chat and the page; ``tests/contract/amounts.json`` has cases.
"""

from __future__ import annotations

from tools.localization import t

UNKNOWN = "–"

_TIE = 1e-9
"""Makes a number that is halfway round up, also where it is a bit less in binary, as ``format.js`` does."""


def money(usd: float | None, unpriced: int | None = 0) -> str:
    """Return a cost in US dollars for a column: ``<$0.001``, ``$0.005``, ``$0.07``, ``$1.23``, ``$1,235``.

    ``unpriced``: see ``known_part``.
    """
    usd = usd or 0.0
    if usd < 0.1:
        text = f"${usd + _TIE:.3f}".removesuffix("0") if usd >= 0.001 else "<$0.001" if usd else "$0"
    else:
        text = f"${usd + _TIE:,.{0 if usd >= 1000 else 2}f}"
    return known_part(text, usd, unpriced)


def known_part(text: str, usd: float, unpriced: int | None) -> str:
    """Return ``text``, the cost ``usd``, marked as a part if some tokens are ``unpriced``: their price is not known."""
    if not unpriced:
        return text
    return f"≥ {text}" if usd else UNKNOWN


def cost_words(usd: float | None, unpriced: int | None = 0) -> str:
    """Return ``money`` for the middle of a sentence."""
    text = money(usd, unpriced)
    return t("unknown price") if text == UNKNOWN else text


def amount(count: int) -> str:
    """Return a count in a few characters: ``950``, ``12.3k``, ``1.2M``."""
    if count < 1000:
        return str(count)
    unit, size = ("k", 1e3) if count < 999_500 else ("M", 1e6) if count < 999_500_000 else ("G", 1e9)
    value = count / size
    return f"{value + _TIE:.{int(value < 99.95)}f}".removesuffix(".0") + unit


def duration(milliseconds: float) -> str:
    """Return a duration: ``450 ms``, ``1.2 s``, ``45 s``, ``3 min 5 s``, ``2 h 5 min``."""
    if milliseconds < 1000:
        return t("{count} ms", count=round(milliseconds))
    seconds = milliseconds / 1000 + _TIE
    if seconds < 10:
        return t("{seconds:.1f} s", seconds=seconds)
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return t("{seconds:.0f} s", seconds=seconds)
    if minutes < 60:
        return t("{minutes} min {rest} s", minutes=minutes, rest=rest)
    return t("{hours} h {minutes} min", hours=minutes // 60, minutes=minutes % 60)
