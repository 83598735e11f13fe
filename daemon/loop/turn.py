"""A turn: from a prompt, step by step, until the model stops (source: seed 002 §2.2 "ProcessGeneration")."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from daemon.context.prompt import Environment, prompt_layers, system_blocks
from daemon.context.window import build_window, estimate_tokens
from daemon.files.seen import SessionFiles
from daemon.loop.call_ids import unique_call_ids
from daemon.loop.notes import notes_text
from daemon.loop.step import Received, StepOutcome, run_step
from daemon.model.events import (
    Delta,
    GoalAdded,
    GoalRemoved,
    GoalUpdated,
    MessageAdded,
    MessageDiscarded,
    MessagePartAdded,
    ModelRetry,
    ToolStarted,
)
from daemon.model.messages import (
    FilePart,
    FinishPart,
    Message,
    Part,
    Role,
    StopReason,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    describe,
)
from daemon.permission.service import CallInfo, CallPermission
from daemon.plan.port import SessionPlan
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import Added, Change, Updated
from daemon.provider.base import (
    ModelRequest,
    ProviderError,
    ReasoningDelta,
    Retry,
    SystemBlock,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
)
from daemon.store.base import StoreError
from tools.base import ToolContext, ToolResult
from tools.registry import unknown_tool

if TYPE_CHECKING:
    from daemon.loop.session import Session

log = logging.getLogger(__name__)


class Turn:
    """Implements StepHost for a session. Lives as long as one prompt is being worked on."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._services = session.services
        self._state = session.state
        self._id = session.session_id
        self._goal_of_step: str | None = None
        self._started = 0.0
        self._model = session.model
        self._system: list[SystemBlock] = []

    def begin(self, text: str, attachments: Sequence[FilePart]) -> None:
        """Store the prompt: from now on it is part of the conversation, whatever comes."""
        self._add_user(text, attachments)

    async def run(self) -> tuple[StopReason, str]:
        """Work on the prompt. Raises CancelledError after everything received so far is stored."""
        await self._build_system()
        while True:
            for prompt, files in self._session.take_steered():
                self._add_user(prompt.text, files)
            self._session.queue_stored()
            outcome = await self._step()
            if outcome.stop != "tool_use":
                return outcome.stop, outcome.detail

    async def _step(self) -> StepOutcome:
        try:
            stream = self._services.models.stream(self._model, self._request())
            return await run_step(self, unique_call_ids(stream, self._state.call_ids.__contains__))
        except ProviderError as error:
            if error.kind != "overflow":
                return StepOutcome("error", str(error))
            if self._session.pruning:
                return StepOutcome("error", f"{error} Start a new session for the rest of the work.")
        self._session.pruning = True
        if build_window(self._state.messages, prune=True).pruned_tokens == 0:
            return StepOutcome(
                "error", "The conversation no longer fits into the model's window: start a new session."
            )
        self._session.notice(
            "info", "The context was full: old tool results are no longer sent to the model."
        )
        return await self._step()

    def _request(self) -> ModelRequest:
        settings = self._session.config.settings
        plan = plan_to_prompt(self._state.plan) if self._state.plan.goals else ""
        system = list(self._system)
        if plan and settings.plan_placement == "system":
            system.append(SystemBlock(plan))
            plan = ""
        window = build_window(self._state.messages, prune=self._session.pruning)
        return ModelRequest(
            model=self._model.partition("/")[2],
            system=tuple(system),
            messages=window.messages,
            tools=self._tool_specs(),
            tail=plan,
            max_tokens=settings.max_tokens,
            thinking_tokens=settings.thinking_tokens,
            env={**self._session.env, "GOALWRIGHT_WORKSPACE": str(self._services.workspace)},
        )

    async def _build_system(self) -> None:
        workspace = self._services.workspace
        environment = Environment(workspace, (workspace / ".git").exists(), self._services.now().date())
        prompt = self._session.agent.prompt
        layers = await asyncio.to_thread(
            prompt_layers, prompt, self._model, environment, self._services.user_folder
        )
        self._system = system_blocks(layers)

    def _tool_specs(self) -> tuple[ToolSpec, ...]:
        rules = self._session.rules
        return tuple(
            ToolSpec(tool.name, tool.description, tool.schema())
            for tool in self._services.tools.values()
            if rules.offered(tool.permission)
        )

    # -- StepHost --

    def new_message_id(self) -> str:
        """Sorts by age within the session; also marks the start of the step."""
        self._started = time.monotonic()
        self._goal_of_step = self._state.plan.current_id
        return self._message_id(self._state.next_sequence())

    def receiving(self, received: Received | None) -> None:
        """See StepHost."""
        self._session.received = received

    def delta(
        self, message_id: str, event: TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta
    ) -> None:
        """See StepHost."""
        if isinstance(event, TextDelta | ReasoningDelta):
            kind = "text" if isinstance(event, TextDelta) else "reasoning"
            delta = Delta(
                trace_id=self._id, kind=kind, message_id=message_id, index=event.index, text=event.text
            )
        else:
            start = isinstance(event, ToolCallStart)
            delta = Delta(
                trace_id=self._id,
                kind="tool_input",
                message_id=message_id,
                index=event.index,
                tool_call_id=event.id,
                name=event.name if start else None,
                text="" if start else event.json,
            )
        self._session.delta(delta)

    def part_done(self, message_id: str, index: int, part: Part) -> None:
        """See StepHost."""
        self._session.emit(
            MessagePartAdded(
                trace_id=self._id,
                time=self._services.now(),
                message_id=message_id,
                goal_id=self._goal_of_step,
                index=index,
                part=part,
            )
        )

    def retrying(self, message_id: str, retry: Retry, *, void: bool) -> None:
        """See StepHost."""
        now = self._services.now()
        if void:
            self._session.emit(
                MessageDiscarded(trace_id=self._id, time=now, message_id=message_id, reason=retry.reason)
            )
        self._session.emit(
            ModelRetry(
                trace_id=self._id, time=now, attempt=retry.attempt, delay_s=retry.delay_s, reason=retry.reason
            )
        )

    def add_assistant(
        self,
        message_id: str,
        parts: tuple[Part, ...],
        stop: StopReason,
        *,
        detail: str = "",
        usage: Usage | None = None,
        model: str | None = None,
    ) -> Message:
        """See StepHost."""
        now = self._services.now()
        finish = FinishPart(reason=stop, time=now, detail=detail)
        return self._add(
            "assistant",
            (*parts, finish),
            message_id=message_id,
            tokens=usage.output if usage is not None else None,
            cost=self._services.models.cost(self._model, usage) if usage is not None else None,
            usage=usage,
            model=model or self._model,
        )

    def add_result(self, result: ToolResultPart) -> None:
        """See StepHost. A result belongs to the goal of its call, so that the pair is never parted."""
        self._add("tool", (result,), tool_call_id=result.tool_call_id, tokens=estimate_tokens(result.content))

    def tool_started(self, call: ToolCallPart) -> None:
        """See StepHost."""
        self._started = time.monotonic()
        if call.name == "bash":
            self._services.expect_command()
        self._session.emit(
            ToolStarted(trace_id=self._id, time=self._services.now(), tool_call_id=call.id, name=call.name)
        )

    def history(self) -> list[Message]:
        """See StepHost."""
        return self._state.messages

    def tool_context(self, call: ToolCallPart) -> ToolContext:
        """See StepHost."""
        services = self._services
        info = CallInfo(call.id, call.name, goal_id=self._goal_of_step)
        return ToolContext(
            workspace=services.workspace,
            tool_call_id=call.id,
            permission=CallPermission(services.permissions, self._session, info),
            files=SessionFiles(
                self._state.seen_files, services.unsaved_text, services.on_read, services.write_unsaved
            ),
            history=self._session.history,
            diagnostics=services.diagnostics,
            plan=SessionPlan(self._state.plan, self._record_goal),
            scratch=services.trace_folder(self._id) / "output",
            journal=services.journal,
            on_output=lambda text: self._session.delta(
                Delta(
                    trace_id=self._id,
                    kind="tool_output",
                    message_id="",
                    tool_call_id=call.id,
                    name=call.name,
                    text=text,
                )
            ),
        )

    async def run_tool(self, call: ToolCallPart, context: ToolContext) -> ToolResult:
        """See StepHost."""
        tool = self._services.tools.get(call.name)
        if tool is None or not self._session.rules.offered(tool.permission):
            offered = [spec.name for spec in self._tool_specs()]
            return ToolResult(unknown_tool(call.name, offered), title="unknown tool", is_error=True)
        return await self._services.run_tool(tool, call.input, context)

    # -- recording --

    def for_goal(self, goal_id: str | None) -> None:
        """What is recorded from now on belongs to this goal."""
        self._goal_of_step = goal_id

    def _add_user(self, text: str, attachments: Sequence[FilePart]) -> None:
        self._goal_of_step = self._state.plan.current_id
        parts: tuple[Part, ...] = (*((TextPart(text=text),) if text else ()), *attachments)
        if notes := notes_text(self._state.notes):
            parts = (*parts, TextPart(text=f"\n\n{notes}"))
        self._add("user", parts, tokens=estimate_tokens(text))

    def _add(
        self, role: Role, content: tuple[Part, ...], *, message_id: str | None = None, **fields: Any
    ) -> Message:
        sequence = self._state.next_sequence()
        started = self._started
        message = Message(
            message_id=message_id or self._message_id(sequence),
            trace_id=self._id,
            role=role,
            sequence=sequence,
            goal_id=self._goal_of_step,
            content=content,
            description=describe(role, content)[:500],
            created_at=self._services.now(),
            duration_ms=int((time.monotonic() - started) * 1000) if started and role != "user" else None,
            **fields,
        )
        affected = self._state.plan.count(
            message.goal_id,
            tokens=message.tokens or 0,
            cost=message.cost or 0.0,
            tools=[call.name for call in message.tool_calls()],
        )
        self._session.emit(
            MessageAdded(trace_id=self._id, time=message.created_at, message=message, affected_goals=affected)
        )
        try:
            self._services.store.save_message(message)
        except StoreError as error:
            # A copy of what the log has; the reader notices that it is missing.
            log.warning("%s", error)
        return message

    def _record_goal(self, change: Change) -> None:
        now = self._services.now()
        if isinstance(change, Added):
            goal = change.goal
            event = GoalAdded(
                trace_id=self._id, time=now, goal=goal, parent_id=goal.parent_id, index=change.index
            )
        elif isinstance(change, Updated):
            event = GoalUpdated(
                trace_id=self._id,
                time=now,
                goal_id=change.goal_id,
                updates=dict(change.updates),
                affected_goals=change.affected,
                current_id=change.current_id,
            )
        else:
            event = GoalRemoved(
                trace_id=self._id, time=now, goal_id=change.goal_id, current_id=change.current_id
            )
        self._session.emit(event)

    def _message_id(self, sequence: int) -> str:
        return f"msg_{sequence:06d}_{uuid.uuid4().hex[:8]}"
