"""Names of MCP tools as the model calls them. Pure.

Servers are untrusted: a name must not be mistaken for that of another server's tool.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from tools.access import MCP

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_NAME = 64
"""Characters of a tool's name: the limit of the providers."""
_LONGEST_SERVER = 24
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


def server_parts(names: Iterable[str]) -> dict[str, str]:
    """Return the part of tool names that stands for each server; no two are equal.

    It neither holds ``__`` nor ends in ``_``, so that the end of it can be recognised in a tool's name.
    """
    parts: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        part = re.sub("_{2,}", "_", _OTHER.sub("_", name)).strip("_")[:_LONGEST_SERVER].rstrip("_")
        if not part or part in taken:
            part = f"{part[: _LONGEST_SERVER - 7]}-{_short(name)}".lstrip("-")
        taken.add(part)
        parts[name] = part
    return parts


def tool_names(part: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name for the model of each tool of a server; names that need no change are never given to others."""
    prefix = f"{MCP}{part}__"
    room = LONGEST_NAME - len(prefix)
    wanted = {name: _OTHER.sub("_", name) for name in tools}
    taken = {name for name, plain_name in wanted.items() if name == plain_name and len(name) <= room}
    names = {name: prefix + name for name in taken}
    for name, simple in wanted.items():
        if name in names:
            continue
        if len(simple) > room or simple in taken:
            simple = f"{simple[: room - 7]}-{_short(name)}"
        taken.add(simple)
        names[name] = prefix + simple
    return {name: names[name] for name in wanted}


def _short(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
