"""Read unvalidated JSON: a field of the wrong kind reads as empty."""

from __future__ import annotations

import re
from typing import Any, cast

_COMMENT = re.compile(r'"(?:\\.|[^"\\])*+(?:"|\\?\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\])*+(?:"|\\?\Z)|,(?=\s*+[}\]])', re.DOTALL)
"""Each also finds strings, so that it finds nothing within them."""


def without_comments(text: str) -> str:
    """Return JSON as editors write it without comments and last commas; all else stays at its line and column."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    return _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text))


def mapping(value: object) -> dict[str, Any]:
    """Return ``value`` when it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def array(value: object) -> list[object]:
    """Return ``value`` when it is a JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the objects in ``value`` when it is a JSON array, else none."""
    return [mapping(item) for item in array(value)]


def strings(value: object) -> list[str]:
    """Return the strings in ``value`` when it is a JSON array, else none."""
    return [item for item in array(value) if isinstance(item, str)]


def string(value: object) -> str:
    """Return ``value`` when it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int:
    """Return ``value`` when it is a whole number, else 0."""
    return value if isinstance(value, int) else 0


def number(value: object) -> float:
    """Return ``value`` when it is a number, else 0."""
    return float(value) if isinstance(value, int | float) else 0.0
