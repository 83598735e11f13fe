"""Answers of the fake model server: a reply, how it misbehaves, and where replies come from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]
Fault = Literal[
    "", "error_event", "malformed", "truncate", "reset", "hang", "silent", "unknown_events", "long_event"
]
"""After ``fault_after`` frames: an ``error`` event; a frame that is no JSON; a clean end in the middle; the
connection cut; silence until the client leaves. ``silent`` answers nothing at all. ``unknown_events`` mixes
events into the stream that no client can know yet. ``long_event`` ends with 40 MB of one event."""


@dataclass(frozen=True)
class Call:
    """A tool call. ``input`` as text goes out as it is."""

    name: str
    input: Json | str = field(default_factory=dict[str, Any])
    id: str = ""
    custom: bool = False
    """Responses wire: of a tool whose input is plain text instead of JSON."""

    def json(self) -> str:
        """The arguments as text."""
        return self.input if isinstance(self.input, str) else json.dumps(self.input)


@dataclass(frozen=True)
class Reply:
    """One answer. Stop reasons and error types are Anthropic's; the other wires translate them."""

    text: str = ""
    reasoning: str = ""
    redacted: str = ""
    tool_calls: tuple[Call, ...] = ()
    stop_reason: str = ""
    stop_details: Json | None = None
    usage: Json | None = None
    """Overrides of the counts, with Anthropic's names."""
    chunk: int = 20
    """Characters in a delta."""
    delay_s: float = 0.0
    """Before each frame."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    error_type: str = "api_error"
    error_message: str = "it was told to fail"
    fault: Fault = ""
    fault_after: int = 3
    split: int = 0
    """Cut the stream into pieces of this many bytes, wherever that falls."""
    whole_calls: bool = False
    """OpenAI wire: each tool call in one delta."""
    reasoning_name: str = "reasoning_content"
    """OpenAI wire: the field that has the reasoning."""
    no_ids: bool = False
    """OpenAI wire: tool calls without ids."""

    @property
    def stop(self) -> str:
        """The stop reason, Anthropic's name."""
        return self.stop_reason or ("tool_use" if self.tool_calls else "end_turn")


ReplyLike = Reply | Json | str
Replies = Callable[[Json], ReplyLike]

_ERRORS: dict[str, tuple[int, str]] = {
    "no_key": (401, "authentication_error"),
    "auth": (401, "authentication_error"),
    "rate_limit": (429, "rate_limit_error"),
    "overloaded": (529, "overloaded_error"),
    "server": (500, "api_error"),
    "overflow": (400, "invalid_request_error"),
    "bad_request": (400, "invalid_request_error"),
}


def reply_of(value: ReplyLike) -> Reply:
    """A reply from a step of the scripted format, from the fields of ``Reply``, or from mere text."""
    if isinstance(value, Reply):
        return value
    if isinstance(value, str):
        return Reply(text=value)
    fields = {name: item for name, item in value.items() if item is not None}
    fields.pop("choices", None)
    calls = tuple(call if isinstance(call, Call) else Call(**call) for call in fields.pop("tool_calls", ()))
    delay = fields.pop("delay_ms", 0) / 1000
    error = fields.pop("error", None)
    usage = fields.pop("usage", None)
    if usage and "input" in usage:
        usage = {
            "input_tokens": usage["input"],
            "output_tokens": usage.get("output", 0),
            "cache_read_input_tokens": usage.get("cache_read", 0),
            "cache_creation_input_tokens": usage.get("cache_write", 0),
        }
    reply = Reply(tool_calls=calls, usage=usage, **{"delay_s": delay, **fields})
    return reply if error is None else _failing(reply, error)


def _failing(reply: Reply, error: Json) -> Reply:
    kind, message = error["kind"], error["message"]
    headers = {"retry-after": str(error["retry_after_s"])} if error.get("retry_after_s") is not None else {}
    if kind == "network":
        return replace(reply, fault="reset", fault_after=0)
    if kind == "malformed":
        return replace(reply, text=reply.text or message, fault="malformed")
    if kind == "overflow":
        message = f"prompt is too long: {message}"
    status, name = _ERRORS[kind]
    return replace(reply, status=status, error_type=name, error_message=message, headers=headers)


def scripted(path: Path, workspace: str) -> Callable[[Json, str], ReplyLike]:
    """Replies of a script file (``daemon.provider.scripted``).

    A turn is identified by the prompts in the request, which always stay; the steps of a turn are counted, because
    messages of finished goals do not.
    """
    from daemon.provider.scripted import load_script, next_step
    from tests.support.fakes.model_messages import prompt_messages

    answered: Counter[tuple[str, int]] = Counter()

    def choose(request: Json, wire: str) -> ReplyLike:
        messages = prompt_messages(request, wire)
        prompts = [message for message in messages if message.role == "user"]
        turn = max(0, len(prompts) - 1)
        session = str(prompts[0].content) if prompts else ""
        step = next_step(load_script(path), messages, workspace, (turn, answered[session, turn]))
        if step.error is None:
            answered[session, turn] += 1
        return step.model_dump(exclude_defaults=True)

    return choose
