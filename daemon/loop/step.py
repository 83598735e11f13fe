"""One step: a model call, then its tools in order."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from daemon.deltas import Deltas
from daemon.loop.loop_detection import Repeat
from daemon.loop.parallel_calls import (
    HOW_FAR,
    NOT_BEGUN,
    TOGETHER,
    InOrder,
    edits,
    parallel_group,
    run_in_parallel,
)
from daemon.model.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    StopReason,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    whole_characters,
)
from daemon.permission.service import CallPlace
from daemon.provider.model_calls import (
    Complete,
    PartStop,
    ProviderError,
    ProviderEvents,
    ReasoningDelta,
    Restart,
    Retry,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from daemon.provider.partial_answer import PartialAnswer
from daemon.store.trace_store import StoreError
from tools.access import suggestions
from tools.localization import n, t
from tools.text.truncate import cut_text
from tools.tool import Approval, PermissionAsk, PermissionDeniedError, ToolContext, ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from daemon.loop.step_diagnostics import StepDiagnostics
    from daemon.model.events import Delta, Event

log = logging.getLogger(__name__)

_NOT_RUN = "Not run: canceled by the user."
_CUT_OFF = "Not run: your response was cut off before the call was complete."
_AFTER_REFUSAL = "Permission denied: not run because the call before it was rejected."
_AFTER = {"after_rejection": True}
_LONG_PART = 32_000
"""Characters. A longer part is not stored on its own when the whole message follows at once."""


class StepHost(Protocol):
    """The interface of the session that a step needs."""

    @property
    def diagnostics(self) -> StepDiagnostics: ...
    def new_message_id(self) -> str: ...
    def receiving(self, received: Received | None) -> None: ...
    def delta(
        self, message_id: str, event: TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta
    ) -> None: ...
    def part_done(self, message_id: str, index: int, part: Part) -> None: ...
    def retrying(self, message_id: str, retry: Retry | Restart, *, void: bool) -> None: ...
    def add_assistant(
        self,
        message_id: str,
        parts: tuple[Part, ...],
        stop: StopReason,
        *,
        detail: str = "",
        usage: Usage | None = None,
        model: str | None = None,
    ) -> Message: ...
    def answered_nothing(self, complete: Complete) -> StepOutcome: ...
    def add_result(self, result: ToolResultPart, stop: StopReason | None = None) -> None: ...
    def begun(self, call_id: str) -> bool: ...
    def stopped(self, call_id: str) -> ToolResult | None: ...
    def tool_started(self, call: ToolCallPart) -> None: ...
    def repeats(self, call: ToolCallPart) -> Repeat: ...
    def tool_context(self, call: ToolCallPart, place: CallPlace | None = None) -> ToolContext: ...
    async def run_tool(self, call: ToolCallPart, context: ToolContext) -> ToolResult: ...


class StepOutcome(Struct, frozen=True):
    """The reason for which the step ended; ``tool_use`` means that every call has its result and the loop continues."""

    stop: StopReason
    detail: str = ""
    error_kind: str = ""
    """The kind of ``ProviderError`` that ended it; empty: none."""


class Received(PartialAnswer):
    """The part of a message that has arrived: for clients that join, and in case the rest never comes."""

    def __init__(self, message_id: str) -> None:
        super().__init__()
        self.message_id = message_id
        self._halves: dict[int, str] = {}

    def whole(self, event: TextDelta | ReasoningDelta) -> str:
        """Return the text to show for a delta, without half characters.

        The first half of a surrogate pair waits for the next delta. The shown text must be the beginning of the stored
        part, because clients redraw a part that differs.
        """
        text = self._halves.pop(event.index, "") + event.text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[event.index] = text[-1]
            text = text[:-1]
        return whole_characters(text)

    def clear(self) -> None:
        """Forget everything: the call is made again from the start."""
        super().clear()
        self._halves.clear()


async def run_step(host: StepHost, stream: ProviderEvents) -> StepOutcome:
    """Run one model call and its tools. Cancellation keeps received parts and answers every call."""
    received = Received(host.new_message_id())
    message_id = received.message_id
    host.receiving(received)
    try:
        complete = await _receive(host, stream, received)
    except asyncio.CancelledError:
        _keep_partial(host, received, "canceled", "Canceled by the user.")
        raise
    except ProviderError as error:
        if error.kind == "overflow" and not received.parts():
            raise
        _keep_partial(host, received, "error", str(error))
        return StepOutcome("error", str(error), error.kind)
    finally:
        host.receiving(None)
    calls = [part for part in complete.parts if isinstance(part, ToolCallPart)]
    stop: StopReason = complete.stop_reason
    # Some servers send "stop" although there are calls to answer. A refusal or a content filter gives a reason.
    if calls and stop == "end_turn" and not complete.detail:
        stop = "tool_use"
    if not calls and stop == "tool_use":
        stop = "end_turn"
    if not complete.parts and not calls:
        return host.answered_nothing(complete)
    message = host.add_assistant(
        message_id, complete.parts, stop, detail=complete.detail, usage=complete.usage, model=complete.model
    )
    if stop == "tool_use":
        return await run_calls(host, message.tool_calls())
    # Cut off by max_tokens, or stopped by the provider: the arguments may be incomplete, so nothing is run.
    _refuse(host, calls, _CUT_OFF)
    return StepOutcome(stop, complete.detail)


async def _receive(host: StepHost, stream: ProviderEvents, received: Received) -> Complete:
    held: PartStop | None = None
    # The HTTP request must not outlive the step, also when the loop is left early.
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, Complete):
                return event
            if isinstance(event, Retry | Restart):
                held = None
                void = received.parts() != ()
                received.clear()
                host.retrying(received.message_id, event, void=void)
                continue
            received.add(event)
            if held is not None:
                host.part_done(received.message_id, held.index, held.part)
                held = None
            if isinstance(event, PartStop):
                part = event.part
                if isinstance(part, TextPart | ReasoningPart) and len(part.text) > _LONG_PART:
                    held = event  # mostly the last part, which the following message contains: the log stores it once
                else:
                    host.part_done(received.message_id, event.index, event.part)
            elif isinstance(event, ToolCallStart | ToolCallDelta):
                host.delta(received.message_id, event)
            elif text := received.whole(event):
                host.delta(received.message_id, replace(event, text=text))
    raise ProviderError("malformed", t("The model's response ended before it was complete. Try again."))


def _keep_partial(host: StepHost, received: Received, stop: StopReason, detail: str) -> None:
    # Reasoning without its signature cannot be sent back, and alone is useless to the user.
    parts = received.parts()
    if not any(isinstance(part, TextPart | ToolCallPart) for part in parts):
        return
    message = host.add_assistant(received.message_id, parts, stop, detail=detail)
    _refuse(host, message.tool_calls(), f"Not run: your response was cut off. {detail}")


async def run_calls(host: StepHost, calls: list[ToolCallPart]) -> StepOutcome:
    """Run the calls of one message, in order; each has its result then, also when the turn is canceled."""
    position = 0
    while position < len(calls):
        call, group = calls[position], parallel_group(calls, position)
        host.diagnostics.before(calls, position)
        position += len(group)
        if len(group) > 1:
            run = _run_edits if edits(group) else _run_group
            outcome = await run(host, group, calls[position:])
            if outcome.stop != "tool_use":
                return outcome
            continue
        try:
            result = await _answer(host, call)
        except asyncio.CancelledError:
            host.diagnostics.leave()
            host.add_result(_canceled(host, call))
            _refuse(host, calls[position:], _NOT_RUN)
            raise
        except PermissionDeniedError as denied:
            return await _denied(host, calls[position - 1 :], denied)
        host.add_result(result)
    return StepOutcome("tool_use")


async def _run_group(
    host: StepHost, group: Sequence[ToolCallPart], rest: Sequence[ToolCallPart]
) -> StepOutcome:
    """Run calls at the same time; ``rest`` follow in the message, and are answered when they cannot run any more."""
    noes: dict[str, PermissionDeniedError] = {}

    async def run(at: int, again: bool) -> ToolResultPart:
        try:
            return await _answer(host, group[at], again=again)
        except PermissionDeniedError as denied:
            noes[group[at].id] = denied
            return _rejected(group[at], denied)

    return await _together(host, group, rest, run, noes)


async def _together(
    host: StepHost,
    group: Sequence[ToolCallPart],
    rest: Sequence[ToolCallPart],
    run: Callable[[int, bool], Awaitable[ToolResultPart]],
    noes: Mapping[str, PermissionDeniedError],
) -> StepOutcome:
    """Have a group of calls ``run``, and answer the ``rest``; ``noes`` are the rejections by the user, by call."""

    def add(result: ToolResultPart) -> None:
        denied = noes.get(result.tool_call_id)
        host.add_result(result, None if denied is None else _stop(denied))

    try:
        await run_in_parallel(group, run, add, canceled=lambda call: _canceled(host, call))
    except asyncio.CancelledError:
        host.diagnostics.leave()
        _refuse(host, rest, _NOT_RUN)
        raise
    first = next((noes[call.id] for call in group if call.id in noes), None)
    if first is None:
        return StepOutcome("tool_use")
    _refuse(host, rest, _AFTER_REFUSAL, {"denied": True, **_AFTER})
    return _outcome(first)


class _Edit(Struct, frozen=True):
    """One of several edits that are asked about together."""

    host: StepHost
    calls: Sequence[ToolCallPart]
    position: int
    order: InOrder
    noes: Mapping[str, PermissionDeniedError]
    """Rejections by the user among the earlier calls."""

    async def asking(self) -> None:
        await self.order.asking(self.position)

    async def allowed(self, approval: Approval) -> None:
        await self.turn()
        if self.noes and not approval.asked:
            raise PermissionDeniedError(_AFTER_REFUSAL, metadata=_AFTER)

    async def turn(self) -> None:
        """Wait for the calls before, and let the diagnostics know that this one is next."""
        await self.order.turn(self.position)
        if self.position > 0:  # the user knows the first one, and its baseline may be in progress
            self.host.diagnostics.before(self.calls, self.position)


async def _run_edits(
    host: StepHost, group: Sequence[ToolCallPart], rest: Sequence[ToolCallPart]
) -> StepOutcome:
    """Ask about edits of different files together, and write them in order; ``rest`` as for ``_run_group``."""
    order = InOrder(len(group))
    calls = [*group, *rest]
    noes: dict[str, PermissionDeniedError] = {}

    async def run(at: int, again: bool) -> ToolResultPart:
        call = group[at]
        place = _Edit(host, calls, at, order, noes)
        try:
            try:
                result = await _permitted(
                    host, call, again=again, place=CallPlace(place.asking, place.allowed)
                )
            except PermissionDeniedError as denied:
                if denied.reason == _AFTER_REFUSAL:
                    result = _refused(call, _AFTER_REFUSAL, {"denied": True, **_AFTER})
                else:
                    noes[call.id] = denied
                    result = _rejected(call, denied)
            await place.turn()
            # The last call may be refused, and still reports on what those before it changed.
            return await host.diagnostics.after(result, last=call.id in noes)
        finally:
            order.end(at)

    outcome = await _together(host, group, rest, run, noes)
    if not outcome.detail or len(noes) < 2:
        return outcome
    more = n(
        "{detail} One more edit was rejected, too.",
        "{detail} {count} more edits were rejected, too.",
        len(noes) - 1,
        detail=outcome.detail,
    )
    return replace(outcome, detail=more)


async def _answer(host: StepHost, call: ToolCallPart, *, again: bool = False) -> ToolResultPart:
    """Run one call and check the diagnostics of its writes. Raises PermissionDeniedError as ``_permitted`` does."""
    return await host.diagnostics.after(await _permitted(host, call, again=again))


async def _permitted(
    host: StepHost, call: ToolCallPart, *, again: bool, place: CallPlace | None = None
) -> ToolResultPart:
    """Run one call. Raises PermissionDeniedError when the user rejects it; a rule's rejection is a result."""
    try:
        return await _run_one(host, call, again=again, place=place)
    except PermissionDeniedError as denied:
        if not denied.by_rule:
            raise
        metadata = {"denied": True, "rule": True, **denied.metadata}
        return _refused(call, f"Permission denied. {denied.reason}", metadata)


