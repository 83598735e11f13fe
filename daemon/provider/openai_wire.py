"""Our messages in the shape of OpenAI's chat completions, which litellm takes for every other model. Pure.

Source: the chat completions API, and what servers that imitate it are known to be strict about.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from daemon.model.messages import FilePart, NotePart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from daemon.provider.anthropic_wire import NO_OUTPUT, file_text, safe_input
from daemon.provider.base import ModelRequest, PromptMessage, SystemBlock, ToolSpec

Json = dict[str, Any]
"""A message as JSON. Its shape is the API's, so ``Any`` is what it is."""


def to_messages(request: ModelRequest, *, replay_reasoning: bool = False) -> list[Json]:
    """The whole conversation, system prompt first and ``tail`` last.

    ``replay_reasoning``: some models want their reasoning back while they call tools; others refuse it.
    """
    out = _system(request.system)
    for message in _ordered(request.messages):
        match message.role:
            case "user":
                _add_user(out, message.content)
            case "assistant":
                out += _assistant(message, replay_reasoning)
            case "tool":
                out += [_result(part) for part in message.content if isinstance(part, ToolResultPart)]
    if request.tail.strip():
        _add_user(out, [TextPart(text=request.tail)])
    return out


def tools(specs: Iterable[ToolSpec]) -> list[Json]:
    """The tools on offer."""
    return [
        {
            "type": "function",
            "function": {"name": spec.name, "description": spec.description, "parameters": dict(spec.schema)},
        }
        for spec in specs
    ]


def _ordered(messages: Sequence[PromptMessage]) -> Iterable[PromptMessage]:
    """Images that tools returned follow as a user message: a tool message can only hold text.

    They come behind the last result, because results must stand together after the calls.
    """
    images: list[FilePart] = []
    for message in messages:
        if message.role != "tool" and images:
            yield PromptMessage("user", tuple(images))
            images = []
        yield message
        for part in message.content:
            if isinstance(part, ToolResultPart):
                images += part.images
    if images:
        yield PromptMessage("user", tuple(images))


def _system(blocks: Iterable[SystemBlock]) -> list[Json]:
    text = "\n\n".join(block.text for block in blocks if block.text.strip())
    return [{"role": "system", "content": text}] if text else []


def _add_user(out: list[Json], content: Iterable[object]) -> None:
    parts = [_user_part(part) for part in content if isinstance(part, FilePart)]
    parts += [
        {"type": "text", "text": part.text}
        for part in content
        if isinstance(part, TextPart | NotePart) and part.text.strip()
    ]
    if not parts:
        return
    # Neighbours are joined, because some models insist on alternating roles.
    if out and out[-1]["role"] == "user":
        before = out.pop()["content"]
        parts = ([{"type": "text", "text": before}] if isinstance(before, str) else before) + parts
    only_text = all(part["type"] == "text" for part in parts)
    # Mere text as a string: simple servers know nothing else, and others glue the pieces together.
    content = "\n\n".join(part["text"] for part in parts) if only_text else parts
    out.append({"role": "user", "content": content})


def _user_part(part: FilePart) -> Json:
    if part.data is None:
        return {"type": "text", "text": f"[attached by path: {part.name}]"}
    if part.media_type.startswith("image/") and part.media_type != "image/svg+xml":
        return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
    return {"type": "text", "text": file_text(part)}


def _assistant(message: PromptMessage, replay_reasoning: bool) -> list[Json]:
    text = "".join(part.text for part in message.content if isinstance(part, TextPart))
    reasoning = "".join(part.text for part in message.content if isinstance(part, ReasoningPart))
    calls = [
        {
            "id": part.id,
            "type": "function",
            "function": {"name": part.name, "arguments": json.dumps(safe_input(part), ensure_ascii=False)},
        }
        for part in message.content
        if isinstance(part, ToolCallPart)
    ]
    if not calls and not text.strip():
        return []
    out: Json = {"role": "assistant", "content": text or None}
    if calls:
        out["tool_calls"] = calls
    if replay_reasoning and reasoning:
        out["reasoning_content"] = reasoning
    return [out]


def _result(part: ToolResultPart) -> Json:
    # The API has no mark for errors; the word says it.
    marked = part.is_error and not part.content.lower().startswith("error")
    content = f"Error: {part.content}" if marked else part.content
    return {
        "role": "tool",
        "tool_call_id": part.tool_call_id,
        "content": content if content.strip() else NO_OUTPUT,
    }
