"""Other readings of an edit that models send: with escapes, line numbers, or blank lines and fences around it. Pure."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERED = re.compile(r"[ \t]*(\d{1,7})(→|\t| ?[|│]|:)")
_BARE_NUMBER = re.compile(r"[ \t]*(\d{1,7})[ \t]*$")
_UNICODE = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
"""A pair of surrogates, or anything that is no half of one."""
_ESCAPE = re.compile(rf"\\({_UNICODE}|.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_UNSURE_ESCAPE = (
    "its \\n were read as line ends, but in new_string it is unclear which \\n are line ends and which belong to "
    "the code. Send both with real line ends."
)
_UNSURE_NUMBER = (
    "it has copied line numbers, but in new_string it is unclear what is a line number and what belongs to the "
    "code. Send both without line numbers."
)


class Variant(Struct, frozen=True):
    """A reading of ``old_string`` and ``new_string``."""

    strategy: Literal["escaped characters", "line numbers", "code fence", "blank lines"]
    old: str
    new: str
    only_at_line: int | None = None
    """The place counts only when it is at this line: a single number could as well be part of the text."""
    at_its_depth: bool = False
    """The place counts only when it has the same indentation."""
    line: int = 0
    """Line according to the copied line numbers; they may be out of date."""
    refuse: str = ""
    """Why it cannot be used although ``old`` may be found, as text for the model."""
    absent: str = ""
    """A text that the file must not have anywhere, for it might be what ``old_string`` means."""
    whole_lines: bool = False
    """The place counts only when it begins and ends where lines do."""
    from_first_column: bool = False
    """With ``whole_lines``: not even after an indentation."""
    no_blank_line: tuple[bool, bool] = (False, False)
    """Whether the place counts only without blank lines near above it, and without any near below."""


def variants(old: str, new: str) -> Iterator[Variant]:
    """Yield all other readings of the two, the likelier first."""
    for unfenced in ((old, new), *_unfenced(old, new)):
        mark = old.lstrip()[:3] if unfenced[0] != old else ""
        if mark:
            yield Variant("code fence", *unfenced, absent=mark, whole_lines=True, from_first_column=True)
        for variant in itertools.chain(_unescaped(*unfenced), _without_numbers(*unfenced)):
            yield replace(variant, absent=mark)
        yield from (replace(variant, absent=mark) for variant in _without_blank_lines(*unfenced))


_FENCED = re.compile(r"\s*(```|~~~)[\w+-]*\r?\n(.*?)^\1\s*", re.DOTALL | re.MULTILINE)


def _unfenced(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield the two without the Markdown fence around them."""
    inner_old, inner_new = _FENCED.fullmatch(old), _FENCED.fullmatch(new)
    if inner_old is None or inner_old.group(1) in inner_old.group(2):
        return
    if inner_new is not None and inner_new.group(1) not in inner_new.group(2):
        yield inner_old.group(2), inner_new.group(2)


class _Around(NamedTuple):
    top: str
    """Blank lines before the text."""
    text: str
    end: str
    """The end of its last line, if it has one."""
    below: str
    """Blank lines after it."""


def _around(text: str) -> _Around:
    """Split off the blank lines around a text. By hand: a pattern takes time quadratic in their number."""
    lead = len(text) - len(text.lstrip(" \t\n"))
    first = text.rfind("\n", 0, lead) + 1
    inner = text[first:].rstrip(" \t\n")
    after = text[first + len(inner) :]
    end = "\n" if after.startswith("\n") else ""
    return _Around(text[:first], inner, end, after[len(end) :])


def _without_blank_lines(old: str, new: str) -> Iterator[Variant]:
    """Return both without blank lines around them: the same number, or those that only old_string has.

    Not for a deletion: once made, it may hit the twin of the deleted text.
    """
    ours, theirs = (_around(text.replace("\r\n", "\n")) for text in (old, new))
    if not theirs.text.strip():
        return
    top, tail = _surplus(ours.top, theirs.top), _surplus(ours.below, theirs.below)
    if top is None or tail is None or not (ours.top or ours.below):
        return
    end = ours.end and theirs.end
    yield Variant(
        "blank lines",
        ours.text + end,
        theirs.top[top:] + theirs.text + end + theirs.below[tail:],
        whole_lines=True,
        from_first_column=ours.top != "",
        no_blank_line=(ours.top != "", ours.below != ""),
    )


