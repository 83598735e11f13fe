"""Stop a run with a question when it has used up its budget.

An unattended run is stopped without a question: a loop that no question stops must end automatically.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.model import notice_codes
from daemon.model.events import SessionUpdated
from daemon.model.messages import Usage, added
from daemon.model.traces import BranchTrace
from daemon.model.traces import Budget as Limits
from daemon.permission.rules import RuleSet
from daemon.permission.service import AskerByRules, CallInfo, CallPermission, RequestResult
from daemon.state.spending import ExceededLimit, exceeded_limit
from tools.access import suggestions
from tools.localization import t
from tools.tool import PermissionAsk, PermissionDeniedError

if TYPE_CHECKING:
    from daemon.loop.policy import Policy
    from daemon.loop.record import SessionRecord
    from daemon.model.permissions import PermissionRequest

_CLOCK_S = 0.05
"""Timers may fire a moment early."""


class RunLimits(Struct):
    """The limits of one turn, including all its children; 0 means no limit."""

    steps: int
    usd: float
    seconds: float
    started: float
    """Seconds of ``time.monotonic()``."""
    usd_before: float
    """US dollars that the session had cost when the turn began."""
    taken: int = 0
    """Model calls so far."""
    told: str = ""
    """Message that was shown when a limit was reached."""

    def left(self) -> float | None:
        """Seconds until the time is over; None without a limit."""
        return max(self.started + self.seconds - time.monotonic(), 0.0) if self.seconds else None

    def reached(self, usd: float) -> str:
        """Return the limit that is reached, with how to raise it, or an empty text. ``usd``: the session's cost now."""
        if self.steps and self.taken >= self.steps:
            return t("{steps:,} model calls (--max-steps, or the setting unattended_steps)", steps=self.steps)
        if self.usd and usd - self.usd_before >= self.usd:
            return t("${usd:,.2f} (--max-usd, or the setting unattended_usd)", usd=self.usd)
        left = self.left()
        if left is not None and left < _CLOCK_S:
            return t(
                "{seconds:,.4g} minutes (--max-minutes, or the setting unattended_minutes)",
                seconds=self.seconds / 60,
            )
        return ""


def spent(record: SessionRecord) -> tuple[Usage, float]:
    """Tokens and US dollars of a session with all its children, those at work among them."""
    usage, cost = record.state.trace.usage, record.state.trace.total_cost
    for child in record.children:
        # A branch's messages are in its parent's totals at once, a sub-agent's when it has ended.
        if not isinstance(child.state.trace, BranchTrace):
            more, dollars = spent(child)
            usage, cost = added(usage, more), cost + dollars
    return usage, cost


