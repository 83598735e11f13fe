"""Read unvalidated JSON: a field of the wrong kind reads as empty."""

from __future__ import annotations

from typing import Any, cast


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
