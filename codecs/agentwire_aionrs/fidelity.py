"""What this wire does to every event and field of the bus.

aionrs shows a turn's text, its questions and its results to the person at the host. It knows no steps, no live
output, no subagents and no second session, and it tells some facts only as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from agentwire import events as bus
from agentwire.codec.fidelity import EXACT, Fidelity, Row, Rule, absent, invented, moved, narrowed
from agentwire.commands import JsonId
from agentwire.events import Event
from agentwire.log.record import Record
from agentwire_aionrs import reading, texts
from agentwire_aionrs.rendering import is_own, known_usage, shown_result, turn_ref
from agentwire_aionrs.story import Story, arguments_of

# --- conditions ----------------------------------------------------------------------------------------------


def _of_subagent(record: Record, story: Story) -> bool:
    return bool(record.origin)


def _asked(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.CallReady) and record.event.call_id in story.asked


def _run(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.CallReady) and record.event.call_id in story.run


def _unseen(record: Record, story: Story) -> bool:
    event = record.event
    return isinstance(event, bus.CallFinished | bus.CallCancelled) and event.call_id not in story.shown


def _of_host(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.McpServerReady | bus.McpServerFailed) and record.event.dynamic


def _held_for_nothing(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.ConfigChanged) and not texts.config_updated(record.event)


def _server_error(record: Record, story: Story) -> bool:
    event = record.event
    return (
        isinstance(event, bus.ErrorRaised) and not record.turn and texts.failed_server(event.error.message) is not None
    )


def _stream(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.RetryScheduled) and record.event.stream


def _own(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.Unknown) and is_own(record.event)


_CONDITIONS: Final = {
    "of a subagent": _of_subagent,
    "asked about": _asked,
    "run unasked": _run,
    "of a call not shown": _unseen,
    "asked for by the host": _of_host,
    "held, without effect": _held_for_nothing,
    "about a server of the host": _server_error,
    "broken stream": _stream,
    "of this wire": _own,
}

# --- what arrives --------------------------------------------------------------------------------------------


def _mode_changed(event: bus.ModeChanged, story: Story) -> Sequence[Event]:
    now = msgspec.structs.replace(story.capabilities, current_mode=event.mode)
    changed = bus.ModeChanged(event.mode, story.capabilities.current_mode, now)
    return [changed] if now == event.capabilities else [changed, bus.CapabilitiesChanged(event.capabilities)]


def _config_changed(event: bus.ConfigChanged, story: Story) -> Sequence[Event]:
    changed = bus.ConfigChanged([], event.capabilities, event.deferred)
    return [bus.Notice(texts.config_updated(event)), changed]


def _mcp_server_ready(event: bus.McpServerReady, story: Story) -> Sequence[Event]:
    return [event] if event.tools else [event, bus.Notice(texts.no_tools(event.name), "warning")]


def _mcp_error(event: bus.McpServerFailed) -> bus.ErrorInfo:
    return bus.ErrorInfo(event.error.code, texts.mcp_failed(event), event.error.retryable)


def _server_failed(event: bus.ErrorRaised, story: Story) -> Sequence[Event]:
    name = texts.failed_server(event.error.message) or ""
    return [bus.McpServerFailed(name, event.error, dynamic=True)]


def _approval_requested(event: bus.ApprovalRequested, story: Story) -> Sequence[Event]:
    question = reading.question(event.call_id, event.name, event.category, _arguments(event, story))
    if event.call_id in story.shown:
        return [question]
    arguments = story.arguments(event.call_id)
    ready = story.ready.get(event.call_id)
    description = ready.description if ready is not None else ""
    text = bytes(arguments).decode()
    return [bus.CallReady(event.call_id, event.name, text, arguments, event.category, description), question]


def _asked_field(name: str) -> Callable[[bus.ApprovalRequested, Story], Any]:
    def value(event: bus.ApprovalRequested, story: Story) -> Any:
        return getattr(reading.question(event.call_id, event.name, event.category, _arguments(event, story)), name)

    return value


def _arguments(event: bus.ApprovalRequested, story: Story) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(story.arguments(event.call_id))
    return decoded


def _call_running(event: bus.CallRunning, story: Story) -> Sequence[Event]:
    name = story.name(event)
    running = bus.CallRunning(event.call_id, name or story.shown.get(event.call_id, ""))
    return [running] if event.call_id in story.shown else [bus.CallReady(event.call_id, name), running]


def _call_finished(event: bus.CallFinished, story: Story) -> bus.CallFinished:
    output, output_type, metadata = shown_result(event)
    status = "success" if event.status == "ok" else "error"
    seen = reading.ToolResult(event.call_id, event.name, status, output, output_type, metadata or None)
    return reading.result(seen, event.call_id, event.name or story.shown.get(event.call_id, ""))


def _result_field(name: str) -> Callable[[bus.CallFinished, Story], Any]:
    return lambda event, story: getattr(_call_finished(event, story), name)


def _compaction(
    event: bus.CompactionStarted | bus.CompactionFinished | bus.CompactionFailed, story: Story
) -> Sequence[Event]:
    return [bus.Notice(texts.compaction(event))]


def _usage(event: bus.TurnFinished, story: Story) -> bus.Usage:
    known = known_usage(event.usage)
    return bus.Usage(known.input_tokens, known.output_tokens, known.cache_read_tokens, known.cache_write_tokens)


# --- the table -----------------------------------------------------------------------------------------------


def _exact(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, EXACT)


_NO_STEPS: Final = "the wire knows no steps"
_TEXT: Final = "becomes the text of a notice"

_ROWS: Final = (
    # session
    Row(bus.SessionOpened, "narrowed", "`ready`", {
        "id": narrowed("left out for a session without a journal",
                       lambda event, story: "" if event.ephemeral else event.id),
        **_exact("capabilities", "ephemeral"),
        "kind": absent("a resumed or forked session looks like a new one"),
        **dict.fromkeys(("workspace", "provider", "model", "forked_from", "root", "policy"), absent()),
    }),
    Row(bus.CapabilitiesChanged, "exact", "`config_changed`", _exact("capabilities")),
    Row(bus.ConfigChanged, "moved", "nothing but its `config_changed`: the capabilities changed", {
        "changes": absent("there are none", lambda event, story: []), "capabilities": EXACT, "deferred": absent(),
    }, "held, without effect", lambda event, story: [bus.CapabilitiesChanged(event.capabilities)]),
    Row(bus.ConfigChanged, "narrowed", "`info` and `config_changed`", {
        "changes": moved(_TEXT, lambda event, story: []), **_exact("capabilities", "deferred"),
    }, becomes=_config_changed),
    Row(bus.ModeChanged, "narrowed", "`info` and `config_changed`", {
        "mode": EXACT,
        "old": narrowed("what the host knew", lambda event, story: story.capabilities.current_mode),
        "capabilities": narrowed(
            "what the host knew, with the new mode; anything else that changed arrives apart",
            lambda event, story: msgspec.structs.replace(story.capabilities, current_mode=event.mode),
        ),
    }, becomes=_mode_changed),
    Row(bus.ContextAdded, "absent", "known to the host, which sent it"),
    Row(bus.UserJoined, "absent", "the wire cannot steer"),
    Row(bus.HistoryCleared, "absent"),
    Row(bus.HostToolsChanged, "absent", "the wire has no host tools"),
    Row(bus.McpServerReady, "exact", "`mcp_ready`; a server without tools brings a warning",
        _exact("name", "tools", "dynamic"), "asked for by the host", _mcp_server_ready),
    Row(bus.McpServerReady, "absent", "servers of the configuration are not announced"),
    Row(bus.McpServerFailed, "narrowed", "`error`", {
        "name": narrowed("read from the text, up to the first `' failed: `",
                         lambda event, story: texts.failed_server(texts.mcp_failed(event))),
        "error": narrowed("its text names the command and the server", lambda event, story: _mcp_error(event)),
        "dynamic": EXACT,
    }, "asked for by the host"),
    Row(bus.McpServerFailed, "moved", _TEXT, becomes=lambda event, story: [bus.Notice(texts.mcp_failed(event))]),
    Row(bus.Notice, "narrowed", "`info`", {
        "text": narrowed("marked where it looks like one of the wire's own texts",
                         lambda event, story: texts.plain(event.text)),
        "level": absent(),
    }),
    Row(bus.ErrorRaised, "moved", "read as that server's failure", {}, "about a server of the host", _server_failed),
    Row(bus.ErrorRaised, "exact", "`error`", _exact("error")),
    Row(bus.SessionClosed, "absent", "the process ends"),
    # turn
    Row(bus.TurnStarted, "narrowed", "`stream_start`", {
        "id": invented("the wire's `msg_id` again", lambda event, story: turn_ref(event)),
        "ref": narrowed("as text; the turn's id if the driver gave none", lambda event, story: turn_ref(event)),
        "input": absent("known to the host that sent it"),
        "agent": absent(),
        "user": absent(),
    }),
    Row(bus.StepStarted, "absent", _NO_STEPS),
    Row(bus.TextDelta, "narrowed", "`text_delta`", {"text": EXACT, "message_id": absent()}),
    Row(bus.ReasoningDelta, "narrowed", "`thinking`", {"text": EXACT, "message_id": absent()}),
    Row(bus.CallStarted, "absent", "a call is shown when it is complete"),
    Row(bus.CallArgumentsDelta, "absent", "a call is shown when it is complete"),
    Row(bus.CallReady, "moved", "into `tool_request`", {
        **_exact("call_id", "name", "category", "description"),
        "arguments_text": narrowed("compact, keys sorted",
                                   lambda event, story: bytes(arguments_of(event)).decode()),
        "arguments": invented("an empty object where the model wrote none", lambda event, story: arguments_of(event)),
        "locations": absent(),
        "barred": absent(),
    }, "asked about", lambda event, story: []),
    Row(bus.CallReady, "moved", "into `tool_running`", {
        **_exact("call_id", "name"),
        **dict.fromkeys(("arguments_text", "arguments", "category", "description", "locations", "barred"), absent()),
    }, "run unasked", lambda event, story: []),
    Row(bus.CallReady, "absent", "a call that is neither asked about nor run is not shown"),
    Row(bus.ApprovalRequested, "narrowed", "`tool_request`", {
        "approval_id": invented("the call's id", lambda event, story: event.call_id),
        **_exact("call_id", "name", "category"),
        **{
            name: narrowed("read from the arguments of the built-in tools", _asked_field(name))
            for name in ("path", "command", "prompt_kind")
        },
        "diff": absent(),
        "offers_always": absent("always offered"),
        "options": absent(),
    }, becomes=_approval_requested),
    Row(bus.ApprovalResolved, "absent", "shown by what follows: `tool_running` or `tool_cancelled`"),
    Row(bus.CallRunning, "narrowed", "`tool_running`", {
        "call_id": EXACT,
        "name": narrowed("the call's own where none is given",
                         lambda event, story: story.name(event) or story.shown.get(event.call_id, "")),
    }, becomes=_call_running),
    Row(bus.CallOutputDelta, "absent", "the wire has no live output"),
    Row(bus.CallFinished, "absent", "the call was not shown", when="of a call not shown"),
    Row(bus.CallFinished, "narrowed", "`tool_result`", {
        **_exact("call_id", "status"),
        **{
            name: narrowed(note, _result_field(name)) for name, note in (
                ("name", "the call's own where none is given"),
                ("output", "only what a person is shown"),
                ("display", "text is no longer told apart from the output; a diff loses both its sides"),
                ("metadata", "a diff adds its path, an image its type"),
            )
        },
        **dict.fromkeys(("images", "details", "duration_ms", "retryable"), absent()),
    }, becomes=lambda event, story: [_call_finished(event, story)]),
    Row(bus.CallCancelled, "absent", "the call was not shown", when="of a call not shown"),
    Row(bus.CallCancelled, "narrowed", "`tool_cancelled`", {
        "call_id": EXACT,
        "cause": narrowed("told by the reason's text",
                          lambda event, story: texts.cancel_cause(texts.cancel_reason(event))),
        "reason": narrowed("the wire's own words where none is given", lambda event, story: texts.cancel_reason(event)),
        "name": narrowed("what the host knew", lambda event, story: story.shown[event.call_id]),
        "output": absent(),
    }),
    Row(bus.HostToolRequested, "absent", "the wire has no host tools"),
    Row(bus.HostToolCancelled, "absent", "the wire has no host tools"),
    Row(bus.HostToolDetails, "absent", "the wire has no host tools"),
    Row(bus.RetryScheduled, "narrowed", "`info`", {
        **_exact("attempt", "of", "stream"),
        "delay_ms": absent("", lambda event, story: 0),
        "reason": absent("", lambda event, story: ""),
    }, "broken stream"),
    Row(bus.RetryScheduled, "exact", "`info`", _exact("attempt", "of", "delay_ms", "reason", "stream")),
    Row(bus.RequestSent, "absent", _NO_STEPS),
    Row(bus.CompactionStarted, "moved", _TEXT, becomes=_compaction),
    Row(bus.CompactionFinished, "moved", _TEXT, becomes=_compaction),
    Row(bus.CompactionFailed, "moved", _TEXT, becomes=_compaction),
    Row(bus.StepFinished, "absent", _NO_STEPS),
    Row(bus.Parked, "absent", "subagents are not shown"),
    Row(bus.TurnFinished, "narrowed", "`stream_end`", {
        "outcome": narrowed("failed after an error, cancelled after a stopped call, else completed; "
                            "a stop is known to the host that sent it", lambda event, story: story.course.outcome),
        "text": narrowed("what was said after the last call that was shown", lambda event, story: story.course.text),
        "usage": invented("zero where tokens were not reported; reasoning tokens and the service's own object are lost",
                          _usage),
        "error": narrowed("the last error of the turn, if nothing was done after it",
                          lambda event, story: story.course.error),
        "finish_reason": absent(),
        "steps": absent(_NO_STEPS),
        "limit": absent(),
    }),
    # subagents
    Row(bus.SubagentQueued, "absent", "subagents are not shown"),
    Row(bus.SubagentStarted, "absent", "subagents are not shown"),
    Row(bus.SubagentFinished, "absent", "subagents are not shown"),
    Row(bus.Unknown, "exact", "as it came", _exact("wire", "name", "raw"), "of this wire"),
    Row(bus.Unknown, "absent", "a message of another wire"),
)  # fmt: skip

_OUTSIDE: Final = (
    bus.SessionOpened, bus.CapabilitiesChanged, bus.ConfigChanged, bus.ModeChanged, bus.McpServerReady, bus.Unknown,
)  # fmt: skip
"""Events whose lines name no turn."""


def _ref(record: Record, story: Story) -> JsonId:
    event = record.event
    if isinstance(event, bus.TurnStarted):
        return turn_ref(event)
    if isinstance(event, _OUTSIDE) or _of_host(record, story):
        return None
    without = None if isinstance(event, bus.ErrorRaised) else ""
    told = story.ref if record.turn else without
    return story.ref if told == story.ref else None


FIDELITY: Final = Fidelity(
    _ROWS,
    place={
        "seq": absent("lines are in order, without numbers"),
        "time": absent(),
        "turn": narrowed("`msg_id` instead of a number", _ref),
        "origin": absent("subagents are not shown"),
    },
    story=Story,
    ref=_ref,
    conditions=_CONDITIONS,
    hidden={"of a subagent": "subagents are not shown"},
)
