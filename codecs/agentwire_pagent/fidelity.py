"""What this wire does to every event and field of the bus, in both dialects.

The pagent wire shows a run: its text, its reasoning, each model call whole, each tool call whole. Of the session it
tells next to nothing, and of a classic run that fails or is stopped not even that it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import UNSET

from agentwire import events as bus
from agentwire.codec.fidelity import EXACT, Fidelity, Row, Rule, absent, invented, moved, narrowed
from agentwire.codec.jsontext import canonical_object
from agentwire.commands import JsonId
from agentwire.events import Event
from agentwire.log.record import Record
from agentwire_pagent import wire
from agentwire_pagent.calls import Call
from agentwire_pagent.facts import failure, is_extra, own_line, summary, user_input
from agentwire_pagent.story import Story, arriving_usage

# --- conditions ----------------------------------------------------------------------------------------------


def _of_subagent(record: Record, story: Story) -> bool:
    return bool(record.origin)


def _empty(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.TextDelta | bus.ReasoningDelta) and not record.event.text


def _unseen(record: Record, story: Story) -> bool:
    """The call is not shown, and what is known of it now lets no other be shown."""
    event = record.event
    return getattr(event, "call_id", "") not in story.shown and not story.heard()


def _unasked(record: Record, story: Story) -> bool:
    event = record.event
    return isinstance(event, bus.ApprovalRequested) and event.call_id not in story.asked and not story.heard()


def _fallen(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.StepFinished) and story.falls


def _stopped(record: Record, story: Story) -> bool:
    event = record.event
    return isinstance(event, bus.CallCancelled) and event.cause in ("stopped", "crashed")


def _cut_off(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.TurnFinished) and record.event.outcome in ("failed", "cancelled")


def _unexplained(record: Record, story: Story) -> bool:
    event = record.event
    return isinstance(event, bus.TurnFinished) and event.outcome == "failed" and not failure(event)


def _failed(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.TurnFinished) and record.event.outcome == "failed"


def _in_turn(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.ErrorRaised) and bool(record.turn)


def _own(dialect: wire.Dialect) -> Callable[[Record, Story], bool]:
    return lambda record, story: isinstance(record.event, bus.Unknown) and own_line(record.event, dialect) is not None


# --- what arrives --------------------------------------------------------------------------------------------


def _heard(event: Event, story: Story) -> Sequence[Event]:
    return story.heard()


def _nothing(event: Event, story: Story) -> Sequence[Event]:
    return []


def _input(event: bus.TurnStarted, story: Story) -> list[bus.Part]:
    text = user_input(event)
    return [bus.Text(text)] if text else []


def _name(event: bus.TurnStarted, story: Story) -> str:
    return f"run-{story.runs + 1}"


def _arguments(event: bus.CallReady, story: Story) -> Any:
    return canonical_object(event.arguments_text) or UNSET


def _summary(event: bus.ApprovalRequested, story: Story) -> str:
    call = Call(event.call_id, event.name)
    call.question = event
    return story.asked.get(event.call_id, summary(call))


def _end(name: str) -> Callable[[bus.TurnFinished, Story], Any]:
    return lambda event, story: getattr(story.heard()[-1], name)


def _limit(event: bus.StepStarted, story: Story) -> int:
    return event.index if is_extra(event) and story.step is not None else 0


# --- the table -----------------------------------------------------------------------------------------------


def _exact(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, EXACT)


def _absent(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, absent())


_SESSION: Final = "the wire tells nothing of the session"
_PERSON: Final = "only the model reads results here"
_IN_ORDER: Final = "in the order of the step's calls, each result right after its beginning"
_UNSEEN: Final = "not shown"

_END_FIELDS: Final = {
    "text": narrowed("the last step's", _end("text")),
    "usage": moved("into the steps; their sum", _end("usage")),
    "finish_reason": absent(),
    "steps": narrowed("as many as were begun", _end("steps")),
    "limit": absent(),
}

_BOTH: Final = (
    Row(bus.CapabilitiesChanged, "absent", _SESSION),
    Row(bus.ConfigChanged, "absent", _SESSION),
    Row(bus.ModeChanged, "absent", _SESSION),
    Row(bus.ContextAdded, "absent", _SESSION),
    Row(bus.UserJoined, "absent", "the wire cannot steer"),
    Row(bus.HostToolsChanged, "absent", "the wire has no host tools"),
    Row(bus.McpServerReady, "absent", _SESSION),
    Row(bus.McpServerFailed, "absent", _SESSION),
    Row(bus.Notice, "absent", "for a person: on standard error"),
    Row(bus.SessionClosed, "absent", "the process ends"),
    Row(bus.TurnStarted, "narrowed", "`RunBegin`", {
        "id": invented("numbered by the host", _name),
        "ref": invented("the same; runs have no ids", _name),
        "input": narrowed("its text", _input),
        **_absent("agent", "user"),
    }, becomes=_heard),
    Row(bus.TextDelta, "absent", "an empty piece is none", when="empty"),
    Row(bus.TextDelta, "narrowed", "`TextDelta`", {"text": EXACT, "message_id": absent()}),
    Row(bus.ReasoningDelta, "absent", "an empty piece is none", when="empty"),
    Row(bus.ReasoningDelta, "narrowed", "`ReasoningDelta`", {"text": EXACT, "message_id": absent()}),
    Row(bus.CallStarted, "absent", "arguments come whole, with the step"),
    Row(bus.CallArgumentsDelta, "absent", "arguments come whole, with the step"),
    Row(bus.StepFinished, "absent", "the step failed, and with it the run", when="of a failed step"),
    Row(bus.StepFinished, "narrowed", "`StepEnd`; in v4 `TurnResult`", {
        **_exact("index", "text", "calls"),
        "reasoning": narrowed("all that was streamed, also what a retry made void",
                              lambda event, story: "".join(story.reasoning) or event.reasoning),
        "usage": narrowed("OpenAI's object; made of the counts where the service sent another",
                          lambda event, story: arriving_usage(event.usage)),
        **_absent("finish_reason", "provider", "items"),
    }, becomes=_heard),
    Row(bus.CallReady, "absent", _UNSEEN, when="not shown"),
    Row(bus.CallReady, "moved", f"`ToolCallBegin`: {_IN_ORDER}", {
        **_exact("call_id", "name", "arguments_text"),
        "arguments": narrowed("read from the text", _arguments),
        **_absent("category", "description", "locations", "barred"),
    }, becomes=_heard),
    Row(bus.ApprovalResolved, "absent", "shown by what follows"),
    Row(bus.CallRunning, "absent", _UNSEEN, when="not shown"),
    Row(bus.CallOutputDelta, "absent", "the wire has no live output"),
    Row(bus.CallFinished, "absent", _UNSEEN, when="not shown"),
    Row(bus.CallFinished, "narrowed", f"`ToolResult`: {_IN_ORDER}", {
        **_exact("call_id", "name", "status", "output"),
        **dict.fromkeys(("display", "images", "metadata", "details", "duration_ms"), absent(_PERSON)),
        "retryable": absent(),
    }, becomes=_heard),
    Row(bus.CallCancelled, "absent", _UNSEEN, when="not shown"),
    Row(bus.HostToolRequested, "absent", "the wire has no host tools"),
    Row(bus.HostToolCancelled, "absent", "the wire has no host tools"),
    Row(bus.HostToolDetails, "absent", "the wire has no host tools"),
    Row(bus.RetryScheduled, "absent", "reasoning that it makes void stays shown"),
    Row(bus.RequestSent, "absent"),
    Row(bus.Parked, "absent", "subagents are not shown"),
    Row(bus.CompactionStarted, "absent", _SESSION),
    Row(bus.CompactionFinished, "absent", _SESSION),
    Row(bus.CompactionFailed, "absent", _SESSION),
    Row(bus.SubagentQueued, "absent", "subagents are not shown"),
    Row(bus.SubagentStarted, "absent", "subagents are not shown"),
    Row(bus.SubagentFinished, "absent", "subagents are not shown"),
    Row(bus.Unknown, "exact", "as it came", _exact("wire", "name", "raw"), "of this wire"),
    Row(bus.Unknown, "absent", "a message of another wire"),
)  # fmt: skip

_CLASSIC: Final = (
    Row(bus.SessionOpened, "absent", _SESSION),
    Row(bus.HistoryCleared, "absent", _SESSION),
    Row(bus.ErrorRaised, "absent", "the wire has no errors"),
    Row(bus.StepStarted, "narrowed", "`TurnBegin`", {"index": EXACT, "max": absent()}, becomes=_heard),
    Row(bus.ApprovalRequested, "absent", "the wire cannot ask"),
    Row(bus.CallRunning, "moved", f"with `ToolCallBegin`: {_IN_ORDER}", {}, becomes=_heard),
    Row(bus.CallCancelled, "absent", "a stopped run says nothing more", when="stopped"),
    Row(bus.CallCancelled, "moved", "a `ToolResult` that is not ok", {}, becomes=_heard),
    Row(bus.TurnFinished, "invented", "the run breaks off: known when the next begins, or the stream ends", {
        "outcome": invented("a failure", _end("outcome")), "error": invented("the host's own", _end("error")),
        **_END_FIELDS,
    }, "cut off", _heard),
    Row(bus.TurnFinished, "narrowed", "`RunEnd`", {
        "outcome": narrowed("the limit if calls ran in the last step", _end("outcome")), "error": absent(),
        **_END_FIELDS,
    }, becomes=_heard),
)  # fmt: skip

_V4: Final = (
    Row(bus.SessionOpened, "narrowed", "`CurrentThread`, the first time after `SlashCommands`", {
        **_exact("id", "workspace"),
        **_absent("kind", "provider", "model", "capabilities", "forked_from", "root", "ephemeral", "policy"),
    }),
    Row(bus.HistoryCleared, "exact", "`HistoryReplay` without messages"),
    Row(bus.ErrorRaised, "moved", "into the turn's end", {}, "in a turn", _nothing),
    Row(bus.ErrorRaised, "narrowed", "`Error`", {
        "error": narrowed("its text", lambda event, story: bus.ErrorInfo("internal_error", event.error.message)),
    }),
    Row(bus.StepStarted, "narrowed", "`TurnBegin`", {
        "index": EXACT, "max": narrowed("told of the extra step at the limit alone", _limit),
    }, becomes=_heard),
    Row(bus.ApprovalRequested, "absent", "settled before its turn came", when="settled early"),
    Row(bus.ApprovalRequested, "narrowed", f"`PermitRequest`: {_IN_ORDER}", {
        "approval_id": invented("the call's id", lambda event, story: event.call_id),
        **_exact("call_id", "name"),
        "category": absent(),
        "path": moved("into the summary"),
        "command": narrowed("a summary: the command, the file, or the arguments", _summary),
        "offers_always": invented("never", lambda event, story: False),
        **_absent("diff", "prompt_kind", "options"),
    }, becomes=_heard),
    Row(bus.CallRunning, "moved", "with `ToolResult`", {}, becomes=_heard),
    Row(bus.CallCancelled, "moved", "a `ToolResult` that is not ok", {}, becomes=_heard),
    Row(bus.TurnFinished, "invented", "the run breaks off", {
        "outcome": EXACT, "error": invented("the host's own", _end("error")), **_END_FIELDS,
    }, "without a reason", _heard),
    Row(bus.TurnFinished, "narrowed", "`Error`", {
        "outcome": EXACT, "error": narrowed("its text", _end("error")), **_END_FIELDS,
    }, "failed", _heard),
    Row(bus.TurnFinished, "narrowed", "`RunEnd`", {
        "outcome": EXACT, "error": absent(), **_END_FIELDS,
    }, becomes=_heard),
)  # fmt: skip

_CONDITIONS: Final = {"empty": _empty, "not shown": _unseen, "of a failed step": _fallen, "of a subagent": _of_subagent}

_DIALECT_CONDITIONS: Final[dict[wire.Dialect, dict[str, Callable[[Record, Story], bool]]]] = {
    "classic": {"stopped": _stopped, "cut off": _cut_off},
    "v4": {"in a turn": _in_turn, "settled early": _unasked, "without a reason": _unexplained, "failed": _failed},
}

_OF_RUN: Final = (
    bus.TurnStarted, bus.StepStarted, bus.TextDelta, bus.ReasoningDelta, bus.StepFinished, bus.CallReady,
    bus.ApprovalRequested, bus.CallRunning, bus.CallFinished, bus.CallCancelled, bus.TurnFinished,
)  # fmt: skip


def _ref(record: Record, story: Story) -> JsonId:
    if not isinstance(record.event, _OF_RUN):
        return None
    return f"run-{story.runs + isinstance(record.event, bus.TurnStarted)}"


def _table(dialect: wire.Dialect, rows: Sequence[Row]) -> Fidelity:
    return Fidelity(
        [*_BOTH, *rows],
        place={
            "seq": absent("lines are in order, without numbers"),
            "time": absent(),
            "turn": narrowed("counted by the host", _ref),
            "origin": absent("subagents are not shown"),
        },
        story=lambda records: Story(records, dialect),
        ref=_ref,
        conditions={**_CONDITIONS, **_DIALECT_CONDITIONS[dialect], "of this wire": _own(dialect)},
        hidden={"of a subagent": "subagents are not shown"},
    )


FIDELITY: Final = _table("classic", _CLASSIC)
FIDELITY_V4: Final = _table("v4", _V4)
