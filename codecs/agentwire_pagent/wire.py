"""The parameters of the pagent wire's notifications, both dialects, and the commands that its host sends.

Field order is key order, and every key is written. A default is what a decoder fills in (section 2). What surrounds
the parameters (section 1) is :mod:`agentwire_pagent.envelope`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType

Dialect = Literal["classic", "v4"]

NAMES: Final[dict[Dialect, str]] = {"classic": "pagent", "v4": "pagent-v4"}
"""The codec's name for each dialect."""

Usage = dict[str, Any]
"""The model service's usage object as it came: an open, ordered object."""

# --- both dialects (section 2) -------------------------------------------------------------------------------


class RunBegin(Struct, gc=False):
    """First line of a run."""

    user_input: str


class TurnBegin(Struct, gc=False):
    """A model call begins; counts from 0 in every run."""

    turn: int


class TextDelta(Struct, gc=False):
    """A piece of the answer."""

    text: str


class ReasoningDelta(Struct, gc=False):
    """A piece of reasoning."""

    text: str


class ToolCallBegin(Struct, gc=False):
    """A tool is about to run. ``arguments`` is the text that the model wrote, JSON or not."""

    tool_call_id: str
    name: str
    arguments: str


class ToolResult(Struct, gc=False):
    """A tool ended; ``content`` is what the model reads. Peers before 0.2.0 leave ``ok`` out."""

    tool_call_id: str
    name: str
    content: str
    ok: bool = True


# --- classic -------------------------------------------------------------------------------------------------


class Function(Struct, gc=False):
    """The inner half of a call as a step lists it."""

    name: str
    arguments: str


class ToolCall(Struct, gc=False):
    """A call as a classic step lists it."""

    id: str
    type: str
    function: Function


class StepEnd(Struct, gc=False):
    """The model's reply is complete."""

    content: str
    tool_calls: list[ToolCall]
    reasoning_content: str
    usage: Usage | None = None


class TurnEnd(Struct, gc=False):
    """The turn is over; ``stopped`` if no tool ran in it."""

    turn: int
    stopped: bool


class RunEnd(Struct, gc=False):
    """Last line of a run that ended by itself: the last step again."""

    content: str
    tool_calls: list[ToolCall] = []
    reasoning_content: str = ""
    usage: Usage | None = None


# --- v4 (section 8) ------------------------------------------------------------------------------------------

StopReason = Literal["continuing", "no_tool_calls", "empty_response", "max_turns", "cancelled"]


class FlatCall(Struct, gc=False):
    """A call as a v4 turn lists it."""

    type: str
    id: str
    name: str
    arguments: str


class TurnResult(Struct, gc=False):
    """The model's reply is complete."""

    content: str = ""
    tool_calls: list[FlatCall] = []
    reasoning_content: str = ""
    usage: Usage | None = None


class TurnEndV4(Struct, gc=False):
    """The turn is over; ``stopped`` if the run is, too."""

    turn: int
    stopped: bool
    stop_reason: str


class RunEndV4(Struct, gc=False):
    """Last line of a run that did not fail."""

    turn: int
    stop_reason: str


class PermitRequest(Struct, gc=False):
    """May the call that began just now run?"""

    tool_call_id: str
    name: str
    summary: str


class Error(Struct, gc=False):
    """Something failed; ``where`` is the command, or ``turn``: then the run ends with this line."""

    message: str
    where: str = ""


class CurrentThread(Struct, gc=False):
    """Which session this is."""

    thread_id: str
    title: str = ""
    project_path: str = ""


class SlashCommand(Struct, gc=False):
    """A command that the agent carries out itself when a user types it."""

    name: str
    summary: str


class SlashCommands(Struct, gc=False):
    """The first line of the process, and the answer to ``commands``."""

    commands: list[SlashCommand]


class SlashResult(Struct, gc=False):
    """What a slash command gave."""

    name: str
    text: str
    ok: bool = True


class HistoryReplay(Struct, gc=False):
    """The session's messages so far; none: it begins anew."""

    thread_id: str
    title: str
    project_path: str
    messages: list[dict[str, Any]]
    context_limit: int | UnsetType = UNSET
    """Tokens that the model can read, where that is known."""
    usage: dict[str, Any] | UnsetType = UNSET
    """What the last model call used, where that is known: flat counts, and when."""


