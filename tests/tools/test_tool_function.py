"""Tools made from functions."""

from __future__ import annotations

import contextvars
import logging
import threading
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
import trio

from agentwire.asyncio_bridge import on_asyncio
from agentwire.tools import ToolContext, ToolError, ToolResult, tool
from agentwire.tools.contract import ReadCache
from agentwire.tools.function import FunctionTool

variable_of_the_call: contextvars.ContextVar[str] = contextvars.ContextVar("variable_of_the_call")


class Unit(Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


@dataclass
class Arguments:
    """Of the same name as something inside."""

    n: int


@tool
def weather(
    city: Annotated[str, msgspec.Meta(description="Where", min_length=2)],
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 1,
    unit: Unit = Unit.METRIC,
    kind: Literal["short", "long"] = "short",
    places: list[Point] = [],  # noqa: B006 - what a careless author writes
    note: str | None = None,
) -> str:
    """Say what the weather
    will be.

    More that the model need not know.
    """
    places.append(Point(0))
    return f"{city} {days} {unit.name} {kind} {len(places)} {note}"


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(workspace=tmp_path, cache=ReadCache())


def test_what_the_model_is_told() -> None:
    assert weather.name == "weather"
    assert weather.description == "Say what the weather will be."
    assert (weather.category, weather.overlaps, weather.output_limit) == ("exec", False, 50_000)
    assert weather.spec().parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where", "minLength": 2},
            "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 1},
            "unit": {"$ref": "#/$defs/Unit", "default": "metric"},
            "kind": {"enum": ["long", "short"], "default": "short"},
            "places": {"type": "array", "items": {"$ref": "#/$defs/Point"}, "default": []},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["city"],
        "$defs": {
            "Unit": {"title": "Unit", "enum": ["imperial", "metric"]},
            "Point": {
                "title": "Point",
                "type": "object",
                "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
                "required": ["x"],
            },
        },
    }


def test_options_and_edges() -> None:
    @tool(name="Other", description="Does it.", category="info", overlaps=True, output_limit=5)
    def one() -> None:
        """Not this."""

    assert (one.name, one.description, one.category, one.overlaps, one.output_limit) == (
        "Other", "Does it.", "info", True, 5,
    )  # fmt: skip
    assert one.parameters == {"type": "object", "properties": {}}
    assert one.describe({"b": 1, "a": [2]}) == 'Other: {"a":[2],"b":1}'

    @tool
    def two(arguments: Arguments, anything) -> None:  # type: ignore[no-untyped-def]
        pass

    assert two.description == ""
    assert two.parameters["properties"]["anything"] == {}
    (ref,) = two.parameters["$defs"]
    assert two.parameters["properties"]["arguments"] == {"$ref": f"#/$defs/{ref}"}
    assert two.parameters["$defs"][ref]["properties"] == {"n": {"type": "integer"}}


def test_a_tool_can_still_be_called_as_the_function_it_is() -> None:
    assert weather("Bonn", days=2) == "Bonn 2 METRIC short 1 None"


def test_a_method_can_be_a_tool() -> None:
    class Counter:
        def add(self, n: int) -> int:
            """Add."""
            return n

    assert list(tool(Counter().add).parameters["properties"]) == ["n"]


def positional(a: int, /) -> None: ...
def variable(*names: str) -> None: ...
def keywords(**names: str) -> None: ...
def unsupported(thread: threading.Thread) -> None: ...


