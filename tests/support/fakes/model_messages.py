"""Requests on the wire, read back: as the messages that a script is matched with, and checked as the real
servers check them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from daemon.model.messages import Part, TextPart, ToolCallPart, ToolResultPart
from daemon.provider.model_calls import PromptMessage

Json = dict[str, Any]
_OWN = re.compile(
    r"<(goal_summary|earlier_attempts|instructions)\b.*?</\1>|^(## Current Plan|Note: ).*", re.DOTALL
)
"""Text that Goalwright itself puts into user messages, which is no prompt."""


class RejectedError(Exception):
    """The request is wrong; the message is what the real server would say, as far as it is known."""


def prompt_messages(request: Json, wire: str) -> list[PromptMessage]:
    """The messages of a request. What Goalwright itself says in user messages is left out."""
    out: list[PromptMessage] = []
    for message in request["messages"]:
        role = message["role"]
        parts = _parts(message)
        if role == "assistant":
            out.append(PromptMessage("assistant", tuple(parts)))
        elif role in ("user", "tool"):
            results = tuple(part for part in parts if isinstance(part, ToolResultPart))
            said = (_OWN.sub("", part.text).strip() for part in parts if isinstance(part, TextPart))
            texts = tuple(TextPart(text=text) for text in said if text)
            if results:
                out.append(PromptMessage("tool", results))
            if texts:
                out.append(PromptMessage("user", texts))
    return out


def _parts(message: Json) -> list[Part]:
    if message["role"] == "tool":
        text = _text(message.get("content") or "")
        return [ToolResultPart(tool_call_id=message["tool_call_id"], name="", content=text)]
    parts: list[Part] = []
    for block in _content(message):
        match block["type"]:
            case "text":
                parts.append(TextPart(text=block["text"]))
            case "tool_use":
                raw = json.dumps(block["input"])
                parts.append(ToolCallPart(id=block["id"], name=block["name"], input=raw))
            case "tool_result":
                text, failed = _text(block.get("content") or ""), bool(block.get("is_error"))
                ident = block["tool_use_id"]
                parts.append(ToolResultPart(tool_call_id=ident, name="", content=text, is_error=failed))
            case _:
                pass
    for call in message.get("tool_calls") or ():
        function = call["function"]
        raw = str(function["arguments"])
        parts.append(ToolCallPart(id=str(call.get("id")), name=function["name"], input=raw))
    return parts


def _content(message: Json) -> list[Json]:
    content: Any = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _text(content: str | list[Json]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def check_anthropic(request: Json, version: str) -> None:
    """Raise RejectedError where the Messages API is known to answer 400."""
    for name in ("model", "max_tokens", "messages"):
        if name not in request:
            raise RejectedError(f"{name}: Field required")
    if version > "2023-06-01" and (found := {"temperature", "top_p", "top_k"} & request.keys()):
        raise RejectedError(f"{found.pop()}: Extra inputs are not permitted")
    messages = request["messages"]
    if not messages:
        raise RejectedError("messages: at least one message is required")
    marks = sum("cache_control" in block for block in _all_blocks(request))
    if marks > 4:
        raise RejectedError(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    _check_thinking(request)
    names = [tool["name"] for tool in request.get("tools", ())]
    if len(set(names)) != len(names):
        raise RejectedError("tools: Tool names must be unique.")
    for block in request.get("system") or ():
        _check_text(block, "system")
    if messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        raise RejectedError("messages: the conversation must begin and end with a user message")
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if index and message["role"] == messages[index - 1]["role"]:
            raise RejectedError('messages: roles must alternate between "user" and "assistant"')
        open_calls = _check_blocks(message, where, open_calls)


def _check_blocks(message: Json, where: str, open_calls: list[str]) -> list[str]:
    blocks = _content(message)
    if not blocks:
        raise RejectedError(f"{where}: content must not be empty")
    calls: list[str] = []
    results: list[str] = []
    seen_other = False
    for at, block in enumerate(blocks):
        place = f"{where}.content.{at}"
        match block["type"]:
            case "text":
                _check_text(block, place)
                seen_other = True
            case "tool_use" if message["role"] == "assistant":
                _check_call(block, place, calls)
                calls.append(block["id"])
            case "tool_result" if message["role"] == "user":
                if seen_other:
                    raise RejectedError(f"{place}: `tool_result` blocks must come first in the message")
                _check_result(block, place, open_calls)
                results.append(block["tool_use_id"])
            case "thinking" if message["role"] == "assistant":
                if not block.get("signature"):
                    raise RejectedError(f"{place}.thinking.signature: Field required")
            case "redacted_thinking" if message["role"] == "assistant":
                pass
            case "image" | "document" if message["role"] == "user":
                seen_other = True
            case kind:
                raise RejectedError(f"{place}: Input tag '{kind}' found using 'type' is not expected here")
    if blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        raise RejectedError(f"{where}: the final block in an assistant message cannot be `thinking`")
    missing = [call for call in open_calls if call not in results]
    if missing:
        raise RejectedError(
            f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in "
            "the next message."
        )
    return calls


def _check_call(block: Json, place: str, calls: list[str]) -> None:
    if not isinstance(block["input"], dict):
        raise RejectedError(f"{place}.tool_use.input: Input should be a valid dictionary")
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
        raise RejectedError(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if block["id"] in calls:
        raise RejectedError("messages: `tool_use` ids must be unique")


def _check_result(block: Json, place: str, open_calls: list[str]) -> None:
    if block["tool_use_id"] not in open_calls:
        raise RejectedError(
            f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {block['tool_use_id']}. "
            "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        )
    for inner in _content(block):
        _check_text(inner, place)


def _check_text(block: Json, where: str) -> None:
    if block["type"] == "text" and not block["text"].strip():
        raise RejectedError(f"{where}: text content blocks must be non-empty")


def _check_thinking(request: Json) -> None:
    thinking: Json = request.get("thinking") or {"type": "disabled"}
    if thinking.get("type") == "enabled":
        if thinking["budget_tokens"] < 1024:
            raise RejectedError(
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            )
        if thinking["budget_tokens"] >= request["max_tokens"]:
            raise RejectedError("`max_tokens` must be greater than `thinking.budget_tokens`.")
    elif "budget_tokens" in thinking:
        raise RejectedError(f"thinking.{thinking['type']}.budget_tokens: Extra inputs are not permitted")


def _all_blocks(request: Json) -> Iterator[Json]:
    """All blocks in the order in which the prompt cache sees them."""
    yield from request.get("tools") or ()
    system = request.get("system") or ()
    yield from () if isinstance(system, str) else system
    for message in request["messages"]:
        yield from _content(message)


class PromptCache:
    """Counts tokens as the API does with prefix caching, at four characters a token."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def count(self, request: Json) -> Json:
        """Usage of a request with Anthropic's names; remembers the prefixes up to its marks."""
        total = read = marked = 0
        prefix = 0
        fresh: list[int] = []
        for block in _all_blocks(request):
            plain = json.dumps(
                {key: item for key, item in block.items() if key != "cache_control"}, sort_keys=True
            )
            prefix = hash((prefix, plain))
            total += max(1, len(plain) // 4)
            if "cache_control" in block:
                marked = total
                fresh.append(prefix)
                if prefix in self._known:
                    read = total
        self._known.update(fresh)
        return {
            "input_tokens": total - marked,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": marked - read,
        }


def check_openai(request: Json) -> None:
    """Raise RejectedError where the chat completions API is known to answer 400."""
    open_calls: set[str] = set()
    for index, message in enumerate(request["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise RejectedError(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message "
                    "with 'tool_calls'."
                )
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            raise RejectedError(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: "
                f"{', '.join(sorted(open_calls))}"
            )
        calls = message.get("tool_calls") or ()
        if message["role"] == "assistant" and not calls and not message.get("content"):
            raise RejectedError(
                f"Invalid value for 'content': expected a string, got null. (messages[{index}])"
            )
        for call in calls:
            json.loads(call["function"]["arguments"])
            open_calls.add(call["id"])
    if open_calls:
        raise RejectedError("An assistant message with 'tool_calls' must be followed by tool messages")
