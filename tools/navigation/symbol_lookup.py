"""Locate a symbol that a model named in a file: by its line, by the outline, or by the text alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.text.lines import Line, split_lines
from tools.text.truncate import head
from tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.language_ports import CodeSymbol

MAX_LISTED = 8
_SHOWN = 200
# Separators between a name and its container, in various languages.
_PARTS = re.compile(r"::|->|[.#/]")

Place = tuple[int, int]
"""Line and column, both from 1."""


def split_name(symbol: str) -> tuple[str, str]:
    """Container and name: ``shop.Cart.total()`` is ``total`` of ``shop.Cart``."""
    whole = re.sub(r"\(.*\)$", "", symbol.strip())
    name = _PARTS.split(whole)[-1]
    if not name:
        return "", whole
    owner = ".".join(part for part in _PARTS.split(whole[: -len(name)]) if part)
    return owner, name


def columns(line: str, symbol: str) -> list[int]:
    """Return columns (from 1) of a line where the name occurs; those with its container, if there are any."""
    owner, name = split_name(symbol)
    whole = re.sub(r"\(.*\)$", "", symbol.strip())
    if owner and (found := [start + len(whole) - len(name) for start in _occurrences(line, whole)]):
        return [start + 1 for start in found]
    return [start + 1 for start in _occurrences(line, name)]


def _occurrences(line: str, name: str) -> Iterator[int]:
    before = r"(?<![\w$])" if re.match(r"[\w$]", name) else ""
    after = r"(?![\w$])" if re.search(r"[\w$]$", name) else ""
    for found in re.finditer(before + re.escape(name) + after, line):
        yield found.start()


def on_line(text: str, symbol: str, line: int, name: str) -> list[Place]:
    """Return the places of a symbol on one line. Raises ToolError with the line's content; ``name`` is the file's."""
    lines = split_lines(text)
    if line > len(lines):
        raise ToolError(f"{name} has {len(lines)} lines; line {line} is beyond its end.")
    body = lines[line - 1].body
    found = [(line, column) for column in columns(body, symbol)]
    if found:
        return found
    others = [number for number, _ in _all(lines, symbol)]
    where = f" It is on {_numbers(others)}." if others else " It is nowhere in the file."
    raise ToolError(
        f"{name}:{line} has no `{split_name(symbol)[1]}`. It says: {head(body.strip(), _SHOWN)}\n{where.strip()}"
    )


def in_outline(outline: Sequence[CodeSymbol], text: str, symbol: str, name: str) -> Place | None:
    """Return the one matching symbol of a file's outline; None when it has none of this name.

    Raises ToolError that lists them when different symbols have the name.
    """
    owner, wanted = split_name(symbol)
    # Servers append arguments to names ("total()", "operator[]"), and name containers in their own way.
    found = [item for item in outline if item.name == wanted or item.name.split("(")[0] == wanted]
    if owner:
        found = [item for item in found if f".{item.container}".endswith(f".{owner}")] or found
    if len({item.container for item in found}) > 1:
        top = [item for item in found if not item.container]
        if len(top) != 1 or owner:
            listed = "\n".join(
                f"{item.place.line}: {item.kind} {item.container + '.' if item.container else ''}{item.name}"
                for item in found[:MAX_LISTED]
            )
            more = f"\n… and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
            raise ToolError(f"{name} defines `{wanted}` more than once: say which line.\n{listed}{more}")
        found = top
    if not found:
        return None
    place = found[0].place
    lines = split_lines(text)
    # In flat outlines the range begins with the declaration, e.g. at "def".
    for number in range(place.line, min(place.end_line, place.line + 20, len(lines)) + 1):
        first = place.column if number == place.line else 1
        for column in columns(lines[number - 1].body, wanted):
            if column >= first:
                return number, column
    return place.line, place.column


def in_text(text: str, symbol: str, name: str, *, one: bool) -> list[Place]:
    """Return where the name occurs in a file, from the top. Raises ToolError when nowhere, or when it must be
    ``one``."""
    found = _all(split_lines(text), symbol)
    wanted = split_name(symbol)[1]
    if not found:
        raise ToolError(f"{name} has no `{wanted}`. Search for it with grep, or with operation find.")
    numbers = [line for line, _ in found]
    if one and len(set(numbers)) > 1:
        raise ToolError(f"`{wanted}` is on {_numbers(numbers)} of {name}: say which line.")
    return found


def _all(lines: Sequence[Line], symbol: str) -> list[Place]:
    return [(number, column) for number, line in enumerate(lines, 1) for column in columns(line.body, symbol)]


def _numbers(lines: Sequence[int]) -> str:
    once = list(dict.fromkeys(lines))
    shown = ", ".join(map(str, once[:MAX_LISTED]))
    more = f" and {len(once) - MAX_LISTED} more" if len(once) > MAX_LISTED else ""
    return f"line{'' if len(once) == 1 else 's'} {shown}{more}"
