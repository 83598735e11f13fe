"""The size and cost of a session, for display; never stored, because they follow from the messages."""

from daemon.model.messages import Usage
from daemon.model.stored_model import Model
from daemon.model.traces import Budget


class GoalMeter(Model):
    """The model usage of a goal and of all goals below it."""

    goal_id: str
    usage: Usage
    cost: float
    """US dollars."""
    context_tokens: int
    """Estimated tokens of the goal itself (without the goals below it) in the next request."""


class Meter(Model):
    """A session's numbers right now."""

    context_tokens: int
    """Estimated tokens of the next request, calibrated by what the provider counted."""
    context_window: int
    """Tokens the model can take."""
    window_assumed: bool = False
    """``context_window`` is only a guess: the model is not in the table, and its server has not told it yet."""
    compact_at: int
    """Tokens at which the context is compacted."""
    usage: Usage
    """All model calls of the session so far, compactions included."""
    cost: float
    """US dollars; calls of a model without a known price are not in it."""
    cost_known: bool = True
    budget: Budget = Budget()
    """The limits in force."""
    warning_usd: float = 0.0
    """US dollars after which the session reports its cost each time; 0: never."""
    without_goal: Usage = Usage()
    """Model calls made while no goal had the focus, titles included: what goals at the top leave of ``usage``."""
    without_goal_cost: float = 0.0
    """US dollars."""
    goals: tuple[GoalMeter, ...] = ()
    """All goals with the answer to a request; in a notification those that changed."""


class Metered(Model):
    """Published when the numbers changed; not stored, and the newest replaces those before."""

    trace_id: str
    meter: Meter
