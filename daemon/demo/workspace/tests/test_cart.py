"""What the cart must do."""

import unittest
from decimal import Decimal

from shop.cart import Cart


def tea_for_two() -> Cart:
    """Two teas and a cup: 15.99."""
    cart = Cart()
    cart.add("tea", "4.50", 2)
    cart.add("cup", "6.99")
    return cart


class CartTest(unittest.TestCase):
    def test_total(self) -> None:
        self.assertEqual(tea_for_two().total(), Decimal("15.99"))

    def test_discount_code(self) -> None:
        self.assertEqual(tea_for_two().total("SPRING10"), Decimal("14.39"))

    def test_unknown_code_takes_nothing_off(self) -> None:
        self.assertEqual(tea_for_two().total("NOPE"), Decimal("15.99"))
