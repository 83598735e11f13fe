"""Messages for the user about a compaction, and about a request that does not fit into the model's window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.tokens import estimate_tokens, part_tokens, tool_tokens
from daemon.model.messages import FilePart, Message
from tools.localization import n, noted, t

if TYPE_CHECKING:
    from daemon.context.compaction import CarriedOver
    from daemon.context.profiles import ContextProfile
    from daemon.loop.request_builder import RequestBuilder
    from daemon.state.session_state import SessionState

NOTHING = noted("There is nothing to compact yet: the conversation has only the most recent steps.")

_MOSTLY_FIXED = 0.4
"""Share of the window from which the parts that every session has are named as the reason."""


def begins(reason: str, before: int, profile: ContextProfile) -> str:
    """Before the model is asked. ``reason`` is that of a CompactionPart."""
    why = {
        "threshold": t("it exceeded {compact_at:,} tokens", compact_at=profile.compact_at),
        "overflow": t("the model cannot take more"),
    }.get(reason, t("as you asked"))
    return t(
        "The context has {before:,} tokens: asking the model to summarize the work so far ({why}).",
        before=before,
        why=why,
    )


def done(before: int, after: int) -> str:
    """When it is stored."""
    longer = "" if after < before else t(": the summary is no shorter than what it replaces")
    return t(
        "The context was compacted from {before:,} to {after:,} tokens{longer}.",
        before=before,
        after=after,
        longer=longer,
    )


def unusual(
    profile: ContextProfile, fallback: str, kept_steps: int, carried: CarriedOver, *, cut_results: bool
) -> list[str]:
    """Return messages about unusual aspects of a stored compaction."""
    said: list[str] = []
    if fallback:
        said.append(
            t(
                "The model could not write a summary: {fallback} A list of completed work is used instead.",
                fallback=fallback,
            )
        )
    if kept_steps < profile.keep_steps:
        said.append(
            t("Only {kept_steps} could be kept unchanged.", kept_steps=_last(kept_steps))
            if kept_steps
            else t("No steps could be kept unchanged.")
        )
    elif cut_results:
        said.append(t("Long tool results of the last steps were shortened."))
    if lost := _lost(carried):
        said.append(t("{lost}: together they are too long for the model's window.", lost=lost))
    return said


def _lost(carried: CarriedOver) -> str:
    few, many = carried.shortened, carried.left_out
    shortened = n("{count} long message of yours", "{count} long messages of yours", few)
    if few and many:
        return t("{shortened} were shortened and {many} older ones left out", shortened=shortened, many=many)
    if few:
        return f"{shortened} {'was' if few == 1 else 'were'} shortened"
    return (
        n("{count} of your older messages was left out", "{count} of your older messages were left out", many)
        if many
        else ""
    )


def too_little(profile: ContextProfile, again: int, fixed: int) -> str:
    """That a pass freed too little, with what to do. ``again``: tokens at which the next one is tried; ``fixed``: those
    of the system prompt and the tools."""
    most = t(
        "compaction starts above {compact_at:,} tokens, and is tried again at {again:,}.",
        compact_at=profile.compact_at,
        again=again,
    )
    if fixed > profile.window * _MOSTLY_FIXED:
        return t(
            "The system prompt and the tools alone take {fixed:,} tokens; {most} A new session would "
            "not help: use a model with a larger window than {window:,} tokens, or shorten AGENTS.md.",
            fixed=fixed,
            most=most,
            window=profile.window,
        )
    return t(
        "The parts that must be kept ({keep_steps}, your messages, instructions and tools) take about that "
        "much; {most} To make room, lower keep_steps, raise compact_at_tokens, or start a new session for "
        "the rest of the work.",
        keep_steps=_last(profile.keep_steps),
        most=most,
    )


def thrown_away(before: int, after: int) -> str:
    """That a summary came to nothing."""
    return t(
        "The context was not compacted: with the summary it would have {after:,} tokens instead of "
        "{before:,}.",
        after=after,
        before=before,
    )


def _last(steps: int) -> str:
    return t("the last step") if steps == 1 else t("the last {steps} steps", steps=steps)


# -- a request that does not fit: what fills it, and what to remove --

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

    tools = sum(map(tool_tokens, builder.tool_specs()))
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
