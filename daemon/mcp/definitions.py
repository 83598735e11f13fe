"""Tool definitions of MCP servers: checked, named as the model calls them, and recognised when they change. Pure.

Servers are untrusted: a definition that a provider would reject must not break every request, and a name must not be
mistaken for that of another server's tool.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tools.access import MCP
from tools.localization import t
from tools.text.terminal import plain, shown, shown_brief
from tools.text.truncate import cut_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_TOOLS = 200
"""Tools of one server that are used."""
LONGEST_DESCRIPTION = 10_000
"""Characters of a description that the model sees."""
LONGEST_SCHEMA = 50_000
"""Characters of a schema as JSON."""
LONGEST_NAME = 64
"""Characters of a tool's name: the limit of the providers."""
_DEEPEST = 40
_LONGEST_SERVER = 24
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_AT_TOP = ("$schema", "$id", "anyOf", "oneOf", "allOf")
"""Keys that providers reject at the top of a schema. Without them it allows more, and the server checks the rest."""
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its server defines it, and as the model sees it."""

    server: str
    name: str
    """As the server calls it."""
    description: str
    """Without escape sequences; invisible characters have a shape."""
    schema: Mapping[str, Any] = field(compare=False)
    read_only: bool = False
    """The server's own word."""
    digest: str = ""
    """Changes with name, description and schema. It compares definitions in place of ``schema``."""


class BadDefinitionError(Exception):
    """A tool cannot be offered; the message is for the user."""


def definition(
    server: str, name: str, description: str, schema: Mapping[str, Any], *, read_only: bool = False
) -> Definition:
    """Return a tool's definition. Raises BadDefinitionError. May take milliseconds."""
    if not name or len(name) > 500:
        raise BadDefinitionError(t("a tool has no name, or a very long one"))
    try:
        whole = json.dumps([name, description, schema], sort_keys=True, ensure_ascii=True)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadDefinitionError(_told(name, str(error))) from error
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    text = cut_text(shown(plain(description)), LONGEST_DESCRIPTION)
    return Definition(server, name, text, _usable(name, schema), read_only, digest)


def _told(name: str, why: str) -> str:
    return t("the tool {name} is not offered: {why}", name=shown_brief(name, 80), why=shown_brief(why, 200))


def _usable(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that providers accept. Raises BadDefinitionError."""
    if len(json.dumps(schema)) > LONGEST_SCHEMA:
        raise BadDefinitionError(_told(name, t("its schema is too large")))
    if _depth(schema) > _DEEPEST:
        raise BadDefinitionError(_told(name, t("its schema is nested too deeply")))
    usable = {key: value for key, value in schema.items() if key not in _NOT_AT_TOP}
    usable.setdefault("type", "object")
    usable.setdefault("properties", {})
    properties = usable["properties"]
    if usable["type"] != "object" or not isinstance(properties, dict):
        raise BadDefinitionError(_told(name, t("its arguments are not an object")))
    if not all(_PROPERTY.fullmatch(key) for key in properties):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        raise BadDefinitionError(_told(name, t("an argument has a name that models cannot use")))
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(usable)
    except SchemaError as error:
        raise BadDefinitionError(_told(name, error.message)) from error
    return _readable(usable)


def _readable(node: Any) -> Any:
    """Return a schema whose descriptions hide nothing; its other texts are values that must stay."""
    if isinstance(node, list):
        return [_readable(one) for one in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    return {  # pyright: ignore[reportUnknownVariableType]
        key: shown(plain(value)) if key == "description" and isinstance(value, str) else _readable(value)
        for key, value in node.items()  # pyright: ignore[reportUnknownVariableType]
    }


def _depth(value: object) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        if depth > _DEEPEST:
            break
        inner: Iterable[Any] = ()
        if isinstance(node, dict):
            inner = node.values()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif isinstance(node, list):
            inner = node  # pyright: ignore[reportUnknownVariableType]
        waiting += [(child, depth + 1) for child in inner]  # pyright: ignore[reportUnknownVariableType]
    return deepest


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
