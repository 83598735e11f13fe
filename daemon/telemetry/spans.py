"""Spans of a session by the conventions for generative AI: one for each step of its tree, and one a turn. Pure.

They are made from ``StepFold``, so they cannot disagree with the step tree. Ids come from those of sessions and steps:
a session with its branches and sub-agents is one OpenTelemetry trace. A turn's spans are made when the turn ends,
because until then steps may still change their kind, place and cost. An open goal waits for its end.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from daemon.model.branches import child_id, root_of
from daemon.model.events import (
    BranchStarted,
    Event,
    MessageAdded,
    SessionCreated,
    SessionUpdated,
    SubagentStarted,
    TurnEnded,
    TurnStarted,
)
from daemon.steps.fold import StepAdded, StepFold, goal_step_id
from tools.json_access import mapping
from tools.redaction.redactor import SECRETS
from tools.text.truncate import cut_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from daemon.model.messages import Usage
    from daemon.model.steps import Step

LONGEST = 8_000
"""Characters of an attribute."""
_LONGEST_NAME = 200
_ENDED = frozenset({"completed", "failed", "skipped"})
_REQUEST = "model_request"
"""The tool name of actions that are model requests."""

Value = str | int | float | bool


class SpanRecord(Struct, frozen=True):
    """A span that has ended. Ids are those of OpenTelemetry, times nanoseconds since 1970."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    kind: Literal["client", "internal"]
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    failed: bool = False


class Measurement(Struct, frozen=True):
    """A model call, for the metrics."""

    provider: str
    model: str
    usage: Usage
    seconds: float


def otel_trace_id(session_id: str) -> int:
    """Return the id of the trace that holds the spans of a session, its branches and its sub-agents."""
    return _id(16, root_of(session_id))


def step_span_id(session_id: str, step_id: str) -> int:
    """Return the id of a step's span."""
    return _id(8, session_id, "step", step_id)


def turn_span_id(session_id: str, prompt_id: str) -> int:
    """Return the id of a turn's span."""
    return _id(8, session_id, "turn", prompt_id)


def _id(size: int, *parts: str) -> int:
    digest = hashlib.sha256("\0".join(("goalwright", *parts)).encode(errors="replace")).digest()
    return int.from_bytes(digest[:size], "big") or 1  # 0 is no valid id


class _Waiting(Struct):
    """A step without a span yet."""

    ended: datetime
    """When it changed or ended."""
    turn: int | None
    """The span of the turn in which it began."""
    provider: str


