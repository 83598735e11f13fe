"""The log of a session, made by hand: what the fold of steps is tested on.

Plan operations go through the real tree and the real events; times tick by a second an event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from daemon.model.events import (
    Event,
    MessageAdded,
    SessionCreated,
    SessionUpdated,
    ToolStarted,
    TraceCompleted,
    TurnEnded,
    TurnStarted,
)
from daemon.model.messages import (
    FilePart,
    FinishPart,
    Message,
    Part,
    ReasoningPart,
    Role,
    StopReason,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from daemon.model.traces import Trace
from daemon.plan.goal_stats import OverlapTimer
from daemon.plan.tree import Change, PlanTree
from daemon.state.goal_events import goal_event
from daemon.store.trace_store import TraceStore

BEGIN = datetime(2024, 1, 15, 14, 30, 10, tzinfo=UTC)
TRACE = "20240115-143010-000000abcd"


@dataclass
class Recorded:
    """Events as a session would have appended them."""

    trace_id: str = TRACE
    events: list[Event] = field(default_factory=list[Event])
    plan: PlanTree = field(default_factory=PlanTree)
    sequence: int = 0
    together: OverlapTimer = field(default_factory=OverlapTimer)

    def __post_init__(self) -> None:
        self.trace = Trace(
            trace_id=self.trace_id,
            workspace="/ws",
            model="fake/model",
            created_at=self.now(),
            updated_at=self.now(),
        )
        self.emit(SessionCreated(trace_id=self.trace_id, time=self.now(), trace=self.trace))

    def into(self, store: TraceStore) -> None:
        """Write it down, as a session does."""
        store.create(self.trace)
        self.append_to(store)

    def append_to(self, store: TraceStore) -> None:
        """Append the events that the store does not have yet."""
        for event in self.events[store.last_event_id(self.trace_id) :]:
            store.append(event)

    def now(self) -> datetime:
        """A second after the event before."""
        return BEGIN + timedelta(seconds=len(self.events))

    def emit(self, event: Event) -> None:
        """Append it."""
        self.events.append(event.model_copy(update={"event_id": len(self.events) + 1}))

    def change(self, plan: Callable[[PlanTree], Sequence[Change]], by: str = "") -> None:
        """An operation on the plan. Raises PlanError."""
        for change in plan(self.plan):
            self.plan.apply(change)
            self.emit(goal_event(change, self.trace_id, self.now(), by))

    def add(self, *descriptions: str, under: str | None = None) -> None:
        self.change(lambda plan: plan.plan_add(descriptions, "", parent_id=under))

    def focus(self, goal_id: str) -> None:
        self.change(lambda plan: plan.plan_focus(plan.goal(goal_id)))

    def done(self, summary: str) -> None:
        self.change(lambda plan: plan.plan_done(summary))

    def abandon(self, reason: str) -> None:
        self.change(lambda plan: plan.plan_abandon(reason))

    def begin(self, text: str = "修改配置文件") -> None:
        """Add a prompt of the user, and begin a turn."""
        self.emit(TurnStarted(trace_id=self.trace_id, time=self.now(), prompt_id="p1"))
        self.message("user", TextPart(text=text), goal_id=None)
        self.emit(SessionUpdated(trace_id=self.trace_id, time=self.now(), updates={"mission": text}))

    def end(self, reason: StopReason = "end_turn") -> None:
        """The turn is over."""
        self.emit(TurnEnded(trace_id=self.trace_id, time=self.now(), prompt_id="p1", stop_reason=reason))
        self.emit(TraceCompleted(trace_id=self.trace_id, time=self.now(), status="completed"))

    def say(
        self,
        text: str = "",
        *calls: tuple[str, str, str],
        reasoning: str = "",
        stop: StopReason = "end_turn",
        tokens: int = 10,
        duration_ms: int = 100,
    ) -> Message:
        """The model answers. ``calls``: id, tool and arguments of each."""
        parts: list[Part] = []
        if reasoning:
            parts.append(ReasoningPart(text=reasoning))
        if text:
            parts.append(TextPart(text=text))
        parts += [ToolCallPart(id=call_id, name=name, input=arguments) for call_id, name, arguments in calls]
        parts.append(FinishPart(reason="tool_use" if calls else stop, time=self.now()))
        return self.message("assistant", *parts, tokens=tokens, cost=0.005, duration_ms=duration_ms)

    def answer(
        self,
        call_id: str,
        name: str,
        output: str,
        *,
        title: str = "",
        is_error: bool = False,
        images: tuple[FilePart, ...] = (),
    ) -> Message:
        """A tool ran."""
        self.emit(ToolStarted(trace_id=self.trace_id, time=self.now(), tool_call_id=call_id, name=name))
        part = ToolResultPart(
            tool_call_id=call_id, name=name, content=output, title=title, is_error=is_error, images=images
        )
        return self.message("tool", part, call_id=call_id, tokens=5, duration_ms=50)

    def message(
        self,
        role: Role,
        *parts: Part,
        goal_id: str | None = "current",
        call_id: str | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        duration_ms: int | None = None,
        overlap_ms: int | None = None,
    ) -> Message:
        """Store a message with what it does to the numbers of its goal."""
        self.sequence += 1
        goal = self.plan.current_id if goal_id == "current" else goal_id
        message = Message(
            message_id=f"msg_{self.sequence:06d}_0000abcd",
            trace_id=self.trace_id,
            role=role,
            sequence=self.sequence,
            goal_id=goal,
            tool_call_id=call_id,
            content=parts,
            tokens=tokens,
            cost=cost,
            usage=Usage(input=100, output=tokens or 0) if role == "assistant" else None,
            created_at=self.now(),
            duration_ms=duration_ms,
            overlap_ms=overlap_ms,
        )
        affected = self.plan.count(
            goal,
            tokens=tokens or 0,
            cost=cost or 0.0,
            tools=[part.name for part in parts if isinstance(part, ToolCallPart)],
            time_of=self.together.time_of(message),
        )
        self.plan.apply_counts(affected)
        self.emit(
            MessageAdded(trace_id=self.trace_id, time=self.now(), message=message, affected_goals=affected)
        )
        return message


def configuration_change() -> Recorded:
    """The example of seed 003: explored, at work on the configuration, the tests still to do."""
    log = Recorded()
    log.begin()
    log.say("", ("p1", "step", '{"plan": ["探索代码库", "修改配置", "运行测试"], "focus": "探索代码库"}'))
    log.add("探索代码库", "修改配置", "运行测试")
    log.focus("1")
    log.answer("p1", "step", "Focus: 1 探索代码库.")
    log.say("需要先了解项目结构。让我先看看。", ("c1", "glob_files", '{"pattern": "**/*.py"}'))
    log.answer("c1", "glob_files", "src/main.py\nsrc/config.py", title="找到 15 个文件")
    log.say("", ("c2", "read_file", '{"path": "/ws/config.yaml"}'), reasoning="发现配置文件")
    log.answer("c2", "read_file", "db_host=prod.db.com\nport=1", title="config.yaml")
    log.say("", ("p2", "step", '{"complete": true}'), ("c3", "read_file", '{"path": "config.yaml"}'))
    log.done("主配置在 /src/config.yaml,包含数据库连接配置")
    log.focus("2")
    log.answer("p2", "step", "Done")
    log.answer("c3", "read_file", "已读取", title="config.yaml")
    return log
