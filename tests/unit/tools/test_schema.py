"""The schemas of arguments as models are given them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from tools.registry import builtin_tools, parse_input
from tools.tool import Tool, ToolInput


class Part(BaseModel):
    """A part."""

    title: str
    note: str | None = None


class Input(ToolInput):
    """Noise."""

    title: str = Field(description="A property of this name stays.")
    default: str | None = Field(default=None, description="So does one of that name.")
    many: str | list[str] | None = Field(default=None, description="Two kinds.")
    limit: int | None = Field(default=None, ge=1)
    wanted: str | None = Field(description="Null means something here.")
    part: Part | None = Field(default=None, description="Nested.")
    count: int = 3


class Noted(Tool[Input]):
    name = "noted"
    permission = "read"
    Input = Input


def schema() -> dict[str, Any]:
    return Noted().schema()


def test_titles_and_the_docstring_of_the_arguments_are_left_out() -> None:
    assert list(schema()) == ["$defs", "properties", "required", "type"]
    assert schema()["properties"]["title"] == {
        "description": "A property of this name stays.",
        "type": "string",
    }


def test_an_optional_argument_shows_no_null() -> None:
    properties = schema()["properties"]
    assert properties["default"] == {"type": "string", "description": "So does one of that name."}
    assert properties["many"] == {
        "anyOf": [{"type": "string"}, {"items": {"type": "string"}, "type": "array"}],
        "description": "Two kinds.",
    }
    assert properties["limit"] == {"minimum": 1, "type": "integer"}
    assert properties["part"] == {"$ref": "#/$defs/Part", "description": "Nested."}
    assert schema()["$defs"]["Part"]["properties"]["note"] == {"type": "string"}


def test_a_null_that_means_something_and_other_defaults_stay() -> None:
    properties = schema()["properties"]
    assert {"type": "null"} in properties["wanted"]["anyOf"]
    assert properties["count"] == {"default": 3, "type": "integer"}
    assert schema()["required"] == ["title", "wanted"]


def test_null_for_an_optional_argument_is_still_taken() -> None:
    given = parse_input(Noted(), '{"title": "x", "wanted": null, "many": null}')
    assert isinstance(given, Input)
    assert given.many is None


def test_each_caller_gets_a_schema_of_its_own() -> None:
    schema()["properties"].clear()
    assert schema()["properties"]


def test_no_builtin_tool_shows_a_null_or_a_title() -> None:
    def nodes(node: object) -> list[object]:
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
        return [node, *(found for item in inner for found in nodes(item))]

    for tool in builtin_tools().values():
        found = nodes(tool.schema())
        assert {"type": "null"} not in found
        assert not any(isinstance(node, dict) and isinstance(node.get("title"), str) for node in found)
