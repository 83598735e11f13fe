"""The wires of two clouds: Amazon Bedrock's converse stream (binary frames), and Google's streamGenerateContent."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from tests.support.fakes.model_replies import Reply

Json = dict[str, Any]


def bedrock(reply: Reply, usage: Json, number: int) -> list[bytes]:
    """The frames of a converse stream."""
    return [_frame(name, data) for name, data in _bedrock(reply, usage, number)]


def bedrock_error(error_type: str, message: str) -> Json:
    """The JSON of an error answer; its type would be in a header."""
    return {"message": f"{error_type}: {message}"}


def google(reply: Reply, usage: Json) -> Iterator[Json]:
    """The chunks of a generated content."""
    parts = [{"text": piece, "thought": True} for piece in _pieces(reply.reasoning, reply.chunk)]
    parts += [{"text": piece} for piece in _pieces(reply.text, reply.chunk)]
    parts += [
        {"functionCall": {"name": call.name, "args": json.loads(call.json())}} for call in reply.tool_calls
    ]
    for part in parts:
        yield {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
    finish = "MAX_TOKENS" if reply.stop == "max_tokens" else "STOP"
    counts = {"promptTokenCount": usage["input_tokens"], "candidatesTokenCount": usage["output_tokens"]}
    counts["totalTokenCount"] = sum(counts.values())
    end = {"content": {"role": "model", "parts": []}, "finishReason": finish, "index": 0}
    yield {"candidates": [end], "usageMetadata": counts}


def google_error(status: int, error_type: str, message: str) -> Json:
    """The JSON of an error answer."""
    return {"error": {"code": status, "message": message, "status": error_type.upper()}}


def _bedrock(reply: Reply, usage: Json, number: int) -> Iterator[tuple[str, Json]]:
    yield "messageStart", {"role": "assistant"}
    index = 0
    for kind, text in (("reasoningContent", reply.reasoning), ("text", reply.text)):
        for piece in _pieces(text, reply.chunk):
            delta = {kind: {"text": piece} if kind == "reasoningContent" else piece}
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": delta}
        if text:
            yield "contentBlockStop", {"contentBlockIndex": index}
            index += 1
    for at, call in enumerate(reply.tool_calls):
        tool = {"toolUseId": call.id or f"tooluse_{number}_{at}", "name": call.name}
        yield "contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": tool}}
        for piece in _pieces(call.json(), reply.chunk):
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": {"toolUse": {"input": piece}}}
        yield "contentBlockStop", {"contentBlockIndex": index}
        index += 1
    yield "messageStop", {"stopReason": reply.stop}
    given, made = usage["input_tokens"], usage["output_tokens"]
    counts = {"inputTokens": given, "outputTokens": made, "totalTokens": given + made}
    yield "metadata", {"usage": counts, "metrics": {"latencyMs": 1}}


def _frame(event: str, data: Json) -> bytes:
    """One message of ``application/vnd.amazon.eventstream``."""
    named = {":event-type": event, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(_header(name, value) for name, value in named.items())
    payload = json.dumps(data).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def _header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))
