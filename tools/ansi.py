"""Escape sequences of terminals: recognised also where a stream cuts them in two, and taken out or kept as colours."""

from __future__ import annotations

import re

ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[P\]X^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # strings: window title, links, clipboard
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_UNFINISHED = re.compile(r"(?:\x1b(?:[P\]X^_][^\x07\x1b\x9c]*\x1b?|\[?[0-?]*[ -/]*)|\x9b[0-?]*[ -/]*)$")
_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
_LONGEST_ESCAPE = 4096


def plain(text: str) -> str:
    """Return ``text`` without escape sequences."""
    return ESCAPE.sub("", text)


def styled(text: str) -> str:
    """Return ``text`` with only those escape sequences that set colours and styles."""
    return ESCAPE.sub(lambda found: found[0] if _STYLE.fullmatch(found[0]) else "", text)


class Whole:
    """Joins pieces of a stream so that no escape sequence is cut between two of them."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that is complete so far; the beginning of an escape sequence is held back."""
        text = self._held + piece
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished[0] if unfinished else ""
        complete = text[: unfinished.start()] if unfinished else text
        if len(self._held) > _LONGEST_ESCAPE:
            # No sequence is that long: it is text behind a stray character.
            complete, self._held = complete + self._held[2:], ""
        return complete
