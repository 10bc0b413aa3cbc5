"""What is said of arguments that break a declared schema (Jan protocol, section 3.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentwire.tools.schema_check import checker

ARM = {
    "type": "object",
    "properties": {
        "position": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "joints": {"type": "array", "minItems": 6, "maxItems": 8, "items": {"type": "number"}},
        "speed": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10},
        "grip": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "mode": {"enum": ["fast", "safe", 1]},
        "unit": {"const": "mm"},
        "a/b~c": {"type": ["null", "boolean"]},
        "deep": {"type": "object", "properties": {"list": {"items": {"required": ["x"]}}}},
    },
    "required": ["position"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"position": "bin"}, ""),
        ({"position": "bin", "joints": [1, 2.5, 3, 4, 5, 6], "speed": 9, "grip": 0.5, "mode": 1, "unit": "mm"}, ""),
        ({}, "/: missing required property 'position'"),
        (None, "/: expected object, got text that is none"),
        ({"position": 7}, "/position: expected string, got integer"),
        ({"position": None}, "/position: expected string, got null"),
        ({"position": "b"}, "/position: expected at least 2 characters, got 1"),
        ({"position": "basket"}, "/position: expected at most 5 characters, got 6"),
        ({"position": "BIN"}, "/position: does not match the pattern ^[a-z]+$"),
        ({"position": "bin", "joints": [1, 2, 3]}, "/joints: expected at least 6 items, got 3"),
        ({"position": "bin", "joints": [1] * 9}, "/joints: expected at most 8 items, got 9"),
        ({"position": "bin", "joints": [1, 2, 3, 4, 5, True]}, "/joints/5: expected number, got boolean"),
        ({"position": "bin", "speed": 1.5}, "/speed: expected integer, got number"),
        ({"position": "bin", "speed": 0}, "/speed: expected at least 1, got 0"),
        ({"position": "bin", "speed": 10}, "/speed: expected less than 10, got 10"),
        ({"position": "bin", "grip": 0}, "/grip: expected more than 0, got 0"),
        ({"position": "bin", "grip": 1.5}, "/grip: expected at most 1, got 1.5"),
        ({"position": "bin", "mode": True}, '/mode: expected one of ["fast","safe",1], got true'),
        ({"position": "bin", "unit": "cm"}, '/unit: expected exactly "mm", got "cm"'),
        ({"position": "bin", "a/b~c": 1}, "/a~1b~0c: expected null or boolean, got integer"),
        ({"position": "bin", "deep": {"list": [{"x": 1}, {}]}}, "/deep/list/1: missing required property 'x'"),
        ({"position": "bin", "what": 1}, "/: unexpected property 'what'"),
        ({"what": 1}, "/: missing required property 'position'"),
    ],
)
def test_the_first_thing_wrong(arguments, problem):
    assert checker(ARM)(arguments) == problem


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "bogus"},
        {"properties": {"a": 5}},
        {"properties": {"a": {"pattern": "["}}},
        {"properties": {"a": {"minLength": "two"}}},
        {"required": "a"},
        {"properties": {"a": {"required": True}}},
        {"$ref": "#/nowhere"},
        {"$id": 5, "$schema": "urn:unknown"},
        {"anyOf": [False], "not": {}, "format": "date"},
        {"properties": {"a": {"items": [{"type": "number"}]}}},
        {"additionalProperties": False, "patternProperties": {"^a": {}}},
    ],
)
def test_what_does_not_count_or_makes_no_sense_is_ignored(schema):
    assert checker(schema)({"a": "text"}) == ""


def test_extra_properties_may_have_a_schema():
    problem = checker({"properties": {"a": {}}, "additionalProperties": {"type": "string"}})
    assert problem({"a": 1, "b": "text"}) == ""
    assert problem({"a": 1, "b": 2}) == "/b: expected string, got integer"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "type"]), inner, max_size=3),
    max_leaves=8,
)
KEYWORDS = sorted([*ARM, "items", "enum", "const", "minItems", "pattern", "minLength", "maximum", "exclusiveMinimum"])


@given(st.dictionaries(st.sampled_from(KEYWORDS), JSON, max_size=4), st.dictionaries(st.text(max_size=2), JSON))
def test_no_schema_breaks_it(schema, arguments):
    assert isinstance(checker(schema)(arguments), str)
