"""What the RPC does to every event and field, as data; the README's matrix and the tests come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.codec.fidelity import EXACT, Fidelity, Row, Rule, absent, invented, moved, narrowed
from agentwire.commands import JsonId
from agentwire.events import Event
from agentwire.log.record import Record
from agentwire_jan import facts
from agentwire_jan.events_out import shows_cancelled
from agentwire_jan.story import Story, arriving_usage
from agentwire_jan.surface import RPC, Surface

# --- conditions ----------------------------------------------------------------------------------------------


def _outside(record: Record, story: Story) -> bool:
    return not record.turn or not (story.turn_id or isinstance(record.event, bus.TurnStarted))


def _of_subagent(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.TurnStarted | bus.TurnFinished) and bool(record.origin)


def _not_of_this_wire(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.Unknown) and facts.own_item(record.event) is None


def _never_finished(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.StepFinished) and story.step() is None


def _withdrawn(record: Record, story: Story) -> bool:
    """The same that is heard with the turn's end: nothing of the call here."""
    event = record.event
    return isinstance(event, bus.CallFinished) and story.heard_as(bus.CallFinished) is None


def _hidden_end(surface: Surface) -> Callable[[Record, Story], bool]:
    def hidden(record: Record, story: Story) -> bool:
        event = record.event
        return isinstance(event, bus.CallCancelled) and not record.origin and not shows_cancelled(event, surface)

    return hidden


def _limit(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.TurnFinished) and record.event.outcome == "limit"


# --- what arrives --------------------------------------------------------------------------------------------


def _heard(event: Event, story: Story) -> Sequence[Event]:
    return story.heard()


def _as_heard(kind: type[Event], name: str) -> Callable[[Any, Story], Any]:
    """What is heard at the record; the event's own value where nothing of the kind is heard there."""

    def value(event: Any, story: Story) -> Any:
        heard = story.heard_as(kind)
        return getattr(event if heard is None else heard, name)

    return value


def _of_step(name: str) -> Callable[[Any, Story], Any]:
    def value(event: Any, story: Story) -> Any:
        heard = story.step()
        return getattr(event if heard is None else heard, name)

    return value


def _diff(event: bus.ApprovalRequested, story: Story) -> bus.Diff | UnsetType:
    return UNSET if isinstance(event.diff, UnsetType) else bus.Diff("", event.diff.unified)


def _display(event: bus.CallFinished, story: Story) -> bus.Diff | UnsetType:
    text = facts.diff_text(event)
    return UNSET if isinstance(text, UnsetType) else bus.Diff("", text)


def _category(event: bus.ApprovalRequested, story: Story) -> bus.Category:
    return facts.category(facts.capability(event.prompt_kind))


def _arguments(event: bus.HostToolRequested, story: Story) -> Any:
    return facts.read_args(facts.host_args(event))


def _reason(event: Any, story: Story) -> str:
    return facts.compaction_reason(event.reason)


def _api(event: bus.RequestSent, story: Story) -> str:
    told = facts.api_type(event.api)
    return "" if isinstance(told, UnsetType) else facts.read_api(told)


# --- the table -----------------------------------------------------------------------------------------------


def _exact(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, EXACT)


def _absent(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, absent())


def _end(name: str) -> Callable[[Any, Story], Any]:
    return _as_heard(bus.TurnFinished, name)


_TOLD: Final = "told by the answers to `session/*`, not in the stream"
_PERSON: Final = "on standard error"

_END_FIELDS: Final = {
    "text": narrowed("the last step's, as it was streamed", _end("text")),
    "usage": narrowed("the sum of the main run's requests", _end("usage")),
    "error": narrowed("its text", _end("error")),
    "finish_reason": narrowed("of a success alone", _end("finish_reason")),
    "steps": narrowed("as many as were begun", _end("steps")),
    "limit": absent(),
}


