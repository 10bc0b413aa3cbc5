"""What this wire does to every event and field of the bus.

The LevPRO wire shows a chat: its steps, the model's text, its tools one after the other, its answer. It tells nothing
of the session and has no place for reasoning, usage or questions; what a person should know comes as the result's
warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import UnsetType

from agentwire import events as bus
from agentwire.codec.fidelity import EXACT, Fidelity, Row, Rule, absent, invented, moved, narrowed
from agentwire.commands import JsonId
from agentwire.events import Event
from agentwire.log.record import Record
from agentwire_levpro.calls import NO_ARGUMENTS, Call
from agentwire_levpro.decisions import ENDS, PREVIEW_LIMIT
from agentwire_levpro.facts import duration, own_id, own_line, preview, user_input
from agentwire_levpro.story import Story, request_of

# --- conditions ----------------------------------------------------------------------------------------------


def _of_subagent(record: Record, story: Story) -> bool:
    return bool(record.origin)


def _empty(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.TextDelta) and not record.event.text


def _unseen(record: Record, story: Story) -> bool:
    return getattr(record.event, "call_id", "") not in story.called


def _info(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.Notice) and record.event.level != "warning"


def _untold(record: Record, story: Story) -> bool:
    return story.at not in story.told


def _cut(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.CallCancelled) and record.event.cause in ("stopped", "crashed")


def _resultless(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.TurnFinished) and bool(ENDS[record.event.outcome].code)


def _own(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.Unknown) and own_line(record.event) is not None


# --- what arrives --------------------------------------------------------------------------------------------


def _heard(event: Event, story: Story) -> Sequence[Event]:
    return story.heard()


def _nothing(event: Event, story: Story) -> Sequence[Event]:
    return []


def _input(event: bus.TurnStarted, story: Story) -> list[bus.Part]:
    text = user_input(event)
    return [bus.Text(text)] if text else []


def _streamed(event: Event, story: Story) -> str:
    return "".join(story.text)


def _call_id(event: Any, story: Story) -> str:
    return story.called[event.call_id][0]


def _name(event: Any, story: Story) -> str:
    return story.called[event.call_id][1]


def _arguments(event: bus.CallReady, story: Story) -> Any:
    return NO_ARGUMENTS if isinstance(event.arguments, UnsetType) else event.arguments


def _arguments_text(event: bus.CallReady, story: Story) -> str:
    return bytes(_arguments(event, story)).decode()


def _ended(event: bus.CallFinished | bus.CallCancelled) -> Call:
    call = Call(event.call_id, event.name)
    call.end = event
    return call


def _preview(event: bus.CallFinished | bus.CallCancelled, story: Story) -> str:
    return preview(_ended(event))


def _duration(event: bus.CallFinished, story: Story) -> int:
    return duration(_ended(event))


def _end(name: str) -> Callable[[bus.TurnFinished, Story], Any]:
    return lambda event, story: getattr(story.end(event), name)


# --- the table -----------------------------------------------------------------------------------------------


def _exact(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, EXACT)


def _absent(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, absent())


_SESSION: Final = "the wire tells nothing of the session"
_PERSON: Final = "only what the model reads is shown here"
_SUBAGENTS: Final = "subagents are not shown"
_WARNING: Final = "into the `warnings` of the result"
_UNTOLD: Final = "its chat has no result"
_ONE_BY_ONE: Final = "one after the other, each end right after its start"
_NO_HOST_TOOLS: Final = "the wire has no host tools"
_CANNOT_ASK: Final = "the wire cannot ask"

_CALL: Final = {
    "call_id": invented("numbered by the host", _call_id),
    "name": moved("from `tool_start`", _name),
}

_END: Final = {
    "outcome": EXACT,
    "usage": absent(),
    "finish_reason": absent(),
    "steps": narrowed("as many as were begun", _end("steps")),
}

FIDELITY: Final = Fidelity(
    [
        Row(bus.SessionOpened, "absent", _SESSION),
        Row(bus.CapabilitiesChanged, "absent", _SESSION),
        Row(bus.ConfigChanged, "absent", _SESSION),
        Row(bus.ModeChanged, "absent", _SESSION),
        Row(bus.ContextAdded, "absent", _SESSION),
        Row(bus.UserJoined, "absent", "the wire cannot steer"),
        Row(bus.HistoryCleared, "absent", _SESSION),
        Row(bus.HostToolsChanged, "absent", _NO_HOST_TOOLS),
        Row(bus.McpServerReady, "absent", _SESSION),
        Row(bus.McpServerFailed, "absent", _UNTOLD, when="untold"),
        Row(bus.McpServerFailed, "moved", _WARNING, {}, becomes=_nothing),
        Row(bus.Notice, "absent", "for a person: on standard error", when="not a warning"),
        Row(bus.Notice, "absent", _UNTOLD, when="untold"),
        Row(bus.Notice, "moved", _WARNING, {}, becomes=_nothing),
        Row(bus.ErrorRaised, "absent", _UNTOLD, when="untold"),
        Row(bus.ErrorRaised, "moved", _WARNING, {}, becomes=_nothing),
        Row(bus.SessionClosed, "absent", _SESSION),
        Row(bus.TurnStarted, "narrowed", "`run_start`", {
            "id": EXACT,
            "ref": narrowed("the request's id; the turn's own where no request began it",
                            lambda event, story: request_of(event)),
            "input": narrowed("its text", _input),
            **_absent("agent", "user"),
        }),
        Row(bus.StepStarted, "narrowed", "`llm_start`", {"index": EXACT, "max": absent()}, becomes=_heard),
        Row(bus.TextDelta, "absent", "an empty piece is none", when="empty"),
        Row(bus.TextDelta, "narrowed", "`llm_chunk`", {"text": EXACT, "message_id": absent()}),
        Row(bus.ReasoningDelta, "absent", "the wire has no reasoning"),
        Row(bus.CallStarted, "absent", "arguments come whole"),
        Row(bus.CallArgumentsDelta, "absent", "arguments come whole"),
        Row(bus.CallReady, "absent", "not shown", when="not shown"),
        Row(bus.CallReady, "moved", f"`tool_start`: {_ONE_BY_ONE}", {
            **_CALL,
            "arguments_text": narrowed("compact, with sorted keys; what is no object is an empty one", _arguments_text),
            "arguments": narrowed("the same", _arguments),
            **_absent("category", "description", "locations", "barred"),
        }, becomes=_heard),
        Row(bus.ApprovalRequested, "absent", _CANNOT_ASK),
        Row(bus.ApprovalResolved, "absent", _CANNOT_ASK),
        Row(bus.CallRunning, "absent", "not shown", when="not shown"),
        Row(bus.CallRunning, "narrowed", f"`tool_start`: {_ONE_BY_ONE}", _CALL, becomes=_heard),
        Row(bus.CallOutputDelta, "absent", "the wire has no live output"),
        Row(bus.CallFinished, "absent", "not shown", when="not shown"),
        Row(bus.CallFinished, "narrowed", f"`tool_done`: {_ONE_BY_ONE}", {
            **_CALL,
            "status": EXACT,
            "output": narrowed(f"its first {PREVIEW_LIMIT} characters", _preview),
            **dict.fromkeys(("display", "images", "metadata", "details"), absent(_PERSON)),
            "duration_ms": narrowed("0 where it is not known", _duration),
            "retryable": EXACT,
        }, becomes=_heard),
        Row(bus.CallCancelled, "absent", "not shown", when="not shown"),
        Row(bus.CallCancelled, "moved", "a `tool_done` with status `error`", {}, "cut off", _heard),
        Row(bus.CallCancelled, "narrowed", "a `tool_done` with status `denied`", {
            **_CALL,
            "cause": narrowed("refused: nobody was asked", lambda event, story: "refused"),
            "reason": narrowed("the preview: the reason, else what the model reads", _preview),
            "output": absent(),
        }, becomes=_heard),
        Row(bus.HostToolRequested, "absent", _NO_HOST_TOOLS),
        Row(bus.HostToolCancelled, "absent", _NO_HOST_TOOLS),
        Row(bus.HostToolDetails, "absent", _NO_HOST_TOOLS),
        Row(bus.RetryScheduled, "absent", "text that it makes void stays shown"),
        Row(bus.RequestSent, "absent"),
        Row(bus.CompactionStarted, "absent", _SESSION),
        Row(bus.CompactionFinished, "absent", _SESSION),
        Row(bus.CompactionFailed, "absent", _SESSION),
        Row(bus.StepFinished, "narrowed", "`llm_done`", {
            "index": EXACT,
            "text": narrowed("all that was streamed", _streamed),
            **_absent("reasoning", "calls", "usage", "finish_reason", "provider", "items"),
        }, becomes=_heard),
        Row(bus.Parked, "absent", _SUBAGENTS),
        Row(bus.TurnFinished, "narrowed", "`error`, after `loop_abort` if it failed", {
            **_END,
            "text": narrowed("what was streamed of the last step", _end("text")),
            "error": narrowed("code and text", _end("error")),
            "limit": absent(),
        }, "without a result", _heard),
        Row(bus.TurnFinished, "narrowed", "`result`, after `final` or `loop_abort`", {
            **_END, "text": EXACT, "error": absent(), "limit": EXACT,
        }, becomes=_heard),
        Row(bus.SubagentQueued, "absent", _SUBAGENTS),
        Row(bus.SubagentStarted, "absent", _SUBAGENTS),
        Row(bus.SubagentFinished, "absent", _SUBAGENTS),
        Row(bus.Unknown, "exact", "as it came", _exact("wire", "name", "raw"), "of this wire"),
        Row(bus.Unknown, "absent", "a message of another wire"),
    ],
    place={
        "seq": absent("lines are in order, without numbers"),
        "time": absent(),
        "turn": moved("every line of a chat has its request's id"),
        "origin": absent(_SUBAGENTS),
    },
    story=Story,
    ref=lambda record, story: _ref(record, story),
    conditions={
        "of a subagent": _of_subagent,
        "empty": _empty,
        "not shown": _unseen,
        "not a warning": _info,
        "untold": _untold,
        "cut off": _cut,
        "without a result": _resultless,
        "of this wire": _own,
    },
    hidden={"of a subagent": _SUBAGENTS},
)  # fmt: skip


def _ref(record: Record, story: Story) -> JsonId:
    event = record.event
    if isinstance(event, bus.TurnStarted):
        return request_of(event)
    if isinstance(event, bus.Unknown) and own_id(event) != story.request:
        return None
    return story.request
