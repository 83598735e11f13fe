"""What to say when a request does not fit into the model's window: what fills it, and what to remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.tokens import estimate_tokens, part_tokens, request_tokens
from daemon.model.messages import FilePart, Message
from daemon.provider.base import ModelRequest

if TYPE_CHECKING:
    from daemon.loop.assembly import Assembly
    from daemon.loop.session import Session

_INSTRUCTIONS = ("instructions ", "untrusted instructions ")
_MUCH = 0.15
"""Of the request: what takes more than this share is worth removing."""
_MOSTLY = 0.8
"""Of the request: when the system prompt and the tools take more, nothing else that is removed would help."""
_FOR_WORK = 4_000
"""Tokens beside the fixed part that a session needs to get anywhere."""
_STEP = 4_096
_NAMED = 3


def what_fills(session: Session, assembly: Assembly) -> str:
    """The parts of the next request with their sizes, and what would make it fit. Sizes are estimates."""
    ratio = session.state.calibration

    def size(tokens: int) -> int:
        return round(tokens * ratio)

    tools = request_tokens(ModelRequest(model="", system=(), messages=(), tools=assembly.tool_specs())).tools
    files = {
        layer.name.rpartition(" ")[2]: size(estimate_tokens(layer.text))
        for layer in assembly.layers
        if layer.name.startswith(_INSTRUCTIONS)
    }
    fixed = size(assembly.frame()) - sum(files.values())
    attached, said, earlier = _of_messages(session.state.messages)
    sizes = {
        "the system prompt": fixed - size(tools),
        "the tools": size(tools),
        **files,
        **{f"the attachment {name}": size(tokens) for name, tokens in attached.items()},
        "your last message": size(said),
        "the conversation": max(assembly.tokens() - size(assembly.frame() + said + sum(attached.values())), 0)
        if earlier
        else 0,
    }
    total, window = sum(sizes.values()), assembly.profile.window
    listed = ", ".join(f"{name} {tokens:,}" for name, tokens in _largest_first(sizes) if tokens)
    return f"The request has about {total:,} tokens: {listed}. {_advice(sizes, files, fixed, total, window)}"


def _advice(sizes: dict[str, int], files: dict[str, int], fixed: int, total: int, window: int) -> str:
    """What to do, the most useful first."""
    if fixed > window or fixed > total * _MOSTLY:
        needed = -(-(fixed + _FOR_WORK) // _STEP) * _STEP
        return (
            "Most of that is in every request, so a new session would not help. Load the model with a "
            f"window of at least {needed:,} tokens (llama.cpp: --ctx-size {needed}; vLLM: --max-model-len {needed}; "
            "Ollama: the setting context_window), or choose a model with a larger one."
        )
    much = [name for name, tokens in _largest_first(sizes) if tokens > total * _MUCH][: _NAMED + 2]
    steps: list[str] = []
    if attached := [name for name in much if name.startswith("the attachment ")]:
        steps.append(f"remove {' and '.join(attached[:_NAMED])}")
    if long := [name for name in much if name in files]:
        steps.append(f"shorten {' and '.join(long[:_NAMED])}")
    if "your last message" in much:
        steps.append("shorten your last message")
    if "the conversation" in much:
        steps.append("start a new session for the rest of the work")
    steps.append("choose a model with a larger window")
    listed = ", or ".join(steps)
    return f"{listed[0].upper()}{listed[1:]}."


def _of_messages(messages: list[Message]) -> tuple[dict[str, int], int, bool]:
    """Attachments of the last message with words of the user's, the tokens of these words, and whether there is more
    than that message."""
    last = next(
        (m for m in reversed(messages) if m.role == "user" and m.compaction() is None and m.text()), None
    )
    if last is None:
        return {}, 0, bool(messages)
    attached = {part.name: part_tokens(part) for part in last.content if isinstance(part, FilePart)}
    said = sum(part_tokens(part) for part in last.content if not isinstance(part, FilePart))
    return attached, said, len(messages) > 1


def _largest_first(sizes: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(sizes.items(), key=lambda item: -item[1])
