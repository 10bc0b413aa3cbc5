"""The tool contract: what an agent can call.

A tool is an object with a name, a JSON Schema and an async ``run``. It is never run before its call was judged
(:mod:`agentwire.approvals`), and always inside the call's own cancel scope: being cancelled must leave nothing
running.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import encode

from agentwire.children.environment import environment
from agentwire.events import Category, Diff, Display, Image, ImageInput, SubagentTask, ToolSpec, Usage
from agentwire.text import scrub

Gate = Literal["judged", "free", "always"]
"""Whether a person is asked about a tool's calls. ``judged``: mode, allow list and policy decide. ``free``: never.
``always``: in every mode, whatever the allow list says, until the host has freed this very tool for good."""


class ToolResult(Struct, omit_defaults=True):
    """What a tool gives back. ``output`` is what the model reads; ``display`` what a person is shown instead."""

    output: str
    is_error: bool = False
    display: Display | UnsetType = UNSET
    images: list[Image] = []
    metadata: dict[str, Any] | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    retryable: bool = False


class ToolError(Exception):
    """The tool could not do it. The text goes to the model as an error result; it is no fault of the program."""


class SubagentReport(Struct):
    """How one subagent of Spawn ended."""

    name: str
    ok: bool
    text: str
    turns: int
    usage: Usage


class Delegates(Protocol):
    """Subagents that work beside the turn. Each method gives what the model reads, or raises :class:`ToolError`."""

    @property
    def working(self) -> bool:
        """Some have not ended yet."""
        ...

    def dispatch(self, name: str, task: str) -> str:
        """Start a subagent, now or when one of the places is free."""
        ...

    def message(self, run_id: str, text: str) -> str:
        """Tell a subagent something; it reads it before its next model request."""
        ...

    def stop(self, run_id: str) -> str:
        """End a subagent; it gives no report."""
        ...

    def listing(self) -> str:
        """Every subagent of this turn and how it is, one a line."""
        ...


class FileSeen(Struct, frozen=True):
    """What a session's model knows of a file."""

    stamp: tuple[int, int]
    """Modification time in nanoseconds and size in bytes when it was read or written."""
    shown: tuple[int, int | None] | None = (0, None)
    """Offset and limit (None: to the end) of the lines that stand in the conversation; None: no whole excerpt does."""


class ReadCache:
    """What a session's tools have read or written, by resolved path: the last ``size`` files used. One per session."""

    def __init__(self, size: int = 100) -> None:
        self.size = size
        self._files: dict[str, FileSeen] = {}

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> FileSeen | None:
        """What is known of ``path``; asking counts as using it."""
        seen = self._files.pop(path, None)
        if seen is not None:
            self._files[path] = seen
        return seen

    def put(self, path: str, seen: FileSeen) -> None:
        """Remember ``path``; the file used longest ago is forgotten if there are too many."""
        self._files.pop(path, None)
        self._files[path] = seen
        if len(self._files) > self.size:
            del self._files[next(iter(self._files))]

    def forget_contents(self) -> None:
        """The conversation lost what was read (it was cleared or summarised): the next Read shows it in full again.

        What Edit relies on, that the file was read and has not changed since, stays.
        """
        self._files = {path: FileSeen(seen.stamp, None) for path, seen in self._files.items()}


class ToolContext:
    """What a running call may use. One per call."""

    def __init__(
        self,
        *,
        workspace: Path,
        cache: ReadCache,
        outside_allowed: bool = False,
        image_input: ImageInput = "unknown",
        compaction: Literal["off", "safe", "full"] = "safe",
        environ: Mapping[str, str] | None = None,
        output: Callable[[str, str], None] | None = None,
        spawn: Callable[[list[SubagentTask]], Awaitable[list[SubagentReport]]] | None = None,
        delegates: Delegates | None = None,
        call_host: Callable[[str, dict[str, Any]], Awaitable[ToolResult]] | None = None,
        call_id: str = "",
        session: str = "",
        trace: Mapping[str, str] | None = None,
    ) -> None:
        self.workspace = workspace
        """Absolute, resolved. Relative paths of arguments are relative to it."""
        self.cache = cache
        self.outside_allowed = outside_allowed
        """This call was approved (or freed by mode yolo) to leave the workspace."""
        self.image_input = image_input
        self.compaction = compaction
        self.environ = environ
        """Environment for child processes instead of ours without keys; :meth:`child_environ` is what to use."""
        self.output = output or (lambda delta, stream: None)
        """Live output: ``output(text, "stdout" | "stderr")``."""
        self.spawn = spawn
        self.delegates = delegates
        self.call_host = call_host
        """Have the host run one of its own tools, by the host's name for it, and wait for the result."""
        self.trace = trace or {}
        """The W3C trace context of the call, by header name (``traceparent``); empty where nothing is traced."""
        self.call_id = call_id
        self.session = session

    def child_environ(self) -> dict[str, str]:
        """The environment for what the call starts: ours without keys, and with the call's trace context."""
        base = environment(os.environ) if self.environ is None else dict(self.environ)
        return base | {name.upper(): value for name, value in self.trace.items()}


class Tool(ABC):
    """Base of all tools. Subclass it, or make one from a function with :func:`agentwire.tool`."""

    name: str = ""
    description: str = ""
    category: Category = "exec"
    parameters: dict[str, Any] = {"type": "object", "properties": {}}  # noqa: RUF012 - overridden, never changed
    overlaps: bool = False
    """May run beside other calls of its step (it only reads)."""
    output_limit: int = 50_000
    """Longer output is cut in the middle; see :mod:`agentwire.tools.output`. 0: the output is left as it is."""
    gate: Gate = "judged"
    starts_subagents: bool = False
    """Subagents are not offered it."""
    mentions: tuple[str, ...] = ()
    """Names of other tools in the description; they follow when those are offered under other names."""

    def spec(self) -> ToolSpec:
        """What the model is told."""
        return ToolSpec(self.name, self.description, self.parameters)

    def available(self, context: ToolContext) -> bool:
        """Whether the tool is offered in this session's present state."""
        return True

    async def check(self, arguments: dict[str, Any] | None) -> str:
        """What is wrong with the arguments (None: they are no object), for the model to read; ``""``: nothing.

        Asked before anybody is asked about the call: with a problem it neither needs an approval nor runs.
        """
        return ""

    def describe(self, arguments: dict[str, Any]) -> str:
        """One line for a person; ``arguments`` may be wrong or empty, this never raises.

        By default the name and the arguments as compact JSON with sorted keys.
        """
        return f"{self.name}: {_compact(arguments)}"

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """Files or folders the call names, as given; approval checks where they resolve to."""
        return []

    def command(self, arguments: dict[str, Any]) -> str:
        """The command line a person is asked about, if it is one."""
        return ""

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Diff | None:
        """The change the call would make, for the question; None if there is none to show. Never raises."""
        return None

    @abstractmethod
    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Do it. Raises :class:`ToolError` for what went wrong; anything else is a bug and is reported as one."""


def _compact(arguments: dict[str, Any]) -> str:
    try:
        return encode(arguments, order="sorted").decode()
    except UnicodeEncodeError:
        # Half a surrogate pair somewhere inside: escape everything on the way there, then clean the whole.
        import json

        text = json.dumps(arguments, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return scrub(text)
