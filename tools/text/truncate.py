"""Shorten texts without cutting a secret in two: half a key is no longer recognised.

Secrets are removed last (``redactor``), from texts that were shortened long before, for titles, labels and results. So
every text from a user, a model, a tool or a file is cut by these functions: if the limit would split a secret, or
separate it from what identifies it (the ``@`` after a password, the name before a token), the whole secret is left out.
Other texts are cut exactly at the limit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.redaction.redactor import CharSpan, Redactor

_NEAR = 6_000
"""Characters on each side of a border that are looked at; keys are shorter, but for those of the next line."""
_KEY_BLOCK = 20_000
_BLOCK = "PRIVATE KEY"
_SHORTEST = 8
"""Signs of the shortest word that holds a secret, e.g. ``a://b:c@``."""
_WORD_HEAD, _WORD_TAIL = 40, 20
"""Characters that are kept of a long word."""
_LONG_WORD = re.compile(rf"[^\s;&|()<>`'\"$]{{{_WORD_HEAD + _WORD_TAIL + 20},}}")
"""A word as shells see it: what parts commands ends it, so that no shortened word hides a command."""


def head(text: str, length: int) -> str:
    """Return the first ``length`` characters of ``text``, fewer where a secret crosses the limit."""
    return text if len(text) <= length else text[: _before(text, max(0, length))]


def tail(text: str, length: int) -> str:
    """Return the last ``length`` characters of ``text``, fewer where a secret crosses the limit."""
    return text if len(text) <= length else text[_behind(text, len(text) - max(0, length)) :]


def short(text: str, length: int) -> str:
    """Return ``text`` in at most ``length`` characters, with ``…`` for the omitted part."""
    return text if len(text) <= length else f"{head(text, length - 1)}…"


def one_line(text: str, length: int) -> str:
    """Return a shortened text without line breaks. Of a long text only the beginning is read."""
    begun = head(text, 8 * length + 200)
    line = " ".join(begun.split())
    return (
        short(line, length) if len(begun) == len(text) or len(line) > length else f"{head(line, length - 1)}…"
    )


def cut_text(text: str, length: int) -> str:
    """Return the first ``length`` characters of ``text``, and how many more there are."""
    if len(text) <= length:
        return text
    begun = head(text, length)
    return f"{begun}… ({len(text) - len(begun)} more characters)"


def abridged(text: str, length: int) -> str:
    """Return a command in about ``length`` characters, with a mark for each part that is left out.

    Long words are shortened first, so that what the command consists of stays visible. Only then is its middle cut.
    """
    if len(text) <= length:
        return text
    text = _LONG_WORD.sub(
        lambda word: _without_middle(word[0], _WORD_HEAD, _WORD_TAIL), _secrets().text(text)
    )
    if len(text) <= length:
        return text
    return _without_middle(text, length * 2 // 3, length // 3)


def _without_middle(text: str, first: int, last: int) -> str:
    begun, ended = head(text, first), tail(text, last)
    return f"{begun}…({len(text) - len(begun) - len(ended)} more characters)…{ended}"


def _secrets() -> Redactor:
    # Imported here, so that a command that truncates nothing starts without the patterns.
    from tools.redaction.redactor import SECRETS

    return SECRETS


def _before(text: str, at: int) -> int:
    """Return where a text that is to end at ``at`` ends."""
    secrets = _secrets()
    if 0 < at < len(text) and not _in_long_word(text, at) and not secrets.spaced and not _block(text, at):
        return at
    reach = _KEY_BLOCK if _block(text, at) else _NEAR
    first = max(0, at - reach)
    whole = secrets.spans(text[first : at + reach])
    end = at - first
    while end > 0:
        # A secret that ends at the border may be recognised only by what follows it.
        left = secrets.spans(text[first : first + end])
        split = [
            start for start, stop in whole if start < end and not (stop <= end and _in((start, stop), left))
        ]
        if not split:
            break
        end = min(split)
    return first + end


def _behind(text: str, at: int) -> int:
    """Return where a text that is to begin at ``at`` begins."""
    secrets = _secrets()
    reach = _KEY_BLOCK if _block(text, at) else _NEAR
    first = max(0, at - reach)
    whole = secrets.spans(text[first : at + reach])
    begin, last = at - first, min(len(text), at + reach)
    while first + begin < last:
        left = [(start + begin, stop + begin) for start, stop in secrets.spans(text[first + begin : last])]
        split = [
            stop
            for start, stop in whole
            if stop > begin and not (start >= begin and _in((start, stop), left))
        ]
        if not split:
            break
        begin = max(split)
    return first + begin


def _in(span: CharSpan, spans: list[CharSpan]) -> bool:
    return any(start <= span[0] and span[1] <= stop for start, stop in spans)


def _block(text: str, at: int) -> bool:
    return text.find(_BLOCK, max(0, at - _KEY_BLOCK), at + _KEY_BLOCK) >= 0


def _in_long_word(text: str, at: int) -> bool:
    around = text[max(0, at - _SHORTEST) : at + _SHORTEST]
    middle = min(at, _SHORTEST)
    before, behind = around[:middle], around[middle:]
    if before[-1:].isspace() or behind[:1].isspace():
        return False
    return len((before.split() or [""])[-1]) + len((behind.split() or [""])[0]) >= _SHORTEST