class SessionSpans:
    """The spans of one session: main session, branch or sub-agent."""

    def __init__(self, session_id: str, *, parent: int | None = None, content: bool = False) -> None:
        """``parent``: the span of the step that started this session. ``content``: texts become attributes."""
        self.fold = StepFold(session_id, cut=LONGEST if content else 200)
        self.children: dict[str, int] = {}
        """The spans that started branches and sub-agents, by the ids of their sessions."""
        self._session_id = session_id
        self._parent = parent
        self._content = content
        self._agent = ""
        self._chosen = ""
        """``provider/model`` of the last answer."""
        self._turn: TurnStarted | None = None
        self._waiting: dict[str, _Waiting] = {}

    def skip(self, event: Event) -> None:
        """Apply an event of earlier times: its steps have spans already, except goals that are open."""
        self.apply(event)
        tree = self.fold.tree
        for step_id in list(self._waiting):
            step = tree.get(step_id)
            if step is None or step.step_type != "goal" or step.status in _ENDED:
                del self._waiting[step_id]

    def apply(self, event: Event, model: str = "") -> list[SpanRecord]:
        """Apply an event; return the spans that are complete now. ``model``: ``provider/model`` in force."""
        self._chosen = model or self._chosen
        if isinstance(event, TurnStarted):
            self._turn = event
        elif isinstance(event, SessionCreated):
            self._agent = event.trace.agent
        for change in self.fold.apply(event):
            step_id = change.step.step_id if isinstance(change, StepAdded) else change.step_id
            if isinstance(change, StepAdded):
                provider = self._chosen.partition("/")[0]
                self._waiting[step_id] = _Waiting(event.time, self._turn_span(), provider)
            elif step_id in self._waiting and "status" in change.updates:
                self._waiting[step_id].ended = event.time
        self._note_child(event)
        if not isinstance(event, TurnEnded):
            return []
        spans = [*self._complete(all_of_them=False), *self._turn_record(event)]
        self._turn = None
        return spans

    def rest(self) -> list[SpanRecord]:
        """Return the spans of all steps that have none yet, as they are: the session is closed."""
        return list(self._complete(all_of_them=True))

    # -- internals --

    def _turn_span(self) -> int | None:
        return self._parent if self._turn is None else turn_span_id(self._session_id, self._turn.prompt_id)

    def _note_child(self, event: Event) -> None:
        if isinstance(event, SubagentStarted):
            step_id = self.fold.action_of(event.subagent.tool_call_id)
            child = child_id(self._session_id, event.subagent.id)
        elif isinstance(event, BranchStarted):
            step_id, child = goal_step_id(event.explore_start_id), child_id(self._session_id, event.branch.id)
        else:
            return
        known = step_id is not None and self.fold.tree.get(step_id) is not None
        span = step_span_id(self._session_id, step_id) if known and step_id is not None else self._turn_span()
        if span is not None:
            self.children[child] = span

    def _complete(self, *, all_of_them: bool) -> Iterator[SpanRecord]:
        for step_id, waiting in list(self._waiting.items()):
            step = self.fold.tree.get(step_id)
            if step is not None and (all_of_them or step.status in _ENDED):
                yield self._step_record(step, waiting)
                del self._waiting[step_id]

    def _step_record(self, step: Step, waiting: _Waiting) -> SpanRecord:
        parent = waiting.turn
        if step.parent_id is not None:
            parent = step_span_id(self._session_id, step.parent_id)
        start, end = _ns(step.created_at), max(_ns(waiting.ended), _ns(step.created_at))
        is_chat = step.step_type in ("thought", "response") or step.data.get("tool_name") == _REQUEST
        if is_chat:  # the step is made when the answer has come
            end = _ns(step.created_at)
            start = end - (step.duration_ms or 0) * 1_000_000
        name, attributes = self._chat(step, waiting.provider) if is_chat else self._other(step)
        shared: dict[str, Value] = {
            "gen_ai.conversation.id": root_of(self._session_id),
            "goalwright.session.id": self._session_id,
            "goalwright.step.id": step.step_id,
            "goalwright.step.type": step.step_type,
            "goalwright.step.status": step.status,
            "goalwright.step.sequence": step.sequence,
        }
        if step.tokens is not None:
            shared["goalwright.step.tokens"] = step.tokens
        if step.cost is not None:
            shared["goalwright.step.cost_usd"] = step.cost
        if self._content:
            shared["goalwright.step.description"] = step.description
        failed = step.status == "failed"
        if failed:
            shared["error.type"] = "failed"
        return SpanRecord(
            otel_trace_id(self._session_id),
            step_span_id(self._session_id, step.step_id),
            parent,
            _text(name, _LONGEST_NAME),
            "client" if is_chat else "internal",
            start,
            end,
            _cleaned(shared | attributes),
            failed,
        )

    def _chat(self, step: Step, provider: str) -> tuple[str, dict[str, Value]]:
        model = str(step.data.get("model") or "") or self._chosen.partition("/")[2]
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        usage = mapping(step.data.get("usage"))
        if usage:
            counts = {name: value for name, value in usage.items() if isinstance(value, int)}
            cached, written = counts.get("cache_read", 0), counts.get("cache_write", 0)
            attributes |= {
                "gen_ai.usage.input_tokens": counts.get("input", 0) + cached + written,
                "gen_ai.usage.output_tokens": counts.get("output", 0),
                "gen_ai.usage.cache_read.input_tokens": cached,
                "gen_ai.usage.cache_creation.input_tokens": written,
            }
        if self._content and isinstance(said := step.data.get("content"), str):
            parts = [{"type": "text", "content": cut_text(said, LONGEST // 2)}]
            attributes["gen_ai.output.messages"] = _json([{"role": "assistant", "parts": parts}])
        return f"chat {model}".rstrip(), attributes

    def _other(self, step: Step) -> tuple[str, dict[str, Value]]:
        if step.step_type not in ("action", "result"):
            return step.step_type, {}
        tool = str(step.data.get("tool_name") or "")
        attributes: dict[str, Value] = {"gen_ai.tool.name": tool}
        if isinstance(call := step.data.get("tool_call_id"), str):
            attributes["gen_ai.tool.call.id"] = call
        if step.step_type == "result":
            if self._content:
                attributes["gen_ai.tool.call.result"] = str(step.data.get("output") or "")
            return f"result {tool}", attributes
        attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = _json(step.data.get("arguments"))
        return f"execute_tool {tool}", attributes

    def _turn_record(self, event: TurnEnded) -> Iterator[SpanRecord]:
        turn = self._turn
        if turn is None:
            return
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": self._chosen.partition("/")[0],
            "gen_ai.request.model": self._chosen.partition("/")[2],
            "gen_ai.agent.name": self._agent,
            "gen_ai.conversation.id": root_of(self._session_id),
            "goalwright.session.id": self._session_id,
            "goalwright.turn.stop_reason": event.stop_reason,
        }
        failed = event.stop_reason == "error"
        if failed:
            attributes["error.type"] = event.error_kind or "error"
        yield SpanRecord(
            otel_trace_id(self._session_id),
            turn_span_id(self._session_id, turn.prompt_id),
            self._parent,
            _text(f"invoke_agent {self._agent}".rstrip(), _LONGEST_NAME),
            "internal",
            _ns(turn.time),
            max(_ns(event.time), _ns(turn.time)),
            _cleaned(attributes),
            failed,
        )


def measured(event: Event, model: str) -> Measurement | None:
    """Return the model call that an event reports, if it does. ``model``: ``provider/model`` in force."""
    provider, _, name = model.partition("/")
    if isinstance(event, MessageAdded) and event.message.usage is not None:
        message = event.message
        took = (message.duration_ms or 0) / 1000
        return Measurement(provider, message.model or name, event.message.usage, took)
    if isinstance(event, SessionUpdated) and event.usage is not None:
        provider, _, name = (event.model or model).partition("/")
        return Measurement(provider, name, event.usage, (event.duration_ms or 0) / 1000)
    return None


def _ns(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000) * 1000


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _text(text: str, limit: int) -> str:
    # A secret must not be cut before it is recognised; the rest of a cut one might not be.
    return cut_text(SECRETS.text(text), limit).encode("utf-8", "replace").decode()


def _cleaned(attributes: dict[str, Value]) -> dict[str, Value]:
    """Return the attributes without secrets, of limited length, and without empty ones."""
    return {
        name: _text(value, LONGEST) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value != ""
    }
