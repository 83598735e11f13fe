"""Diagnostics on the wire, and problems as the tools know them. Servers are not trusted to send good data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lsp_bridge.language_client.text.positions import character_column
from tools.language_ports import Problem, Severity
from tools.text.truncate import head

if TYPE_CHECKING:
    from pathlib import Path

RawDiagnostic = Mapping[str, Any]
"""A diagnostic as it came over the wire; Any because nothing has been checked yet."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")
"""In LSP's order: the wire's 1 is the first."""

MAX_RAW = 20_000
"""Diagnostics of one file that are taken in at once; a flood keeps the errors first."""
_MAX_MESSAGE = 2000
_MAX_LABEL = 200
_MAX_PLACE = 2**31 - 1
"""LSP's ``uinteger`` ends there."""


def severe(items: Iterable[object], least: Severity) -> tuple[RawDiagnostic, ...]:
    """Return the diagnostics at least as severe as ``least``; whatever is not a diagnostic is dropped.

    Of too many (``MAX_RAW``) the most severe are kept, in their order.
    """
    limit = SEVERITIES.index(least) + 1
    kept: list[RawDiagnostic] = []
    for item in items:
        if isinstance(item, dict):
            diagnostic = cast("RawDiagnostic", item)
            if _severity(diagnostic) <= limit:
                kept.append(diagnostic)
    if len(kept) > MAX_RAW:
        order = sorted(range(len(kept)), key=lambda index: _severity(kept[index]))[:MAX_RAW]
        kept = [kept[index] for index in sorted(order)]
    return tuple(kept)


def to_problems(path: Path, items: Sequence[RawDiagnostic], lines: Sequence[str] = ()) -> list[Problem]:
    """Problems in ``path``; ``lines`` is its text, for columns in characters instead of UTF-16 units."""
    problems: list[Problem] = []
    for item in items:
        line, units = _start(item)
        column = character_column(lines[line], units) if line < len(lines) else units
        problems.append(
            Problem(
                path=path,
                line=line + 1,
                column=column + 1,
                severity=SEVERITIES[_severity(item) - 1],
                message=_message(item),
                source=_text(item.get("source")),
                code=_text(item.get("code")),
            )
        )
    return problems


def _severity(item: RawDiagnostic) -> int:
    value = item.get("severity")
    # LSP leaves a missing severity to the client; editors show such a diagnostic as an error.
    return value if isinstance(value, int) and 1 <= value <= len(SEVERITIES) else 1


def _start(item: RawDiagnostic) -> tuple[int, int]:
    try:
        start = item["range"]["start"]
        return _place(start["line"]), _place(start["character"])
    except (KeyError, TypeError, ValueError, OverflowError):  # JSON's 1e999 is infinite
        return 0, 0


def _place(number: Any) -> int:
    return min(max(0, int(number)), _MAX_PLACE)


def _message(item: RawDiagnostic) -> str:
    message = item.get("message")
    if isinstance(message, dict):  # LSP 3.18: MarkupContent
        message = cast("dict[str, object]", message).get("value")
    text = message if isinstance(message, str) else ""
    return text if len(text) <= _MAX_MESSAGE else head(text, _MAX_MESSAGE) + " …"


def _text(value: object) -> str:
    if isinstance(value, str):
        return head(value, _MAX_LABEL)
    # Python refuses to print integers of thousands of digits, which JSON allows.
    return str(value) if isinstance(value, int) and abs(value) <= _MAX_PLACE else ""
