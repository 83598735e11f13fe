"""Prices: how they are rounded, and what a discount code takes off."""

from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
DISCOUNTS = {"SPRING10": Decimal("0.10"), "VIP25": Decimal("0.25")}


def rounded(amount: Decimal) -> Decimal:
    """The amount in whole cents."""
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


def discounted(amount: Decimal, code: str) -> Decimal:
    """The amount with a discount code applied. Unknown codes take nothing off."""
    return amount * (1 - DISCOUNTS.get(code, Decimal(0)))
