"""The cost of steps. Pure.

One unit everywhere: tokens are those sent to the model and received from it, as its provider counted them. So the
numbers of a goal are those of ``goalwright goals``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from daemon.model.messages import priced
from daemon.plan.goal_stats import worked_ms

if TYPE_CHECKING:
    from daemon.model.messages import Message, Usage
    from daemon.model.steps import Step

_CENTS = 12
"""Digits of an amount behind the point: more are what adding floats leaves."""


class StepCost(Struct, frozen=True):
    """Time, tokens and money."""

    duration_ms: int = 0
    tokens: int = 0
    cost: float = 0.0
    """US dollars."""
    unpriced: int = 0
    """Tokens whose price is not known."""

    @classmethod
    def of_answer(cls, message: Message) -> StepCost:
        """Return the cost of a model's answer."""
        return cls.of_usage(priced(message.usage, message.cost), message.cost or 0.0, worked_ms(message))

    @classmethod
    def of_usage(cls, usage: Usage, cost: float, duration_ms: int = 0) -> StepCost:
        """Return the cost of model calls; ``cost`` in US dollars."""
        return cls(duration_ms, usage.total, cost, usage.unpriced)

    @classmethod
    def of_step(cls, step: Step) -> StepCost:
        """Return the numbers of a step."""
        return cls(step.duration_ms or 0, step.tokens or 0, step.cost or 0.0, step.unpriced_tokens or 0)

    def without_time(self) -> StepCost:
        """Return the model's cost of requesting a call; the time is the tool's own, known when it ends."""
        return replace(self, duration_ms=0)

    def fields(self) -> dict[str, Any]:
        """Return it as fields of a step, without zero values."""
        return {
            "duration_ms": self.duration_ms or None,
            "tokens": self.tokens or None,
            "cost": self.cost or None,
            "unpriced_tokens": self.unpriced or None,
        }

    def and_also(self, other: StepCost) -> StepCost:
        """Return the sum."""
        return StepCost(
            self.duration_ms + other.duration_ms,
            self.tokens + other.tokens,
            self.cost + other.cost,
            self.unpriced + other.unpriced,
        )

    def taken_back(self) -> StepCost:
        """Return the negative of it, to subtract it by adding."""
        return StepCost(-self.duration_ms, -self.tokens, -self.cost, -self.unpriced)

    def added_to(self, step: Step) -> dict[str, Any]:
        """Return the fields of a step that change when it took this, too."""
        both = StepCost.of_step(step).and_also(self)
        sums = {
            "duration_ms": max(0, both.duration_ms),
            "tokens": max(0, both.tokens),
            "cost": max(0.0, round(both.cost, _CENTS)),
            "unpriced_tokens": max(0, both.unpriced),
        }
        return {name: sums[name] for name, value in self.fields().items() if value is not None}


NOTHING = StepCost()
