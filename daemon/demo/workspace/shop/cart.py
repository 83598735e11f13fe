"""The shopping cart."""

from dataclasses import dataclass, field
from decimal import Decimal

from shop.pricing import rounded


@dataclass
class Item:
    """So many pieces of one thing."""

    name: str
    price: Decimal
    quantity: int = 1


@dataclass
class Cart:
    """What a customer is going to buy."""

    items: list[Item] = field(default_factory=list)

    def add(self, name: str, price: str, quantity: int = 1) -> None:
        """Put something into the cart."""
        self.items.append(Item(name, Decimal(price), quantity))

    def total(self) -> Decimal:
        """What the customer pays."""
        amount = sum((item.price * item.quantity for item in self.items), Decimal(0))
        return rounded(amount)
