"""Text as a terminal may show it: control characters made visible, escape sequences removed or kept as colours."""

from __future__ import annotations

import re
import unicodedata

from tools.text.truncate import abridged

LONGEST_TITLE = 160
"""Characters of a command in a title, which is one line."""
_TO_LOOK_AT = re.compile(r"[^\n\t -~]")
UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode's categories of invisible characters: controls, formats, halves of pairs, separators."""
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0100-\U000e01ef]"
)
"""Letters and marks by their category, but drawn as nothing: default ignorables, and the empty Braille cell."""


def shown(text: str) -> str:
    """Return ``text`` for approval by a user: nothing in it is hidden, and nothing drives the terminal. Newlines and
    tabs stay; every other invisible character becomes visible.

    A command must not be able to hide a part of itself: neither in an escape sequence, which a terminal interprets, nor
    behind characters that are drawn as nothing or reorder the line.
    """
    return _TO_LOOK_AT.sub(_shape, text)


def shown_line(text: str) -> str:
    """Return ``shown`` on one line of any length, for names and patterns: line ends and tabs get a shape, too."""
    return shown(text).replace("\n", "␊").replace("\t", "␉")


def _shape(found: re.Match[str]) -> str:
    letter = found[0]
    number = ord(letter)
    if number < 0x20:
        return chr(0x2400 + number)  # ␛, ␇, ␍: Unicode's pictures of the control characters
    if number == 0x7F:
        return "␡"
    if _BLANK.match(letter) or unicodedata.category(letter) in UNSEEN:
        return f"<U+{number:04X}>"
    return letter


def shown_brief(text: str, length: int) -> str:
    """Return ``shown_line`` in about ``length`` characters; marks show how many are left out.

    For a command in a title: its beginning must not look like the whole command.
    """
    # Cut before replacing, so that a secret across the border is still recognised.
    return shown_line(abridged(text, length))


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


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Characters that reorder displayed text, so that a diff reads differently from what it does.
_REORDER = re.compile("[\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return ``text`` without escape sequences and control characters; newlines and tabs stay.

    For output of models and tools, which is read and not approved; ``shown`` is for the rest. Characters that change
    the direction of writing are shown by their number.
    """
    text = _CONTROL.sub("", plain(text))
    return _REORDER.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


_DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def replaced(text: str) -> str:
    """Return ``text`` with a replacement character for each one that drives a terminal or reorders a line.

    For a finished document that is looked at with ``cat`` and ``watch``: unlike by ``clean``, nothing in it is joined,
    so that no Markdown appears that was not there.
    """
    return _DRIVES.sub("\ufffd", text.replace("\r\n", "\n"))


class EscapeJoiner:
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
            # No sequence is that long, so it is text after a stray character.
            complete, self._held = complete + self._held[2:], ""
        return complete
