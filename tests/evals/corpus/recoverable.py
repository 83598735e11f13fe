"""Calls that differ from the file in what carries no meaning (conventions.md, "Edit matching")."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.evals.corpus.case import Call, Draft, joined, shared_ends
from tests.evals.corpus.clean import Maker
from tests.evals.corpus.sources import Change

Lines = Sequence[str]
_CURLY = {ord('"'): "“", ord("'"): "’", ord("-"): "–", ord(" "): "\u00a0"}


def _texts(rng: random.Random, old: Lines, new: Lines) -> tuple[str, str]:
    """old_string and new_string, with or without their last line end."""
    if rng.random() < 0.5 and new:
        return "\n".join(old), "\n".join(new)
    return joined(old), joined(new)


def _draft(rng: random.Random, call: Call, old: Lines, new: Lines) -> Draft | None:
    if tuple(old) == call.old:
        return None
    was, becomes = _texts(rng, old, new)
    return Draft(call.text, was, becomes, _expected(call, was, becomes))


def _expected(call: Call, old: str, new: str) -> tuple[str, ...]:
    if new == "" and not old.endswith("\n"):
        return (call.after, joined((*call.change.lines[: call.low], "", *call.change.lines[call.high :])))
    return (call.after,)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _solid(lines: Lines) -> list[str]:
    return [line for line in lines if line.strip()]


def blanks_in_file(rng: random.Random, call: Call) -> Draft | None:
    """Lines of the file end in blanks, which the call leaves out. Kept lines keep them."""
    kinds = rng.choice([["  "], [" ", "\t", ""], ["    ", ""]])
    # Of several equal lines nobody can tell which one an edit removes: those stay clean.
    dirty = call.with_old(
        [line + rng.choice(kinds) if line and line not in call.change.made else line for line in call.old]
    )
    if dirty.old == call.old:
        return None
    old, new = _texts(rng, call.old, call.new)
    expected = [dirty.after]
    if not old.endswith("\n") and call.new:
        # The blanks behind the last line lie outside of what old_string covers.
        last = dirty.old[-1][len(call.old[-1]) :]
        lines = list(dirty.change.after)
        at = call.low + len(call.new) - 1
        lines[at] = call.new[-1] + last
        expected.append(joined(lines, call.change.final_end))
        if call.old[-1] in call.new[:-1]:
            # They follow the end of what is new; the line that they stood behind is kept without them.
            kept = call.low + max(n for n, line in enumerate(call.new[:-1]) if line == call.old[-1])
            expected.append(joined([*lines[:kept], call.old[-1], *lines[kept + 1 :]], call.change.final_end))
    return Draft(dirty.text, old, new, (*expected, *_expected(dirty, old, new)))


def blanks_in_call(rng: random.Random, call: Call) -> Draft | None:
    """Lines of the call end in blanks, which the file has not."""
    blank = rng.choice([" ", "  ", "\t"])
    old = [line + blank for line in call.old]
    match rng.choice(["old", "context", "both"]):
        case "old":
            new = call.new
        case "context":
            new = [line + blank if line in call.old else line for line in call.new]
        case _:
            new = [line + blank for line in call.new]
    return _draft(rng, call, old, new)


def blank_lines_with_blanks(rng: random.Random, call: Call) -> Draft | None:
    """Empty lines that hold an indentation, in the call or in the file."""
    change = call.change
    if "" not in call.old or "" in change.made or "" in change.lines[change.first : change.last]:
        return None
    filled = [line or "    " for line in call.old]
    if rng.random() < 0.5:
        return _draft(rng, call, filled, [line or "    " if line in call.old else line for line in call.new])
    dirty = call.with_old(filled)
    old, new = _texts(rng, call.old, call.new)
    return Draft(dirty.text, old, new, _expected(dirty, old, new))


def _by_line(change: Callable[[str], str], lines: Lines) -> list[str]:
    return [change(line) if line.strip() else line for line in lines]


def dedented(rng: random.Random, call: Call) -> Draft | None:
    """A uniform indentation less."""
    least = min((_depth(line) for line in _solid([*call.old, *call.new])), default=0)
    if not least:
        return None
    cut = rng.choice([least, min(least, 4), rng.randint(1, least)])
    return _draft(rng, call, _by_line(lambda s: s[cut:], call.old), _by_line(lambda s: s[cut:], call.new))


def indented(rng: random.Random, call: Call) -> Draft | None:
    """A uniform indentation more."""
    more = rng.choice(["  ", "    ", "        ", "\t"])
    if more == "\t" and any(line.startswith(" ") for line in call.old):
        more = "    "
    return _draft(rng, call, _by_line(lambda s: more + s, call.old), _by_line(lambda s: more + s, call.new))


def _tabbed(width: int) -> Callable[[str], str]:
    return lambda line: "\t" * (_depth(line) // width) + " " * (_depth(line) % width) + line.lstrip(" ")


def _spaced(width: int) -> Callable[[str], str]:
    def change(line: str) -> str:
        body = line.lstrip(" \t")
        return line[: len(line) - len(body)].expandtabs(width) + body

    return change


def _width(call: Call) -> int:
    depths = {_depth(line) for line in call.change.lines if line.strip()} - {0}
    return next((w for w in (4, 2, 8, 3) if depths and all(d % w == 0 for d in depths)), 0)


def tabs_for_spaces(rng: random.Random, call: Call) -> Draft | None:
    """The call has tabs, the file spaces."""
    width = _width(call)
    if not width:
        return None
    change = _tabbed(width)
    return _draft(rng, call, _by_line(change, call.old), _by_line(change, call.new))


def spaces_for_tabs(rng: random.Random, call: Call) -> Draft | None:
    """The file has tabs, the call spaces."""
    width = _width(call)
    if not width:
        return None
    tabs = _tabbed(width)
    shown = rng.choice([2, 4, 8])
    change = _spaced(shown)
    filed = Call(_tabbed_change(call, tabs), call.low, call.high)
    return _draft(rng, filed, _by_line(change, filed.old), _by_line(change, filed.new))


def _tabbed_change(call: Call, tabs: Callable[[str], str]) -> Change:
    change = call.change
    return replace(change, lines=tuple(_by_line(tabs, change.lines)), made=tuple(_by_line(tabs, change.made)))


def spaces_for_tabs_dedented(rng: random.Random, call: Call) -> Draft | None:
    """The file has tabs, the call spaces and less of them."""
    width = _width(call)
    if not width:
        return None
    least = min((_depth(line) for line in _solid([*call.old, *call.new])), default=0)
    if least < width:
        return None
    filed = Call(_tabbed_change(call, _tabbed(width)), call.low, call.high)
    shown = rng.choice([2, 4])
    cut = shown * rng.randint(1, least // width)

    def change(line: str) -> str:
        return _spaced(shown)(line)[cut:]

    return _draft(rng, filed, _by_line(change, filed.old), _by_line(change, filed.new))


def _fancy(rng: random.Random, line: str, parts: tuple[int, int]) -> str:
    """Look-alikes for some characters that stand before ``parts[0]`` or behind ``parts[1]``."""
    indent = len(line) - len(line.lstrip())

    def may(index: int, character: str) -> bool:
        outside = index >= indent and not parts[0] <= index < parts[1]
        return character in "\"'- " and outside and rng.random() < 0.7

    return "".join(c.translate(_CURLY) if may(i, c) else c for i, c in enumerate(line))


def look_alikes_in_file(rng: random.Random, call: Call) -> Draft | None:
    """The file has typographic quotes, dashes and blanks where the call has plain ones."""
    change = call.change
    pairs = list(zip(change.lines[change.first : change.last], change.made, strict=False))
    if len(change.made) > change.last - change.first and change.last > change.first:
        return None
    if not all(line.isascii() for line in change.made):
        return None  # Typography that only new_string has is content.
    state = rng.getrandbits(32)
    made = list(change.made)
    old = list(change.lines)
    for index in range(call.low, call.high):
        if change.first <= index < change.last:
            continue
        if old[index].strip() and old[index] not in change.made:
            old[index] = _fancy(rng, old[index], (0, 0))
    for index, (was, becomes) in enumerate(pairs):
        # Right beside the change it is open which of two blanks is the old one.
        head, tail = (max(0, part - 2) for part in shared_ends(was, becomes))
        if head + tail < len(becomes) * 0.6:
            continue
        for which, line in (("old", was), ("new", becomes)):
            fancy = _fancy(random.Random(state), line[:head], (head, head)) + line[head : len(line) - tail]
            fancy += _fancy(random.Random(state + 1), line[len(line) - tail :] if tail else "", (tail, tail))
            fancy = fancy.replace("\u00a0", " ")  # of several blanks nobody can tell which one is new
            if which == "old":
                old[change.first + index] = fancy
            else:
                made[index] = fancy
    filed = Call(replace(change, lines=tuple(old), made=tuple(made)), call.low, call.high)
    if filed.old == call.old or "\n".join(line.rstrip() for line in call.old) in filed.text:
        return None
    was, becomes = _texts(rng, call.old, call.new)
    return Draft(filed.text, was, becomes, _expected(filed, was, becomes))


def look_alikes_in_call(rng: random.Random, call: Call) -> Draft | None:
    """The call has typographic characters where the file has plain ones."""
    if not call.text.isascii():
        return None
    kinds = rng.choice(["\"'", "-", "\"'-", " "])
    table = {ord(c): _CURLY[ord(c)] for c in kinds}

    def change(line: str) -> str:
        body = line.lstrip()
        return line[: len(line) - len(body)] + body.translate(table)

    old = [change(line) for line in call.old]
    new = list(call.new) if rng.random() < 0.3 else [change(line) for line in call.new]
    return _draft(rng, call, old, new) if _shared_typography(old, new) else None


def _shared_typography(old: Lines, new: Lines) -> bool:
    """Whether new_string has no typographic character of its own: that would be content."""
    return {c for line in new for c in line if not c.isascii()} <= set("".join(old))


def escaped_ends(rng: random.Random, call: Call) -> Draft | None:
    r"""``\n`` for line ends, and perhaps ``\t`` for tabs."""
    if len(call.old) < 2 or any("\\" in line for line in (*call.old, *call.new)):
        return None
    old, new = (text.replace("\n", "\\n").replace("\t", "\\t") for text in _texts(rng, call.old, call.new))
    return Draft(call.text, old, new, _expected(call, joined(call.old), joined(call.new)))


def escaped_like_json(rng: random.Random, call: Call) -> Draft | None:
    """Escaped twice: quotes, backslashes, line ends and tabs."""
    old, new = (json.dumps(text, ensure_ascii=False)[1:-1] for text in _texts(rng, call.old, call.new))
    if old == "\n".join(call.old) or not re.search(r"\\[\"\\n]", old):
        return None
    return Draft(call.text, old, new, _expected(call, joined(call.old), joined(call.new)))


_STYLES = (
    "{n}→{s}", "{n:>6}→{s}", "{n}\t{s}", "{n:>6}\t{s}",
    "{n}|{s}", "{n} | {s}", "{n:>5}| {s}", "  {n}: {s}", "{n}: {s}", "{n}:{s}",
)  # fmt: skip


def _numbered(style: str, lines: Lines, first: int) -> list[str]:
    return [style.format(n=n, s=line) for n, line in enumerate(lines, first)]


def line_numbers(rng: random.Random, call: Call) -> Draft | None:
    """Copied line numbers on both, counting on in new_string or missing on what it adds."""
    style = rng.choice(_STYLES)
    if len(call.old) < 2 and "→" not in style and "\t" not in style:
        return None
    old = _numbered(style, call.old, call.low + 1)
    if rng.random() < 0.5:
        new = _numbered(style, call.new, call.low + 1)
    else:
        head, tail = call.change.first - call.low, call.high - call.change.last
        new = (
            [*old[:head], *call.change.made, *old[len(old) - tail :]]
            if tail
            else [*old[:head], *call.change.made]
        )
    return _draft(rng, call, old, new)


def line_numbers_in_old(rng: random.Random, call: Call) -> Draft | None:
    """Copied line numbers on old_string only."""
    style = rng.choice(_STYLES)
    if len(call.old) < 2 and "→" not in style and "\t" not in style:
        return None
    return _draft(rng, call, _numbered(style, call.old, call.low + 1), call.new)


def blanks_and_depth(rng: random.Random, call: Call) -> Draft | None:
    """Dedented, and with blanks at line ends."""
    made = dedented(rng, call)
    if made is None or len(call.old) < 2:
        return None
    return replace(made, old="\n".join(line + " " if line.strip() else line for line in made.old.split("\n")))


def numbers_and_depth(rng: random.Random, call: Call) -> Draft | None:
    """Copied line numbers on lines without their common indentation."""
    made = dedented(rng, call)
    if made is None or len(call.old) < 2 or not call.old[-1] or (call.new and not call.new[-1]):
        return None
    style = rng.choice(_STYLES[:4])
    final = made.old.endswith("\n")
    old, new = (text.removesuffix("\n").split("\n") if text else [] for text in (made.old, made.new))
    join = joined if final else "\n".join
    return Draft(
        made.text,
        join(_numbered(style, old, call.low + 1)),
        join(_numbered(style, new, call.low + 1)),
        made.expected,
    )


def quotes_and_depth(rng: random.Random, call: Call) -> Draft | None:
    """Typographic quotes and another depth."""
    if not call.text.isascii():
        return None
    made = dedented(rng, call)
    if made is None or not re.search("[\"']", made.old):
        return None
    table = str.maketrans({'"': "“", "'": "’"})
    old, new = made.old.translate(table), made.new.translate(table)
    return Draft(made.text, old, new, made.expected) if _shared_typography([old], [new]) else None


def first_line_stripped(rng: random.Random, call: Call) -> Draft | None:
    """The first line without its indentation, the others with theirs: a call trimmed as a whole."""
    if not call.new or not call.old[0].startswith((" ", "\t")) or not call.new[0].startswith((" ", "\t")):
        return None
    if _depth(call.old[0]) != _depth(call.new[0]):
        return None
    old, new = "\n".join(call.old).lstrip(), "\n".join(call.new).lstrip()
    if not old or not new or not call.old[0].strip() or not call.new[0].strip():
        return None
    return Draft(call.text, old, new, (call.after,))


MAKERS: dict[str, Maker] = {
    "blanks in file": blanks_in_file,
    "blanks in call": blanks_in_call,
    "blank lines with blanks": blank_lines_with_blanks,
    "dedented": dedented,
    "indented": indented,
    "tabs for spaces": tabs_for_spaces,
    "spaces for tabs": spaces_for_tabs,
    "spaces for tabs, dedented": spaces_for_tabs_dedented,
    "look-alikes in file": look_alikes_in_file,
    "look-alikes in call": look_alikes_in_call,
    "escaped ends": escaped_ends,
    "escaped like JSON": escaped_like_json,
    "line numbers": line_numbers,
    "line numbers in old": line_numbers_in_old,
    "blanks and depth": blanks_and_depth,
    "numbers and depth": numbers_and_depth,
    "quotes and depth": quotes_and_depth,
    "first line stripped": first_line_stripped,
}
