"""Fold events into steps. Pure: the same events give the same steps, live and read from the log.

A goal's step shows the goal's state in the plan after each event, so it cannot disagree with it. The text of a message
is one step, each call an action below the goal that had the focus when it ran, each result below its action. Calls that
change the plan appear as their effect on it; those that fail are actions like any other. The user's messages are no
steps. A failed model request that is retried is a failed action.
"""

from __future__ import annotations

import hashlib
import itertools
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from daemon.model.branches import root_of
from daemon.model.events import (
    AffectedGoal,
    BranchCompleted,
    BranchMessageAdded,
    Event,
    ExploreCompleted,
    GoalAdded,
    GoalEvent,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    MessageAdded,
    ModelRetry,
    SessionCreated,
    SessionUpdated,
    SubagentCompleted,
    SubagentStarted,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from daemon.model.messages import Message, ToolCallPart, ToolResultPart
from daemon.model.steps import Step, StepStatus, StepType
from daemon.model.traces import BranchTrace
from daemon.plan.goal_stats import OverlapTimer
from daemon.plan.tree import MAX_DEPTH, PlanTree
from daemon.steps.head import TraceHead
from daemon.steps.inference import (
    PLAN_TOOLS,
    action_data,
    action_label,
    failed_request,
    goal_data,
    goal_status,
    named_session,
    result_data,
    result_description,
    text_data,
    text_step_status,
    text_step_type,
)
from daemon.steps.shortened import cut_texts
from daemon.steps.spent import NOTHING, StepCost
from daemon.steps.tree import StepTree
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from daemon.model.goals import Goal

__all__ = ["StepAdded", "StepChange", "StepFold", "StepUpdated"]

_SUMMARY = 200
"""Characters of a summary in the description of its evaluation; ``summary`` has all of it."""
_MOST_ABOVE = 2 * MAX_DEPTH
"""Most goals above another to count: a forged log may nest any number."""


class StepFold:
    """The steps of one session (main session, branch or sub-agent), as the sum of its events."""

    def __init__(self, trace_id: str, *, cut: int | None = None) -> None:
        """``trace_id``: of the session, ``…:A`` for a branch; its steps, like its messages, have the trace's.

        ``cut``: the most characters of a text in ``data``, images shortened as well; None: all is whole.
        """
        self.tree = StepTree(trace_id)
        self.head = TraceHead(trace_id)
        """Task, status and totals of the trace."""
        self.last_event_id = 0
        self._trace_id = root_of(trace_id)
        self._cut = cut
        self._workspace = ""
        self.plan = PlanTree()
        self._sequence = 0
        self._inherited = 0
        """Messages up to this sequence belong to the main session, see BranchTrace."""
        self._calls: dict[str, ToolCallPart | str] = {}
        """Calls without a result, by their id: the id of the action, or the call itself when it has none."""
        self._actions: dict[str, str] = {}
        """The last action of each call id."""
        self._response: str | None = None
        """Said last in this turn, if nothing has followed from it."""
        self.unplaced = NOTHING
        """Cost of an answer without text that begins with planning while no goal has the focus, until its effect is
        known."""
        self.unshown = NOTHING
        """Cost of such answers, and of empty ones without a focus: no step shows them, and they belong to no goal."""
        self._together = OverlapTimer()
        self._changes: list[StepChange] = []

    def apply(self, event: Event) -> list[StepChange]:
        """Process one event; returns its changes of the steps. An event that was applied already does nothing."""
        if event.event_id and event.event_id <= self.last_event_id:
            return []
        self.last_event_id = max(self.last_event_id, event.event_id)
        took = self.head.apply(event)
        children_took = NOTHING if took is None else StepCost.of_usage(*took)
        self._changes = []
        match event:
            case MessageAdded():
                self._add_message(event)
            case GoalAdded() | GoalUpdated() | GoalMoved() | GoalRemoved():
                self._apply_plan(event)
            case ToolStarted():
                self._place_call(event.tool_call_id, self.plan.current_id)
            case ModelRetry():
                step_id, parent = f"retry_{event.event_id}", self._parent(self.plan.current_id)
                self._add(self._free(step_id), "action", parent, event.time, failed_request(event))
            case TurnStarted() | TurnEnded():
                self._response = None
                self._planned()
            case SessionCreated():
                self._workspace = event.trace.workspace
                if isinstance(event.trace, BranchTrace):
                    self._inherited = event.trace.inherited
            case SessionUpdated() if event.usage is not None:
                step_id = self._free(f"naming_{event.event_id}")
                self._add(step_id, "action", None, event.time, named_session(event, event.usage))
            case SubagentStarted():
                self._note_subagent(event)
            case SubagentCompleted():
                self._spend(self._actions.get(event.subagent.tool_call_id), children_took)
            case BranchMessageAdded() | BranchCompleted():
                branch = self.head.children.branches.get(event.branch_id)
                self._spend(self._parent(branch.explore_start_id if branch else None), children_took)
            case ExploreCompleted():
                self._spend(self._parent(event.explore_start_id), StepCost(event.duration_ms))
            case _:
                pass
        return self._changes

    def _apply_plan(self, event: GoalEvent) -> None:
        self.plan.apply(event)
        match event:
            case GoalAdded():
                self._sync(event.goal.id, event.time)
                self._planned(event.by)
            case GoalUpdated():
                self._sync(event.goal_id, event.time)
                self._sync_all(event.affected_goals, event.time)
                self._planned(event.by)
            case GoalMoved():
                self._move_goal(event.goal_id)
                self._sync_all(event.affected_goals, event.time)
            case GoalRemoved():
                self._update(goal_step_id(event.goal_id), {"status": "skipped"})

    def action_of(self, call_id: str) -> str | None:
        """Return the id of the last action of a call."""
        return self._actions.get(call_id)

    def break_off(self) -> list[StepChange]:
        """End a session that has no end in the log: the calls under way and the turn have failed.

        Later events, when the session is opened again, continue it.
        """
        self._changes = []
        self.head.break_off()
        for step_id in self._calls.values():
            if isinstance(step_id, str):
                self._update(step_id, {"status": "failed"})
        return self._changes

    def copy(self) -> StepFold:
        """Return an independent copy, to continue from here. Cheap: immutable objects are shared."""
        twin = StepFold(self.tree.trace_id, cut=self._cut)
        twin.tree, twin.head, twin.plan = self.tree.copy(), deepcopy(self.head), self.plan.copy()
        twin.last_event_id, twin._sequence = self.last_event_id, self._sequence
        twin._workspace, twin._inherited, twin._response = self._workspace, self._inherited, self._response
        twin._calls, twin._actions = dict(self._calls), dict(self._actions)
        twin.unplaced, twin.unshown = self.unplaced, self.unshown
        twin._together = deepcopy(self._together)
        return twin

    # -- goals --

    def _sync_all(self, affected: Iterable[AffectedGoal], now: datetime) -> None:
        for goal in affected:
            self._sync(goal.goal_id, now)

    def _sync(self, goal_id: str, now: datetime) -> None:
        """Update the steps of a goal to match the plan."""
        goal = self.plan.goals.get(goal_id)
        if goal is None:
            return
        step_id = goal_step_id(goal_id)
        fields = {
            "status": goal_status(goal),
            "description": goal.description,
            "data": self._shown(goal_data(goal)),
        }
        if self.tree.get(step_id) is None:
            parent = goal_step_id(goal.parent_id) if goal.parent_id is not None else None
            self._add(step_id, "goal", parent, now, fields, before_id=self._following(goal, parent))
        else:
            self._update(step_id, fields)
        if goal.status in ("completed", "abandoned") and goal.summary:
            self._evaluate(goal, goal.summary, now)

    def _evaluate(self, goal: Goal, summary: str, now: datetime) -> None:
        step_id = f"{goal_step_id(goal.id)}_evaluation"
        fields = {
            "status": "completed",
            "description": one_line(summary, _SUMMARY),
            "summary": summary,
            "data": {"goal_id": goal.id, "goal_status": goal.status},
        }
        if self.tree.get(step_id) is None:
            self._add(step_id, "evaluation", goal_step_id(goal.id), now, fields)
        else:
            self._update(step_id, fields)

    def _following(self, goal: Goal, parent: str | None) -> str | None:
        """Return the next sibling goal in the plan, if there is one, and if it is below ``parent`` here, too."""
        siblings = self.plan.children(goal.parent_id)
        if not siblings or siblings[-1].id == goal.id:
            return None
        place = next((at for at, sibling in enumerate(siblings) if sibling.id == goal.id), len(siblings))
        step = self.tree.get(goal_step_id(siblings[place + 1].id)) if place + 1 < len(siblings) else None
        return step.step_id if step is not None and step.parent_id == parent else None

    def _move_goal(self, goal_id: str) -> None:
        goal = self.plan.goals.get(goal_id)
        step = self.tree.get(goal_step_id(goal_id))
        if goal is None or step is None:
            return
        parent = None if goal.parent_id is None else goal_step_id(goal.parent_id)
        if parent is not None and self.tree.get(parent) is None:
            parent = None
        if parent == step.step_id or any(above.step_id == step.step_id for above in self.tree.line(parent)):
            return  # a damaged log
        spent = StepCost.of_step(step)
        self._spend(step.parent_id, spent.taken_back())
        before = self._following(goal, parent)
        self.tree.move(step.model_copy(update={"parent_id": parent}), before)
        self._changes.append(StepUpdated(step.step_id, {"parent_id": parent, "before_id": before}))
        self._spend(parent, spent)

    def _spend(self, step_id: str | None, spent: StepCost) -> None:
        """Add to what a step took, and to the goals above it."""
        if spent != NOTHING:
            for above in list(itertools.islice(self.tree.line(step_id), _MOST_ABOVE)):
                self._update(above.step_id, spent.added_to(above))

    def _planned(self, by: str = "") -> None:
        """Keep the cost of planning without a focus at the top level: the goals that resulted did not work yet."""
        if not by:
            self.unshown, self.unplaced = self.unshown.and_also(self.unplaced), NOTHING

    # -- messages --

    def _add_message(self, event: MessageAdded) -> None:
        message = event.message
        self.plan.apply_counts(event.affected_goals)
        if message.sequence > self._inherited:
            parent = self._parent(message.goal_id)
            if message.role == "assistant":
                self._add_answer(message, parent, event.time)
            elif message.role == "tool" and (result := message.tool_result()) is not None:
                self._add_result(message, result, parent, event.time)
        self._sync_all(event.affected_goals, event.time)

    def _add_answer(self, message: Message, parent: str | None, now: datetime) -> None:
        if self._response is not None and message.compaction() is None:
            # It was not the last message of its turn after all.
            self._update(self._response, {"step_type": "thought"})
            self._response = None
        spent = StepCost.of_answer(message)
        self._spend(parent, spent)
        self._together.time_of(message)
        calls, told = message.tool_calls(), text_data(message)
        if told is not None:
            step_type = text_step_type(message)
            fields = {
                "status": text_step_status(message),
                "description": told[0],
                "data": self._shown(told[1]),
                **spent.fields(),
            }
            said_id = self._add(self._free(_bounded(message.message_id)), step_type, parent, now, fields)
            self._response = said_id if step_type == "response" else None
        elif not calls or calls[0].name in PLAN_TOOLS:
            # The message has no step of its own. Its cost stays with the focused goal, whatever goal the calls run for.
            self.unplaced = self.unplaced if parent is not None else self.unplaced.and_also(spent)
        for number, call in enumerate(calls):
            if call.name in PLAN_TOOLS:
                self._calls[call.id] = call
            else:
                own = spent.without_time() if told is None and number == 0 else NOTHING
                self._calls[call.id] = self._add_action(call, parent, now, own)

    def _add_action(self, call: ToolCallPart, parent: str | None, now: datetime, spent: StepCost) -> str:
        data = action_data(call)
        fields = {
            "status": "in_progress",
            "description": action_label(call.name, data["arguments"], self._workspace),
            "data": self._shown(data),
            **spent.fields(),
        }
        step_id = self._add(self._free(f"call_{_bounded(call.id)}"), "action", parent, now, fields)
        self._actions[call.id] = step_id
        return step_id

    def _add_result(
        self, message: Message, result: ToolResultPart, parent: str | None, now: datetime
    ) -> None:
        call_id = message.tool_call_id or result.tool_call_id
        time_of = self._together.time_of(message)
        for above in list(itertools.islice(self.tree.line(parent), _MOST_ABOVE)):
            self._update(above.step_id, StepCost(time_of(above.step_id)).added_to(above))
        known = self._calls.pop(call_id, None)
        if isinstance(known, ToolCallPart):
            looked = parent is None and self.unplaced != NOTHING
            if not result.is_error and not looked:
                return  # the plan shows its effect
            # Planning without a result has a cost, which nothing else can show.
            spent, self.unplaced = (self.unplaced, NOTHING) if looked else (NOTHING, self.unplaced)
            known = self._add_action(known, parent, now, spent.without_time())
        elif known is None and result.name in PLAN_TOOLS and not result.is_error:
            return
        status: StepStatus = "failed" if result.is_error else "completed"
        if known is not None:
            self._place(known, parent)
            self._update(known, {"status": status, "duration_ms": message.duration_ms})
        fields = {
            "status": status,
            "description": result_description(result),
            "data": self._shown(result_data(result)),
        }
        self._add(self._free(f"result_{_bounded(call_id)}"), "result", known or parent, now, fields)

    def _place_call(self, call_id: str, goal_id: str | None) -> None:
        known = self._calls.get(call_id)
        if isinstance(known, str):
            self._place(known, self._parent(goal_id))

    def _place(self, step_id: str, parent: str | None) -> None:
        """A call belongs to the goal that had the focus when it ran; the request for it to the one that had it then."""
        step = self.tree.get(step_id)
        if step is not None and step.parent_id != parent:
            if step.parent_id is None:
                self.unshown = self.unshown.and_also(StepCost.of_step(step))
            self._update(step_id, {"tokens": None, "cost": None})
            step = self.tree.get(step_id) or step
            self.tree.move(step.model_copy(update={"parent_id": parent}))
            self._changes.append(StepUpdated(step_id, {"parent_id": parent, "before_id": None}))

    def _note_subagent(self, event: SubagentStarted) -> None:
        step = self.tree.get(self._actions.get(event.subagent.tool_call_id, ""))
        if step is not None:
            known = cast("list[str]", step.data.get("subagent_ids") or [])
            data = {**step.data, "subagent_ids": [*known, event.subagent.id]}
            self._update(step.step_id, {"data": data})

    # -- steps --

    def _parent(self, goal_id: str | None) -> str | None:
        step_id = goal_step_id(goal_id) if goal_id is not None else None
        return step_id if step_id is not None and self.tree.get(step_id) is not None else None

    def _free(self, step_id: str) -> str:
        """``step_id``, unless a damaged log has it twice."""
        while self.tree.get(step_id) is not None:
            step_id = f"{step_id}_{self._sequence}"
        return step_id

    def _add(
        self,
        step_id: str,
        step_type: StepType,
        parent: str | None,
        now: datetime,
        fields: Mapping[str, Any],
        *,
        before_id: str | None = None,
    ) -> str:
        self._sequence += 1
        parent = parent if parent is not None and self.tree.get(parent) is not None else None
        step = Step.model_validate(
            {
                "step_id": step_id,
                "trace_id": self._trace_id,
                "step_type": step_type,
                "sequence": self._sequence,
                "parent_id": parent,
                "created_at": now,
                **fields,
            }
        )
        self.tree.add(step, before_id)
        self._changes.append(StepAdded(step, before_id))
        return step_id

    def _update(self, step_id: str, fields: Mapping[str, Any]) -> None:
        step = self.tree.get(step_id)
        if step is None:
            return
        changed = {name: value for name, value in fields.items() if getattr(step, name) != value}
        if changed:
            self.tree.replace(step.model_copy(update=changed))
            self._changes.append(StepUpdated(step_id, changed))

    def _shown(self, data: dict[str, Any]) -> dict[str, Any]:
        return data if self._cut is None else cast("dict[str, Any]", cut_texts(data, self._cut))


_LONGEST = 160
"""An id that is longer than an address can hold, as any model may give its calls, could not be asked for."""
_KEPT = 100


def goal_step_id(goal_id: str) -> str:
    """Return the id of a goal's step."""
    return f"goal_{_bounded(goal_id)}"


def _bounded(known: str) -> str:
    if len(known) <= _LONGEST:
        return known
    return f"{known[:_KEPT]}_{hashlib.sha256(known.encode(errors='replace')).hexdigest()[:16]}"


class StepAdded(Struct, frozen=True):
    """A new step. ``before_id``: the sibling that it comes before; None: last."""

    step: Step
    before_id: str | None = None


class StepUpdated(Struct, frozen=True):
    """A change of a step: the fields that have changed, ready for JSON.

    With a ``parent_id`` among them the step has moved; ``before_id``, which is none of its fields, then is the sibling
    that it comes before (None: last).
    """

    step_id: str
    updates: dict[str, Any]


StepChange = StepAdded | StepUpdated
