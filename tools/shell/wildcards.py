"""Wildcards of file names as bash interprets them. Pure.

Where the interpretation depends on more than the text (the locale, quotes in the line), the answer covers more names,
never fewer.
"""

from __future__ import annotations

import re

_EXACT = re.compile(r"\[[!^]?[A-Za-z0-9_.,-]+\]")
"""A bracket expression of which nothing is special but ``!``, ``^`` and ranges."""
_BRACKETS = re.compile(
    r"\[[!^]?\]?(?:[^\[\]\\]|\[:[a-z]+:\]|\[=[^=\]]+=\]|\[\.[^.\]]+\.\])+\]|\[[!^]?\[\.\]\.\]\]"
)
_RANGE = re.compile(r"(.)-(.)")


def simple(part: str, *, quoted: bool = False) -> str:
    """Return one component of a path as a pattern of ``*`` and ``?`` only, which matches at least as much as the
    wildcard.

    ``quoted``: something in it was quoted, so that the brackets may be plain characters, or have another content.
    """
    if "[" not in part:
        return part
    if not quoted:
        found = _BRACKETS.sub("?", part)
        if "[" not in found or "]" not in found[found.index("[") :]:
            # An unclosed bracket is a plain character.
            return found
    first, last = part.index("["), part.rfind("]")
    return part if last < first else f"{part[:first]}*{part[last + 1 :]}"


def expression(part: str) -> re.Pattern[str]:
    """Return an expression for ``fullmatch`` with a name: not case-sensitive, because a shell may be configured so."""
    pieces: list[str] = []
    at = 0
    exact = "[" not in _EXACT.sub("", part)
    text = part if exact else simple(part)
    while at < len(text):
        bracket = _EXACT.match(text, at) if exact else None
        if bracket is not None:
            pieces.append(_class(bracket.group()))
            at = bracket.end()
            continue
        pieces.append({"*": ".*", "?": "."}.get(text[at]) or re.escape(text[at]))
        at += 1
    return re.compile("".join(pieces), re.DOTALL | re.IGNORECASE)


def _class(text: str) -> str:
    inner = text[1:-1]
    negated = inner[0] in "!^"
    members = inner[1:] if negated else inner
    ranges = _RANGE.findall(members)
    if not members or "--" in members or any(not _plain_range(low, high) for low, high in ranges):
        return "."
    body = re.sub(r"(?<!\w)-|-(?!\w)", r"\\-", members.replace(".", r"\."))
    if negated:
        # Ignoring case, "not e" would exclude E too.
        return "." if re.search("[A-Za-z]", members) else f"[^{body}]"
    return f"[{body}]"


def _plain_range(low: str, high: str) -> bool:
    """Return whether a range is plain like ``a-z``; another one may mean more in another locale, or nothing."""
    kinds = (str.isdigit, str.islower, str.isupper)
    return low <= high and any(kind(low) and kind(high) for kind in kinds)


def suffix(glob: str) -> str | None:
    """Return a glob of an ignore file or of ``rg -g`` as the suffix of a path, in which ``*`` matches folders, too.

    None: it may match anything.
    """
    if re.search(r"[{}\\]", glob):
        return None
    return re.sub(r"\*+/?\*?", "*", glob.lstrip("/"))