class SessionBudget:
    """The budget of a session. A child spends its main session's: everything but ``in_force`` is about that one."""

    def __init__(self, policy: Policy, parent: SessionBudget | None = None) -> None:
        self._record = policy.record
        self._policy = policy
        self._permissions = policy.record.services.permissions
        self._main: SessionBudget = self if parent is None else parent._main
        self._lock = asyncio.Lock()
        """One question about money at a time, however many children reach the limit."""
        self._refused: tuple[str | None, str] | None = None
        """The turn in which the user refused to exceed a limit, and the message then."""
        self._cost_seen = policy.record.state.trace.total_cost
        """The cost of the session, in US dollars, when ``warn`` was called last."""
        self._withdrawn = False
        """The question that waits was answered by new limits, not by the user."""
        self._run: RunLimits | None = None
        """The limits of the running turn, if it is unattended."""

    def in_force(self) -> Limits:
        """Return the session's own limits, or those of the settings."""
        if self._record.state.budget is not None:
            return self._record.state.budget
        settings = self._policy.client.config.settings.budget
        return Limits(
            session_usd=settings.budget_usd,
            session_tokens=settings.budget_tokens,
            goal_usd=settings.goal_budget_usd,
            goal_tokens=settings.goal_budget_tokens,
        )

    def is_spent(self) -> bool:
        """Return whether a limit is reached."""
        return self._main._reached() is not None

    async def keep(self) -> str:
        """Ask the user when a limit is reached; returns why the run has to stop, or "" when it may continue.

        "Once" grants the same amount again; "always" lifts the limits of this kind for the session. The first child
        that reaches the limit asks for all, and a rejection holds for all of that turn.
        """
        main = self._main
        if main._reached() is None:
            return ""
        async with main._lock:
            turn = main._record.state.turn
            if main._refused is not None and main._refused[0] == turn:
                return main._refused[1] if main._reached() is not None else ""
            stop = await main._ask()
            main._refused = (main._record.state.turn, stop) if stop else None
            return stop

    def warn(self) -> None:
        """Warn the user each time the session has cost another ``budget_warning_usd``. O(sessions).

        Users with a budget in money get a question at that budget instead.
        """
        main = self._main
        _, cost = spent(main._record)
        before, main._cost_seen = main._cost_seen, cost
        every = main._policy.client.config.settings.budget.budget_warning_usd
        if (
            every
            and main.in_force().session_usd is None
            and _multiples(cost, every) > _multiples(before, every)
        ):
            text = t(
                "This session has cost ${cost:,.2f} so far. To pause it before it costs more, set a budget.",
                cost=cost,
            )
            main._record.notice("warning", text, notice_codes.COST)

    def withdraw_question(self) -> None:
        """Withdraw a question about limits that were set meanwhile."""
        for request in self._permissions.pending(self._record.session_id):
            if request.permission == "budget":
                self._withdrawn = True
                self._permissions.reply(request.request_id, "once", None, t("the new limit"))

    # -- unattended runs --

    def begin_run(self) -> None:
        """Start the limits of an unattended turn; a child shares its parent's."""
        self._run = None
        if not self._policy.client.unattended or self._main is not self:
            return
        settings = self._policy.client.config.settings.budget
        self._run = RunLimits(
            steps=settings.unattended_steps,
            usd=settings.unattended_usd,
            seconds=settings.unattended_minutes * 60,
            started=time.monotonic(),
            usd_before=spent(self._record)[1],
        )

    def run_left(self) -> float | None:
        """Seconds that the turn may still take; None without a limit."""
        return None if self._run is None else self._run.left()

    def count_step(self) -> None:
        """A model call is made for the turn."""
        if (limits := self._main._run) is not None:
            limits.taken += 1

    def run_over(self) -> str:
        """Return why the turn must stop; empty when it may continue. Notifies the user once."""
        main = self._main
        limits = main._run
        if limits is None:
            return ""
        if not limits.told and (reached := limits.reached(spent(main._record)[1])):
            limits.told = t(
                "Stopped at a limit for unattended runs: {reached}. All work is kept. To continue, run "
                "with --continue; 0 removes a limit.",
                reached=reached,
            )
            main._record.notice("warning", limits.told, notice_codes.RUN_LIMIT)
        return limits.told

    # -- internals --

    def _reached(self) -> ExceededLimit | None:
        state = self._record.state
        lifted = {rule.pattern for rule in state.granted if rule.permission == "budget"}
        usage, cost = spent(self._record)
        return exceeded_limit(
            _without(self.in_force(), lifted),
            usage=usage,
            cost=cost,
            plan=state.plan,
            spending=state.spending,
            raised=state.raised_limits,
        )

    async def _ask(self) -> str:
        record = self._record
        while True:
            limits, self._withdrawn = self.in_force(), False
            reached = self._reached()
            if reached is None:
                return ""
            target = "session" if reached.goal_id is None else "goal"
            whose = self._whose(reached)
            ask = PermissionAsk(
                permission="budget",
                targets=(target,),
                title=t("{session} has used {words}. Continue?", session=whose, words=reached.words),
                suggestions=suggestions("budget", (target,)),
                detail=t(
                    "Once: the same amount again. Always: remove this limit for the session. Reject: the "
                    "run stops here; all work is kept."
                ),
            )
            timeout_s = self._policy.client.config.settings.approval.permission_timeout_s
            info = CallInfo("", "budget", reached.goal_id, timeout_s=timeout_s)
            asker = AskerByRules(record.session_id, self._rules, record.asked, self._replied)
            permission = CallPermission(self._permissions, asker, info)
            try:
                await permission.ask(ask)
            except PermissionDeniedError as denied:
                said = t(" The user wrote: {feedback}", feedback=denied.feedback) if denied.feedback else ""
                return t(
                    "Stopped at the budget: {session} has used {words}.{said}",
                    session=self._whose(reached),
                    words=reached.words,
                    said=said,
                )
            if self._withdrawn or self.in_force() != limits:
                continue  # that was the answer; maybe the new limit is reached, too
            if permission.decide("budget", target) == "allow":
                continue
            # A limit of zero asks at once; the amount that it grants must not be zero, or it would ask forever.
            given = _given(limits, reached) or max(reached.used, 1.0)
            limit = max(reached.limit, reached.used) + given
            record.emit(SessionUpdated(**record.here(), updates={"raised_limits": {reached.key: limit}}))

    def _rules(self) -> RuleSet:
        """Rules about budgets alone: ``"*": "allow"`` was not said of money."""
        granted = [rule for rule in self._record.state.granted if rule.permission == "budget"]
        return RuleSet(base=(), session=granted)

    def _replied(self, request: PermissionRequest, settled: RequestResult) -> None:
        # A limit always belongs to one session, whatever scope the answer had.
        self._record.replied(request, replace(settled, remembered=None, scope="session"))

    def _whose(self, reached: ExceededLimit) -> str:
        goal = self._record.state.plan.goals.get(reached.goal_id or "")
        if goal is None:
            return t("This session")
        return t('The goal "{description}"', description=goal.description)


def _multiples(cost: float, every: float) -> int:
    # Sums of cents are slightly less than they should be.
    return int(cost / every + 1e-9)


def _given(limits: Limits, reached: ExceededLimit) -> float:
    whose = "session" if reached.goal_id is None else "goal"
    return float(getattr(limits, f"{whose}_{reached.unit}"))


def _without(limits: Limits, lifted: set[str]) -> Limits:
    """Return the limits that "always" has not lifted: of the ``session``, of each ``goal``."""
    gone = {f"{whose}_{unit}": None for whose in lifted & {"session", "goal"} for unit in ("usd", "tokens")}
    return limits.model_copy(update=gone)
