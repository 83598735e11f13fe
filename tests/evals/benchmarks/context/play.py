"""Plays the script into a session's record, with the product's own plan operations and events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from daemon.context.tokens import estimate_tokens
from daemon.model.events import GoalEvent, MessageAdded
from daemon.model.messages import Message, NotePart, Part, Role, TextPart, ToolResultPart, describe
from daemon.model.traces import Trace
from daemon.plan.port import SessionPlan
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import Change, Removed, Updated
from daemon.state.goal_events import goal_event
from daemon.state.session_state import SessionState
from tests.evals.benchmarks.context.script import Prompt, Script, Step, Use
from tools.goal import split_goals
from tools.tool import PlanEdit

TRACE_ID = "bench"
MISSION = (
    "Make running requests of the language server cancellable, and let people review changes hunk by hunk"
)
RENAMED = ("Cancel in the client", "Cancel in the client and wait for late answers")
DROPPED = "Write the guide"
NOTE = (
    f'Note: since your last message the user renamed the goal "{RENAMED[0]}" to "{RENAMED[1]}".\nThen the '
    f'user removed the goal "{DROPPED}".'
)
"""The text that the model receives about it: the same for all variants."""
_START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """The model is about to be called."""

    new_turn: bool
    step: Step | None
    """The model's next answer; None: the script ends here."""


class Player:
    """One session. ``full_plan``: the ``goal`` tool answers with the whole plan, as other agents' todo lists do."""

    def __init__(self, script: Script, *, full_plan: bool, rewords_every: int = 0) -> None:
        """``rewords_every``: after so many steps the goal at work is reworded, so the plan changes in its middle."""
        self._script = script
        self._rewords_every = rewords_every
        self._steps = 0
        self._full_plan = full_plan
        trace = Trace(trace_id=TRACE_ID, workspace="/work/workbench", created_at=_START, updated_at=_START)
        self.state = SessionState(trace)
        self.state.plan.mission = MISSION
        self.now = 0.0
        """Seconds since the session began. Whoever calls the model besides the script adds what that took."""
        self._calls = 0

    async def play(self) -> AsyncIterator[Moment]:
        """Stop before each model call; when the caller goes on, the answer and its results are recorded."""
        new_turn = False
        for action in self._script.actions:
            if isinstance(action, Prompt):
                self.now += action.pause_s
                self._prompt(action)
                new_turn = True
                continue
            yield Moment(new_turn, action)
            new_turn = False
            await self._step(action)
            self._steps += 1
            if self._rewords_every and self._steps % self._rewords_every == 0:
                self._reword()
        yield Moment(new_turn, None)

    def add(self, role: Role, content: tuple[Part, ...], goal_id: str | None) -> Message:
        """Record a message."""
        sequence = self.state.next_sequence()
        result = next((part for part in content if isinstance(part, ToolResultPart)), None)
        calls = [part.name for part in content if part.type == "tool_call"]
        message = Message(
            message_id=f"msg_{sequence:06d}",
            trace_id=TRACE_ID,
            role=role,
            sequence=sequence,
            goal_id=goal_id,
            tool_call_id=result.tool_call_id if result is not None else None,
            content=content,
            description=describe(role, content)[:500],
            tokens=estimate_tokens(result.content) if result is not None else 0,
            created_at=self.time(),
        )
        affected = self.state.plan.count(goal_id, tokens=message.tokens or 0, cost=0.0, tools=calls)
        self.state.apply(
            MessageAdded(trace_id=TRACE_ID, time=self.time(), message=message, affected_goals=affected)
        )
        return message

    def time(self) -> datetime:
        """Now, as messages and events have it."""
        return _START + timedelta(seconds=self.now)

    def _prompt(self, prompt: Prompt) -> None:
        content: tuple[Part, ...] = (TextPart(text=prompt.text),)
        if prompt.changes_plan:
            self._person_changes_plan()
            content = (*content, NotePart(text=NOTE))
        self.add("user", content, self.state.plan.current_id)

    def _person_changes_plan(self) -> None:
        plan = self.state.plan
        by_name = {goal.description: goal.id for goal in plan.goals.values()}
        self._record(Updated(by_name[RENAMED[0]], {"description": RENAMED[1]}, plan.current_id))
        self._record(Removed(by_name[DROPPED], plan.current_id))

    def _reword(self) -> None:
        plan = self.state.plan
        if (goal := plan.goals.get(plan.current_id or "")) is not None:
            self._record(Updated(goal.id, {"description": f"{goal.description}, carefully"}, goal.id))

    async def _step(self, step: Step) -> None:
        ids = [f"call_{self._calls + number:04d}" for number in range(1, len(step.uses) + 1)]
        self._calls += len(ids)
        parts = [use.part(call_id) for use, call_id in zip(step.uses, ids, strict=True)]
        self.add("assistant", (TextPart(text=step.text), *parts), self.state.plan.current_id)
        self.now += step.seconds
        for use, call_id in zip(step.uses, ids, strict=True):
            goal_id = self.state.plan.current_id
            text = await self._goal(use) if use.name == "goal" else use.result
            self.add("tool", (ToolResultPart(tool_call_id=call_id, name=use.name, content=text),), goal_id)

    async def _goal(self, use: Use) -> str:
        said = {key: str(value) for key, value in use.input.items()}
        port = SessionPlan(self.state.plan, self._record)
        answer = await port.update(
            PlanEdit(
                add=split_goals(said.get("add")),
                reason=said.get("reason"),
                done=said.get("done"),
                abandon=said.get("abandon"),
                focus=said.get("focus"),
            )
        )
        return plan_to_prompt(self.state.plan) if self._full_plan else answer

    def _record(self, change: Change) -> None:
        event: GoalEvent = goal_event(change, TRACE_ID, self.time())
        self.state.apply(event)
