"""A turn: from a prompt, step by step, until the model stops."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.context.instructions import NestedInstructions, files_at_work, with_instructions
from daemon.context.prompt import UNTRUSTED, Layer
from daemon.context.prompt_record import changed_prompt
from daemon.context.tokens import part_tokens
from daemon.loop.command_use import called
from daemon.loop.compaction_notices import what_fills
from daemon.loop.loop_detection import Repeat
from daemon.loop.mentions import EXECUTED, NOT_DONE, calls_by_user, calls_of, prompt_parts
from daemon.loop.model_fallback import ModelFallback
from daemon.loop.parallel_calls import CallTimes
from daemon.loop.record import new_message_id
from daemon.loop.request_builder import mark_history
from daemon.loop.skill_use import notify_skill_problems
from daemon.loop.step import Received, StepOutcome, TextCheckpoints, run_calls, run_step
from daemon.loop.text_tool_calls import AnswerCheck
from daemon.loop.tool_context import call_permission, tool_context
from daemon.loop.tool_selection import belongs, depth, has_changed, notify_agent_problems, unavailable_text
from daemon.loop.undo import Restorer
from daemon.model import notice_codes
from daemon.model.events import Delta, MessageDiscarded, MessagePartAdded, MessageTextAdded, ToolStarted
from daemon.model.messages import (
    CommandPart,
    FilePart,
    FinishPart,
    Message,
    NotePart,
    Part,
    StopReason,
    SubtaskPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from daemon.permission.rules import rule_words
from daemon.plan.port import SessionPlan
from daemon.provider.call_ids import goal_of_step, unique_call_ids
from daemon.provider.model_calls import (
    Complete,
    ModelRequest,
    ProviderError,
    ReasoningDelta,
    Restart,
    Retry,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
)
from daemon.state.notes import notes_text
from tools.diagnostics_text import describe_late
from tools.localization import t
from tools.process.background import is_canceled
from tools.tool import ToolContext, ToolResult
from tools.tool_names import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.loop.session import Session
    from daemon.loop.step_diagnostics import StepDiagnostics
    from daemon.model.traces import PromptPlanner
    from daemon.permission.service import CallPlace
    from daemon.plan.tree import PlanTree
    from tools.registry import AnyTool

_NOT_RUN = "Not run: a plan was requested. Answer with it as JSON in your text; the work comes afterwards."
_CHANGED = (
    "Not run: {name} has changed since you were sent its description. Read the current one, and call it again if it "
    "still does what you need."
)
_CIRCLE = "Not run: the same calls keep repeating. A new plan is made first."
_OVERFLOWS = 3
"""How often one step may be tried again after the provider found the request too long."""


class _SentRequest(Struct):
    """The last request of a turn, as far as later steps need it."""

    estimated: int = 0
    """Its tokens."""
    asked_for: int = 0
    """Tokens that it allowed for the answer."""
    layers: Sequence[Layer] | None = None
    """The layers of the system prompt that this turn has recorded."""
    tools: Sequence[ToolSpec] = ()
    """Their definitions as the model was sent them."""
    plan: PlanTree | None = None
    """The plan at that time: the model's numbers refer to it."""


