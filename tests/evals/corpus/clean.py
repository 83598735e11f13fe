"""Calls that say exactly what is in the file, as a reader of its text sees it: all of them must land."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

from tests.evals.corpus.case import Call, Draft, joined, shared_ends

Maker = Callable[[random.Random, Call], "Draft | None"]


def whole_lines(rng: random.Random, call: Call) -> Draft | None:
    """Lines with their ends."""
    return Draft(call.text, joined(call.old), joined(call.new), (call.after,))


def without_last_end(rng: random.Random, call: Call) -> Draft | None:
    """Lines joined, the last without its end. Deleting them all leaves an empty line, or not."""
    old, new = "\n".join(call.old), "\n".join(call.new)
    if new and new in call.text:
        return None  # it looks as if it were done already
    literal = call.text.replace(old, new, 1)
    return Draft(call.text, old, new, (literal, call.after) if not new else (literal,))


def part_of_a_line(rng: random.Random, call: Call) -> Draft | None:
    """Draft an edit of the difference, with tokens around it until it is unique."""
    text, after = call.text, call.after
    head, tail = shared_ends(text, after)
    low, high = head, len(text) - tail
    for _ in range(40):
        while low and _inside_token(text, low):
            low -= 1
        while high < len(text) and _inside_token(text, high):
            high += 1
        begin = text.rfind("\n", 0, low) + 1
        several = "\n" in text[low:high] or "\n" in after[low : len(after) - (len(text) - high)]
        if (several or text[low : low + 1] in (" ", "\t")) and not text[begin:low].strip():
            low = begin  # Nobody begins in the middle of an indentation, or several lines behind one.
        if text[low:high].strip() and text.count(text[low:high]) == 1:
            return Draft(text, text[low:high], after[low : len(after) - (len(text) - high)], (after,))
        low, high = (max(0, low - 1), high) if rng.random() < 0.5 else (low, min(len(text), high + 1))
    return None


def _inside_token(text: str, at: int) -> bool:
    return at < len(text) and re.fullmatch(r"\w\w", text[at - 1 : at + 1]) is not None


def whole_file(rng: random.Random, call: Call) -> Draft | None:
    """The whole file as old_string."""
    return Draft(call.text, call.text, call.after, (call.after,)) if len(call.text) < 20_000 else None


def everywhere(rng: random.Random, call: Call) -> Draft | None:
    """``replace_all`` on a name."""
    words = [w for w in re.findall(r"\w{4,}", "\n".join(call.old)) if 1 < call.text.count(w) < 500]
    if not words:
        return None
    word = rng.choice(words)
    return Draft(call.text, word, f"{word}_x", (call.text.replace(word, f"{word}_x"),), replace_all=True)


def no_final_end(rng: random.Random, call: Call) -> Draft | None:
    """At the end of a file that has no final line end, while old_string and new_string have one."""
    change = replace(call.change, final_end=False)
    call = replace(call, change=change, high=len(change.lines))
    if call.high - call.low > 60 or not call.new or not call.old[-1] or not call.new[-1]:
        return None
    if call.text.count("\n".join(call.old)) != 1:
        return None
    return Draft(call.text, joined(call.old), joined(call.new), (call.after,))


def to_the_end(rng: random.Random, call: Call) -> Draft | None:
    """The last lines of a file, without the final line end that it has."""
    call = replace(call, high=len(call.change.lines))
    old, new = "\n".join(call.old), "\n".join(call.new)
    if call.high - call.low > 60 or not new.strip() or call.text.count(old) != 1:
        return None
    if not call.old[-1]:
        return None  # an empty last line: then it looks like the line before it, with its end
    return Draft(call.text, old, new, (call.text.replace(old, new, 1),))


def mixed_ends(rng: random.Random, call: Call) -> Draft | None:
    r"""A file with ``\n`` and ``\r\n``: the call has ``\n``. New lines take their neighbours' ends.

    Where lines are replaced one by one each keeps its own; else the neighbourhood has one kind.
    """
    change = call.change
    ends = [rng.choice(["\n", "\r\n"]) for _ in change.lines]
    replaced = len(change.made) == change.last - change.first
    if not (replaced and not set(change.made) & set(change.lines[change.first : change.last])):
        low, high = max(0, call.low - 1), min(len(ends), call.high + 1)
        ends[low:high] = [rng.choice(["\n", "\r\n"])] * (high - low)
    if not change.final_end:
        if change.last == len(change.lines):
            return None
        ends[-1] = ""
    own = ends[change.first : change.last] if replaced else [ends[max(0, call.low - 1)]] * len(change.made)
    pairs = list(zip(change.lines, ends, strict=True))
    made = list(zip(change.made, own, strict=True))
    before = "".join(line + end for line, end in pairs)
    after = "".join(line + end for line, end in [*pairs[: change.first], *made, *pairs[change.last :]])
    return Draft(before, joined(call.old), joined(call.new), (after,))


MAKERS: dict[str, Maker] = {
    "whole lines": whole_lines,
    "without last end": without_last_end,
    "part of a line": part_of_a_line,
    "whole file": whole_file,
    "replace all": everywhere,
    "no final end": no_final_end,
    "to the end": to_the_end,
    "mixed ends": mixed_ends,
}
