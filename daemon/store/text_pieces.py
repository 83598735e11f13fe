"""Takes secrets out of a text of any length while it is read, holding a few pieces of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from daemon.redaction import SECRETS

PIECE = 256 * 1024
_BEHIND = 64 * 1024
"""Bytes behind a cut that are looked at: no secret is longer, but one that the next piece shows to go on."""


def text_without_secrets(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """The text that ``read`` gives, without secrets, piece by piece; what is no text keeps its bytes.

    Cut only where no secret stands: between two lines, where there are any.
    """
    held = b""
    while block := read(PIECE):
        held += block
        if len(held) >= PIECE + _BEHIND:
            cut = _cut(held)
            yield _clean(held[:cut])
            held = held[cut:]
    yield _clean(held)


def _cut(data: bytes) -> int:
    """Where to divide ``data``, not far from its end."""
    spans = SECRETS.byte_spans(data)
    end = len(data) - _BEHIND
    for wanted in (data.rfind(b"\n", 0, end) + 1, data.rfind(b" ", 0, end) + 1, end):
        cut = wanted
        for start, stop in reversed(spans):
            if start < cut < stop:
                # In front of it, and of the name that it is assigned to.
                cut = max(data.rfind(b"\n", 0, start) + 1, start - 100)
        if cut > 0:
            return cut
    return end


def _clean(data: bytes) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    clean = SECRETS.text(text)
    return data if clean is text else clean.encode("utf-8", "surrogateescape")
