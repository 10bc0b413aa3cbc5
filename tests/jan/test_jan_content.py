"""Content parts and tool declarations: every check with its text, in its order (sections 3.1, 3.2 and 3.6)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import json_values

from agentwire.events import File, HostTool, Image, Part, Text
from agentwire_jan.declarations import (
    DELEGATES,
    MAX_TOOLS,
    BadTools,
    advertise,
    declaration,
    read_spec,
    read_tools,
    tool_specs,
)
from agentwire_jan.messages import parts_to_wire
from agentwire_jan.parts import MAX_DEPTH, MAX_EXTRA, BadContent, read_parts

# --- parts ---------------------------------------------------------------------------------------------------


def image(url: Any, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def png(size: int) -> dict[str, Any]:
    """An image of that many bytes."""
    padding = -size % 3
    length = (size + padding) // 3 * 4
    return image("data:image/png;base64," + "A" * (length - padding) + "=" * padding)


TEXT = {"type": "text", "text": "x"}
MIME = "(image/png, image/jpeg, image/gif, image/webp)"
FIVE, TEN = 5 * 1024 * 1024, 10 * 1024 * 1024


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "'user' content is empty"),
        ([TEXT, "x"], "every content part needs a string 'type'"),
        ([{}], "every content part needs a string 'type'"),
        ([{"type": 7}], "every content part needs a string 'type'"),
        ([{"type": "text"}], "a 'text' part needs a string 'text'"),
        ([{"type": "text", "text": None}], "a 'text' part needs a string 'text'"),
        ([{"type": "image_url"}], "an 'image_url' part needs a string 'image_url.url'"),
        ([{"type": "image_url", "image_url": "data:"}], "an 'image_url' part needs a string 'image_url.url'"),
        ([image(7)], "an 'image_url' part needs a string 'image_url.url'"),
        ([image("https://x/y.png")], "image url must be a data: URL"),
        ([image("data:image/png;base64")], "data: URL has no payload"),
        ([image("data:image/png,AA==")], "data: URL must be base64-encoded"),
        ([image("data:image/bmp;base64,AA=")], f"unsupported image type 'image/bmp' {MIME}"),
        ([image("data:;base64,AA==")], f"unsupported image type '' {MIME}"),
        ([image("data:image/png;base64,AAA")], "base64 payload length is not a multiple of 4"),
        ([image("data:image/png;base64,A===")], "base64 payload has too much padding"),
        ([image("data:image/png;base64,AA=A")], "base64 payload has a character outside the alphabet"),
        ([image("data:image/png;base64,AA\n=")], "base64 payload has a character outside the alphabet"),
        ([image("data:image/png;base64,AA-_")], "base64 payload has a character outside the alphabet"),
        ([png(FIVE + 1)], f"image is {FIVE + 1} bytes decoded, over the {FIVE} byte cap"),
        ([png(1)] * 9, "message carries more than 8 images"),
        ([png(FIVE), png(FIVE), png(1)], f"images total {TEN + 1} bytes decoded, over the {TEN} byte cap"),
        ([{"type": "audio"}], "unsupported content part 'audio' (text, image_url)"),
        ([{"type": "text", "text": " \n"}], "'user' content carries neither text nor an image"),
    ],
)
def test_parts_that_are_refused(parts: list[Any], problem: str) -> None:
    with pytest.raises(BadContent) as caught:
        read_parts(parts, "user")
    assert str(caught.value) == problem
    if parts in ([], [{"type": "text", "text": " \n"}]):
        with pytest.raises(BadContent, match=r"^'tool_result' content"):
            read_parts(parts, "tool_result")


def test_the_caps_are_inclusive() -> None:
    assert len(read_parts([png(FIVE), png(FIVE)], "user")) == 2
    assert len(read_parts([png(1)] * 8, "user")) == 8


def test_parts_that_are_accepted() -> None:
    parts = [
        {"type": "text", "text": "", "cache_control": {}},
        image("data:IMAGE/JPEG;BASE64,QUJD", detail="low"),
        image("data:image/webp;x=1;base64,"),
    ]
    assert read_parts(parts, "user") == [
        Text("", {"cache_control": {}}),
        Image("image/jpeg", "QUJD", extra={"image_url": {"detail": "low"}}),
        Image("image/webp", ""),
    ]


def test_parts_are_written_as_they_are_read() -> None:
    parts = [Text("a"), Image("image/png", "QUJD")]
    assert read_parts(parts_to_wire(parts), "user") == parts
    assert parts_to_wire([File("/w/a"), Image("image/png", path="/w/b.png")]) == [
        {"type": "text", "text": "/w/a"},
        {"type": "text", "text": "/w/b.png"},
    ]


PLAIN = [{"type": "text", "text": "x"}, image("data:image/png;base64,QUJD")]

_EXTRAS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name not in ("type", "text", "image_url", "url")), json_values, max_size=3
)


@settings(max_examples=60, deadline=None)
@given(_EXTRAS, _EXTRAS, _EXTRAS)
def test_whatever_else_a_part_says_is_given_back(text: Any, outer: Any, inner: Any) -> None:
    given = [{**PLAIN[0], **text}, {**image("data:image/png;base64,QUJD", **inner), **outer}]
    read = read_parts(given, "user")
    assert parts_to_wire(read) == given
    stored = msgspec.json.decode(msgspec.json.encode(read), type=list[Part])
    assert parts_to_wire(stored) == given


def test_what_was_said_beside_replaces_nothing() -> None:
    """A bus event of anybody's making."""
    extra = {"type": "audio", "text": "y", "url": "z", "image_url": {"url": "u", "detail": "low"}}
    assert parts_to_wire([Text("x", extra)]) == [{**extra, "type": "text", "text": "x"}]
    assert parts_to_wire([Image("image/png", "QUJD", extra=extra)]) == [
        {**extra, "type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}}
    ]
    assert parts_to_wire([Image("image/png", "QUJD", extra={"image_url": 7})]) == [PLAIN[1]]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("beside", "fits"),
    [
        ({"x": "a" * (MAX_EXTRA - 8)}, True),
        ({"x": "a" * (MAX_EXTRA - 7)}, False),
        ({"x": nested(MAX_DEPTH - 1)}, True),
        ({"x": nested(MAX_DEPTH)}, False),
        ({"x": nested(900)}, False),
    ],
)
def test_what_a_part_says_beside_is_bounded(beside: dict[str, Any], fits: bool) -> None:
    for part in ({**PLAIN[0], **beside}, {**PLAIN[1], **beside}):
        if fits:
            assert parts_to_wire(read_parts([part], "user")) == [part]
            continue
        with pytest.raises(BadContent, match="more than 16384 bytes beside its text or image"):
            read_parts([part], "user")


