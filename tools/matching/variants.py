"""Other readings of an edit that models send: text with escapes in it, or with copied line numbers. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_NUMBERED = re.compile(r"[ \t]*(\d{1,7})(→|\t| ?[|│]|:)")
_BARE_NUMBER = re.compile(r"[ \t]*(\d{1,7})[ \t]*$")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_UNSURE_ESCAPE = (
    "its \\n were read as line ends, but in new_string it is unclear which \\n are line ends and which belong to "
    "the code. Send both with real line ends."
)
_UNSURE_NUMBER = (
    "it has copied line numbers, but in new_string it is unclear what is a line number and what belongs to the "
    "code. Send both without line numbers."
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A reading of ``old_string`` and ``new_string``."""

    rung: Literal["escaped characters", "line numbers"]
    old: str
    new: str
    only_at_line: int | None = None
    """The place counts only when it is at this line: a single number could as well be part of the text."""
    at_its_depth: bool = False
    """The place counts only when it has the same indentation."""
    line: int = 0
    """Where the copied line numbers say that it is; they may be out of date."""
    refuse: str = ""
    """Why it cannot be used although ``old`` may be found, in words for the model."""


def variants(old: str, new: str) -> Iterator[Variant]:
    """All other readings of the two, the likelier first."""
    yield from _unescaped(old, new)
    yield from _without_numbers(old, new)


def _unescaped(old: str, new: str) -> Iterator[Variant]:
    if "\\" not in old:
        return
    if _fully_escaped(old) and _fully_escaped(new) and re.search(r'\\["\'\\nt]', old):
        yield Variant("escaped characters", _unescape(old), _unescape(new))
    if "\n" not in old and "\\n" in old and "\\\\n" not in old and "\\\\n" not in new:
        plain_old = old.replace("\\n", "\n").replace("\\t", "\t")
        if "\n" in new:
            yield Variant("escaped characters", plain_old, new, refuse=_UNSURE_ESCAPE if "\\n" in new else "")
            return
        plain_new = new.replace("\\n", "\n").replace("\\t", "\t")
        refuse = _UNSURE_ESCAPE if _breaks_a_string(plain_old, plain_new) else ""
        yield Variant("escaped characters", plain_old, plain_new, refuse=refuse)
    elif "\n" in old and (tabbed := _leading_tabs(old)) != old:
        yield Variant("escaped characters", tabbed, _leading_tabs(new))


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: _PLAIN[m.group(1)], text)


def _leading_tabs(text: str) -> str:
    return re.sub(r"(?m)^(?:\\t)+", lambda m: "\t" * (len(m.group()) // 2), text)


def _fully_escaped(text: str) -> bool:
    """Whether the text reads like the inside of a JSON string: every quote and backslash escaped.

    Line ends may be real: some models escape the quotes only.
    """
    rest = _ESCAPE.sub(lambda m: "" if m.group(1) in _PLAIN else "\\", text)
    return '"' not in rest and "\\" not in rest and not ("\n" in text and "\\n" in text)


def _breaks_a_string(old: str, new: str) -> bool:
    """Whether unescaping put a line end into a quoted string of a line that old_string does not have."""
    known = set(old.split("\n"))
    return any(line not in known and _leaves_open(line) for line in new.split("\n"))


def _leaves_open(line: str) -> bool:
    """Whether a string begins in a line that does not end there. An apostrophe within a word begins none."""
    quote = ""
    for found in re.finditer(r"\\.|\"{3}|\'{3}|(?<=\w)'(?=\w)|[\"'`]", line):
        mark = found.group()
        if quote == mark:
            quote = ""
        elif not quote and mark in ('"', "'", "`"):
            quote = mark
    return bool(quote)


@dataclass(frozen=True, slots=True)
class _Numbered:
    number: int
    separator: str
    rest: str


def _numbered(line: str, separator: str = "") -> _Numbered | None:
    """A line's number and what stands behind it. A bare number is a blank line's, once the separator is known."""
    if (head := _NUMBERED.match(line)) is not None and separator in ("", head.group(2).strip(" ")):
        return _Numbered(int(head.group(1)), head.group(2).strip(" "), line[head.end() :])
    if separator and (bare := _BARE_NUMBER.match(line)) is not None:
        return _Numbered(int(bare.group(1)), separator, "")
    return None


def _without_numbers(old: str, new: str) -> Iterator[Variant]:
    lines = old.replace("\r\n", "\n").split("\n")
    final = lines[-1] == "" and len(lines) > 1
    first = _numbered(lines[0])
    found = (
        [] if first is None else [_numbered(line, first.separator) for line in lines[: len(lines) - final]]
    )
    heads = [head for head in found if head is not None]
    if first is None or len(heads) != len(found):
        return
    if any(b.number != a.number + 1 for a, b in itertools.pairwise(heads)):
        return
    padded = first.separator not in ("→", "\t") and _all_padded([h.rest for h in heads])
    certain = len(heads) > 1 or first.separator == "→"
    # A blank behind the separator belongs to it or to the line. What fits as it is comes first.
    for at_its_depth, pad in ((True, ""), (True, " "), (False, " " if padded else "")):
        if pad and not padded:
            continue
        stripped = [head.rest.removeprefix(pad) for head in heads]
        if not any(line.strip() for line in stripped):
            return
        plain, mixed, refuse = _new_without_numbers(new.replace("\r\n", "\n"), heads, stripped, pad)
        yield Variant(
            "line numbers",
            "\n".join([*stripped, ""] if final else stripped),
            plain,
            only_at_line=None if certain else first.number,
            at_its_depth=at_its_depth,
            line=first.number,
            refuse=refuse or (_UNSURE_NUMBER if mixed and not at_its_depth else ""),
        )


def _all_padded(rests: list[str]) -> bool:
    return all(rest.startswith(" ") for rest in rests if rest)


def _new_without_numbers(new: str, heads: list[_Numbered], old: list[str], pad: str) -> tuple[str, bool, str]:
    """``new`` without the numbers it copied, whether only some lines had one, and why that is not possible.

    Either it has none, or all its lines count on from old's; else a number goes only where line and number are
    old's or the line before had the number before.
    """
    separator, lines = heads[0].separator, new.split("\n")
    body = lines[:-1] if lines[-1] == "" else lines
    found = [_numbered(line, separator) for line in body]
    if not any(found):
        return new, False, ""
    if all(found):
        numbers = [head.number for head in found if head is not None]
        if heads[0].number <= numbers[0] <= heads[-1].number + 1 and all(
            a <= b <= a + 1 + len(heads) for a, b in itertools.pairwise(numbers)
        ):
            return (
                "\n".join([*(h.rest.removeprefix(pad) for h in found if h), *lines[len(body) :]]),
                False,
                "",
            )
    known = {(head.number, line) for head, line in zip(heads, old, strict=True)}
    copied = any(head is not None and (head.number, head.rest.removeprefix(pad)) in known for head in found)
    if not copied and any(line.strip() and line in old for line in body):
        return new, False, ""
    made: list[str] = []
    for line, head in zip(body, found, strict=True):
        sure = separator == "→" and head is not None
        if head is not None and (sure or (head.number, head.rest.removeprefix(pad)) in known):
            made.append(head.rest.removeprefix(pad))
        elif head is not None and (line.strip() != str(head.number)):
            return new, True, _UNSURE_NUMBER
        else:
            made.append(line)
    return "\n".join([*made, *lines[len(body) :]]), True, ""
