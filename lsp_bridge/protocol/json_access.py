"""Reading plain JSON without the models: the terminal client starts without pydantic.

A field of the wrong kind reads as empty, so that a newer daemon cannot break an older terminal.
"""

from __future__ import annotations

from typing import Any, cast


def mapping(value: object) -> dict[str, Any]:
    """``value`` when it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """The objects in ``value`` when it is a JSON array, else none."""
    return [mapping(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def strings(value: object) -> list[str]:
    """The strings in ``value`` when it is a JSON array, else none."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]


def string(value: object) -> str:
    """``value`` when it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int:
    """``value`` when it is a whole number, else 0."""
    return value if isinstance(value, int) else 0


def number(value: object) -> float:
    """``value`` when it is a number, else 0."""
    return float(value) if isinstance(value, int | float) else 0.0
