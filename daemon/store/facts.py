"""Take from the JSON of an event what search, lists and sums need of it. Pure.

The JSON may come from a log that another program wrote, so nothing is taken for granted.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

from daemon.model.messages import whole_characters
from tools.json_access import mapping, mappings

Row = dict[str, Any]
"""Values of one row by column. Any: their types are those of the columns."""

_LARGEST = 2**63 - 1
_MOST = 2**40
"""Tokens, milliseconds or dollars of one message at most, so that sums fit into a column."""
_LONGEST_TEXT = 1_000_000
_LONGEST_KEY = 600
"""Characters of what is in an index: PostgreSQL takes 2,700 bytes there."""


class Said(NamedTuple):
    """A text that search looks at."""

    kind: str
    """One of ``searching.KINDS``."""
    key: str
    """The message, goal or path that it is the text of; a later text with this key replaces it."""
    text: str
    """As it was written; the first million characters."""


class Facts(NamedTuple):
    """The message and the texts of one event."""

    message: Row | None = None
    """The columns of its message in a database."""
    texts: tuple[Said, ...] = ()


def facts(record: object) -> Facts:
    """Return the rows for the JSON of one event."""
    event = mapping(record)
    match event.get("event"):
        case "message_added":
            return _message(mapping(event.get("message")))
        case "file_changed":
            path = _text(event.get("path"))
            return Facts(texts=_said("file", path, path))
        case "goal_added":
            goal = mapping(event.get("goal"))
            return Facts(texts=_said("goal", _text(goal.get("id")), _text(goal.get("description"))))
        case "goal_updated":
            changed = mapping(event.get("updates"))
            if "description" not in changed:
                return Facts()
            return Facts(texts=_said("goal", _text(event.get("goal_id")), _text(changed["description"])))
        case _:
            return Facts()


def trace_row(meta: object) -> Row:
    """Return the columns of a trace for the JSON of its metadata."""
    said = mapping(meta)
    stop = said.get("last_stop_reason")
    return {
        "title": _text(said.get("title")),
        "folder": _text(said.get("workspace")),
        "agent": _text(said.get("agent")),
        "status": "running" if said.get("running") is True else _text(stop),
        "created_at": moment(said.get("created_at")),
    }


def title_text(title: str) -> tuple[Said, ...]:
    """Return the text by which a title is found."""
    return _said("title", "", title)


def fold(text: str) -> str:
    """Return ``text`` as search compares it: in one case, with single spaces."""
    return " ".join(text.split()).casefold().replace("\0", "\ufffd")


def _message(message: dict[str, Any]) -> Facts:
    message_id, sequence = _key(_text(message.get("message_id"))), message.get("sequence")
    if not message_id or type(sequence) is not int or abs(sequence) > _LARGEST:
        return Facts()
    usage, cost = mapping(message.get("usage")), message.get("cost")
    goal = message.get("goal_id")
    row = {
        "id": message_id,
        "sequence": sequence,
        "goal": _text(goal) if isinstance(goal, str) else None,
        "role": _text(message.get("role")),
        "created_at": moment(message.get("created_at")),
        "model": _text(message.get("model")) or None,
        "cost": None if usage.get("unpriced") else _money(cost),
        "duration_ms": _count(message.get("duration_ms")),
        **{name: _count(usage.get(name)) for name in ("input", "output", "cache_read", "cache_write")},
    }
    parts = mappings(message.get("content"))
    said = " ".join(_text(part.get("text")) for part in parts if part.get("type") == "text")
    return Facts(row, _said("message", message_id, said))


def _said(kind: str, key: str, text: str) -> tuple[Said, ...]:
    return (Said(kind, _key(key), text[:_LONGEST_TEXT]),) if text.strip() else ()


def _key(name: str) -> str:
    """Return a name, or for one that is too long its beginning and a hash of all of it."""
    if len(name) <= _LONGEST_KEY:
        return name
    return f"{name[: _LONGEST_KEY // 2]}…{hashlib.sha256(name.encode()).hexdigest()}"


def storable(text: str) -> str:
    """Return a text of a client as it can be stored and compared: PostgreSQL refuses zeros and half characters."""
    return whole_characters(text).replace("\0", "\ufffd")


def _text(value: object) -> str:
    return storable(value) if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= _MOST else 0


def _money(value: object) -> float | None:
    if isinstance(value, int | float) and abs(value) <= _MOST:  # false for NaN
        return float(value)
    return None


def aware(time: datetime) -> datetime:
    """Return a time with a zone. One that has none is in UTC: SQLite keeps no zones."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def moment(value: object) -> datetime | None:
    """Return a time in UTC, where it is one: a time of a row, or text of ISO 8601."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        return aware(found).astimezone(UTC) if isinstance(found, datetime) else None
    except (ValueError, OverflowError):  # OverflowError: at the ends of the calendar
        return None
