"""Runs a turn by what ``next_action`` decides: asks for plans, makes them goals, and has the loop work on them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from daemon.loop.loop_detection import key_of
from daemon.loop.queue import ReplanRequest, TurnResult
from daemon.loop.session import WITHDRAWN, ReadOnlySessionError, Session
from daemon.model import notice_codes
from daemon.model.messages import FilePart, Message, TextPart, ToolCallPart, ToolResultPart
from daemon.plan.changes import Change, Updated
from daemon.plan.tree import PlanError
from daemon.planner.next_action import (
    AskForPlan,
    Began,
    End,
    Happening,
    NotPlanned,
    Paused,
    PlanMade,
    Ran,
    RanInParallel,
    TurnProgress,
    Work,
    decide,
    next_step,
)
from daemon.planner.parallel_steps import can_share, step_calls, steps_in
from daemon.planner.plan_parser import MAX_LAYERED, MAX_SIGNPOSTS, BadPlanError, read_plan
from daemon.planner.planning_notes import (
    again_text,
    ask_text,
    asks,
    other_mode_notice,
    planned_notice,
    unplanned_notice,
    where_it_stands,
    work_text,
)
from daemon.planner.replanning import revised
from daemon.store.trace_store import StoreError
from tools.localization import t, written_for_models
from tools.text.truncate import one_line, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.loop.features import TurnRuns
    from daemon.loop.loop_detection import Repeat
    from daemon.model.messages import StopReason
    from daemon.model.traces import PromptPlanner
    from tools.tool import ToolResult

_WHY = 600
"""Characters of why a sub-agent did not reach its goal."""
PAUSED: StopReason = "tool_use"
"""The end of ``TurnRuns.steps`` after ``pause``: the loop could continue."""


class PlanDriver:
    """Runs one turn by the mode of its planner. With ``in_loop`` it only waits for the user's wish to replan."""

    def __init__(self, turn: TurnRuns, session: Session, planner: PromptPlanner | None) -> None:
        """``planner``: the prompt's own mode, None for that of the settings."""
        self._turn = turn
        self._session = session
        self._tree = session.state.plan
        self._wanted: PromptPlanner | None = planner
        self._course = TurnProgress(
            self._mode(planner), session.config.settings.plan.allow_replan, parallel=can_share(session)
        )
        self._failures = Failures(len(session.state.messages))
        self._given_up: set[str] = set()
        self._steps: dict[str, tuple[StopReason, str]] = {}
        """How sub-agents ended that did not reach the goal of their step."""
        self._circle = ""
        """The tool with which the model goes round in a circle, until a plan is asked for."""
        self._circled = False
        """That has occurred in this turn: the user is asked about the next one."""
        self._failing = ""

    def _mode(self, planner: PromptPlanner | None) -> PromptPlanner:
        session = self._session
        mode = planner or session.config.settings.plan.planner
        # A child already works on one step of a plan, and a planning agent must not continue with the steps.
        plans_only = any(
            rule.permission in ("*", "edit") and rule.pattern == "*" and rule.action == "deny"
            for rule in session.agent.rules
        )
        # A request to replan ends with the plan, whoever makes it.
        return "in_loop" if (session.parent is not None or plans_only) and mode != "replan" else mode

    def for_current_agent(self) -> PlanDriver:
        """Return the driver of the same turn for the agent that the session has now."""
        return PlanDriver(self._turn, self._session, self._wanted)

    async def run(self) -> tuple[StopReason, str]:
        """Run the turn, from its prompt. Raises as the loop does."""
        if self._wanted is not None and self._wanted != self._course.mode:
            self._session.notice(
                "info",
                other_mode_notice(self._session.agent.name, self._wanted),
                notice_codes.PLAN_OTHER_MODE,
            )
        return await self._go(Began())

    async def resume(self) -> tuple[StopReason, str]:
        """Continue the turn after the daemon was stopped, with the interrupted step."""
        where = where_it_stands(self._session.state.messages)
        if where == "begins":
            return await self._go(Began())
        if where == "together":
            self._course = replace(self._course, mode="layered", free=False)
            return await self._go(self._ended_together(steps_in(self._session.state.messages)))
        goal = self._tree.goals.get(self._tree.current_id or "") or next_step(self._tree)
        if where == "steps" and goal is not None:
            self._course = replace(self._course, mode="layered", free=False, step=goal.id)
        return await self._go(await self._ran())

    # -- reports of the turn --

    def circling(self, tool: str, repeat: Repeat) -> bool:
        """Return whether this call, which goes round in a circle, is not to run, because a new plan comes first."""
        if self._circled or not (
            repeat.circle and self._course.mode == "on_demand" and self._course.may_replan
        ):
            return False
        self._circle, self._circled = tool, True
        return True

    def step_ended(self, goal_id: str, result: ToolResult) -> None:
        """Complete the goal of a step with what its sub-agent answered, or note how that failed."""
        if not result.is_error:
            self._session.record.goals(self._tree.step_done(goal_id, result.content))
            return
        stop = result.metadata.get("stop_reason")
        refused = "permission_denied" if result.metadata.get("denied") else "error"
        self._steps[goal_id] = (
            stop if stop in ("canceled", "permission_denied") else refused,
            short(result.content, _WHY),
        )

    def record(self, change: Change) -> None:
        """Record what the model does to the plan."""
        if isinstance(change, Updated) and change.updates.get("status") == "abandoned":
            self._given_up.add(change.goal_id)
        self._session.record.goal(change)

    # -- internals --

    async def _go(self, happening: Happening) -> tuple[StopReason, str]:
        while True:
            before = self._course
            self._course, decision = decide(before, self._tree, happening)
            if isinstance(decision, End):
                if self._session.turn.replan_request is None or decision.stop != "end_turn":
                    return decision.stop, decision.detail
                # The user wants a plan, and the model has just stopped.
                self._course = before
                happening = Paused("person", ended=Ran(decision.stop, decision.detail))
            elif isinstance(decision, AskForPlan):
                happening = await self._ask(decision)
            elif decision.kind == "together":
                happening = await self._ran_together(decision)
            else:
                self._begin(decision)
                happening = await self._ran()
            if isinstance(happening, Ran) and self._session.turn.leaves:
                return happening.stop, happening.detail  # the work continues elsewhere

    def _begin(self, work: Work) -> None:
        goal = self._tree.goals.get(work.goal_id or "")
        if goal is not None and self._tree.current_id != goal.id:
            self._session.record.goals(self._tree.plan_focus(goal))
        if text := work_text(work, self._tree, self._session.config.settings.plan.plan_front):
            self._turn.tell(text)

    async def _ran_together(self, work: Work) -> Happening:
        """Have sub-agents do steps; all of them have ended then."""
        self._turn.tell(work_text(work, self._tree))
        if over := await self._turn.between():
            return RanInParallel("permission_denied", over)
        goals = [self._tree.goals[goal_id] for goal_id in work.goal_ids if goal_id in self._tree.goals]
        goals = [goal for goal in goals if self._tree.ended_root(goal.id) is None]
        if len(goals) < len(work.goal_ids):
            return RanInParallel("end_turn")  # the user changed the plan meanwhile, so look again
        self._session.record.goals(self._tree.plan_begin(goals))
        outcome = await self._turn.start(step_calls(work.goal_ids, self._session))
        if outcome.stop != "tool_use":
            return RanInParallel(outcome.stop, outcome.detail)
        if self._session.turn.replan_request is not None:
            return Paused("person")
        return self._ended_together(work.goal_ids)

    def _ended_together(self, goal_ids: Sequence[str]) -> RanInParallel:
        """Return the results of the steps: a goal that is still open has failed."""
        failed: dict[str, str] = {}
        for goal_id in goal_ids:
            stop, why = self._steps.pop(goal_id, ("error", t("no sub-agent finished it.")))
            if goal_id not in self._tree.goals or self._tree.ended_root(goal_id) is not None:
                continue
            if stop in ("canceled", "permission_denied"):
                return RanInParallel(stop, why)
            failed[goal_id] = t("was not reached: {why}", why=why)
        return RanInParallel("end_turn", failed=failed)

    async def _ran(self) -> Happening:
        self._given_up.clear()
        stop, detail = await self._turn.steps(self._is_paused)
        if stop != PAUSED:
            return Ran(stop, detail, frozenset(self._given_up), asks(self._session.state.messages))
        if self._session.turn.replan_request is not None:
            return Paused("person")
        if tool := self._circle:
            self._circle = ""
            return Paused(
                "circle",
                t("The agent kept repeating the same calls of {tool} without progress.", tool=tool),
            )
        failing, self._failing = self._failing, ""
        return Paused("failures", failing)

    def _is_paused(self) -> bool:
        if self._session.turn.replan_request is not None or self._circle:
            return True
        if self._course.mode != "on_demand" or not self._course.free:
            return False
        failing = self._failures.seen(self._session.state.messages)
        if failing and self._course.may_replan:
            self._failing = failing
        return bool(self._failing)

    async def _ask(self, ask: AskForPlan) -> Happening:
        session = self._session
        replan_request = session.turn.set_replan_request(None)
        try:
            made = await self._asked(
                ask,
                "" if replan_request is None else replan_request.instructions,
                by_user=replan_request is not None,
            )
        except BaseException:
            if session.turn.replan_request is None:
                session.turn.set_replan_request(replan_request)  # the turn ends, and reports it
            elif replan_request is not None:
                _replaced(session, replan_request)
            raise
        again = ask.kind == "again"
        if isinstance(made, PlanMade):
            told, stop = planned_notice(made.steps, again=again), "end_turn"
        else:
            told, stop = unplanned_notice(made.why), made.stop or "error"
        if replan_request is not None:  # first, because the disk may be full
            replan_request.settle(session.state.turn or "", stop, told)
        if isinstance(made, PlanMade):
            if made.steps or again:
                session.notice("info", told, notice_codes.PLAN_MADE)
        elif made.stop is None:
            session.notice("warning", told, notice_codes.PLAN_NOT_MADE)
        self._failures.taken = len(session.state.messages)
        return made

    async def _asked(self, ask: AskForPlan, instructions: str, *, by_user: bool) -> PlanMade | NotPlanned:
        light = self._course.mode == "signposts" and ask.kind == "first"
        has_open = next_step(self._tree) is not None
        text = ask_text(
            ask,
            light=light,
            has_open=has_open,
            by_user=by_user,
            instructions=instructions,
            parallel=self._course.parallel and self._course.mode == "layered",
        )
        problem: str = ""
        for once_more in (False, True):
            if over := await self._turn.between():
                return NotPlanned(over, "permission_denied")
            self._turn.tell(text)
            outcome = await self._turn.ask()
            if outcome.stop in ("error", "permission_denied", "canceled"):
                return NotPlanned(outcome.detail, outcome.stop)
            try:
                return self._planned(ask, light=light, any_list=once_more)
            except (BadPlanError, PlanError) as error:
                problem = error.args[0]
                text = again_text(problem)
        return NotPlanned(written_for_models(problem, t("The model's response could not be used as a plan.")))

    def _planned(self, ask: AskForPlan, *, light: bool, any_list: bool) -> PlanMade:
        """Return the answer as goals of the tree. Raises BadPlanError and PlanError, with the tree unchanged."""
        messages = self._session.state.messages
        answer = next(m for m in reversed(messages) if m.role == "assistant" and m.compaction() is None)
        most = MAX_SIGNPOSTS if light else MAX_LAYERED
        steps = read_plan(answer.text(), answer.tool_calls(), most=most, nested=not light, any_list=any_list)
        why = t("Abandoned for a new plan. {why}", why=ask.why) if ask.why else ""
        revision = revised(self._tree, steps, revise=ask.revise, why=why, failed=ask.failed)
        self._session.record.goals(revision.changes)
        return PlanMade(revision.steps, revision.aside)


