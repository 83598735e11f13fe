"""How each wire says it: Anthropic Messages, OpenAI chat completions and responses, Ollama, and two clouds'."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from tests.support.fakes import cloud_wires
from tests.support.fakes.model_replies import Reply

Json = dict[str, Any]
Wire = Literal["anthropic", "openai", "responses", "ollama", "bedrock", "google"]

PATHS: dict[str, Wire] = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai",
    "/chat/completions": "openai",
    "/v1/responses": "responses",
    "/responses": "responses",
    "/api/chat": "ollama",
}
_ENDINGS: dict[str, Wire] = {
    # Azure's address has the deployment in its middle.
    "/chat/completions": "openai",
    "/converse-stream": "bedrock",
    ":streamGenerateContent": "google",
}
_FINISH = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}


def wire_of(path: str) -> Wire | None:
    """Return the wire of a request to this path; None when it is no call of a model."""
    return PATHS.get(path) or next((wire for end, wire in _ENDINGS.items() if path.endswith(end)), None)


def frames(wire: Wire, reply: Reply, usage: Json, number: int, request: Json) -> list[bytes]:
    """The whole answer in pieces that each make sense alone. ``number`` makes ids unique."""
    model = str(request.get("model") or "fake")
    match wire:
        case "anthropic":
            return [_event(name, data) for name, data in _anthropic(reply, usage, number, model)]
        case "openai":
            chunks = [_data(chunk) for chunk in _openai(reply, usage, number, model, request)]
            return [*chunks, b"data: [DONE]\n\n"]
        case "responses":
            return [_event(str(data["type"]), data) for data in _responses(reply, usage, number, model)]
        case "bedrock":
            return cloud_wires.bedrock(reply, usage, number)
        case "google":
            return [_data(chunk) for chunk in cloud_wires.google(reply, usage)]
        case "ollama":
            return [json.dumps(line).encode() + b"\n" for line in _ollama(reply, usage, model)]


def content_type(wire: Wire) -> str:
    """Return the content type of a streamed answer."""
    others = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}
    return others.get(wire, "text/event-stream; charset=utf-8")


def error_body(wire: Wire, error_type: str, message: str, status: int = 400) -> Json:
    """The JSON of an error answer."""
    if wire == "bedrock":
        return cloud_wires.bedrock_error(error_type, message)
    if wire == "google":
        return cloud_wires.google_error(status, error_type, message)
    if wire == "anthropic":
        return {"type": "error", "error": {"type": error_type, "message": message}, "request_id": "req_fake"}
    if wire == "ollama":
        return {"error": message}
    return {"error": {"message": message, "type": error_type, "param": None, "code": error_type}}


def error_frame(wire: Wire, reply: Reply) -> bytes:
    """An error in the middle of a stream."""
    body = error_body(wire, reply.error_type, reply.error_message)
    if wire == "anthropic":
        return _event("error", body)
    return json.dumps(body).encode() + b"\n" if wire == "ollama" else _data(body)


def malformed_frame(wire: Wire) -> bytes:
    """A frame whose JSON breaks off."""
    broken = b'{"type": "content_block_delta", "choices": [{"delta": {"con'
    if wire == "ollama":
        return broken + b"\n"
    return b"event: content_block_delta\ndata: " + broken + b"\n\n"


def unknown_frame(wire: Wire) -> bytes:
    """Something a client of today cannot know and must step over."""
    if wire == "anthropic":
        return _event("sparkle", {"type": "sparkle", "shine": 3})
    return b": a comment\n\n" if wire != "ollama" else b""


def _event(name: str, data: Json) -> bytes:
    return f"event: {name}\n".encode() + _data(data)


def _data(data: Json) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _anthropic(reply: Reply, usage: Json, number: int, model: str) -> Iterator[tuple[str, Json]]:
    message: Json = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    start = {"stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": message | start}
    yield "ping", {"type": "ping"}
    for index, (block, deltas) in enumerate(_blocks(reply, number)):
        at = {"index": index}
        yield "content_block_start", {"type": "content_block_start", **at, "content_block": block}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", **at, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", **at}
    stop = {"stop_reason": reply.stop, "stop_sequence": None, "stop_details": reply.stop_details}
    out = {"output_tokens": usage["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": stop, "usage": out}
    yield "message_stop", {"type": "message_stop"}


def _blocks(reply: Reply, number: int) -> Iterator[tuple[Json, list[Json]]]:
    if reply.reasoning:
        deltas: list[Json] = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.reasoning, reply.chunk)
        ]
        deltas.append({"type": "signature_delta", "signature": f"signature-{number}"})
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if reply.redacted:
        yield {"type": "redacted_thinking", "data": reply.redacted}, []
    if reply.text:
        pieces = _pieces(reply.text, reply.chunk)
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
    for at, call in enumerate(reply.tool_calls):
        block: Json = {
            "type": "tool_use",
            "id": call.id or f"toolu_{number}_{at}",
            "name": call.name,
            "input": {},
        }
        pieces = ["", *_pieces(call.json(), reply.chunk)]
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _openai(reply: Reply, usage: Json, number: int, model: str, request: Json) -> Iterator[Json]:
    base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(reply.reasoning, reply.chunk):
        yield chunk({reply.reasoning_name: piece})
    for piece in _pieces(reply.text, reply.chunk):
        yield chunk({"content": piece})
    for at, call in enumerate(reply.tool_calls):
        head: Json = {"index": at, "type": "function"}
        if not reply.no_ids:
            head["id"] = call.id or f"call_{number}_{at}"
        if reply.whole_calls:
            function = {"name": call.name, "arguments": call.json()}
            yield chunk({"tool_calls": [head | {"function": function}]})
            continue
        yield chunk({"tool_calls": [head | {"function": {"name": call.name, "arguments": ""}}]})
        for piece in _pieces(call.json(), reply.chunk):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield chunk({}, _FINISH.get(reply.stop, "stop"))
    options: Json = request.get("stream_options") or {}
    if options.get("include_usage"):
        read = usage["cache_read_input_tokens"]
        given = usage["input_tokens"] + usage["cache_creation_input_tokens"] + read
        counts = {
            "prompt_tokens": given,
            "completion_tokens": usage["output_tokens"],
            "total_tokens": given + usage["output_tokens"],
            "prompt_tokens_details": {"cached_tokens": read},
        }
        yield base | {"choices": [], "usage": counts}


def _responses(reply: Reply, usage: Json, number: int, model: str) -> Iterator[Json]:
    base = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": model}
    base |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None}
    items: list[Json] = []
    sequence = iter(range(1_000_000))

    def event(kind: str, **data: Any) -> Json:
        return {"type": kind, "sequence_number": next(sequence), **data}

    yield event("response.created", response=base | {"status": "in_progress", "output": []})
    if reply.text:
        item = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "in_progress"}
        at = {"output_index": len(items), "item_id": item["id"], "content_index": 0}
        yield event("response.output_item.added", output_index=len(items), item=item | {"content": []})
        part: Json = {"type": "output_text", "text": "", "annotations": []}
        yield event("response.content_part.added", **at, part=part)
        for piece in _pieces(reply.text, reply.chunk):
            yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
        yield event("response.output_text.done", **at, text=reply.text, logprobs=[])
        items.append(item | {"status": "completed", "content": [part | {"text": reply.text}]})
        yield event("response.output_item.done", output_index=len(items) - 1, item=items[-1])
    for number_of_call, call in enumerate(reply.tool_calls):
        ident = call.id or f"call_{number}_{number_of_call}"
        kind, what, event_name = (
            ("custom_tool_call", "input", "custom_tool_call_input")
            if call.custom
            else ("function_call", "arguments", "function_call_arguments")
        )
        item = {"id": f"fc_{ident}", "type": kind, "call_id": ident, "name": call.name}
        at = {"output_index": len(items), "item_id": item["id"]}
        yield event("response.output_item.added", output_index=len(items), item=item | {what: ""})
        for piece in _pieces(call.json(), reply.chunk):
            yield event(f"response.{event_name}.delta", **at, delta=piece)
        done = {what: call.json()} if call.custom else {what: call.json(), "name": call.name}
        yield event(f"response.{event_name}.done", **at, **done)
        items.append(item | {what: call.json(), "status": "completed"})
        yield event("response.output_item.done", output_index=len(items) - 1, item=items[-1])
    given = usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
    counts = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": usage["cache_read_input_tokens"]},
        "output_tokens": usage["output_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + usage["output_tokens"],
    }
    whole = base | {"status": "completed", "output": items, "usage": counts}
    yield event("response.completed", response=whole)


def _ollama(reply: Reply, usage: Json, model: str) -> Iterator[Json]:
    base = {"model": model, "created_at": "2026-11-01T00:00:00.000Z"}

    def line(**message: Any) -> Json:
        return base | {"message": {"role": "assistant", "content": "", **message}, "done": False}

    for piece in _pieces(reply.reasoning, reply.chunk):
        yield line(thinking=piece)
    for piece in _pieces(reply.text, reply.chunk):
        yield line(content=piece)
    for call in reply.tool_calls:
        arguments = json.loads(call.json())
        yield line(tool_calls=[{"function": {"name": call.name, "arguments": arguments}}])
    given = usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
    counts = {"prompt_eval_count": given, "eval_count": usage["output_tokens"]}
    reason = "length" if reply.stop == "max_tokens" else "stop"
    yield line() | {"done": True, "done_reason": reason} | counts
