"""Stops a run with a question when it has used what it was given (conventions.md: "a budget that really stops")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.model.events import SessionUpdated
from daemon.model.messages import Usage, added
from daemon.model.permissions import PermissionRequest
from daemon.model.traces import BranchTrace, Budget
from daemon.permission.rules import RuleSet
from daemon.permission.service import CallInfo, CallPermission, PermissionService, Settled
from daemon.state.spending import Overspent, overspent
from tools.access import suggestions
from tools.base import PermissionAsk, PermissionDenied
from tools.localization import t

if TYPE_CHECKING:
    from daemon.loop.live import LiveSession

COST = "cost"
"""Code of the notice that a session has cost much."""


class _BudgetAsker:
    """Asks for the session, but by rules about budgets alone: ``"*": "allow"`` was not said of money."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session

    @property
    def session_id(self) -> str:
        """See Asker."""
        return self._session.session_id

    @property
    def rules(self) -> RuleSet:
        """See Asker."""
        granted = [rule for rule in self._session.state.granted if rule.permission == "budget"]
        return RuleSet(base=(), session=granted)

    def asked(self, request: PermissionRequest) -> None:
        """See Asker."""
        self._session.asked(request)

    def replied(self, request: PermissionRequest, settled: Settled) -> None:
        """See Asker. A limit is one session's, however the answer was meant."""
        self._session.replied(request, replace(settled, remembered=None, scope="session"))


def spent(session: LiveSession) -> tuple[Usage, float]:
    """Tokens and US dollars of a session with all its children, those at work among them."""
    usage, cost = session.state.trace.usage, session.state.trace.total_cost
    for other in session.services.sessions.values():
        # A branch's messages are among its parent's totals at once, a sub-agent's when it has ended.
        if other.parent is session and not isinstance(other.state.trace, BranchTrace):
            more, dollars = spent(other)
            usage, cost = added(usage, more), cost + dollars
    return usage, cost


def budget_of(session: LiveSession) -> Budget:
    """The limits in force: the session's own, else those of the settings."""
    if session.state.budget is not None:
        return session.state.budget
    settings = session.config.settings
    return Budget(
        session_usd=settings.budget_usd,
        session_tokens=settings.budget_tokens,
        goal_usd=settings.goal_budget_usd,
        goal_tokens=settings.goal_budget_tokens,
    )


def _reached(session: LiveSession) -> Overspent | None:
    state = session.state
    lifted = {rule.pattern for rule in state.granted if rule.permission == "budget"}
    usage, cost = spent(session)
    return overspent(
        _without(budget_of(session), lifted),
        usage=usage,
        cost=cost,
        plan=state.plan,
        spending=state.spending,
        raised=state.raised_limits,
    )


def is_spent(session: LiveSession) -> bool:
    """Whether a limit of the session is reached."""
    return _reached(session.root) is not None


async def keep_budget(session: LiveSession) -> str:
    """Ask the person when a limit is reached; returns why the run has to stop, or "" when it may go on.

    "Once" gives the same amount again; "always" lifts the limits of this kind for the session. A child spends from
    its main line's budget: the first that comes to the limit asks for all, and a no holds for all of that turn.
    """
    session = session.root
    if _reached(session) is None:
        return ""
    async with session.budget_lock:
        if session.budget_refused is not None and session.budget_refused[0] == session.state.turn:
            return session.budget_refused[1] if _reached(session) is not None else ""
        stop = await _ask(session)
        session.budget_refused = (session.state.turn, stop) if stop else None
        return stop


async def _ask(session: LiveSession) -> str:
    while True:
        budget = budget_of(session)
        reached = _reached(session)
        if reached is None:
            return ""
        target = "session" if reached.goal_id is None else "goal"
        ask = PermissionAsk(
            permission="budget",
            targets=(target,),
            title=t(
                "{session} has used {words}. Go on?", session=_whose(session, reached), words=reached.words
            ),
            suggestions=suggestions("budget", (target,)),
            detail=t(
                "Once: the same amount again. Always: no such limit in this session any more. Refuse: "
                "the run stops here, and everything is kept."
            ),
        )
        info = CallInfo("", "budget", reached.goal_id, timeout_s=session.config.settings.permission_timeout_s)
        permission = CallPermission(session.services.permissions, _BudgetAsker(session), info)
        try:
            await permission.ask(ask)
        except PermissionDenied as denied:
            said = t(" The person wrote: {feedback}", feedback=denied.feedback) if denied.feedback else ""
            return t(
                "Stopped at the budget: {session} has used {words}.{said}",
                session=_whose(session, reached),
                words=reached.words,
                said=said,
            )
        if budget_of(session) != budget:
            continue  # that was the answer; maybe the new limit is reached, too
        if permission.decide("budget", target) == "allow":
            continue
        # A limit of zero asks at once; what it then gives must be something, or it would ask for ever.
        given = _given(budget, reached) or max(reached.used, 1.0)
        limit = max(reached.limit, reached.used) + given
        session.emit(
            SessionUpdated(
                trace_id=session.session_id,
                time=session.services.now(),
                updates={"raised_limits": {reached.key: limit}},
            )
        )


def warn_of_cost(session: LiveSession) -> None:
    """Tell the user each time the session has cost another ``budget_warning_usd``. O(sessions).

    Who has set a budget in money has decided what it may cost, and is asked then.
    """
    session = session.root
    _, cost = spent(session)
    before, session.cost_seen = session.cost_seen, cost
    every = session.config.settings.budget_warning_usd
    if (
        every
        and budget_of(session).session_usd is None
        and _multiples(cost, every) > _multiples(before, every)
    ):
        text = t(
            "This session has cost ${cost:,.2f} so far. Set a budget to be asked before it costs more.",
            cost=cost,
        )
        session.notice("warning", text, COST)


def _multiples(cost: float, every: float) -> int:
    # Sums of cents are a little less than what they should be.
    return int(cost / every + 1e-9)


def withdraw_question(session: LiveSession, permissions: PermissionService) -> None:
    """The limits are others now: what was asked about the old ones is settled by that."""
    for request in permissions.pending(session.session_id):
        if request.permission == "budget":
            permissions.reply(request.request_id, "once", None, t("the new limit"))


def _given(budget: Budget, reached: Overspent) -> float:
    whose = "session" if reached.goal_id is None else "goal"
    return float(getattr(budget, f"{whose}_{reached.unit}"))


def _whose(session: LiveSession, reached: Overspent) -> str:
    goal = session.state.plan.goals.get(reached.goal_id or "")
    return t("This session") if goal is None else t('The goal "{description}"', description=goal.description)


def _without(budget: Budget, lifted: set[str]) -> Budget:
    """The limits that "always" has not lifted: of the ``session``, of each ``goal``."""
    gone = {f"{whose}_{unit}": None for whose in lifted & {"session", "goal"} for unit in ("usd", "tokens")}
    return budget.model_copy(update=gone)
