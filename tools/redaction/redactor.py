"""Remove secrets from stored data: provider keys, and values with the shape of a key, become ``[redacted: …last4]``.

It works on bytes of JSON or text just before they are written, whatever they contain, so that no caller has to think of
it; the live session keeps the originals. The result is valid JSON, and the operation is idempotent.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.redaction import secret_shapes as shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MIN_KEY = 8
"""Characters of a known key below which it is no key."""
_MAX_KEYS = 400
_PLACEHOLDERS = frozenset(
    ["anything", "whatever", "undefined", "redacted", "not-needed", "notneeded", "no-key-required", "no-key-needed",
     "placeholder", "lm-studio", "localhost", "dummy-key", "changeme"]
)  # fmt: skip
"""Values that users set for servers that want no key: ordinary words, which must not vanish from conversations."""
_MARK = re.compile(r"\[redacted(?:: [^\]\n]{1,20})?\]")
_KEY_NAME = re.compile(r".*(?:KEY|TOKEN|SECRET)(?!.*_FILE$).*", re.DOTALL)
"""Names of variables that hold a key; others hold an address or a file's name."""
SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PWD|CREDENTIAL|AUTH(?!OR)|BEARER|COOKIE|_PAT$", re.IGNORECASE
)
"""Names of settings, headers and options whose values are probably secret."""
_ORDINARY = re.compile(r"[A-Za-z]{1,15}(?:[\s,;:/+._-]{1,2}[A-Za-z]{1,15})*|[\d.-]{1,10}")
"""Words and dates, which must not vanish from conversations: ``application/json``, ``database,functions``."""
_ROUNDS = 4

CharSpan = tuple[int, int]
"""Start and end of a secret, in characters."""


class _Known(Struct, frozen=True):
    """A known key in its possible forms in a text. ``pieces``: substrings to search, with the offset in the key."""

    value: bytes
    mark: bytes

    @property
    def head(self) -> bytes:
        return self.value[: max(MIN_KEY, min(len(self.value) // 2, 24))]

    @property
    def tail(self) -> bytes:
        return self.value[-len(self.head) :]


class Redactor:
    """The patterns, and the keys that are known. One lives in each process: see ``SECRETS``."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._all: dict[bytes, _Known] = {}
        """By value, the newest last."""
        self._known: tuple[_Known, ...] = ()
        """The longest first."""
        self.spaced = False
        """A known key has white space in it, as hardly any has."""
        self._last_env: Mapping[str, str] = {}
        self.register(keys)

    def register(self, keys: Iterable[str]) -> None:
        """Remember the values of key variables; short ones and placeholders are passed over."""
        known = dict(self._all)
        for key in map(str.strip, keys):
            if len(key) < MIN_KEY or key.lower() in _PLACEHOLDERS:
                continue
            mark = shapes.mark(key.encode(errors="replace"))
            form = key
            for _ in range(3):  # plain, within JSON, and within JSON within JSON (arguments of a call)
                value = form.encode(errors="replace")
                known[value] = known.pop(value, None) or _Known(value, mark)
                form = json.dumps(form, ensure_ascii=False)[1:-1]
        for value in tuple(known)[:-_MAX_KEYS]:
            del known[value]
        self._all = known
        self._known = tuple(sorted(known.values(), key=lambda entry: -len(entry.value)))
        self.spaced = any(len(entry.value.split()) > 1 for entry in self._known)

    def register_env(self, env: Mapping[str, str]) -> None:
        """Remember the keys among provider variables; addresses are no secrets."""
        if self._last_env != env:  # this runs for each request of a client
            self._last_env = dict(env)
            self.register(value for name, value in env.items() if _KEY_NAME.fullmatch(name))

    def text(self, text: str) -> str:
        """Plain text without secrets. Never raises."""
        data = text.encode(errors="surrogatepass")
        clean = self._clean(data, is_json=False)
        return text if clean is data else clean.decode(errors="surrogatepass")

    def json(self, data: bytes) -> bytes:
        """Return JSON text (UTF-8) without secrets in its strings; valid JSON stays valid. Never raises."""
        return self._clean(data, is_json=True)

    def spans(self, text: str) -> list[CharSpan]:
        """Return the spans of whole secrets in plain text, in order, without overlaps.

        For callers that cut it. A secret at the very end may be incomplete and is not among them.
        """
        data = text.encode(errors="surrogatepass")
        found = self.byte_spans(data)
        if len(data) == len(text):
            return found
        return [(_characters(data, start), _characters(data, end)) for start, end in found]

    def byte_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the spans of secrets in the bytes of a text."""
        found = _merged([*self._keys(data), *shapes.spans(data, is_json=False, ends=False)])
        return [(start, end) for start, end, _ in found]

    def _clean(self, data: bytes, *, is_json: bool) -> bytes:
        for _ in range(_ROUNDS):  # the text after a replaced secret may now begin a word
            spans = [*self._keys(data), *shapes.spans(data, is_json=is_json)]
            if not spans:
                break
            data = _replaced(data, spans)
        return data

    def _keys(self, data: bytes) -> Iterator[shapes.Span]:
        for key in self._known:
            value, head, tail = key.value, key.head, key.tail
            for at in shapes.occurrences(data, head):
                length = len(head)
                while (
                    length < len(value) and data[at + length : at + length + 1] == value[length : length + 1]
                ):
                    length += 1
                yield at, at + length, key.mark
            for at in shapes.occurrences(data, tail):
                # Long outputs are cut in the middle, so the remainder may end with the end of a key.
                begin = at
                left = len(value) - len(tail)
                while left and begin and data[begin - 1] == value[left - 1]:
                    begin, left = begin - 1, left - 1
                yield begin, at + len(tail), key.mark


def _characters(data: bytes, at: int) -> int:
    return len(data[:at].decode(errors="surrogatepass"))


def _merged(spans: list[shapes.Span]) -> list[shapes.Span]:
    merged: list[shapes.Span] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and span[0] < merged[-1][1]:
            start, end, mark = merged[-1]
            merged[-1] = (start, max(end, span[1]), mark)
        else:
            merged.append(span)
    return merged


def _replaced(data: bytes, spans: list[shapes.Span]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for start, end, mark in _merged(spans):
        pieces += (data[done:start], mark)
        done = end
    return b"".join((*pieces, data[done:]))


SECRETS = Redactor()
"""The redactor of this process: its log is one, and keys come from any client."""


def is_redacted(text: str) -> bool:
    """Return whether ``text`` differs from its stored form, or comes from the record and differs from the original."""
    return ("[redacted" in text and _MARK.search(text) is not None) or SECRETS.text(text) != text


def may_be_secret(name: str, value: str) -> bool:
    """Return whether the value of a header, or of a part of a query, may be secret, by its name or its looks."""
    named = SECRET_NAME.search(name) is not None or "authorization" in name.lower()
    return named or _ORDINARY.fullmatch(value.strip()) is None
