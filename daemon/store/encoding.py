"""JSON as the store writes it."""

from __future__ import annotations

import json

from daemon.model.messages import whole_characters


def json_text(value: object, indent: int | None = None) -> str:
    """``value`` as JSON that UTF-8 can hold; on one line without an ``indent``."""
    separators = (",", ":") if indent is None else None
    return whole_characters(json.dumps(value, ensure_ascii=False, separators=separators, indent=indent))
