"""JSON as the store writes it: that UTF-8 can hold, and of a session's record without secrets."""

from __future__ import annotations

import json

from daemon.model.messages import whole_characters
from daemon.redaction import SECRETS


def json_text(value: object, indent: int | None = None) -> str:
    """``value`` as JSON that UTF-8 can hold; on one line without an ``indent``."""
    separators = (",", ":") if indent is None else None
    return whole_characters(json.dumps(value, ensure_ascii=False, separators=separators, indent=indent))


def json_bytes(value: object, indent: int | None = None) -> bytes:
    """The same in UTF-8, without secrets. All that is stored of a session goes through here, so nothing escapes."""
    return SECRETS.json(json_text(value, indent).encode())