def _rows(surface: Surface) -> Sequence[Row]:
    stopped = f"`done` with `{surface.stopped}`" if surface.ends_stopped else f"`{surface.stopped}`"
    return (
        Row(bus.SessionOpened, "moved", _TOLD, {}, becomes=_heard),
        Row(bus.CapabilitiesChanged, "absent", "the wire has no modes"),
        Row(bus.ConfigChanged, "absent", _TOLD),
        Row(bus.ModeChanged, "absent", "the wire has no modes"),
        Row(bus.ContextAdded, "absent", _TOLD),
        Row(bus.UserJoined, "absent", "shown by the history of the next step (`messages_updated`)"),
        Row(bus.HistoryCleared, "absent", _TOLD),
        Row(bus.HostToolsChanged, "absent", _TOLD),
        Row(bus.McpServerReady, "absent", _PERSON),
        Row(bus.McpServerFailed, "absent", _PERSON),
        Row(bus.Notice, "narrowed", "`notice`", {"text": EXACT, "level": absent()}, becomes=_heard),
        Row(bus.ErrorRaised, "absent", "the wire knows one error, the run's last (`error`)"),
        Row(bus.SessionClosed, "absent", _TOLD),
        Row(bus.TurnStarted, "absent", "of a subagent", when="of a subagent"),
        Row(bus.TurnStarted, "moved", "the answer to `turn/start`; else the turn's first line", {
            "id": EXACT,
            "ref": invented("the host's own, or the turn's id", lambda event, story: event.id),
            **_absent("input", "agent", "user"),
        }, becomes=_heard),
        Row(bus.StepStarted, "exact", "`step`, counted from 1", _exact("index", "max"), becomes=_heard),
        Row(bus.TextDelta, "narrowed", "`token`", {"text": EXACT, "message_id": absent()}, becomes=_heard),
        Row(bus.ReasoningDelta, "narrowed", "`reasoning`", {"text": EXACT, "message_id": absent()}, becomes=_heard),
        Row(bus.CallStarted, "exact", "`tool_call_started`", _exact("call_id", "name"), becomes=_heard),
        Row(bus.CallArgumentsDelta, "exact", "`tool_call_args_delta`", _exact("call_id", "delta"), becomes=_heard),
        Row(bus.CallReady, "moved", "`tool_call`, after the step's usage", {
            **_exact("call_id", "name"),
            "arguments_text": narrowed("as it was streamed, else encoded anew",
                                       _as_heard(bus.CallReady, "arguments_text")),
            "arguments": narrowed("sorted by the host", _as_heard(bus.CallReady, "arguments")),
            **_absent("category", "description", "locations", "barred"),
        }, becomes=_heard),
        Row(bus.ApprovalRequested, "narrowed", "`permission_request`", {
            "approval_id": EXACT,
            "call_id": invented("the oldest open call of that name", _as_heard(bus.ApprovalRequested, "call_id")),
            "name": EXACT,
            "category": narrowed("by the kind of question", _category),
            **_exact("path", "command"),
            "diff": narrowed("its text", _diff),
            **_exact("prompt_kind", "offers_always"),
            "options": absent(),
        }, becomes=_heard),
        Row(bus.ApprovalResolved, "absent", "shown by what follows"),
        Row(bus.CallRunning, "moved", "with the call's first output", {}, becomes=_heard),
        Row(bus.CallOutputDelta, "narrowed", "`tool_output_delta`", {
            **_exact("call_id", "delta"), "stream": absent(),
        }, becomes=_heard),
        Row(bus.CallFinished, "moved", "to the turn's end: its request was withdrawn", {}, "not told", _heard),
        Row(bus.CallFinished, "narrowed", "`tool_result`", {
            "call_id": EXACT,
            "name": narrowed("as the call was shown", _as_heard(bus.CallFinished, "name")),
            **_exact("status", "output"),
            "display": narrowed("the text of a change", _display),
            "images": absent("shown in the history alone"),
            "metadata": absent(),
            "details": moved("into `tool_details`"),
            **_absent("duration_ms", "retryable"),
        }, becomes=_heard),
        Row(bus.CallCancelled, "moved", "to the turn's end", {}, "of an ending turn", _heard),
        Row(bus.CallCancelled, "moved", "a `tool_result` that is an error", {}, becomes=_heard),
        Row(bus.HostToolRequested, "narrowed", "`tool_request`; a subagent's too is not nested", {
            "request_id": EXACT,
            "call_id": absent("", lambda event, story: ""),
            "name": EXACT,
            "arguments": narrowed("an object, or nothing", _arguments),
            "run_id": EXACT,
        }, becomes=_heard),
        Row(bus.HostToolCancelled, "narrowed", "`tool_request_cancelled`", {
            **_exact("request_id", "reason"), "call_id": absent(),
        }, becomes=_heard),
        Row(bus.HostToolDetails, "exact", "`tool_details`", _exact("call_id", "details"), becomes=_heard),
        Row(bus.RetryScheduled, "narrowed", "`retry`", {
            **_exact("attempt", "of", "delay_ms", "reason"), "stream": absent(),
        }, becomes=_heard),
        Row(bus.RequestSent, "narrowed", "`request_provenance`", {
            **_exact("provider", "model"),
            "api": narrowed("Chat Completions has no name", _api),
            **_exact("request_sha256", "body_bytes", "tools_sha256", "images"),
        }, becomes=_heard),
        Row(bus.CompactionStarted, "narrowed", "`compaction`", {
            "reason": narrowed("one of three", _reason),
        }, becomes=_heard),
        Row(bus.CompactionFinished, "narrowed", "`compaction`, then `messages_updated`", {
            "reason": narrowed("one of three", _reason),
            "summary": moved("into the messages", lambda event, story: ""),
            "kept": moved("into the messages"),
            "messages": EXACT,
        }, becomes=_heard),
        Row(bus.CompactionFailed, "narrowed", "`compaction`", {
            "reason": narrowed("one of three", _reason), "error": absent(),
        }, becomes=_heard),
        Row(bus.StepFinished, "absent", "the turn ended before it was sure", when="not shown"),
        Row(bus.StepFinished, "moved", "known when the batch, the next step or the end begins", {
            "index": narrowed("of the step under way", _of_step("index")),
            "text": narrowed("as it was streamed", _of_step("text")),
            "reasoning": narrowed("as it was streamed", _of_step("reasoning")),
            "calls": narrowed("as they were shown", _of_step("calls")),
            "usage": narrowed("counts alone (`turn_usage`)", lambda event, story: arriving_usage(event.usage)),
            "finish_reason": narrowed("of the last step, or that there were calls", _of_step("finish_reason")),
            **_absent("provider", "items"),
        }, becomes=_heard),
        Row(bus.Parked, "exact", "`parked`", becomes=_heard),
        Row(bus.TurnFinished, "absent", "told by `subagent_end`", when="of a subagent"),
        Row(bus.TurnFinished, "narrowed", "`turn/completed`: an error that names the limit", {
            "outcome": narrowed("a failure", _end("outcome")), **_END_FIELDS,
        }, "limit", _heard),
        Row(bus.TurnFinished, "narrowed", f"`turn/completed`; stopped: {stopped}", {
            "outcome": EXACT, **_END_FIELDS,
        }, becomes=_heard),
        Row(bus.SubagentQueued, "exact", "`subagent_queued`", _exact("run_id", "name", "task", "waiting"),
            becomes=_heard),
        Row(bus.SubagentStarted, "exact", "`subagent_start`", _exact("run_id", "name", "task"), becomes=_heard),
        Row(bus.SubagentFinished, "narrowed", "`subagent_end`", {
            **_exact("run_id", "name", "error"), "usage": moved("into its `turn_usage`"),
        }, becomes=_heard),
        Row(bus.Unknown, "absent", "not an event of this wire", when="of another wire"),
        Row(bus.Unknown, "exact", "as it came", _exact("wire", "name", "raw"), becomes=_heard),
    )  # fmt: skip


def table(surface: Surface) -> Fidelity:
    """The table of one surface."""
    rows = _rows(surface)
    plain = {row.event: row for row in rows}

    def reduce(event: Event, story: Story) -> Event:
        return plain[type(event)].reduce(event, story)

    return Fidelity(
        rows,
        place={
            "seq": absent("lines are in order, without numbers"),
            "time": absent(),
            "turn": narrowed("by the turn's id", _ref),
            "origin": Rule("exact", "`subagent`; of a host tool request `run_id` alone"),
        },
        story=lambda records: Story(records, surface, reduce),
        ref=_ref,
        conditions={
            "outside a turn": _outside,
            "of a subagent": _of_subagent,
            "of another wire": _not_of_this_wire,
            "not shown": _never_finished,
            "not told": _withdrawn,
            "of an ending turn": _hidden_end(surface),
            "limit": _limit,
        },
        hidden={"outside a turn": "the stream tells of turns alone"},
    )


def _ref(record: Record, story: Story) -> JsonId:
    return record.event.id if isinstance(record.event, bus.TurnStarted) else story.turn_id


FIDELITY: Final = table(RPC)
