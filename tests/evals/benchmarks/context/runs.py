"""Runs a variant over the script and meters every call of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from daemon.context.tokens import estimate_tokens
from daemon.model.messages import Usage
from daemon.provider.model_calls import ModelRequest
from daemon.provider.pricing import cost
from tests.evals.benchmarks.context.cache import PrefixCache, request_text, request_tokens
from tests.evals.benchmarks.context.play import Moment, Player
from tests.evals.benchmarks.context.requests import MODEL, SUMMARY_TOKENS, wire
from tests.evals.benchmarks.context.script import TOKENS_A_SECOND, Script, Step
from tests.evals.benchmarks.context.story import KINDS, LIVE, Fact, Kind, planted

SUMMARY_CHARS = SUMMARY_TOKENS * 4


class Variant(Protocol):
    """A way to keep the context small."""

    @property
    def name(self) -> str: ...
    @property
    def full_plan(self) -> bool: ...
    def prepare(self, player: Player, moment: Moment, meter: Meter) -> None: ...
    def request(self, player: Player) -> ModelRequest: ...


@dataclass
class Meter:
    """All calls of one run."""

    script: Script
    cache: PrefixCache = field(default_factory=PrefixCache)
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    compactions: int = 0
    prunes: int = 0
    largest: int = 0
    last_tokens: int = 0
    """Input and output of the last call of the model."""

    def call(self, player: Player, request: ModelRequest, answer: str) -> dict[str, Any]:
        """Meter a call besides those of the script: what was asked, and what came; time passes."""
        body = self.send(player, request, estimate_tokens(answer))
        player.now += 3 + estimate_tokens(answer) / TOKENS_A_SECOND
        return body

    def send(self, player: Player, request: ModelRequest, output: int) -> dict[str, Any]:
        """Meter one call; ``output`` in tokens. The body that was sent (Any: its shape is the API's)."""
        body = wire(request)
        sent = self.cache.send(body, player.now)
        tokens = request_tokens(body)
        self.usage = Usage(
            input=self.usage.input + sent.input,
            output=self.usage.output + output,
            cache_read=self.usage.cache_read + sent.cache_read,
            cache_write=self.usage.cache_write + sent.cache_write,
        )
        self.calls += 1
        self.largest = max(self.largest, tokens)
        self.last_tokens = tokens + output
        return body

    def tokens(self, request: ModelRequest) -> int:
        """Return the tokens of a request."""
        return request_tokens(wire(request))

    def summary(self, request: ModelRequest) -> str:
        """Return a model's summary of everything that this request shows, by one rule for all variants.

        Half of SUMMARY_TOKENS is for what was said and found out: sentences of the user and findings that can be
        read in the request, newest first, word for word. The other half is for the state of the work: what the model
        said it does, newest first.
        """
        seen = request_text(wire(request))
        kept = _newest([text for text in self.script.sayings if text in seen], SUMMARY_CHARS // 2)
        done = [a.text for a in self.script.actions if isinstance(a, Step) and a.text in seen]
        work = _newest(done, SUMMARY_CHARS // 2)
        return "\n".join(["Instructions and discoveries:", *kept, "", "What was done:", *work])


def _newest(texts: list[str], chars: int) -> list[str]:
    kept: list[str] = []
    for text in reversed(texts):
        chars -= len(text) + 1
        if chars < 0:
            break
        kept.append(text)
    return kept[::-1]


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run."""

    name: str
    meter: Meter
    recalled: dict[Kind, tuple[int, int]]
    """Planted facts that are in the last request, and how many there are, by kind."""
    live: tuple[int, int]
    """``recalled`` for the goal in progress at the end."""
    missing: tuple[str, ...]

    @property
    def money(self) -> float:
        """US dollars."""
        return cost(MODEL, self.meter.usage) or 0.0

    @property
    def input_tokens(self) -> int:
        """All that was sent."""
        usage = self.meter.usage
        return usage.input + usage.cache_read + usage.cache_write


async def run(
    variant: Variant, script: Script, *, refreshes_all: bool = False, rewords_every: int = 0
) -> Run:
    """Play the script to its end. See PrefixCache and Player for the options."""
    player = Player(script, full_plan=variant.full_plan, rewords_every=rewords_every)
    meter = Meter(script, PrefixCache(refreshes_all=refreshes_all))
    text = ""
    async for moment in player.play():
        variant.prepare(player, moment, meter)
        step = moment.step
        output = estimate_tokens("x" * step.output_chars) if step is not None else 0
        body = meter.send(player, variant.request(player), output)
        if step is None:
            text = request_text(body)
    facts = planted()
    found = [fact for fact in facts if fact.text in text]
    recalled: dict[Kind, tuple[int, int]] = {
        kind: (_count(found, kind), _count(facts, kind)) for kind in KINDS
    }
    live = (sum(fact in found for fact in LIVE), len(LIVE))
    return Run(variant.name, meter, recalled, live, tuple(f.text for f in facts if f not in found))


def _count(facts: list[Fact], kind: Kind) -> int:
    return sum(fact.kind == kind for fact in facts)
