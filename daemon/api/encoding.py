"""JSON of answers, without secrets, in pieces: a plan of thousands of goals must not keep the event loop waiting.

Encoding and looking for secrets are calls that hold the interpreter; between two pieces others have their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from daemon.model.encoding import json_bytes

_ITEMS = 20
"""Of a list that are encoded at once. What belongs together (a message, a goal) stays so: secrets are known by it."""


def answer_bytes(value: object) -> bytes:
    """``value`` as JSON in UTF-8, as ``daemon.model.encoding.json_bytes`` has it. Call it in a thread."""
    if isinstance(value, dict):
        return b"{" + b",".join(_fields(cast("dict[str, object]", value))) + b"}"
    if isinstance(value, list):
        items = cast("list[object]", value)
        parts = (json_bytes(items[at : at + _ITEMS])[1:-1] for at in range(0, len(items), _ITEMS))
        return b"[" + b",".join(parts) + b"]"
    return json_bytes(value)


def _fields(fields: dict[str, object]) -> Iterator[bytes]:
    # Plain values with their names: those may be what says that they are secrets.
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