async def _run_one(
    host: StepHost, call: ToolCallPart, *, again: bool, place: CallPlace | None
) -> ToolResultPart:
    context = host.tool_context(call, place)
    host.tool_started(call)
    repeat = Repeat() if again else host.repeats(call)
    if repeat.not_run:
        return _refused(call, repeat.not_run)
    if repeat.title:
        await context.permission.ask(
            PermissionAsk(
                permission="doom_loop",
                targets=(call.name,),
                title=repeat.title,
                suggestions=suggestions("doom_loop", (call.name,)),
                detail=_repeated(call),
            )
        )
    result = await host.run_tool(call, context)
    return ToolResultPart(
        tool_call_id=call.id,
        name=call.name,
        content=f"{result.content}\n\n{repeat.note}" if repeat.note else result.content,
        metadata=dict(result.metadata),
        is_error=result.is_error,
        title=result.title,
        images=tuple(
            FilePart(name=f"image {n}", media_type=image.media_type, data=image.data)
            for n, image in enumerate(result.images, 1)
        ),
    )


def _repeated(call: ToolCallPart) -> str:
    """Return what identifies a repetition: the command without the model's comment, or the arguments."""
    return cut_text(call.argument("command") or call.input, 20_000)


async def _denied(host: StepHost, calls: list[ToolCallPart], denied: PermissionDeniedError) -> StepOutcome:
    """Answer this and the later calls of the step after the user's rejection; feedback lets the loop continue."""
    answer = _rejected(calls[0], denied)
    try:
        answer = await host.diagnostics.after(answer, last=True)
    except asyncio.CancelledError:
        host.diagnostics.leave()
        raise
    finally:
        host.add_result(answer, _stop(denied))
        _refuse(host, calls[1:], _AFTER_REFUSAL, {"denied": True, **_AFTER})
    return _outcome(denied)


