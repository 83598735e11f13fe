"""Opens a stored session, also one whose daemon was killed (source: mission M1 "Crash or kill -9 at any point").

A snapshot is trusted only when it was written at rest and the log has nothing newer; otherwise the state is
replayed from the log. Then whatever was open is closed: half messages, tool calls without a result, questions
without an answer, the turn itself.

But a turn that did nothing except wait for the person goes on, see ``waits_for_answer``: the session stays as it is
until a client is there to answer (``Session.resume``), whose settings and keys it then works with. The open calls are
planned and asked about anew, for rules, files and trust may be others by now.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from daemon.collector import COLLECTOR
from daemon.context.tokens import estimate_tokens
from daemon.loop.interrupted import Took, answer_of, close_interrupted
from daemon.loop.together import EDITS, HOW_FAR, NOT_BEGUN, TOGETHER
from daemon.model.events import MessageAdded, MessagePartAdded, MessageTextAdded, QueueChanged, TurnEnded
from daemon.model.messages import FinishPart, Part, TextPart, ToolCallPart, ToolResultPart
from daemon.permission.service import CANCELED
from daemon.plan.tree import PlanTree
from daemon.provider.call_ids import goal_of_step
from daemon.state.session_state import SessionState
from daemon.store.base import NewerFormatError, StoreError, TraceStore, UnknownTraceError
from daemon.store.beginning import MixedUpError, begun, check_id
from daemon.store.ids import MESSAGE_ID, sequence_of
from tools.localization import noted, t
from tools.redaction.redactor import is_redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.loop.record import Record

log = logging.getLogger(__name__)

_PAGE = 1000
"""Events read from a log at once."""
_RECENT = 32
"""Events at the end of a log among which the numbers of its newest messages are looked for."""
STOPPED = noted("Interrupted: Goalwright was stopped.")
LEFT_WAITING = (
    "Goalwright was stopped while this waited for an answer; it asks again when the session is opened."
)
UNSTORED = "The session could not be stored in the middle of this."


def read_state(store: TraceStore, trace_id: str, *, foreign: bool = False) -> SessionState:
    """The state of a stored session. Reads the whole trace: call it in a thread. Raises StoreError.

    ``foreign``: somebody else wrote it, so that its snapshot may show anything: only the log is read.
    """
    with COLLECTOR.building():
        return replay(store, trace_id) if foreign else _read_state(store, trace_id)


def _read_state(store: TraceStore, trace_id: str) -> SessionState:
    try:
        trace = store.trace(trace_id)
        check_id(trace.trace_id, trace_id)
        if not trace.running and trace.last_event_id == store.last_event_id(trace_id):
            carried = trace.carried
            plan = PlanTree(
                store.goal_tree(trace_id),
                last_id=carried.last_goal_id,
                replaceable=carried.replaceable_goal,
                replaced=carried.replaced_goals,
            )
            messages = store.messages(trace_id)
            if len(messages) == trace.message_count:
                return SessionState(trace, plan, messages)
            log.warning("messages of %s are missing; rebuilding from the log", trace_id)
    except (NewerFormatError, MixedUpError):
        raise
    except UnknownTraceError:
        if store.last_event_id(trace_id) == 0:
            raise
    except StoreError as error:
        log.warning("%s; rebuilding from the log", error)
    return replay(store, trace_id)


def replayed(store: TraceStore, trace_id: str) -> SessionState:
    """The state as the log tells it. Reads the whole log, and writes nothing. Raises StoreError."""
    # In pages: the whole at once would be let go of at once, too, and nothing else can run meanwhile.
    events = store.events(trace_id, limit=_PAGE)
    if not events:
        raise StoreError(
            t("The log of session {trace_id} is missing or empty: it cannot be opened.", trace_id=trace_id)
        )
    state = SessionState(begun(store, trace_id, events[0]))
    while events:
        for event in events:
            check_id(event.trace_id, trace_id)
            state.apply(event)
        events = store.events(trace_id, after=events[-1].event_id, limit=_PAGE)
    return state


def replay(store: TraceStore, trace_id: str) -> SessionState:
    """The same; messages whose file is missing are written again. Raises StoreError."""
    state = replayed(store, trace_id)
    store.restore_messages(trace_id, state.messages)
    return state


def highest_sequence(store: TraceStore, session_id: str) -> int:
    """Return the highest number of a message in a session and all below it; a message that was coming in counts.

    Reads the ends of their logs: call it in a thread. A record that cannot be read counts for nothing.
    """
    try:
        recent = store.events(session_id, after=max(0, store.last_event_id(session_id) - _RECENT))
        known = [event.message.sequence for event in recent if isinstance(event, MessageAdded)]
        known = known or [message.sequence for message in store.messages(session_id, limit=1)]
        unfinished = [
            sequence_of(event.message_id)
            for event in recent
            if isinstance(event, MessagePartAdded | MessageTextAdded)
            and MESSAGE_ID.fullmatch(event.message_id)
        ]
        below = [highest_sequence(store, child) for child in store.children(session_id)]
    except StoreError as error:
        log.warning("the messages of %s are not numbered on: %s", session_id, error)
        return 0
    return max([0, *known, *unfinished, *below])


def waits_for_answer(state: SessionState) -> bool:
    """Whether a turn that broke off stood at a question, so that going on from there repeats nothing.

    It did when the log says all of this of it:

    - a question is pending, and no message was half received;
    - either it is about the budget, which is asked between two steps, when no call is open;
    - or it is about the first call without a result and others that had begun, and since these began nothing was
      allowed (but to repeat itself: that is asked before the tool runs), no file was written and the plan was not
      changed by it. Tools ask before they act. Other calls of the message had not begun, or are edits that wait for
      the first one;
    - it was not a branch or a sub-agent that asked: they end with the daemon;
    - the arguments of the open calls are stored as they were: where a secret was taken out they are not.

    What was allowed may have happened, in part or whole: such a call is never run again by itself.
    """
    if state.turn is None or not state.turn_has_prompt or state.streaming or not state.pending:
        return False
    if any(request.branch_id is not None for request in state.pending.values()):
        return False  # a child asked, and it ended with the daemon
    open_calls = state.open_tool_calls()
    if not open_calls:
        return all(request.permission == "budget" for request in state.pending.values())
    message, first, _ = open_calls[0]
    if any(other is not message for other, _, _ in open_calls):
        return False
    ids = {call_id for _, call_id, _ in open_calls}
    asking = {request.tool_call_id for request in state.pending.values()}
    begun = {call_id: name for _, call_id, name in open_calls if call_id in state.under_way}
    return (
        first in asking
        and asking <= begun.keys() == state.under_way.keys()
        and not any(state.under_way.values())
        and all(call_id in asking or name in EDITS for call_id, name in begun.items())
        and not any(is_redacted(call.input) for call in message.tool_calls() if call.id in ids)
    )


def _exploration(state: SessionState) -> dict[str, str]:
    """The exploration that an ``explore`` call without a result had begun, as its result would name it.

    Its branches have ended with what they had done, which the user can still look at and use.
    """
    named = {
        part.metadata.get("explore_start_id")
        for message in state.messages
        for part in message.content
        if isinstance(part, ToolResultPart)
    }
    begun = [branch.explore_start_id for branch in state.children.branches.values()]
    start = next((start for start in reversed(begun) if start not in named), None)
    return {} if start is None else {"explore_start_id": start}


def close_what_is_open(
    record: Record, store: TraceStore, model: str, why: str, took: Mapping[str, Took]
) -> None:
    """Bring a session to rest after its turn broke off. Does nothing on one that is at rest. Raises StoreError.

    ``model``: of the messages that were coming in. ``took``: what children came to, see ``close_interrupted``.
    """
    state = record.state
    for message_id in list(state.streaming):
        parts = state.parts_so_far(message_id)
        if any(isinstance(part, TextPart | ToolCallPart) for part in parts):
            goal_id = next(iter(state.streaming[message_id].values())).goal_id
            _close_message(record, message_id, parts, goal_id, model, why)
        else:
            state.streaming.pop(message_id)
    close_interrupted(record, store, took)
    for message, call_id, name in state.open_tool_calls():
        goal_id = goal_of_step(call_id)
        if (
            goal_id is not None
            and (meta := state.children.started_by(call_id))
            and meta.status == "completed"
        ):
            # Only its answer is missing in the record: a step of the plan that is done is not to be done again.
            _close_call(record, answer_of(meta, record), goal_id)
            for change in state.plan.step_done(goal_id, meta.summary):
                record.goal(change)
            continue
        how_far = HOW_FAR if name != TOGETHER or state.children.began(call_id) else NOT_BEGUN
        interrupted = ToolResultPart(
            tool_call_id=call_id,
            name=name,
            content=f"Interrupted: {why.removeprefix('Interrupted: ')} {how_far}",
            is_error=True,
            metadata={"not_run": True, **(_exploration(state) if name == "explore" else {})},
            title=t("interrupted"),
        )
        _close_call(record, interrupted, goal_id or message.goal_id)
    for request in list(state.pending.values()):
        record.replied(request, CANCELED)
    if state.turn is not None:
        if state.turn_has_prompt:
            # It was taken from the queue, and only the note of that is missing.
            queue = tuple(prompt for prompt in state.queue if prompt.prompt_id != state.turn)
            if queue != state.queue:
                record.emit(QueueChanged(trace_id=record.session_id, time=record.now(), queue=queue))
        record.emit(
            TurnEnded(
                trace_id=record.session_id,
                time=record.now(),
                prompt_id=state.turn,
                stop_reason="error",
                detail=t(why),
            )
        )
        record.completed()
        record.snapshot()


def _close_message(
    record: Record, message_id: str, parts: tuple[Part, ...], goal_id: str | None, model: str, why: str
) -> None:
    finish = FinishPart(reason="error", time=record.now(), detail=why)
    record.add("assistant", (*parts, finish), goal_id=goal_id, message_id=message_id, model=model)


def _close_call(record: Record, result: ToolResultPart, goal_id: str | None) -> None:
    plan = record.state.plan
    if goal_id is not None and goal_id not in plan.goals:
        goal_id = plan.current_id  # the call itself took it out of the plan
    record.add(
        "tool",
        (result,),
        goal_id=goal_id,
        tool_call_id=result.tool_call_id,
        tokens=estimate_tokens(result.content),
    )