REPLAN = "Make a new plan for what is left."


async def replan(session: Session, instructions: str = "") -> TurnResult:
    """Replan from here at the user's request; ``instructions`` are the user's wishes for the plan, in any mode.

    In an idle session a turn of its own requests the plan and ends. While a turn runs the plan is made between two of
    its steps, and the work continues by it; a later request replaces one that still waits. Returns when the plan was
    made: ``detail`` says so, or why there is none. Canceling the caller withdraws a request that still waits; a turn
    that was started for it continues, as turns do. Raises ReadOnlySessionError for the record of a child.
    """
    if session.sealed:
        raise ReadOnlySessionError(session.sealed)
    instructions = instructions.strip()
    at_rest = not session.running
    replan_request = ReplanRequest(
        "" if at_rest else instructions, asyncio.get_running_loop().create_future()
    )
    if (earlier := session.turn.set_replan_request(replan_request)) is not None:
        _replaced(session, earlier)
    if at_rest:
        try:
            await session.prompt(f"{REPLAN} {instructions}".strip(), planner="replan")
        except StoreError:
            _withdraw(session, replan_request)
            raise
        _withdraw(session, replan_request)  # where no turn took the prompt up, as when it was removed
    try:
        return await asyncio.shield(replan_request.result)
    except asyncio.CancelledError:
        # The caller no longer waits, but a plan that is already being created is finished.
        if not at_rest:
            _withdraw(session, replan_request)
        raise