@pytest.mark.parametrize("function", [positional, variable, keywords, unsupported, variable_of_the_call.get])
def test_functions_that_cannot_be_tools(function: Any) -> None:
    with pytest.raises(TypeError):
        tool(function)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ({"city": "Bonn"}, "Bonn 1 METRIC short 1 None"),
        ({"city": "Bonn", "unknown": 1}, "Bonn 1 METRIC short 1 None"),
        (
            {"city": "Bonn", "days": 7, "unit": "imperial", "kind": "long", "places": [{"x": 1}], "note": "n"},
            "Bonn 7 IMPERIAL long 2 n",
        ),
        ({}, "Missing required parameter: city"),
        ({"city": 3}, "Invalid arguments for weather: Expected `str`, got `int` - at `$.city`"),
        ({"city": "X"}, "Invalid arguments for weather: Expected `str` of length >= 2 - at `$.city`"),
        ({"city": "Bonn", "days": "2"}, "Invalid arguments for weather: Expected `int`, got `str` - at `$.days`"),
        ({"city": "Bonn", "days": 8}, "Invalid arguments for weather: Expected `int` <= 7 - at `$.days`"),
        ({"city": "Bonn", "unit": "old"}, "Invalid arguments for weather: Invalid enum value 'old' - at `$.unit`"),
        (
            {"city": "Bonn", "places": [{"x": 1}, {"x": "far"}]},
            "Invalid arguments for weather: Expected `float`, got `str` - at `$.places[1].x`",
        ),
    ],
)
async def test_arguments(context: ToolContext, arguments: dict[str, Any], output: str) -> None:
    for _ in range(2):  # a default that was changed is changed for one call only
        try:
            result = (await weather.run(arguments, context)).output
        except ToolError as error:
            result = str(error)
        assert result == output


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("text", "text"),
        (None, ""),
        (3, "3"),
        (True, "true"),
        ({"b": [1.5, "é"]}, '{"b":[1.5,"é"]}'),
        ([Point(1, 2)], '[{"x":1,"y":2}]'),
        (Arguments(4), '{"n":4}'),
    ],
)
async def test_return_values(context: ToolContext, value: Any, output: str) -> None:
    assert await tool(lambda: value).run({}, context) == ToolResult(output)


async def test_a_result_is_passed_on_as_it_is(context: ToolContext) -> None:
    result = ToolResult("no", is_error=True, metadata={"a": 1}, retryable=True)
    assert await tool(lambda: result).run({}, context) is result


async def test_the_context_goes_to_whoever_asks(context: ToolContext) -> None:
    seen: list[Any] = []

    @tool
    def one(n: int, context: ToolContext) -> None:
        seen.append((n, context))

    @tool
    async def two(*, there: ToolContext | None = None) -> None:
        seen.append(there)

    await one.run({"n": 1, "context": "of the model"}, context)
    await two.run({}, context)
    assert seen == [(1, context), context]
    assert list(one.parameters["properties"]) == ["n"]
    assert two.parameters["properties"] == {}


class Weird(Exception):
    pass


def failing(error: BaseException) -> FunctionTool:
    def fail() -> None:
        raise error

    return tool(fail)


def failing_async(error: BaseException) -> FunctionTool:
    async def fail() -> None:
        raise error

    return tool(fail)


@pytest.mark.parametrize("make", [failing, failing_async])
@pytest.mark.parametrize(
    ("error", "output"),
    [
        (ToolError("as it is"), "as it is"),
        (Weird("odd"), "fail failed: Weird: odd"),
        (KeyError("k"), "fail failed: KeyError: 'k'"),
        (SystemExit(3), "fail failed: SystemExit: 3"),
    ],
)
async def test_what_a_function_raises(
    context: ToolContext, caplog: pytest.LogCaptureFixture, make: Any, error: BaseException, output: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await make(error).run({}, context)
    assert str(caught.value) == output
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(logged) == (0 if isinstance(error, ToolError) else 1)
    assert all(record.exc_info and record.exc_info[1] is error for record in logged)


async def test_a_value_without_a_json_form(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="failed: TypeError: "):
        await tool(lambda: object()).run({}, context)


async def test_a_plain_function_stops_nobody(context: ToolContext) -> None:
    """It runs in a thread; stopped, it is left there."""
    inside, leave = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        inside.set()
        leave.wait(10)
        return threading.current_thread().name

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.run, {}, context)
        await trio.to_thread.run_sync(inside.wait)
        nursery.cancel_scope.cancel()
    assert not leave.is_set()
    leave.set()


async def test_context_variables_go_along(context: ToolContext) -> None:
    async def on_loop() -> str:
        import asyncio

        await asyncio.sleep(0)
        return variable_of_the_call.get()

    def in_thread() -> str:
        return variable_of_the_call.get()

    async def on_trio() -> str:
        return variable_of_the_call.get()

    variable_of_the_call.set("mine")
    for function in (in_thread, on_trio, on_asyncio(on_loop)):
        assert (await tool(function).run({}, context)).output == "mine"


async def test_an_asyncio_function_is_a_tool_too(context: ToolContext) -> None:
    @tool
    @on_asyncio
    async def add(a: int, b: Annotated[int, msgspec.Meta(description="more")] = 1) -> int:
        """Add two numbers."""
        import asyncio

        await asyncio.sleep(0)
        return a + b

    assert add.name == "add"
    assert add.description == "Add two numbers."
    assert add.parameters["properties"]["b"] == {"type": "integer", "description": "more", "default": 1}
    assert (await add.run({"a": 2}, context)).output == "3"