def _surplus(old: str, new: str) -> int | None:
    """Return how much of the blank lines in ``new`` is old's; None when it is open which of them are."""
    if not old or not new:
        return 0
    return len(new) if old.count("\n") == new.count("\n") else None


def _unescaped(old: str, new: str) -> Iterator[Variant]:
    if "\\" not in old:
        return
    alike = not ("\\n" in old and "\n" in new)
    if (
        alike
        and _fully_escaped(old)
        and _fully_escaped(new)
        and re.search(rf'\\(?:["\'\\nt]|{_UNICODE})', old)
    ):
        yield Variant("escaped characters", _unescape(old), _unescape(new))
    if "\n" not in old and "\\n" in old and "\\\\n" not in old and "\\\\n" not in new:
        plain_old = _line_ends(old)
        if "\n" in new:
            yield Variant("escaped characters", plain_old, new, refuse=_UNSURE_ESCAPE if "\\n" in new else "")
            return
        plain_new = _line_ends(new)
        unsure = _breaks_a_string(plain_old, plain_new) or _has_inner_tab(plain_old, plain_new)
        refuse = _UNSURE_ESCAPE if unsure else ""
        yield Variant("escaped characters", plain_old, plain_new, refuse=refuse)
    elif "\n" in old and (tabbed := _leading_tabs(old)) != old:
        yield Variant("escaped characters", tabbed, _leading_tabs(new))


def with_real_line_ends(old: str, new: str) -> str:
    r"""Return ``new`` with line ends for its ``\n`` where ``old`` has real ones and its lines prove that intention.

    A line that old has, too, with its indentation, is no part of a string: then all of them are line ends, unless
    that breaks a string.
    """
    if "\n" not in old.strip() or "\n" in new.strip() or "\\" in old + new.replace("\\n", ""):
        return new
    plain, known = _line_ends(new), set(re.findall(r"(?m)^(?: {2}|\t)[ \t]*\S.*$", old))
    return plain if known & set(plain.split("\n")[1:]) and not _breaks_a_string(old, plain) else new


def _line_ends(text: str) -> str:
    return text.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: _PLAIN.get(m.group(1)) or json.loads(f'"\\{m.group(1)}"'), text)


def _leading_tabs(text: str) -> str:
    return re.sub(r"(?m)^(?:\\t)+", lambda m: "\t" * (len(m.group()) // 2), text)


def _fully_escaped(text: str) -> bool:
    """Return whether the text reads like the inside of a JSON string: every quote and backslash escaped.

    Line ends may be real: some models escape the quotes only.
    """
    rest = _ESCAPE.sub(lambda m: "" if m.group(1) in _PLAIN or len(m.group(1)) > 1 else "\\", text)
    return '"' not in rest and "\\" not in rest and not ("\n" in text and "\\n" in text)


def _breaks_a_string(old: str, new: str) -> bool:
    """Return whether unescaping put a line end into a quoted string of a line that old_string does not have."""
    known = set(old.split("\n"))
    return any(line not in known and _leaves_open(line) for line in new.split("\n"))


def _has_inner_tab(old: str, new: str) -> bool:
    """Return whether unescaping put a tab after words of a line that old_string lacks: it may be in a string."""
    known = set(old.split("\n"))
    return any(line not in known and "\t" in line.strip("\t") for line in new.split("\n"))


def _leaves_open(line: str) -> bool:
    """Return whether a string begins in a line that does not end there. An apostrophe within a word begins none."""
    quote = ""
    for found in re.finditer(r"\\.|\"{3}|\'{3}|(?<=\w)'(?=\w)|[\"'`]", line):
        mark = found.group()
        if quote == mark:
            quote = ""
        elif not quote and mark in ('"', "'", "`"):
            quote = mark
    return bool(quote)


class _Numbered(Struct, frozen=True):
    number: int
    separator: str
    rest: str


def _numbered(line: str, separator: str = "") -> _Numbered | None:
    """Return a line's number and the text after it. A bare number is a blank line's, once the separator is known."""
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
    padded = first.separator not in ("→", "\t") and all(h.rest.startswith(" ") for h in heads if h.rest)
    certain = len(heads) > 1 or first.separator == "→"
    # A blank after the separator belongs to the separator or to the line. Try an exact fit first.
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


def _new_without_numbers(new: str, heads: list[_Numbered], old: list[str], pad: str) -> tuple[str, bool, str]:
    """Return ``new`` without the numbers it copied, whether only some lines had one, and why that is not possible.

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
