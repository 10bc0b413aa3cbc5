"""Tools made from typed Python functions."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import typing
from collections.abc import Callable
from typing import Any, overload

import msgspec

from agentwire.events import Category
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult

Function = Callable[..., Any]


@overload
def tool(function: Function, /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    category: Category = "exec",
    overlaps: bool = False,
    output_limit: int = Tool.output_limit,
) -> Callable[[Function], FunctionTool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    category: Category = "exec",
    overlaps: bool = False,
    output_limit: int = Tool.output_limit,
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Make a tool from a function; ``@tool`` or ``@tool(category="info", overlaps=True)``.

    The parameters' annotations become the JSON Schema that the model is told, and a call's arguments are checked
    against it before the function runs; ``Annotated[int, msgspec.Meta(description=..., ge=0)]`` says more about one.
    A parameter annotated :class:`ToolContext` gets the call's context and is not shown to the model. The name is the
    function's own unless given, the description the first paragraph of its docstring.

    A plain function runs in a thread of its own (and is abandoned there if the call is stopped), an async one on
    trio, one wrapped by :func:`agentwire.on_asyncio` on asyncio. It may return a string, None, a
    :class:`ToolResult`, or anything that has a JSON form. Raises :class:`TypeError` for a function that cannot be a
    tool.
    """

    def make(function: Function) -> FunctionTool:
        return FunctionTool(
            function,
            name=name,
            description=description,
            category=category,
            overlaps=overlaps,
            output_limit=output_limit,
        )

    return make if function is None else make(function)


class FunctionTool(Tool):
    """A tool that calls a Python function. The tool itself can be called as the function was."""

    def __init__(
        self,
        function: Function,
        *,
        name: str = "",
        description: str = "",
        category: Category = "exec",
        overlaps: bool = False,
        output_limit: int = Tool.output_limit,
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        self.description = description or _first_paragraph(inspect.getdoc(function) or "")
        self.category = category
        self.overlaps = overlaps
        self.output_limit = output_limit
        self._is_async = inspect.iscoroutinefunction(function)
        self._arguments, self._context_names = _arguments(self.name, function)
        self.parameters = _schema(self._arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Check the arguments and call the function. What it raises becomes an error for the model to read."""
        values = self._checked(arguments) | dict.fromkeys(self._context_names, context)
        try:
            return _result(await self._call(values))
        except ToolError:
            raise
        except (Exception, SystemExit) as error:
            logging.getLogger(__name__).exception("the tool %s failed", self.name)
            raise ToolError(f"{self.name} failed: {type(error).__name__}: {error}") from error

    async def _call(self, values: dict[str, Any]) -> Any:
        if self._is_async:
            return await self.function(**values)
        import trio

        # A limiter of its own: a function that does not return keeps its thread, and must not keep others from one.
        limiter = trio.CapacityLimiter(1)
        return await trio.to_thread.run_sync(lambda: self.function(**values), abandon_on_cancel=True, limiter=limiter)

    def _checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        for field in msgspec.structs.fields(self._arguments):
            if field.required and field.encode_name not in arguments:
                raise ToolError(f"Missing required parameter: {field.encode_name}")
        try:
            values = msgspec.convert(arguments, self._arguments)
        except msgspec.ValidationError as error:
            raise ToolError(f"Invalid arguments for {self.name}: {error}") from None
        return {name: getattr(values, name) for name in self._arguments.__struct_fields__}


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _arguments(name: str, function: Function) -> tuple[type[msgspec.Struct], list[str]]:
    """A struct with the function's parameters, and the names of those that want the context."""
    try:
        signature = inspect.signature(function)
    except ValueError as error:  # built-in functions have none
        raise TypeError(f"{name}: {error}") from None
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    contexts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{name}: a tool's parameters must be passable by name, {parameter} is not")
        hint = hints.get(parameter.name, Any)
        if hint is ToolContext or ToolContext in typing.get_args(hint):
            contexts.append(parameter.name)
            continue
        default: Any = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
        if isinstance(default, (list, dict, set, bytearray)):
            # A copy now and one for each call: what one call does to it must not reach the next.
            default = msgspec.field(default_factory=functools.partial(copy.deepcopy, copy.deepcopy(default)))
        fields.append((parameter.name, hint, default))
    return msgspec.defstruct("Arguments", fields, kw_only=True), contexts


def _schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    (own,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = components.pop(own["$ref"].rpartition("/")[2])
    del schema["title"]
    for field in msgspec.structs.fields(arguments):
        if isinstance(field.default_factory, functools.partial):
            schema["properties"][field.encode_name]["default"] = msgspec.to_builtins(field.default_factory())
    if not schema["required"]:
        del schema["required"]
    if components:
        schema["$defs"] = components
    return schema


def _result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult("")
    return ToolResult(value if isinstance(value, str) else msgspec.json.encode(value).decode())
