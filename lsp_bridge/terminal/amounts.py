"""Tokens and money in words."""

from __future__ import annotations

from tools.localization import n


def tokens(count: int) -> str:
    """E.g. ``12,300 tokens``."""
    return n("{count:,} token", "{count:,} tokens", count)


def money(usd: float) -> str:
    """US dollars: cents from a dollar on, below it as many digits as say something."""
    if usd >= 1 or usd == 0:
        return f"${usd:,.2f}"
    return f"${usd:.4f}"


def share(part: float, whole: float) -> str:
    """A part in per cent; ``<1 %`` instead of nothing."""
    if whole <= 0:
        return "0 %"
    per_cent = 100 * part / whole
    return "<1 %" if 0 < per_cent < 1 else f"{per_cent:.0f} %"