class Turn:
    """Implements StepHost for a session. Lives as long as one prompt is being worked on."""

    def __init__(self, session: Session, planner: PromptPlanner | None = None) -> None:
        """``planner``: how this prompt is planned, when it is not by the settings."""
        self._session = session
        self._services = session.services
        self._state = session.state
        self._id = session.session_id
        self._record = session.record
        self._builder = session.request_builder
        self._goal_of_step: str | None = None
        self._goal_of_call: dict[str, str | None] = {}
        self._started = 0.0
        self._times = CallTimes()
        self._stopped: dict[str, ToolResult] = {}
        """Partial results of canceled calls."""
        self._sent = _SentRequest()
        self._driver = session.features.driver(self, session, planner)
        self._unfinished = TextCheckpoints(self._store_text)
        self._answers = AnswerCheck(session.record)
        self._fallback = ModelFallback(session.request_builder)
        self._by_user: set[str] = set()
        """Ids of the calls that were made for the user's tasks for sub-agents."""
        self._asking = False
        """A plan is asked for: calls are answered, and not run."""
        self.error_kind = ""
        """The kind of ``ProviderError`` that ended the last step; empty: none."""

    def begin(self, text: str, attachments: Sequence[FilePart], context: str = "") -> None:
        self._answer(text)
        agent = self._session.agent
        message = self._add_user(text, attachments, context, task=depth(self._session.policy) > 0)
        if self._session.agent is not agent:
            self._driver = self._driver.for_current_agent()
        if self._session.parent is None:
            # A child has one prompt: messages before it are not history, but its input.
            mark_history(self._record, self._builder, message.sequence)

    def _answer(self, text: str) -> None:
        """Take this prompt as the one that the turn answers."""
        self._answers.prompt = text
        command = called(self._session, text)
        self._session.policy.begin_turn("" if command is None else command.model)

    async def run(self) -> tuple[StopReason, str]:
        await self._prepare()
        return await self._driver.run()

    async def _prepare(self) -> None:
        self._services.models.ask_window(self._model, self._session.env)
        await self._builder.prepare()
        if any(layer.name.startswith(UNTRUSTED) for layer in self._builder.layers):
            self._session.notify_untrusted()
        notify_agent_problems(self._session.policy)
        notify_skill_problems(self._session.policy)

    async def resume(self) -> tuple[StopReason, str]:
        said = self._state.open.prompt.content if self._state.open.prompt is not None else ()
        self._answer(next((part.text for part in said if isinstance(part, CommandPart | TextPart)), ""))
        await self._prepare()
        if open_calls := self._state.open_tool_calls():
            message = open_calls[0][0]
            self._by_user = calls_by_user(message)
            ids = {call_id for _, call_id, _ in open_calls}
            calls = [call for call in message.tool_calls() if call.id in ids]
            outcome = await run_calls(self, calls)
            if outcome.stop != "tool_use":
                return outcome.stop, outcome.detail
        return await self._driver.resume()

    # -- TurnRuns --

    async def steps(self, pause: Callable[[], bool]) -> tuple[StopReason, str]:
        while not pause():
            if is_canceled():
                raise asyncio.CancelledError  # a tool has lost it
            if over := await self.between():
                return "permission_denied", over
            outcome = await self._step()
            checked = self._answers.check(
                outcome, self._state.messages, self._builder.tool_specs, self._model
            )
            if isinstance(checked, str):
                self.tell(checked)
                continue
            outcome = checked
            self.error_kind = outcome.error_kind
            if outcome.stop != "tool_use" or self._session.turn.leaves:
                if self._session.diagnostics.owed:
                    await self._tell_late()
                return ("end_turn" if outcome.stop == "tool_use" else outcome.stop), outcome.detail
        return "tool_use", ""

    async def between(self) -> str:
        steered, agent = self._session.take_steered(), self._session.agent
        if steered and self._session.hooks.wants("prompt.submit"):
            async for prompt, context in self._session.hooks.passing(steered):
                self._add_user(prompt.text, prompt.attachments, context)
        else:
            for prompt in steered:
                self._add_user(prompt.text, prompt.attachments)
        self._session.queue_stored()
        if self._session.agent is not agent:
            await self._builder.prepare()
        if self._session.diagnostics.owed:
            await self._tell_late()
        if self._state.notes:
            self._add_user("", ())  # something happened meanwhile that the model should know
        if over := self._session.budget.run_over() or await self._session.budget.keep():
            return over
        # The prompt of a child is a task, too: its own.
        if self._session.parent is None and (refused := await self._run_subtasks()):
            return refused
        await self._session.compactor.make_room()
        return ""

    async def _run_subtasks(self) -> str:
        """Start the sub-agents that the user's prompts ask for; return why the turn must end, or an empty text."""
        if not (calls := calls_of(self._state.open.subtasks)):
            return ""
        self._by_user.update(call.id for call in calls)
        outcome = await self.start(calls)
        return "" if outcome.stop == "tool_use" else outcome.detail or NOT_DONE

    async def start(self, calls: Sequence[ToolCallPart]) -> StepOutcome:
        message_id = self.new_message_id()
        finish = FinishPart(reason="tool_use", time=self._services.now())
        self._record.add(
            "assistant",
            (*calls, finish),
            goal_id=self._goal_of_step,
            message_id=message_id,
            tokens=sum(map(part_tokens, calls)),
        )
        return await run_calls(self, list(calls))

    async def ask(self) -> StepOutcome:
        self._asking = True
        try:
            return await self._step()
        finally:
            self._asking = False

    def tell(self, text: str) -> None:
        self._add_user("", (), text)

    async def _tell_late(self) -> None:
        """Report late answers of language servers about edits that got no answer in time."""
        while (report := await self._session.diagnostics.late()) is not None:
            text = describe_late(report, self._services.workspace)
            self._record.notice("info", text, notice_codes.LATE_DIAGNOSTICS)

    async def _step(self) -> StepOutcome:
        self._session.budget.count_step()
        for _ in range(_OVERFLOWS):
            try:
                answer = self._fallback.stream(self._request)
                return await run_step(self, unique_call_ids(answer, self._state.call_ids.__contains__))
            except ProviderError as error:
                if error.kind != "overflow":
                    return StepOutcome("error", str(error), error.kind)
                if not await self._session.compactor.overflowed(self._sent.asked_for):
                    return StepOutcome(
                        "error", f"{error} {what_fills(self._state, self._builder)}", error.kind
                    )
        said = t("The conversation does not fit into the model's window, even after compaction.")
        return StepOutcome("error", f"{said} {what_fills(self._state, self._builder)}")

    def _request(self) -> ModelRequest:
        window = self._builder.window()
        request = self._builder.request(window)
        self._sent.estimated = self._builder.estimate(window)
        self._sent.asked_for = request.max_tokens
        self._builder.publish(window)
        self._record_prompt()
        self._sent.plan = self._state.plan.copy()
        self._sent.tools = request.tools
        return request

    def _record_prompt(self) -> None:
        """Record the system prompt when it is another one than before."""
        layers = self._builder.layers
        if layers is self._sent.layers:
            return
        event = changed_prompt(layers, self._state.system_prompt, self._id, self._services.now())
        if event is not None:
            self._record.emit(event)
        self._sent.layers = layers

    # -- StepHost --

    @property
    def diagnostics(self) -> StepDiagnostics:
        return self._session.diagnostics

    def new_message_id(self) -> str:
        """Sorts by age within the session; also marks the start of the step."""
        self._started = time.monotonic()
        self._goal_of_step = self._state.plan.current_id
        return new_message_id(self._state.take_sequence())

    def receiving(self, received: Received | None) -> None:
        self._session.turn.receive(received)
        if received is None:
            self._unfinished.stop()

    def delta(
        self, message_id: str, event: TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta
    ) -> None:
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
        self._record.delta(delta)
        if delta.kind != "tool_input":
            self._unfinished.add(delta)

    def _store_text(self, delta: Delta) -> None:
        self._record.emit(
            MessageTextAdded(
                **self._record.here(),
                message_id=delta.message_id,
                goal_id=self._goal_of_step,
                index=delta.index,
                kind="text" if delta.kind == "text" else "reasoning",
                text=delta.text,
            )
        )

    def part_done(self, message_id: str, index: int, part: Part) -> None:
        event = MessagePartAdded(
            **self._record.here(), message_id=message_id, goal_id=self._goal_of_step, index=index, part=part
        )
        self._unfinished.stored(event)
        self._record.emit(event)

    def retrying(self, message_id: str, retry: Retry | Restart, *, void: bool) -> None:
        if void:
            self._unfinished.stop()
            self._record.emit(
                MessageDiscarded(**self._record.here(), message_id=message_id, reason=retry.reason)
            )
        if isinstance(retry, Retry):
            self._record.retrying(retry)

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
        finish = FinishPart(reason=stop, time=self._services.now(), detail=detail)
        if usage is not None and (counted := usage.input + usage.cache_read + usage.cache_write):
            self._state.calibrate(counted, self._sent.estimated)
        message = self._record.add(
            "assistant",
            (*parts, finish),
            goal_id=self._goal_of_step,
            message_id=message_id,
            tokens=usage.output if usage is not None else None,
            cost=self._services.models.cost(self._model, usage) if usage is not None else None,
            usage=usage,
            model=model or self._model,
            duration_ms=int((time.monotonic() - self._started) * 1000),
        )
        self._session.budget.warn()
        return message

    def answered_nothing(self, complete: Complete) -> StepOutcome:
        """Count an answer without content, which is no message, and say why it has none."""
        self._record.answered_beside(self._model, complete, self._started)
        self._session.budget.warn()
        return self._answers.nothing(complete.detail)

    def add_result(self, result: ToolResultPart, stop: StopReason | None = None) -> None:
        """Add a result, which belongs to the goal that had the focus when its call ran.

        So a call that follows a change of focus in the same step stays when the goal before it is compacted.
        ``stop``: why the turn ends with this result.
        """
        goal_id = self._goal_of_call.pop(result.tool_call_id, self._state.plan.current_id)
        finish = (FinishPart(reason=stop, time=self._services.now()),) if stop else ()
        self._record.add_result(result, goal_id, *finish, took=self._times.end(result.tool_call_id))

    def begun(self, call_id: str) -> bool:
        """Return whether the sub-agent of a ``task`` call has started."""
        return self._state.children.started_by(call_id) is not None

    def stopped(self, call_id: str) -> ToolResult | None:
        return self._stopped.pop(call_id, None)

    def tool_started(self, call: ToolCallPart) -> None:
        if self._asking:
            return
        self._started = self._times.begin(call.id)
        self._goal_of_call[call.id] = goal_of_step(call.id) or self._state.plan.current_id
        if call.name == "bash" or call.name.startswith(OWN):
            self._services.watching.commands.expect()
        self._record.emit(ToolStarted(**self._record.here(), tool_call_id=call.id, name=call.name))

    def repeats(self, call: ToolCallPart) -> Repeat:
        if self._asking:
            return Repeat()
        repeat = self._session.turn.calls.starting(call, self._state.messages, self._state.plan)
        return Repeat(not_run=_CIRCLE) if self._driver.circling(call.name, repeat) else repeat

    def tool_context(self, call: ToolCallPart, place: CallPlace | None = None) -> ToolContext:
        permission = replace(call_permission(self._session, call), place=place)
        self._times.asks(call.id, permission.waited)
        plan = SessionPlan(
            self._state.plan,
            self._driver.record,
            lambda goal: Restorer(self._session).revert_goal(goal.id, permission),
            front=self._session.config.settings.plan.plan_front,
            seen=self._sent.plan,
        )
        context = tool_context(self._session, call, permission, plan)
        return replace(context, on_stop=partial(self._stopped.__setitem__, call.id))

    async def run_tool(self, call: ToolCallPart, context: ToolContext) -> ToolResult:
        if self._asking:
            return ToolResult(_NOT_RUN, title=t("not run"), is_error=True, metadata={"not_run": True})
        tool = self._session.policy.tools.get(call.name)
        if tool is None or not (call.id in self._by_user or belongs(self._session.policy, call.name)):
            offered = [spec.name for spec in self._builder.tool_specs()]
            words = unavailable_text(self._session.policy, call.name, offered)
            return ToolResult(words, title=t("unknown tool"), is_error=True)
        if has_changed(tool, self._sent.tools):
            return ToolResult(_CHANGED.format(name=call.name), title=t("changed"), is_error=True)
        if not self._session.rules.offered(tool.permission):
            why = rule_words(self._session.rules.decide(tool.permission, "")).rstrip(".")
            return ToolResult(
                f"Permission denied. {call.name} cannot be used now: {why}. Continue without it, or tell the user "
                "what you need it for.",
                title=t("rejected"),
                is_error=True,
                metadata={"denied": True, "rule": True, "mode": self._session.mode},
            )
        work = self._with_hooks(tool, call, context)
        if call.name == "bash":
            result = await self._session.commands.under_way.run(call.id, work, self.stopped)
        else:
            result = await work
        if (goal_id := goal_of_step(call.id)) is not None:
            self._driver.step_ended(goal_id, result)
        files = files_at_work(call.name, result)
        if not files:
            return result
        trusted = self._session.trust == "trusted"
        found = await NestedInstructions(self._services.workspace, trusted).for_files(
            files,
            self._state.given.instructions if trusted else self._state.given.untrusted_instructions,
            readable=lambda path: context.permission.decide("read", path) == "allow",
        )
        if found and not trusted:
            self._session.notify_untrusted()
        return with_instructions(result, found, trusted=trusted)

    async def _with_hooks(self, tool: AnyTool, call: ToolCallPart, context: ToolContext) -> ToolResult:
        run_tool = self._services.run_tool
        if not self._session.hooks.around(call.name):
            return await run_tool(tool, call.input, context)
        return await self._session.hooks.run_tool(
            call, lambda changed: run_tool(tool, changed.input, context)
        )

    # -- recording --

    @property
    def _model(self) -> str:
        """Return the model of the next request; a handover between two steps may change the agent and its model."""
        return self._session.model

    def _add_user(
        self, text: str, attachments: Sequence[FilePart], context: str = "", *, task: bool = False
    ) -> Message:
        if task:
            said: tuple[Part, ...] = (SubtaskPart(agent=self._session.agent.name, prompt=text),)
        else:
            said = prompt_parts(self._session, text)
        executed = not task and any(isinstance(part, SubtaskPart) for part in said)
        notes = filter(None, (notes_text(self._state.notes), context, EXECUTED if executed else ""))
        parts: tuple[Part, ...] = (*said, *attachments, *(NotePart(text=note) for note in notes))
        return self._record.add(
            "user", parts, goal_id=self._state.plan.current_id, tokens=sum(map(part_tokens, parts))
        )
