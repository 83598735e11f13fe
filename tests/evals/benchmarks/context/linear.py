"""Variant (a): everything that was ever said and read goes out again with each request. Any window is large enough."""

from __future__ import annotations

from dataclasses import dataclass

from daemon.provider.model_calls import ModelRequest
from tests.evals.benchmarks.context.play import Moment, Player
from tests.evals.benchmarks.context.requests import Frame, plain
from tests.evals.benchmarks.context.runs import Meter


@dataclass(frozen=True)
class Linear:
    """No compaction at all; the plan is known from the results of the ``goal`` tool alone."""

    name: str
    frame: Frame
    full_plan: bool = True

    def prepare(self, player: Player, moment: Moment, meter: Meter) -> None:
        """Nothing is ever left out."""

    def request(self, player: Player) -> ModelRequest:
        """The next request."""
        return self.frame.request(plain(player.state.messages))
