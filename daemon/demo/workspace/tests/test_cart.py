"""What the cart must do."""

import unittest
from decimal import Decimal

from shop.cart import Cart


class CartTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cart = Cart()
        self.cart.add("tea", "4.50", 2)
        self.cart.add("cup", "6.99")

    def test_total(self) -> None:
        self.assertEqual(self.cart.total(), Decimal("15.99"))

    def test_discount_code(self) -> None:
        self.assertEqual(self.cart.total("SPRING10"), Decimal("14.39"))

    def test_unknown_code_takes_nothing_off(self) -> None:
        self.assertEqual(self.cart.total("NOPE"), Decimal("15.99"))


if __name__ == "__main__":
    unittest.main()
