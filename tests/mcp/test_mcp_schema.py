"""Schemas of foreign tools: mended, or left out with a word about why."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.mcp.schema import MAX_DEPTH, SchemaError, usable_schema
from agentwire.mcp.server import read_listing

GOOD: dict[str, Any] = {
    "type": "object",
    "description": "What to find.",
    "properties": {
        "q": {"type": "string", "minLength": 1, "pattern": "^a", "default": None},
        "n": {"type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": 10},
        "kind": {"enum": ["a", 1, True, None]},
        "where": {"type": "array", "items": {"$ref": "#/$defs/Place"}, "uniqueItems": True},
        "odd": {"anyOf": [{"type": "string"}, {"const": {"$ref": "data"}}], "x-unknown": [1]},
    },
    "required": ["q"],
    "additionalProperties": False,
    "$defs": {"Place": {"type": "object", "properties": {"inside": {"$ref": "#/$defs/Place"}}}},
}


def test_a_good_schema_is_left_alone() -> None:
    before = copy.deepcopy(GOOD)
    assert usable_schema(GOOD) == before
    assert before == GOOD


async def test_s_f05_one_bad_schema_costs_at_most_its_own_tool() -> None:
    tools: list[dict[str, Any]] = [
        {"name": "good", "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}}},
        {"name": "no_type", "inputSchema": {"properties": {}}},
        {"name": "string_root", "inputSchema": {"type": "string"}},
        {
            "name": "top_anyof",
            "inputSchema": {
                "anyOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}}},
                    {"type": "object", "properties": {"b": {"type": "integer"}}},
                ]
            },
        },
        {
            "name": "with_ref",
            "inputSchema": {
                "type": "object",
                "properties": {"r": {"$ref": "#/$defs/R"}},
                "$defs": {"R": {"type": "object"}},
            },
        },
        {"name": "null_schema", "inputSchema": None},
    ]
    listing = await read_listing("mix", tools)
    assert listing.names == [tool["name"] for tool in tools]
    schemas = {tool.name: tool.parameters for tool in listing.tools}
    assert schemas == {
        "good": tools[0]["inputSchema"],
        "no_type": {"type": "object", "properties": {}},
        "top_anyof": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        "with_ref": tools[4]["inputSchema"],
        "null_schema": {"type": "object", "properties": {}},
    }
    assert listing.notices == [
        "MCP server 'mix': tool 'string_root' is left out: its schema is for string, not an object"
    ]


async def test_tools_that_are_no_tools_are_named() -> None:
    listing = await read_listing("s", ["nonsense", {"name": ""}, {"name": "a"}, {"name": "a", "description": 5}])
    assert listing.names == ["a"]
    assert [tool.description for tool in listing.tools] == [""]
    assert len(listing.notices) == 3
    assert "'a' is listed twice" in listing.notices[2]


@pytest.mark.parametrize(
    ("schema", "mended"),
    [
        ({"type": ["object", "null"]}, {}),
        ({"properties": []}, {}),
        ({"properties": {"a": True, "b": None, "c": False}}, {"properties": {"a": {}, "b": {}, "c": {"not": {}}}}),
        ({"properties": {"a": {"type": "array"}}}, {"properties": {"a": {"type": "array", "items": {}}}}),
        ({"properties": {"a": {"type": "int"}}}, {"properties": {"a": {"type": "integer"}}}),
        ({"properties": {"a": {"type": "any"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"type": "string", "required": True}}}, {"properties": {"a": {"type": "string"}}}),
        (
            {"properties": {"a": {}}, "required": ["a", "a", "b", 5]},
            {"properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
        ),
        (
            {"properties": {"a": {"minimum": 1, "exclusiveMinimum": True, "exclusiveMaximum": False}}},
            {"properties": {"a": {"exclusiveMinimum": 1}}},
        ),
        (
            {"properties": {"a": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}}},
            {"properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}},
        ),
        ({"properties": {"a": {"pattern": "("}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"enum": []}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"$ref": "http://elsewhere/x"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"$ref": "#/$defs/Gone"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}),
        ({"properties": {"a b": {}, "c": {}}}, {"properties": {"c": {}}}),
        ({"not": {"required": ["a"]}, "enum": [{}]}, {}),
        (
            {"properties": {"k": {}}, "required": ["k"], "allOf": [{"properties": {"a": {}}, "required": ["a"]}]},
            {"properties": {"k": {}, "a": {}}, "required": ["k", "a"]},
        ),
        (
            {
                "oneOf": [
                    {"properties": {"op": {"const": "x"}, "a": {}}, "required": ["op", "a"]},
                    {"properties": {"op": {"const": "y"}}, "required": ["op"]},
                ],
                "additionalProperties": False,
            },
            {"properties": {"op": {"anyOf": [{"const": "x"}, {"const": "y"}]}, "a": {}}, "required": ["op"]},
        ),
        (
            {"$ref": "#/definitions/In", "definitions": {"In": {"type": "object", "properties": {"a": {}}}}},
            {
                "properties": {"a": {}},
                "definitions": {"In": {"type": "object", "properties": {"a": {}}}},
            },
        ),
    ],
)
def test_what_is_mended(schema: dict[str, Any], mended: dict[str, Any]) -> None:
    assert usable_schema(schema) == {"type": "object", "properties": {}, **mended}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("x", "no JSON object"),
        ({"type": "array"}, "for array, not an object"),
        ({"type": ["string", "null"]}, "for string or null, not an object"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "not an object"),
        ({"properties": {"a b": {}}, "required": ["a b"]}, "'a b' has a name that model services refuse"),
    ],
)
def test_what_is_left_out(schema: object, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        usable_schema(schema)


def test_too_deep_is_left_out() -> None:
    schema: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 1):
        schema = {"properties": {"a": schema}}
    with pytest.raises(SchemaError, match="nested"):
        usable_schema(schema)


def test_unions_of_unions_end() -> None:
    """Twenty alternatives of twenty alternatives, twelve deep: merged as far as is sensible, at once."""
    definitions: dict[str, Any] = {f"D{i}": {"anyOf": [{"$ref": f"#/$defs/D{i + 1}"}] * 20} for i in range(12)}
    definitions["D12"] = {"type": "object"}
    root = usable_schema({"anyOf": [{"$ref": "#/$defs/D0"}], "$defs": definitions})
    assert root["properties"] == {}


keywords = st.sampled_from("""
type enum required properties items additionalProperties anyOf oneOf allOf not $ref $defs minimum exclusiveMinimum
maxLength pattern uniqueItems description prefixItems patternProperties multipleOf dependentRequired format const
""".split())  # fmt: skip  # noqa: SIM905 - easier to read
names = st.sampled_from(["a", "b", "a b", "#/$defs/a", "#", "object", "string", "int", "(", "#/properties/a"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | names,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keywords, inner, max_size=4)
        | st.dictionaries(names, inner, max_size=3)
    ),
    max_leaves=15,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(keywords, json_values, max_size=6))
def test_what_comes_out_is_a_schema_for_an_object(schema: dict[str, Any]) -> None:
    try:
        root = usable_schema(schema)
    except SchemaError:
        return
    jsonschema.Draft202012Validator.check_schema(root)
    assert root["type"] == "object"
    assert isinstance(root["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & root.keys()
    assert usable_schema(root) == root
    json.dumps(root)
