"""Names, schemas and digests of tools that strangers define."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.mcp.configuration import server_parts, tool_names
from daemon.outside_tools.definitions import BadDefinitionError, definition
from tests.support.examples import examples

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
NAMES = st.lists(st.text(max_size=80), max_size=8, unique=True)


@settings(max_examples=examples(300), deadline=None)
@given(servers=NAMES, tools=NAMES)
def test_names_are_valid_and_unique(servers: list[str], tools: list[str]) -> None:
    parts = server_parts(servers)
    names = [name for part in parts.values() for name in tool_names(part, tools).values()]
    assert len(set(names)) == len(servers) * len(tools)
    for name in names:
        assert re.fullmatch(r"mcp__[A-Za-z0-9_-]{1,59}", name), name
        assert len(name) <= 64


def test_usual_names_stay() -> None:
    assert server_parts(["github", "my server", "my_server"]) | {} == {
        "github": "github",
        "my server": "my_server",
        "my_server": server_parts(["my server", "my_server"])["my_server"],
    }
    names = tool_names("github", ["get.issue", "get_issue"])
    assert names["get_issue"] == "mcp__github__get_issue"  # whichever comes first
    assert names["get.issue"].startswith("mcp__github__get_issue-")


def test_a_server_cannot_take_the_names_of_another() -> None:
    one, other = server_parts(["a", "a__b"]).values()
    assert tool_names(one, ["b__c"])["b__c"] != tool_names(other, ["c"])["c"]
    one, other = server_parts(["a", "a_"]).values()
    assert tool_names(one, ["_x"])["_x"] != tool_names(other, ["x"])["x"]


def test_digest_changes_with_the_definition() -> None:
    first = definition("s", "n", "does", OBJECT)
    assert definition("s", "n", "does", dict(reversed(OBJECT.items()))) == first
    changed = [
        definition("s", "m", "does", OBJECT),
        definition("s", "n", "does more", OBJECT),
        definition("s", "n", "does", {**OBJECT, "required": ["a"]}),
        # Invisible text counts, too, and so does what the model does not see.
        definition("s", "n", "does\u200b", OBJECT),
        definition("s", "n", "does", {**OBJECT, "$id": "x"}),
    ]
    assert len({one.digest for one in [first, *changed]}) == len(changed) + 1


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a b": {}}},
        {"type": "object", "properties": {"a": {"type": "no such type"}}},
        {"type": "object", "required": "a"},
        {"properties": {"a": {"$ref": "#/$defs/gone"}}},
        {"properties": {"a": {"items": {"$ref": "#/definitions/b"}}}, "definitions": {"b": {"$ref": "#/c"}}},
        {"properties": {"a": {"$ref": "https://host.invalid/schema.json"}}},
        {"properties": {"a": {"$ref": "http://[/"}}},
        {"properties": {"a": {"$ref": "#/x-odd/b"}}, "x-odd": {"b": {"properties": [1]}}},
        {"properties": {"a": {"$ref": "#/x-odd/b"}}, "x-odd": {"b": {"allOf": 7}}},
        {"properties": {"a": {"$dynamicRef": "#anchor"}}},
    ],
)
def test_schemas_that_providers_reject(schema: dict[str, object]) -> None:
    with pytest.raises(BadDefinitionError, match="the tool n is not offered"):
        definition("s", "n", "d", schema)


def test_references_within_a_schema_stay() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "all": {"$ref": "#"}}}
    odd = {"$ref": {"type": "string"}, "e": {"enum": [{"$ref": "#/gone"}]}}
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"properties": odd}},
        "$defs": {"node": node},
    }
    assert definition("s", "n", "d", schema).schema == schema


def test_schemas_are_completed_and_readable() -> None:
    found = definition(
        "s", "n", "d" * 20_000, {"properties": {"a": {"description": "x\u202ey", "enum": ["\u202e"]}}}
    )
    assert found.schema["type"] == "object"
    assert found.schema["properties"]["a"] == {"description": "x<U+202E>y", "enum": ["\u202e"]}
    assert len(found.description) < 10_100