@settings(max_examples=60, deadline=None)
@given(st.lists(json_values | st.fixed_dictionaries({"type": st.sampled_from(("text", "image_url"))}), max_size=3))
def test_whatever_parts_are_given_they_are_read_or_refused(parts: list[Any]) -> None:
    try:
        read = len(read_parts(parts, "user"))
    except BadContent as problem:
        words = str(problem)
    else:
        words, parts = "", parts[read:]
    assert len(words) < 400
    assert bool(words) or not parts


# --- names ---------------------------------------------------------------------------------------------------


def digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:8]


@pytest.mark.parametrize("name", ["robot_arm_move", "a", "A-1", "_x", "x_", "x" * 58])
def test_names_that_fit_are_used_unchanged(name: str) -> None:
    assert advertise(name) == f"host__{name}"


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("yam.move_ee_ik", "yam_move_ee_ik"),
        ("plugin__p__echo", "plugin_p_echo"),
        ("__a..b__", "a_b"),
        ("é", "tool"),
        ("...", "tool"),
        ("a b-c", "a_b-c"),
        ("x" * 59, "x" * 49),
        ("y" * 48 + "._" + "z" * 20, "y" * 48),
    ],
)
def test_names_that_do_not_fit_are_mapped(name: str, mapped: str) -> None:
    assert advertise(name) == f"host__{mapped}_{digest(name)}"