def _withdraw(session: Session, replan_request: ReplanRequest) -> None:
    """End a request, unless it has ended, or the plan for it is being made."""
    if session.turn.replan_request is replan_request:
        session.turn.settle_replan_request(session.state.turn or "", "canceled", t(WITHDRAWN))


def _replaced(session: Session, earlier: ReplanRequest) -> None:
    why = t("A later request for a plan replaced this one.")
    earlier.settle(session.state.turn or "", "canceled", why)


# -- repeated failures, after which a new plan is worthwhile --
#
# A row is one thing that fails: changes of files are one row, each command line is a row of its own, and every other
# tool is one. Other calls do not break a row (between two failing tests there is an edit); a success of the same thing
# does, and so does a message of the user.

FAILURES = 3
"""Failures of a row, after which a new plan is asked for."""
_BRIEF = 300
"""Characters of what failed."""
_CHANGES = frozenset({"edit", "write", "patch"})
_NOT_TRIED = frozenset({"denied", "not_run", "canceled"})
"""Results that do not reflect on the work."""


class Failures(Struct):
    """The rows of one turn, from the message with this index on."""

    taken: int
    _calls: dict[str, ToolCallPart] = field(default_factory=dict[str, ToolCallPart])
    _rows: dict[object, int] = field(default_factory=dict[object, int])

    def seen(self, messages: Sequence[Message]) -> str:
        """Read new messages. Returns a description of repeated failures; empty when there are none.

        All rows start over after a report.
        """
        new = messages[self.taken :]
        self.taken = len(messages)
        told = ""
        for message in new:
            if message.role == "user" and any(
                isinstance(part, TextPart | FilePart) for part in message.content
            ):
                if message.compaction() is None:
                    self._rows.clear()
                    told = ""
            elif message.role == "assistant":
                self._calls.update((call.id, call) for call in message.tool_calls())
            elif (result := message.tool_result()) is not None:
                told = self._result(result) or told
        if told:
            self._rows.clear()
        return told

    def _result(self, result: ToolResultPart) -> str:
        call = self._calls.pop(result.tool_call_id, None)
        if call is None or not _NOT_TRIED.isdisjoint(result.metadata):
            return ""
        row: object = (
            "changes" if call.name in _CHANGES else key_of(call) if call.name == "bash" else call.name
        )
        if not _failed(result):
            self._rows.pop(row, None)
            return ""
        self._rows[row] = count = self._rows.get(row, 0) + 1
        if count < FAILURES:
            return ""
        if call.name in _CHANGES:
            return t(
                "{count} file changes in a row failed, the last one with: {result}",
                count=count,
                result=one_line(result.content, _BRIEF),
            )
        if call.name == "bash":
            return t(
                "The same command failed {count} times, despite changes in between: {call}",
                count=count,
                call=_command(call),
            )
        return t(
            "{name} failed {count} times in a row, the last time with: {result}",
            name=call.name,
            count=count,
            result=one_line(result.content, _BRIEF),
        )


def _failed(result: ToolResultPart) -> bool:
    """Return whether a result is an error, or of a command with another exit code than 0."""
    code = result.metadata.get("exit_code")
    return result.is_error or (isinstance(code, int) and code != 0)


def _command(call: ToolCallPart) -> str:
    try:
        command = call.arguments().get("command")
    except ValueError:
        command = call.input
    return one_line(str(command), _BRIEF)
