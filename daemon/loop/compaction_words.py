"""What the person is told about a compaction."""

from __future__ import annotations

from daemon.context.compaction import Carried
from daemon.context.profiles import ContextProfile

NOTHING = "There is nothing to compact: all that is there are the last steps."

_MOSTLY_FIXED = 0.4
"""Of the window: from so much on, what is the same in each session is what fills it."""


def begins(reason: str, before: int, profile: ContextProfile) -> str:
    """Before the model is asked. ``reason`` is that of a CompactionPart."""
    why = {
        "threshold": f"it is compacted above {profile.compact_at:,}",
        "overflow": "the model takes no more",
    }.get(reason, "as you asked")
    return f"The context has {before:,} tokens: the model is asked to sum up the work so far ({why})."


def done(before: int, after: int) -> str:
    """When it is stored."""
    longer = "" if after < before else ": the summary is no shorter than what it stands for"
    return f"The context was compacted from {before:,} to {after:,} tokens{longer}."


def unusual(
    profile: ContextProfile, fallback: str, kept_steps: int, carried: Carried, *, cut_results: bool
) -> list[str]:
    """What is not as usual about one that is stored."""
    said: list[str] = []
    if fallback:
        said.append(
            f"No summary could be had from the model: {fallback} A list of what was done stands in its place."
        )
    if kept_steps < profile.keep_steps:
        said.append(
            f"Only {_last(kept_steps)} fitted in as before." if kept_steps else "Nothing else fitted in."
        )
    elif cut_results:
        said.append("Long tool results of the last steps were shortened.")
    if lost := _lost(carried):
        said.append(f"{lost}: together they are too long for the model's window.")
    return said


def _lost(carried: Carried) -> str:
    few, many = carried.shortened, carried.left_out
    shortened = f"{few} long {'message' if few == 1 else 'messages'} of yours"
    if few and many:
        return f"{shortened} were shortened and {many} older left out"
    if few:
        return f"{shortened} {'was' if few == 1 else 'were'} shortened"
    return f"{many} of your older messages {'was' if many == 1 else 'were'} left out" if many else ""


def too_little(profile: ContextProfile, again: int, fixed: int) -> str:
    """That a pass freed too little, with what to do. ``again``: tokens at which the next one is tried; ``fixed``: those
    of the system prompt and the tools."""
    most = (
        f"the context is compacted above {profile.compact_at:,} tokens, and it is tried again at {again:,}."
    )
    if fixed > profile.window * _MOSTLY_FIXED:
        return (
            f"The system prompt and the tools alone take {fixed:,} tokens; {most} A new session would not help: use a "
            f"model with a larger window than {profile.window:,} tokens, or shorten AGENTS.md."
        )
    return (
        f"What cannot be left out ({_last(profile.keep_steps)}, your own words, instructions and tools) takes about "
        f"that much; {most} To make room, set keep_steps lower or compact_at_tokens higher, or begin a new session for "
        "the rest of the work."
    )


def thrown_away(before: int, after: int) -> str:
    """That a summary came to nothing."""
    return (
        f"The context was not compacted: with the summary it would have {after:,} tokens instead of {before:,}, "
        "so it stays as it is."
    )


def _last(steps: int) -> str:
    return "the last step" if steps == 1 else f"the last {steps} steps"
