"""What steps took. Pure.

One unit everywhere: tokens are those that went to the model and came back, as its provider counted them (source: seed
003, "tokens: API 返回"). So what a goal took is what ``goalwright goals`` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daemon.plan.counting import worked_ms

if TYPE_CHECKING:
    from daemon.model.messages import Message
    from daemon.model.steps import Step

_CENTS = 12
"""Digits of an amount behind the point: more are what adding floats leaves."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Time, tokens and money."""

    duration_ms: int = 0
    tokens: int = 0
    cost: float = 0.0
    """US dollars."""

    @classmethod
    def of_answer(cls, message: Message) -> Spent:
        """What the model took to give it."""
        tokens = message.usage.total if message.usage is not None else 0
        return cls(worked_ms(message), tokens, message.cost or 0.0)

    @classmethod
    def of_step(cls, step: Step) -> Spent:
        """What is said of a step."""
        return cls(step.duration_ms or 0, step.tokens or 0, step.cost or 0.0)

    def without_time(self) -> Spent:
        """Of a call: what the model took to ask for it; the time is the tool's own, known when it ends."""
        return Spent(0, self.tokens, self.cost)

    def fields(self) -> dict[str, Any]:
        """As the fields of a step; what is nothing is left out of it."""
        return {
            "duration_ms": self.duration_ms or None,
            "tokens": self.tokens or None,
            "cost": self.cost or None,
        }

    def and_also(self, other: Spent) -> Spent:
        """The sum."""
        return Spent(self.duration_ms + other.duration_ms, self.tokens + other.tokens, self.cost + other.cost)

    def taken_back(self) -> Spent:
        """What takes it away again where it is added."""
        return Spent(-self.duration_ms, -self.tokens, -self.cost)

    def added_to(self, step: Step) -> dict[str, Any]:
        """The fields of a step that change when it took this, too."""
        both = Spent.of_step(step).and_also(self)
        sums = Spent(max(0, both.duration_ms), max(0, both.tokens), max(0.0, round(both.cost, _CENTS)))
        changed = {name for name, value in self.fields().items() if value is not None}
        return {name: getattr(sums, name) for name in changed}


NOTHING = Spent()
