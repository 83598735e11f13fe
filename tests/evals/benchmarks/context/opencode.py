"""Variant (b): what OpenCode does with a long session, with its numbers.

Sources: seed 000 ("参考方案：OpenCode 的 Context 管理") and, for what it does not say, OpenCode's
``session/compaction.ts``, ``session/overflow.ts`` and ``session/prompt.ts`` as they were at the time of the seed:

- prune: once after each turn; from the end, past the last two turns; results beyond the newest 40 000 tokens of tool
  output are cleared, when that frees more than 20 000; at a summary and at what is cleared already it stops;
- full compaction: after a step whose input and output together exceed the model's window less the reserve for the
  answer, min(model's limit, 32 000): 168 000 of 200 000. (Newer versions reserve 20 000 more, prune only when told to,
  and keep up to 15 000 tokens of the last messages.)
- the summary is asked for by an agent of its own, with its own system prompt and without tools: so nothing of that
  request is read from the cache. ``shares_prefix`` is the kinder assumption that it were;
- afterwards the session goes on from the question, the summary and a word to continue; no step is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from daemon.context.tokens import estimate_tokens
from daemon.model.messages import Message, TextPart
from daemon.provider.model_calls import ModelRequest, PromptMessage, SystemBlock
from tests.evals.benchmarks.context.play import Moment, Player
from tests.evals.benchmarks.context.requests import SUMMARY_TOKENS, Frame, plain
from tests.evals.benchmarks.context.runs import Meter

WINDOW = 200_000
OUTPUT_RESERVE = 32_000
USABLE = WINDOW - OUTPUT_RESERVE
PRUNE_MINIMUM = 20_000
PRUNE_PROTECT = 40_000
PRUNE_TURNS = 2
CLEARED = "[Old tool result content cleared]"
_QUESTION = "What did we do so far?"
_CONTINUE = (
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed."
)
_AGENT = (
    "You are a helpful AI assistant tasked with summarizing conversations. Say what was done, what is "
    "being worked on, which files are involved, what comes next, and what the user asked for and insists "
    "on."
)
_ASK = (
    "Provide a detailed prompt for continuing our conversation above. The new session will not have access to it: "
    "say what we did, what we are doing, which files we are working on, and what we are going to do next."
)


@dataclass
class OpenCode:
    """Prune and full compaction; the plan is known from the results of the ``goal`` tool alone."""

    name: str
    frame: Frame
    shares_prefix: bool = False
    full_plan: bool = True
    _cleared: set[int] = field(default_factory=set[int])
    _from: int = 0
    """Sequence of the first message that is sent after the last summary."""
    _restart: list[PromptMessage] = field(default_factory=list[PromptMessage])

    def prepare(self, player: Player, moment: Moment, meter: Meter) -> None:
        """Prepare the context before the model is called again."""
        if moment.new_turn:
            # It ran when the turn before ended: the new prompt was not there yet.
            cleared = prunable(self._live(player)[:-1], self._cleared)
            self._cleared |= cleared
            meter.prunes += bool(cleared)
        if meter.last_tokens > USABLE:
            self._compact(player, meter)

    def request(self, player: Player) -> ModelRequest:
        """The next request."""
        messages = plain(self._live(player), frozenset(self._cleared), CLEARED)
        return self.frame.request([*self._restart, *messages])

    def _live(self, player: Player) -> list[Message]:
        return [message for message in player.state.messages if message.sequence >= self._from]

    def _compact(self, player: Player, meter: Meter) -> None:
        request = self.request(player)
        asked = PromptMessage("user", (TextPart(text=_ASK),))
        frame = self.frame if self.shares_prefix else Frame((SystemBlock(_AGENT, cache=True),), ())
        summary = meter.summary(request)
        meter.call(player, frame.request([*request.messages, asked], max_tokens=SUMMARY_TOKENS), summary)
        meter.compactions += 1
        newest = player.state.messages[-1]
        self._from = player.state.next_sequence()
        self._restart = [
            PromptMessage("user", (TextPart(text=_QUESTION),)),
            PromptMessage("assistant", (TextPart(text=summary),)),
            PromptMessage("user", (TextPart(text=_CONTINUE),)),
        ]
        if newest.role == "user":
            # The person has just spoken: that is not summarised away, it is what comes next.
            self._from = newest.sequence


def prunable(messages: Sequence[Message], cleared: set[int]) -> set[int]:
    """Sequences of the results to clear now."""
    turns = kept = freed = 0
    found: set[int] = set()
    for message in reversed(messages):
        turns += message.role == "user"
        result = message.tool_result()
        if turns < PRUNE_TURNS or result is None:
            continue
        if message.sequence in cleared:
            break
        tokens = estimate_tokens(result.content)
        kept += tokens
        if kept > PRUNE_PROTECT:
            freed += tokens
            found.add(message.sequence)
    return found if freed > PRUNE_MINIMUM else set()