class Thread(Struct, gc=False):
    """One session in a list."""

    id: str
    title: str
    project_path: str
    backend: str


class ThreadList(Struct, gc=False):
    """Answer to ``list_threads``."""

    home: str
    threads_root: str
    threads: list[Thread]


class ThreadMeta(Struct, gc=False):
    """Answer to ``thread_meta``."""

    thread_id: str
    meta: dict[str, Any]


class NamedThing(Struct, gc=False):
    """A tool in ``Capabilities``."""

    name: str
    description: str


class Capabilities(Struct, gc=False):
    """Answer to ``capabilities``."""

    skills: list[dict[str, Any]]
    tools: list[NamedThing]


class ProviderConfig(Struct, gc=False):
    """A model service in ``ConfigSnapshot``; never its key."""

    name: str
    kind: str
    model: str
    base_url: str
    vision: bool
    api_key_masked: str
    api_key_configured: bool
    api_key_required: bool


class ConfigSnapshot(Struct, gc=False):
    """Answer to ``get_config``."""

    provider: ProviderConfig
    providers: list[ProviderConfig]
    sandbox: dict[str, str]
    runner: dict[str, Any]
    permission: dict[str, str]
    project: dict[str, str]


EVENTS: Final[dict[Dialect, dict[str, type[Struct]]]] = {
    "classic": {
        "RunBegin": RunBegin,
        "TurnBegin": TurnBegin,
        "TurnEnd": TurnEnd,
        "TextDelta": TextDelta,
        "ReasoningDelta": ReasoningDelta,
        "StepEnd": StepEnd,
        "ToolCallBegin": ToolCallBegin,
        "ToolResult": ToolResult,
        "RunEnd": RunEnd,
    },
    "v4": {
        "RunBegin": RunBegin,
        "RunEnd": RunEndV4,
        "TurnBegin": TurnBegin,
        "TurnEnd": TurnEndV4,
        "TextDelta": TextDelta,
        "ReasoningDelta": ReasoningDelta,
        "TurnResult": TurnResult,
        "ToolCallBegin": ToolCallBegin,
        "ToolResult": ToolResult,
    },
}
"""The nine methods of each dialect."""

CONTROL: Final[dict[str, type[Struct]]] = {
    "SlashCommands": SlashCommands,
    "SlashResult": SlashResult,
    "PermitRequest": PermitRequest,
    "HistoryReplay": HistoryReplay,
    "CurrentThread": CurrentThread,
    "ThreadList": ThreadList,
    "ThreadMeta": ThreadMeta,
    "ConfigSnapshot": ConfigSnapshot,
    "Capabilities": Capabilities,
    "Error": Error,
}
"""What ``pagent --wire`` says beside the nine, as far as we say it too. ``Error`` may be added to classic."""

# --- commands, host to agent (section 8) ---------------------------------------------------------------------


class _Line(Struct, tag_field="cmd", gc=False):
    """A line that a host writes."""


class User(_Line, tag="user"):
    """A user input. An image is a data URL, or an object with ``original_url`` and ``model_url``."""

    text: str = ""
    images: list[Any] | None = None


class Cancel(_Line, tag="cancel"):
    """End the run."""


class Permit(_Line, tag="permit"):
    """Let a call run."""

    tool_call_id: str


class Deny(_Line, tag="deny"):
    """Do not let a call run; the model reads the reason."""

    tool_call_id: str
    reason: str | None = None


class Reset(_Line, tag="reset"):
    """Begin anew."""


class Resume(_Line, tag="resume"):
    """Take up another session."""

    thread_id: str


class History(_Line, tag="history"):
    """Show the session's messages so far."""


class ListThreads(_Line, tag="list_threads"):
    """Which sessions are there?"""


class DeleteThread(_Line, tag="delete_thread"):
    """Hide a session from the list."""

    thread_id: str


class GetThreadMeta(_Line, tag="thread_meta"):
    """What is known of a session?"""

    thread_id: str


class Commands(_Line, tag="commands"):
    """Which slash commands are there?"""


class GetCapabilities(_Line, tag="capabilities"):
    """Which tools does the agent offer the model?"""


class GetConfig(_Line, tag="get_config"):
    """How is the agent set up?"""


HostCommand = (
    User | Cancel | Permit | Deny | Reset | Resume | History | ListThreads | DeleteThread | GetThreadMeta | Commands
    | GetCapabilities | GetConfig
)  # fmt: skip