def _rejected(call: ToolCallPart, denied: PermissionDeniedError) -> ToolResultPart:
    wrote = f" and wrote: {denied.feedback}" if denied.feedback else "."
    said = f"Permission denied. The user rejected this call{wrote}"
    return _refused(call, said, {"denied": True, **denied.metadata})


def _stop(denied: PermissionDeniedError) -> StopReason | None:
    """Return the reason that ends the turn; None where feedback lets it continue."""
    return None if denied.feedback else "permission_denied"


def _outcome(denied: PermissionDeniedError) -> StepOutcome:
    return StepOutcome(stop, denied.reason) if (stop := _stop(denied)) else StepOutcome("tool_use")


def _canceled(host: StepHost, call: ToolCallPart) -> ToolResultPart:
    """Return the result of a canceled call: its partial one, else a note that it may have run in part."""
    stopped = host.stopped(call.id)
    if stopped is None:
        how_far = HOW_FAR if call.name != TOGETHER or host.begun(call.id) else NOT_BEGUN
        stopped = ToolResult(f"Canceled by the user. {how_far}")
    return ToolResultPart(
        tool_call_id=call.id,
        name=call.name,
        content=stopped.content,
        is_error=True,
        metadata={**stopped.metadata, "canceled": True},
        title=stopped.title or t("canceled"),
    )


