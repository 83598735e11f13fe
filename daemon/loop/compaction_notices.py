"""Messages for the user about a compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.localization import n, noted, t

if TYPE_CHECKING:
    from daemon.context.compaction import CarriedOver
    from daemon.context.profiles import ContextProfile

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
