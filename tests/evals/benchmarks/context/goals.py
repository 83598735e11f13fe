"""Variants (c), (d), (e): the product's own window, with the plan at one of its places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from daemon.context.compaction import carried_over
from daemon.context.profiles import CACHE_LASTS_S, ContextProfile, profile_for
from daemon.context.summaries import summary_prompt, summary_text
from daemon.context.window import WindowCache, build_window, keep_from, prunable
from daemon.model.events import ContextMarked
from daemon.model.messages import CompactionPart, TextPart
from daemon.plan.text import plan_to_prompt
from daemon.provider.model_calls import ModelRequest, PromptMessage
from tests.evals.benchmarks.context.opencode import WINDOW
from tests.evals.benchmarks.context.play import TRACE_ID, Moment, Player
from tests.evals.benchmarks.context.requests import MAX_TOKENS, SUMMARY_TOKENS, Frame
from tests.evals.benchmarks.context.runs import Meter

Placement = Literal["last_message", "system", "on_demand"]
"""As in the setting ``plan_placement``."""
_CARRIED_TOKENS = 20_000


@dataclass
class GoalTree:
    """Finished and abandoned goals leave, their summaries stay.

    Marks are set as the product does: history when a turn begins and the provider's cache is cold, prune before a
    full compaction that it may save.
    """

    name: str
    frame: Frame
    placement: Placement
    compact_at: int | None = None
    """Tokens; None: the profile's own number."""
    full_plan: bool = False
    _cache: WindowCache = field(default_factory=WindowCache)
    _called: float = 0.0

    @property
    def profile(self) -> ContextProfile:
        """That of the agent ``build`` on a model with the same window as (b)."""
        return profile_for("build", WINDOW, max_tokens=MAX_TOKENS, compact_at=self.compact_at)

    def prepare(self, player: Player, moment: Moment, meter: Meter) -> None:
        """Marks and full compactions, when they are due."""
        if moment.new_turn and player.now - self._called > CACHE_LASTS_S:
            self._mark(player, history_before=player.state.messages[-1].sequence)
        if meter.tokens(self.request(player)) > self.profile.compact_at:
            found, _ = prunable(
                player.state.messages, player.state.plan, player.state.marks, self.profile, cache=self._cache
            )
            meter.prunes += bool(found)
            self._mark(player, pruned=found)
            if meter.tokens(self.request(player)) > self.profile.compact_at:
                self._compact(player, meter)
        self._called = player.now

    def request(self, player: Player) -> ModelRequest:
        """The next request."""
        state = player.state
        window = build_window(state.messages, state.plan, state.marks, self.profile, cache=self._cache)
        plan = plan_to_prompt(state.plan) if state.plan.goals and self.placement != "on_demand" else ""
        stays = window.before(state.plan.current_id)
        if self.placement == "system":
            return self.frame.request(window.messages, stays=stays, system_plan=plan)
        return self.frame.request(window.messages, stays=stays, tail=plan)

    def _mark(
        self, player: Player, *, history_before: int | None = None, pruned: tuple[int, ...] = ()
    ) -> None:
        event = ContextMarked(
            trace_id=TRACE_ID, time=player.time(), history_before=history_before, pruned=pruned
        )
        player.state.apply(event)

    def _compact(self, player: Player, meter: Meter) -> None:
        state = player.state
        before = self.request(player)
        question = summary_prompt("build")
        asked = PromptMessage("user", (TextPart(text=question),))
        answer = summary_text({"summary": meter.summary(before)})
        frame = Frame(before.system, before.tools)
        meter.call(player, frame.request([*before.messages, asked], max_tokens=SUMMARY_TOKENS), answer)
        meter.compactions += 1
        cut = keep_from(state.messages, state.plan, state.marks, self.profile, cache=self._cache)
        carried = carried_over(state.messages, state.plan, cut, _CARRIED_TOKENS).text

        def mark(kind: Literal["request", "summary", "carried"]) -> CompactionPart:
            return CompactionPart(kind=kind, reason="threshold", keep_from=cut)

        player.add("user", (TextPart(text=question), mark("request")), None)
        player.add("assistant", (TextPart(text=answer), mark("summary")), None)
        player.add("user", (TextPart(text=carried), mark("carried")), None)