def _refuse(
    host: StepHost, calls: Sequence[ToolCallPart], content: str, metadata: Mapping[str, object] | None = None
) -> None:
    for call in calls:
        host.add_result(_refused(call, content, metadata))


def _refused(
    call: ToolCallPart, content: str, metadata: Mapping[str, object] | None = None
) -> ToolResultPart:
    """Return the result of a call that was not run: rejected, with ``metadata`` about that, or not even asked about."""
    return ToolResultPart(
        tool_call_id=call.id,
        name=call.name,
        content=content,
        is_error=True,
        metadata=dict(metadata or {"not_run": True}),
        title=t("rejected") if metadata else t("not run"),
    )


# -- text that is stored while it arrives --

MOST_S = 1.0
"""Seconds that text may wait to be stored."""


class TextCheckpoints:
    """Collect the text of one session's answers and store it a second after it came, so a kill loses no more.

    Whole parts are stored when they end. This stores the unfinished part before that, in batches. A secret may be split
    between two batches, so the text goes through the same filter as live deltas.
    """

    def __init__(self, store: Callable[[Delta], None]) -> None:
        """``store`` is called on the event loop with each batch; it may raise StoreError."""
        self._store = store
        self._deltas = Deltas()
        self._waiting: list[Delta] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, delta: Delta) -> None:
        """Take more text or reasoning in."""
        self._waiting.append(delta)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOST_S, self._flush)

    def stored(self, event: Event) -> None:
        """Forget the text that ``event`` stores as a whole or makes void."""
        message_id, index = getattr(event, "message_id", None), getattr(event, "index", None)
        self._waiting = [
            delta
            for delta in self._waiting
            if delta.message_id != message_id or (index is not None and delta.index != index)
        ]
        self._deltas.stored(event)

    def stop(self) -> None:
        """Forget everything: the message is stored now, or is not wanted."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._waiting.clear()
        self._deltas = Deltas()

    def _flush(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, []
        try:
            for delta in self._deltas.told(waiting):
                self._store(delta)
        except StoreError as error:
            log.warning(
                "unfinished text is not stored: %s", error
            )  # the turn meets the same error at its next event
