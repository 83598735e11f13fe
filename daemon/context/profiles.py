"""How much context an agent keeps: one mechanism with a configuration for each agent."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from daemon.plan.goal_stats import TOOLS_OF_THE_PLAN

PRUNE_MINIMUM = 20_000
PRUNE_PROTECT = 40_000
"""Tokens of the newest tool results that pruning never clears."""
PRUNE_PROTECTED_TURNS = 2
RESULT_LIMIT = 5_000
RESULT_KEPT = 1_000
"""Characters to keep at each end of a tool result that is longer than ``RESULT_LIMIT``."""
CACHE_LASTS_S = 300
"""Seconds after which a provider has forgotten a prefix."""


class ContextProfile(Struct, frozen=True):
    """The numbers of one agent. Tokens unless said otherwise."""

    name: str
    window: int
    """Tokens that the model accepts."""
    compact_at: int
    """A full compaction is due above this."""
    keep_steps: int
    """The last N steps stay whole, after any number of compactions."""
    history: Literal["always", "cold"] = "cold"
    """When past turns become history: at every new turn, or only when the provider's cache is cold, because shortening
    cached messages costs more than it saves."""
    prune_protected_tools: frozenset[str] = TOOLS_OF_THE_PLAN | {"skill"}


INIT = ContextProfile("init", window=200_000, compact_at=150_000, keep_steps=3, history="always")
EXECUTE = ContextProfile("execute", window=1_000_000, compact_at=700_000, keep_steps=5, history="always")


_LONG_PRICE_MARGIN = 0.95
"""Estimates err: stay this much below the size from which a provider charges the whole request more."""
_ANSWER_SHARE = 4
"""One part in this many of a small window is for the answer."""


def answer_tokens(window: int, max_tokens: int) -> int:
    """Tokens that an answer may have on a model that takes ``window``: at most ``max_tokens``."""
    return min(max_tokens, max(window // _ANSWER_SHARE, 1))


def room(window: int, max_tokens: int) -> int:
    """Tokens that a request may have so that the answer fits into the window too."""
    return window - answer_tokens(window, max_tokens)


def profile_for(
    name: str,
    window: int,
    *,
    max_tokens: int,
    compact_at: int | None = None,
    keep_steps: int | None = None,
    long_from: int | None = None,
) -> ContextProfile:
    """Return the profile ``name`` on a model that takes ``window`` tokens; the answer's ``max_tokens`` must fit in too.

    ``init`` compacts at 75 % of at most 200 000 tokens, however large the window is, and ``execute`` at 70 % of the
    whole window. Every other agent compacts at 75 % of a window up to 200 000 tokens and at 70 % of a larger one, and
    before a request has ``long_from`` tokens, from where the provider charges the whole request more.
    ``compact_at``: the user's or the agent's limit, which counts instead.
    """
    base = {"init": INIT, "execute": EXECUTE}.get(name)
    most = room(window, max_tokens)
    if base is None:
        steps = 3 if window <= 200_000 else 5
        base = ContextProfile(name, window, int(window * (0.75 if window <= 200_000 else 0.7)), steps)
        if long_from is not None:
            most = min(most, int(long_from * _LONG_PRICE_MARGIN))
    share = base.compact_at / base.window
    taken = min(base.window, window) if name == INIT.name else window
    trigger = min(int(taken * share), most)
    return replace(
        base,
        window=window,
        compact_at=compact_at or trigger,
        keep_steps=keep_steps or base.keep_steps,
    )
