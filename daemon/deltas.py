"""Deltas for other clients than the user's own: joined when many arrive at once, with no secret split up. Pure.

A key in the output of a model or command may be split anywhere, and no piece of it looks like one. So a line is checked
as a whole, and its last run of signs is held back until another kind of sign follows it; the stored part that ends each
text has the rest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.model.events import Delta, Event, MessageAdded, MessageDiscarded, MessagePartAdded
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterable

_IN_KEY = frozenset(map(chr, range(0x21, 0x7F))) - frozenset("\"'`<>(){}[],;")
"""Signs of keys and of their prefix (``KEY=``); a text in another script is not held back."""
_MOST_HELD = 600
_OPEN_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]*\Z|-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?!.*-----END )", re.DOTALL
)
_MOST_LINE = 4_000
_MOST_TEXTS = 64

_Key = tuple[str, int, str, str | None]


class _PendingText(Struct):
    line: str = ""
    """Text since the last line end, before redaction."""
    told: str = ""
    """Text that clients have received of this line."""


class Deltas:
    """The texts that grow in one session."""

    def __init__(self) -> None:
        self._growing: dict[_Key, _PendingText] = {}

    def told(self, deltas: Iterable[Delta]) -> list[Delta]:
        """Return the deltas that clients may receive now, one for each text that grew."""
        joined: dict[_Key, list[Delta]] = {}
        for delta in deltas:
            joined.setdefault(_key(delta), []).append(delta)
        found: list[Delta] = []
        for key, pieces in joined.items():
            text = self._safe(key, "".join(piece.text for piece in pieces))
            if text:
                found.append(pieces[-1].model_copy(update={"text": text}))
        return found

    def stored(self, event: Event) -> None:
        """Handle an event with a complete text, or one that discards a text."""
        if isinstance(event, MessagePartAdded):
            gone = [key for key in self._growing if key[:2] == (event.message_id, event.index)]
        elif isinstance(event, MessageDiscarded):
            gone = [key for key in self._growing if key[0] == event.message_id]
        elif isinstance(event, MessageAdded):
            message = event.message
            gone = [
                key
                for key in self._growing
                if key[0] == message.message_id or (key[3] is not None and key[3] == message.tool_call_id)
            ]
        else:
            return
        for key in gone:
            del self._growing[key]

    def _safe(self, key: _Key, text: str) -> str:
        growing = self._growing.get(key)
        if growing is None:
            while len(self._growing) >= _MOST_TEXTS:
                del self._growing[next(iter(self._growing))]
            growing = self._growing[key] = _PendingText()
        growing.line += text
        whole = growing.line
        if (block := _OPEN_BLOCK.search(whole)) is not None:
            whole = whole[: block.start()]
        else:
            whole = whole[: len(whole) - _held(whole)]
        clean = SECRETS.text(whole)
        # Otherwise the text sent so far is part of a secret, and the rest of the line is withheld.
        goes_on = clean.startswith(growing.told)
        more = clean[len(growing.told) :] if goes_on else ""
        growing.told = clean if goes_on else growing.told
        end = whole.rfind("\n") + 1
        if not end and len(growing.line) > _MOST_LINE:
            end = len(whole)
        if end:
            growing.line = growing.line[end:]
            growing.told = SECRETS.text(whole[end:]) if goes_on else ""
        return more


def _held(text: str) -> int:
    """Return how many signs at the end may be the beginning of a key."""
    count = 0
    for sign in reversed(text[-_MOST_HELD:]):
        if sign not in _IN_KEY:
            break
        count += 1
    return count if count < _MOST_HELD else 0


def _key(delta: Delta) -> _Key:
    return delta.message_id, delta.index, delta.kind, delta.tool_call_id
