"""A plan that is written as a list: numbered (in the ways of several languages), bulleted, or with boxes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HAN = "[一二三四五六七八九十百零〇]{1,4}"
_ANY = rf"(?:\d{{1,3}}|{_HAN})"
_ITEM = re.compile(
    r"^(?P<indent>[ \t]*)(?:#{1,6}[ \t]+)?(?:\*\*|__)?(?:"
    # 第一步, 步骤 2: words that can only number steps.
    rf"(?P<step>第[ \t]*{_ANY}[ \t]*步(?:骤)?|步骤[ \t]*{_ANY})[ \t]*[：:、，,.．)）-]?(?:\*\*|__)?[ \t]*"
    rf"|(?P<han>{_HAN})[、.．：:][ \t]*"
    # 1、 and （1） need no space after them; in Chinese the text does not begin with one.
    rf"|(?P<wide>\d{{1,3}})(?:[、．：）]|[.](?=[\u3400-\u9fff]))[ \t]*"
    rf"|[(（](?P<round>{_ANY})[)）][ \t]*"
    r"|(?P<ring>[①-⑳])[ \t]*"
    r"|(?:(?:step|goal)[ \t]+)?(?P<number>\d+(?:\.\d+)*)(?:[.):](?:\*\*|__)?|(?<=\.\d)|(?<=\.\d\d))[ \t]+"
    r"|(?P<bullet>[-*•+])[ \t]+"
    r")(?P<words>\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_BOX = re.compile(r"^\[[ xX→✓]?\][ \t]+")
_PREFIX = re.compile(
    rf"^(?:(?:(?:step|goal)\s+)?\d+(?:\.\d+)*[.):]\s+|(?:第\s*{_ANY}\s*步(?:骤)?|步骤\s*{_ANY})\s*[：:、，,.．-]\s*"
    rf"|(?:\d{{1,3}}|{_HAN})[、．]\s*)",
    re.IGNORECASE,
)
_MOST_PROSE = 240
"""Characters around a list that is a plan: an introduction and a closing word, but no answer to a question."""


@dataclass(frozen=True, slots=True)
class _Row:
    indent: int
    rank: int
    """0 for the outermost of several kinds with the same indent: ``一、`` above ``1.`` above ``1.1``."""
    numbered: bool
    box: bool
    words: str


def listed(text: str, *, strict: bool = False) -> list[tuple[str, list[str]]]:
    """Return the items of a list, each with those below it: further indented ones, or those numbered as a part.

    ``strict``: only a list that can hardly be anything but steps: numbered, or with boxes to tick, more than one of
    them, and with little prose around it.
    """
    rows = [_row(match) for match in _ITEM.finditer(text)]
    if not rows or (strict and not _can_only_be_steps(text, rows)):
        return []
    top = min(row.rank for row in rows if row.numbered) if any(row.numbered for row in rows) else 0
    least = min(row.indent for row in rows)
    numbered = any(row.numbered and row.rank == top for row in rows)
    found: list[tuple[str, list[str]]] = []
    for row in rows:
        below = row.indent > least + 1 or (row.numbered and row.rank > top)
        if below and found:
            found[-1][1].append(row.words)
        elif row.numbered or not numbered:
            # In a numbered list, bullets at its own level are remarks, not steps.
            found.append((row.words, []))
    return found


def plain(text: str) -> str:
    """Without marks of a list and of emphasis: the numbers are the tree's own."""
    text = _PREFIX.sub("", text.strip())
    text = _BOX.sub("", text)
    return re.sub(r"(\*\*|__)(.+?)\1", r"\2", text).strip()


def _row(match: re.Match[str]) -> _Row:
    number, words = match["number"] or "", match["words"]
    if match["step"] or match["han"]:
        rank = 0
    elif match["round"] or match["ring"] or "." in number:
        rank = 2
    else:
        rank = 1
    return _Row(
        indent=len(match["indent"].expandtabs(4)),
        rank=rank,
        numbered=match["bullet"] is None,
        box=_BOX.match(words) is not None,
        words=_unpaired(plain(words)),
    )


def _unpaired(words: str) -> str:
    """Remove the closing mark in ``**1. Read it**``, whose opening mark went with the number."""
    for mark in ("**", "__"):
        if words.count(mark) == 1:
            return words.replace(mark, "").strip()
    return words


def _can_only_be_steps(text: str, rows: list[_Row]) -> bool:
    items = [row for row in rows if row.numbered or row.box]
    if len(items) < 2:
        return False
    # Further indented lines belong to an item; a heading is no prose.
    lines = [
        line for line in _ITEM.sub("", text).split("\n") if line[:1].strip() and not line.startswith("#")
    ]
    return sum(len(line.strip()) for line in lines) <= _MOST_PROSE
