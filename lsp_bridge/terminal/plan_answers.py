"""The planner's talk with the model, which the person is told by the goals that come of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lsp_bridge.loose import string

_ASKS = '{"steps": [{"goal"'


def asks_for_plan(parts: Iterable[dict[str, Any]]) -> bool:
    """Whether a message asks the model for a plan as JSON (``daemon.planner.words``)."""
    notes = [string(part.get("text")) for part in parts if part.get("type") == "note"]
    return any(note.startswith("<planning>\n") and _ASKS in note for note in notes)


def is_plan(text: str) -> bool:
    """Whether an answer is nothing but JSON, in a fence or not: nothing in it is meant for the person."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text.partition("\n")[2][:-3].strip()
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True