@settings(max_examples=60)
@given(st.text(min_size=1))
def test_every_name_fits_a_model(name: str) -> None:
    advertised = advertise(name)
    assert advertised.startswith("host__")
    assert len(advertised) <= 64
    assert advertised.isascii()
    assert set(advertised) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


# --- declarations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([3], "tools[0]: invalid type: integer `3`, expected struct HostToolDecl"),
        ([{"name": "a"}, None], "tools[1]: invalid type: null, expected struct HostToolDecl"),
        ([{}], "tools[0]: missing field `name`"),
        ([{"name": 7}], "tools[0]: invalid type: integer `7`, expected a string"),
        ([{"name": "x", "description": None}], "tools[0]: invalid type: null, expected a string"),
        ([{"name": "x", "capability": "write"}], "tools[0]: unknown variant `write`, expected `read` or `actuator`"),
        ([{"name": "x", "capability": []}], "tools[0]: invalid type: sequence, expected string or map"),
        ([{"name": " \t"}], "a host tool has an empty name"),
        *(
            ([{"name": f" {name} "}], f"host tool name '{name}' is reserved by a built-in tool")
            for name in ("read", "write", "edit", "shell", "glob", "grep", "monitor", "ask", "todo", *DELEGATES)
        ),
        ([{"name": "a"}, {"name": " a"}], "host tool name 'a' is declared twice"),
        (
            [{"name": "a.b"}, {"name": f"a_b_{digest('a.b')}"}],
            f"host tool name 'a_b_{digest('a.b')}' is declared twice",
        ),
        ([{"name": "a", "parameters": []}], "host tool 'a' parameters must be a JSON Schema object"),
        ([{"name": "a", "parameters": True}], "host tool 'a' parameters must be a JSON Schema object"),
        (
            [{"name": "a", "hint": 1}],
            "host tool 'a' has an unknown field 'hint' (expected name, description, parameters, capability)",
        ),
        (
            [{"name": f"t{n}"} for n in range(MAX_TOOLS + 1)],
            "129 host tools declared, more than the 128 a run accepts",
        ),
    ],
)
def test_declarations_that_are_refused(tools: list[Any], problem: str) -> None:
    with pytest.raises(BadTools) as caught:
        read_tools(tools)
    assert str(caught.value) == problem


def test_declarations_that_are_accepted() -> None:
    assert read_tools([]) == []
    assert len(read_tools([{"name": f"t{n}"} for n in range(MAX_TOOLS)])) == MAX_TOOLS
    parameters = {"type": "object", "properties": {"z": {}, "a": {}}, "$x": None}
    given = [
        {"name": " a.b ", "description": " d ", "parameters": parameters, "capability": "actuator"},
        {"name": "bash", "parameters": None, "capability": None},
    ]
    one, two = read_tools(given)
    assert one == HostTool(f"host__a_b_{digest('a.b')}", "d", parameters, "a.b", "actuator")
    assert two == HostTool("host__bash", "", {"type": "object", "properties": {}}, "bash")


def test_a_tool_is_declared_again_as_it_was() -> None:
    tool = HostTool("host__t", "d", {"type": "object"}, "t", "read")
    wire = declaration(tool)
    assert read_tools([{"name": wire.name, "description": wire.description, "parameters": wire.parameters,
                        "capability": wire.capability}]) == [tool]  # fmt: skip
    (spec,) = tool_specs([tool])
    assert read_spec(spec) == HostTool("host__t", "d", {"type": "object"}, "t")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        json_values
        | st.dictionaries(
            st.sampled_from(("name", "description", "parameters", "capability", "x")),
            json_values | st.sampled_from(("a", "read")),
        ),
        max_size=3,
    )
)
def test_whatever_is_declared_it_is_read_or_refused(tools: list[Any]) -> None:
    try:
        read = len(read_tools(tools))
    except BadTools as problem:
        words = str(problem)
    else:
        words, tools = "", tools[read:]
    assert len(words) < 700
    assert bool(words) or not tools
