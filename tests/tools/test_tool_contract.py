"""What all tools have in common."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import msgspec
import pytest

from agentwire.tools import Tool, ToolContext, ToolResult, builtin_tools
from agentwire.tools.contract import FileSeen, ReadCache

TOOLS = builtin_tools()


def test_the_built_in_tools_in_their_order() -> None:
    assert [(tool.name, tool.category, tool.overlaps, tool.output_limit) for tool in TOOLS] == [
        ("Read", "info", True, 100_000),
        ("Write", "edit", False, 10_000),
        ("Edit", "edit", False, 10_000),
        ("ExecCommand", "exec", False, 50_000),
        ("Glob", "info", True, 50_000),
        ("Grep", "info", True, 20_000),
        ("Spawn", "exec", False, 50_000),
        ("ViewImage", "info", True, 50_000),
    ]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_what_a_model_is_told_is_a_schema(tool: Tool) -> None:
    spec = tool.spec()
    jsonschema.Draft202012Validator.check_schema(spec.parameters)
    assert spec.parameters["type"] == "object"
    assert set(spec.parameters["required"]) <= set(spec.parameters["properties"])
    assert spec.description.endswith(".")
    assert msgspec.json.encode(spec)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("Read", {"file_path": "/w/a"}, "Read /w/a"),
        ("Read", {}, "Read unknown"),
        ("Read", {"file_path": 3}, "Read unknown"),
        ("Write", {"file_path": "/w/hello.rs", "content": "x"}, "Write to /w/hello.rs"),
        ("Edit", {"file_path": "a"}, "Edit a"),
        ("ExecCommand", {"cmd": "rm -rf x"}, "Execute: rm -rf x"),
        ("ExecCommand", {"cmd": "x" * 81}, "Execute: " + "x" * 80),
        ("ExecCommand", {"cmd": "x" * 79 + "é!"}, "Execute: " + "x" * 79),
        ("ExecCommand", {"cmd": "é" * 41}, "Execute: " + "é" * 40),
        ("ExecCommand", {"cmd": "a\ud83d"}, "Execute: a"),
        ("ExecCommand", {}, "Execute: "),
        ("Glob", {"pattern": "**/*.py"}, "Search for **/*.py"),
        ("Glob", {}, "Search for *"),
        ("Grep", {"pattern": "x y", "path": "src"}, "Grep 'x y' in src"),
        ("Grep", {"pattern": "x"}, "Grep 'x' in ."),
        ("Spawn", {"tasks": []}, "Spawn: sub-agent"),
        ("ViewImage", {"file_path": "/a.png"}, "View image /a.png"),
    ],
)
def test_descriptions(name: str, arguments: dict[str, Any], text: str) -> None:
    tool = next(tool for tool in TOOLS if tool.name == name)
    assert tool.describe(arguments) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Plain: {}"),
        ({"b": [1, {"z": None, "a": "é"}], "a": 1.5}, 'Plain: {"a":1.5,"b":[1,{"a":"é","z":null}]}'),
        ({"z\ud800": "\udc00"}, 'Plain: {"z\ufffd":"\ufffd"}'),
    ],
)
def test_the_default_description(arguments: dict[str, Any], text: str) -> None:
    class Plain(Tool):
        name = "Plain"

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return ToolResult("")

    assert Plain().describe(arguments) == text


@pytest.mark.parametrize(
    ("name", "arguments", "paths"),
    [
        ("Read", {"file_path": "../a"}, ["../a"]),
        ("Write", {"file_path": "a"}, ["a"]),
        ("Edit", {"file_path": None}, []),
        ("ViewImage", {"file_path": "/a.png"}, ["/a.png"]),
        ("ExecCommand", {"cmd": "cat /etc/passwd"}, []),
        ("Grep", {"pattern": "x"}, []),
        ("Grep", {"pattern": "x", "path": ".."}, [".."]),
        ("Glob", {"pattern": "*.py"}, []),
        ("Glob", {"pattern": "src/**/*.py"}, ["src"]),
        ("Glob", {"pattern": "../*"}, [".."]),
        ("Glob", {"pattern": "*", "path": "/etc"}, ["/etc/"]),
        ("Glob", {"pattern": "/etc/*", "path": "src"}, ["/etc"]),
        ("Glob", {"pattern": "{a,/etc}/*"}, ["/etc", "a"]),
        ("Glob", {"pattern": "[", "path": "x"}, ["x"]),
    ],
)
def test_the_paths_that_approval_looks_at(name: str, arguments: dict[str, Any], paths: list[str]) -> None:
    tool = next(tool for tool in TOOLS if tool.name == name)
    assert tool.paths(arguments) == paths


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("Read", "file_path"),
        ("Write", "file_path"),
        ("Edit", "file_path"),
        ("ExecCommand", "cmd"),
        ("Glob", "pattern"),
        ("Grep", "pattern"),
        ("ViewImage", "file_path"),
    ],
)
@pytest.mark.parametrize("value", ["absent", None, 3, ["a"]])
async def test_a_required_argument_that_is_missing(bench: Any, name: str, missing: str, value: Any) -> None:
    arguments = {} if value == "absent" else {missing: value}
    assert await bench.fails(name, **arguments) == f"Missing required parameter: {missing}"


@pytest.mark.parametrize(
    ("name", "arguments", "missing"),
    [
        ("Write", {"file_path": "a"}, "content"),
        ("Edit", {"file_path": "a"}, "old_string"),
        ("Edit", {"file_path": "a", "old_string": "x"}, "new_string"),
    ],
)
async def test_further_required_arguments(bench: Any, name: str, arguments: dict[str, Any], missing: str) -> None:
    assert await bench.fails(name, **arguments) == f"Missing required parameter: {missing}"


def test_importing_tools_imports_nothing_heavy() -> None:
    program = "import sys, json, agentwire.tools; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    heavy = {"trio", "asyncio", "pathspec", "rich", "subprocess", "difflib", "base64"}
    assert heavy.isdisjoint(loaded)


def test_using_the_built_in_tools_imports_no_asyncio() -> None:
    program = "import sys, json, agentwire.tools as t; t.builtin_tools(); print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    assert {"asyncio", "pathspec", "rich", "httpx", "mcp", "difflib"}.isdisjoint(loaded)


def test_the_read_cache_forgets_what_was_used_longest_ago() -> None:
    cache = ReadCache()
    for n in range(100):
        cache.put(str(n), FileSeen((n, 0)))
    assert cache.get("0") == FileSeen((0, 0))
    cache.put("100", FileSeen((100, 0)))
    assert len(cache) == 100
    assert cache.get("1") is None
    assert cache.get("0") is not None
    assert cache.get("100") is not None


def test_the_read_cache_can_forget_contents_and_keep_the_right_to_edit() -> None:
    cache = ReadCache()
    cache.put("a", FileSeen((1, 2), (5, None)))
    cache.forget_contents()
    assert cache.get("a") == FileSeen((1, 2), None)


def test_view_image_is_offered_only_where_images_are_supported(bench: Any) -> None:
    def offered(context: ToolContext) -> list[str]:
        return [tool.name for tool in TOOLS if tool.available(context)]

    for image_input in ("unknown", "unsupported"):
        bench.image_input = image_input
        assert "ViewImage" not in offered(bench.context())
    bench.image_input = "supported"
    assert len(offered(bench.context())) == 8
