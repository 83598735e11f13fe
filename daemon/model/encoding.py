"""JSON as the store writes it: that UTF-8 can hold, and of a session's record without secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from daemon.model.messages import whole_characters
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterator


def json_text(value: object, indent: int | None = None) -> str:
    """Return ``value`` as JSON that UTF-8 can hold; on one line without an ``indent``."""
    separators = (",", ":") if indent is None else None
    return whole_characters(json.dumps(value, ensure_ascii=False, separators=separators, indent=indent))


def json_bytes(value: object, indent: int | None = None) -> bytes:
    """Encode a value as JSON in UTF-8, without secrets. Everything that is stored of a session goes through here."""
    return SECRETS.json(json_text(value, indent).encode())


_ITEMS = 20
"""List items that are encoded together. A message or goal is never split, because its secrets may span several
fields."""


def answer_bytes(value: object) -> bytes:
    """Return ``value`` as JSON in UTF-8, as ``daemon.model.encoding.json_bytes`` has it. Call it in a thread."""
    if isinstance(value, dict):
        return b"{" + b",".join(_fields(cast("dict[str, object]", value))) + b"}"
    if isinstance(value, list):
        items = cast("list[object]", value)
        parts = (json_bytes(items[at : at + _ITEMS])[1:-1] for at in range(0, len(items), _ITEMS))
        return b"[" + b",".join(parts) + b"]"
    return json_bytes(value)


def _fields(fields: dict[str, object]) -> Iterator[bytes]:
    # Keep values with their names: a name may show that the value is a secret.
    plain: dict[str, object] = {}
    for name, value in fields.items():
        within = isinstance(value, dict | list)
        if not within:
            plain[name] = value
        if plain and (within or len(plain) == _ITEMS):
            yield json_bytes(plain)[1:-1]
            plain = {}
        if within:
            yield json_bytes(name) + b":" + answer_bytes(cast("object", value))
    if plain:
        yield json_bytes(plain)[1:-1]
