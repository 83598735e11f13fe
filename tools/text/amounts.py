"""Amounts of money as text: the one place for terminals, reports to the model and dumps."""

from __future__ import annotations

from tools.localization import t

UNKNOWN = "–"


def money(usd: float | None, unpriced: int | None = 0) -> str:
    """Return a cost in US dollars for a column: cents from a dollar on, below it with the significant digits.

    ``unpriced``: see ``known_part``.
    """
    usd = usd or 0.0
    return known_part(f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}", usd, unpriced)


def known_part(text: str, usd: float, unpriced: int | None) -> str:
    """Return ``text``, the cost ``usd``, marked as a part if some tokens are ``unpriced``: their price is not known."""
    if not unpriced:
        return text
    return f"≥ {text}" if usd else UNKNOWN


def cost_words(usd: float | None, unpriced: int | None = 0) -> str:
    """Return ``money`` for the middle of a sentence."""
    text = money(usd, unpriced)
    return t("unknown price") if text == UNKNOWN else text
