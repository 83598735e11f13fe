"""Our messages in the shape of OpenAI's chat completions, which litellm takes for every other model. Pure.

Source: the chat completions API, and what servers that imitate it are known to be strict about.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.model.messages import FilePart, Part, TextPart, ToolResultPart
from daemon.provider.anthropic_wire import NO_OUTPUT, file_text, path_text, safe_input
from daemon.provider.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.provider.model_calls import ModelRequest, PromptMessage, SystemBlock, ToolSpec

Json = dict[str, Any]
"""A message as JSON in the API's shape, hence ``Any``."""


def to_messages(request: ModelRequest, *, replay_reasoning: bool = False) -> list[Json]:
    """Return the whole conversation, system prompt first and ``tail`` last.

    ``replay_reasoning``: some models require their reasoning back while they call tools; others reject it.
    """
    out = _system(request.system)
    said: list[Json] = []
    images: list[Json] = []
    for message in request.messages:
        known = _known.get(message, _message)
        if message.role == "tool":
            if said:
                _add_user(out, said)
            out += [made.copy() for made in known.messages]
            images += known.images
            continue
        # Images that tools returned follow as a user message: a tool message can only contain text. They come after the
        # last result, because results must directly follow the calls.
        said += images
        images = []
        if message.role == "user":
            said += known.messages
        elif known.messages:
            if said:
                _add_user(out, said)
            out += [_assistant(made, replay_reasoning) for made in known.messages]
    said += images
    said += _user_parts([TextPart(text=request.tail)])
    if said:
        _add_user(out, said)
    return out


class _Made(Struct, frozen=True):
    """The converted form of a message. Shared by all requests that contain it, so each request gets a copy."""

    messages: tuple[Json, ...]
    """The converted messages; for a user's message, its parts."""
    images: tuple[Json, ...] = ()
    """Images of a tool's results."""


def _message(message: PromptMessage) -> _Made:
    match message.role:
        case "user":
            return _Made(_user_parts(message.content))
        case "assistant":
            return _Made(_assistants(message))
        case "tool":
            results = [part for part in message.content if part.type == "tool_result"]
            images = [_user_part(image) for part in results for image in part.images]
            return _Made(tuple(_result(part) for part in results), tuple(images))


_known: Memo[PromptMessage, _Made] = Memo()


def tools(specs: Iterable[ToolSpec]) -> list[Json]:
    """Return the tools on offer."""
    return [
        {
            "type": "function",
            "function": {"name": spec.name, "description": spec.description, "parameters": dict(spec.schema)},
        }
        for spec in specs
    ]


def _system(blocks: Iterable[SystemBlock]) -> list[Json]:
    text = "\n\n".join(block.text for block in blocks if block.text.strip())
    return [{"role": "system", "content": text}] if text else []


def _user_parts(content: Iterable[Part]) -> tuple[Json, ...]:
    files = [_user_part(part) for part in content if part.type == "file"]
    texts = [part.text for part in content if part.type == "text" or part.type == "note"]
    return (*files, *({"type": "text", "text": text} for text in texts if text.strip()))


def _add_user(out: list[Json], said: list[Json]) -> None:
    """One message of all that was said: neighbours are joined, because some models insist on alternating roles."""
    # Send plain text as a string: simple servers accept nothing else, and others join the pieces.
    only_text = all(part["type"] == "text" for part in said)
    content = "\n\n".join(part["text"] for part in said) if only_text else [part.copy() for part in said]
    out.append({"role": "user", "content": content})
    said.clear()


def _user_part(part: FilePart) -> Json:
    if part.data is None:
        return {"type": "text", "text": path_text(part)}
    if part.media_type.startswith("image/") and part.media_type != "image/svg+xml":
        return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
    return {"type": "text", "text": file_text(part)}


def _assistants(message: PromptMessage) -> tuple[Json, ...]:
    """Return the message, with its reasoning; none when it has no text and no calls."""
    text = "".join([part.text for part in message.content if part.type == "text"])
    reasoning = "".join([part.text for part in message.content if part.type == "reasoning"])
    calls = [
        {
            "id": part.id,
            "type": "function",
            "function": {"name": part.name, "arguments": json.dumps(safe_input(part), ensure_ascii=False)},
        }
        for part in message.content
        if part.type == "tool_call"
    ]
    if not calls and not text.strip():
        return ()
    out: Json = {"role": "assistant", "content": text or None}
    if calls:
        out["tool_calls"] = calls
    if reasoning:
        out["reasoning_content"] = reasoning
    return (out,)


def _assistant(known: Json, replay_reasoning: bool) -> Json:
    # litellm modifies its arguments.
    out = known.copy()
    if not replay_reasoning:
        out.pop("reasoning_content", None)
    if "tool_calls" in out:
        out["tool_calls"] = [{**call, "function": call["function"].copy()} for call in out["tool_calls"]]
    return out


def _result(part: ToolResultPart) -> Json:
    # The API has no flag for errors; the text shows it.
    marked = part.is_error and not part.content.lower().startswith("error")
    content = f"Error: {part.content}" if marked else part.content
    return {
        "role": "tool",
        "tool_call_id": part.tool_call_id,
        "content": content if content.strip() else NO_OUTPUT,
    }
