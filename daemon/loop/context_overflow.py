"""Advice when a request does not fit into the model's window: what fills it, and what to remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.tokens import estimate_tokens, part_tokens, request_tokens
from daemon.model.messages import FilePart, Message
from daemon.provider.model_calls import ModelRequest
from tools.localization import t

if TYPE_CHECKING:
    from daemon.loop.request_builder import RequestBuilder
    from daemon.state.session_state import SessionState

_INSTRUCTIONS = ("instructions ", "untrusted instructions ")
_MUCH = 0.15
"""Share of the request from which a part is worth removing."""
_MOSTLY = 0.8
"""Share of the request: when the system prompt and the tools take more, removing something else would not help."""
_FOR_WORK = 4_000
"""Tokens beside the fixed part that a session needs to get anywhere."""
_STEP = 4_096
_NAMED = 3


def what_fills(state: SessionState, builder: RequestBuilder) -> str:
    """Return the parts of the next request with their sizes, and advice to make it fit. Sizes are estimates."""
    ratio = state.calibration

    def size(tokens: int) -> int:
        return round(tokens * ratio)

    tools = request_tokens(ModelRequest(model="", system=(), messages=(), tools=builder.tool_specs())).tools
    files = {
        layer.name.rpartition(" ")[2]: size(estimate_tokens(layer.text))
        for layer in builder.layers
        if layer.name.startswith(_INSTRUCTIONS)
    }
    fixed = size(builder.frame()) - sum(files.values())
    attached, said, earlier = _of_messages(state.messages)
    sizes = {
        t("the system prompt"): fixed - size(tools),
        t("the tools"): size(tools),
        **files,
        **{_attachment(name): size(tokens) for name, tokens in attached.items()},
        t("your last message"): size(said),
        t("the conversation"): max(
            builder.tokens() - size(builder.frame() + said + sum(attached.values())), 0
        )
        if earlier
        else 0,
    }
    total, window = sum(sizes.values()), builder.profile.window
    listed = ", ".join(f"{name} {tokens:,}" for name, tokens in _largest_first(sizes) if tokens)
    told = t("The request has about {total:,} tokens: {listed}.", total=total, listed=listed)
    advice = _advice(sizes, [*files], [_attachment(name) for name in attached], fixed, total, window)
    return f"{told} {advice}"


def _attachment(name: str) -> str:
    return t("the attachment {name}", name=name)


def _advice(
    sizes: dict[str, int], files: list[str], attachments: list[str], fixed: int, total: int, window: int
) -> str:
    """Say what to do, the most useful first."""
    if fixed > window or fixed > total * _MOSTLY:
        needed = -(-(fixed + _FOR_WORK) // _STEP) * _STEP
        return t(
            "Most of this is in every request, so a new session would not help. Load the model with a "
            "window of at least {needed:,} tokens (llama.cpp: --ctx-size {needed}; vLLM: --max-model-len "
            "{needed}; Ollama: the setting context_window), or choose a model with a larger one.",
            needed=needed,
        )
    much = [name for name, tokens in _largest_first(sizes) if tokens > total * _MUCH][: _NAMED + 2]
    steps: list[str] = []
    if attached := [name for name in much if name in attachments]:
        steps.append(t("remove {names}", names=_both(attached)))
    if long := [name for name in much if name in files]:
        steps.append(t("shorten {names}", names=_both(long)))
    if t("your last message") in much:
        steps.append(t("shorten your last message"))
    if t("the conversation") in much:
        steps.append(t("start a new session for the rest of the work"))
    steps.append(t("choose a model with a larger window"))
    listed = t(", or ").join(steps)
    return t("{sentence}.", sentence=f"{listed[0].upper()}{listed[1:]}")


def _both(names: list[str]) -> str:
    return t(" and ").join(names[:_NAMED])


def _of_messages(messages: list[Message]) -> tuple[dict[str, int], int, bool]:
    """Return the attachments of the user's last message, the tokens of its text, and whether there are others."""
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
