"""Definitions of tools that are not built in: checked, and recognised when they change. Pure.

They come from MCP servers and files: one that a provider would reject must not break every request.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tools.json_access import mapping
from tools.localization import t
from tools.text.terminal import plain, shown, shown_brief
from tools.text.truncate import cut_text
from tools.text.validation import wrong_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LONGEST_DESCRIPTION = 10_000
"""Characters of a description that the model sees."""
LONGEST_SCHEMA = 50_000
"""Characters of a schema as JSON."""
_DEEPEST = 40
_NOT_AT_TOP = ("$schema", "$id", "anyOf", "oneOf", "allOf")
"""Keys that providers reject at the top of a schema. Without them it allows more, and the server checks the rest."""
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its origin defines it, and as the model sees it."""

    origin: str
    """Its MCP server, or the file or package that defines it."""
    name: str
    """As its origin calls it."""
    description: str
    """Without escape sequences; invisible characters have a shape."""
    schema: Mapping[str, Any] = field(compare=False)
    read_only: bool = False
    """The origin's own word."""
    digest: str = ""
    """Changes with name, description and schema. It compares definitions in place of ``schema``."""


class BadDefinitionError(Exception):
    """A tool cannot be offered; the message is for the user."""


def definition(
    origin: str, name: str, description: str, schema: Mapping[str, Any], *, read_only: bool = False
) -> Definition:
    """Return a tool's definition. Raises BadDefinitionError. May take milliseconds."""
    if not name or len(name) > 500:
        raise BadDefinitionError(t("a tool has no name, or a very long one"))
    try:
        whole = json.dumps([name, description, schema], sort_keys=True, ensure_ascii=True)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadDefinitionError(not_offered(name, str(error))) from error
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    text = cut_text(shown(plain(description)), LONGEST_DESCRIPTION)
    return Definition(origin, name, text, _usable(name, schema), read_only, digest)


def not_offered(name: str, why: str) -> str:
    """Return the text for the user about a tool that cannot be used."""
    return t("the tool {name} is not offered: {why}", name=shown_brief(name, 80), why=shown_brief(why, 200))


def _usable(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that providers accept. Raises BadDefinitionError."""
    if len(json.dumps(schema)) > LONGEST_SCHEMA:
        raise BadDefinitionError(not_offered(name, t("its schema is too large")))
    if _depth(schema) > _DEEPEST:
        raise BadDefinitionError(not_offered(name, t("its schema is nested too deeply")))
    usable = {key: value for key, value in schema.items() if key not in _NOT_AT_TOP}
    usable.setdefault("type", "object")
    usable.setdefault("properties", {})
    properties = usable["properties"]
    if usable["type"] != "object" or not isinstance(properties, dict):
        raise BadDefinitionError(not_offered(name, t("its arguments are not an object")))
    if not all(_PROPERTY.fullmatch(key) for key in properties):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        raise BadDefinitionError(not_offered(name, t("an argument has a name that models cannot use")))
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(usable)
    except SchemaError as error:
        raise BadDefinitionError(
            not_offered(name, t("its schema is wrong: {why}", why=wrong_schema(error)))
        ) from error
    if reference := _unresolved(usable):
        raise BadDefinitionError(
            not_offered(
                name,
                t(
                    "its schema refers to {reference}, which it does not contain",
                    reference=shown_brief(reference, 80),
                ),
            )
        )
    return _readable(usable)


def _unresolved(schema: dict[str, Any]) -> str:
    """Return a reference to nothing within a valid schema, or to another document: nothing is fetched."""
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

    root: Any = DRAFT202012.create_resource(schema)
    registry: Any = EMPTY_REGISTRY
    waiting = [(root, registry.with_resource("", root).crawl().resolver_with_root(root), "#")]
    seen: set[int] = set()
    while waiting:
        one, resolver, named = waiting.pop()
        contents = mapping(one.contents)
        if not contents or id(contents) in seen:
            continue
        seen.add(id(contents))
        for key in ("$ref", "$dynamicRef"):
            reference: Any = contents.get(key)
            if isinstance(reference, str):
                try:
                    found = resolver.lookup(reference)
                except (Unresolvable, ValueError):
                    return reference
                waiting.append((DRAFT202012.create_resource(found.contents), found.resolver, reference))
        try:
            waiting += [(below, resolver.in_subresource(below), named) for below in one.subresources()]
        except (AttributeError, TypeError, ValueError):
            return named  # what it leads to is no schema
    return ""


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
