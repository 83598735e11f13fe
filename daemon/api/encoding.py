"""JSON of answers, without secrets, in pieces: a plan of thousands of goals must not keep the event loop waiting.

Encoding and looking for secrets are calls that hold the interpreter; between two pieces others have their turn.
"""

from __future__ import annotations

from typing import cast

from daemon.store.encoding import json_bytes

_ITEMS = 20
"""Of a list that are encoded at once. What belongs together (a message, a goal) stays so: secrets are known by it."""


def answer_bytes(value: object) -> bytes:
    """``value`` as JSON in UTF-8, as ``daemon.store.encoding.json_bytes`` has it. Call it in a thread."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return b"{" + b",".join(_field(name, each) for name, each in fields.items()) + b"}"
    if isinstance(value, list):
        items = cast("list[object]", value)
        parts = (json_bytes(items[at : at + _ITEMS])[1:-1] for at in range(0, len(items), _ITEMS))
        return b"[" + b",".join(parts) + b"]"
    return json_bytes(value)


def _field(name: str, value: object) -> bytes:
    if isinstance(value, dict | list):
        return json_bytes(name) + b":" + answer_bytes(cast("object", value))
    # With its name: that may be what says that it is a secret.
    return json_bytes({name: value})[1:-1]
