"""Event objects into events of the bus: the half of a host side that both surfaces share.

Lines are decoded by the surface's own decoder, with the structs of :mod:`agentwire_jan.wire`; what the bus has no
word for, or what is not as it should be, becomes an ``Unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire import events as bus
from agentwire.codec.jsontext import BadJson, parse, sorted_json
from agentwire.events import Event
from agentwire_jan import facts, wire
from agentwire_jan.following import Follower
from agentwire_jan.usage import from_wire

Told = tuple[Event, str]
"""An event and the run id of the subagent that said it, ``""`` for the main run."""

_NESTED: Final = msgspec.json.Decoder(wire.Item)


class TurnReader:
    """Reads the events of one turn."""

    def __init__(self) -> None:
        self.follower = Follower()

    def read(self, item: Struct) -> list[Told]:
        """One event of the wire: a struct of :mod:`agentwire_jan.wire`, or an ``Unknown`` made of it."""
        origin = ""
        while type(item) is wire.Subagent:
            origin = item.run_id
            item = _inner(item.event)
        if type(item) is bus.Unknown:
            return [(event, origin) for event in self.follower.hear(item, origin)]
        read = _READERS.get(item.__class__)
        return [] if read is None else [(event, origin) for event in read(self.follower, item, origin)]

    def end(self, outcome: bus.Outcome, message: str = "") -> list[Told]:
        """The turn is over. ``message``: why it failed."""
        return [(event, "") for event in self.follower.end(outcome, message)]


def unknown(raw: bytes, name: str = "") -> bus.Unknown:
    """What the bus has no word for: an object is kept on one line, anything else as a JSON string.

    ``name`` is the tag where the object does not say it itself.
    """
    try:
        value = parse(raw)
        kept = Raw(raw) if b"\n" not in raw and b"\\u" not in raw else sorted_json(value)
    except (BadJson, RecursionError):
        return bus.Unknown("jan", name or "line", Raw(msgspec.json.encode(raw.decode("utf-8", "replace"))))
    tag = value.get("type") if isinstance(value, dict) else None
    return bus.Unknown("jan", tag if isinstance(tag, str) and tag else name or "line", kept)


def _inner(raw: Raw) -> Struct:
    """What a subagent says. Its own start and end come from outside."""
    try:
        item: Struct = _NESTED.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return unknown(bytes(raw))
    return item


# --- one event -----------------------------------------------------------------------------------------------

_Reader = Callable[[Follower, Any, str], Sequence[Event]]


def _plain(make: Callable[[Any], Event]) -> _Reader:
    return lambda follower, item, origin: follower.hear(make(item), origin)


def _text(value: wire.Optional) -> str:
    return value if isinstance(value, str) else ""


def _diff(value: wire.Optional) -> bus.Diff | UnsetType:
    return bus.Diff("", value) if isinstance(value, str) else UNSET


def _call(item: wire.ToolCall) -> bus.CallReady:
    arguments = facts.read_args(item.args)
    return bus.CallReady(item.id, item.name, facts.args_text(item.args), arguments)


def _result(item: wire.ToolResult) -> bus.CallFinished:
    output = facts.read_result(item.content, item.is_error)
    return bus.CallFinished(item.id, "", "error" if item.is_error else "ok", output, _diff(item.diff))


def _question(item: wire.PermissionRequest) -> bus.ApprovalRequested:
    return bus.ApprovalRequested(
        item.request_id,
        "",
        item.tool_name,
        facts.category(item.capability),
        item.path or "",
        _text(item.command),
        _diff(item.diff),
        facts.prompt_kind(item.prompt_kind, item.capability),
        item.offers_always,
    )


def _host_request(item: wire.ToolRequest) -> bus.HostToolRequested:
    return bus.HostToolRequested(item.request_id, "", item.tool_name, facts.read_args(item.args), _text(item.run_id))


def _host_cancel(item: wire.ToolRequestCancelled) -> bus.HostToolCancelled:
    return bus.HostToolCancelled(item.request_id, "client_gone" if item.reason == "client_gone" else "stopped")


def _provenance(item: wire.RequestProvenance) -> bus.RequestSent:
    return bus.RequestSent(
        _text(item.provider), item.model, facts.read_api(_text(item.api_type)), item.request_sha256, item.body_bytes,
        _text(item.tools_sha256),
        [
            bus.SentImage(image.sha256, image.mime_type, image.bytes, _text(image.tool_call_id))
            for image in item.images or ()
        ],
    )  # fmt: skip


def _compaction(item: wire.Compaction) -> Event:
    if item.phase == "started":
        return bus.CompactionStarted(item.reason)
    if item.phase == "finished":
        return bus.CompactionFinished(item.reason, "", messages=UNSET if item.messages is None else item.messages)
    return bus.CompactionFailed(item.reason)


def _used(follower: Follower, item: wire.TurnUsage, origin: str) -> Sequence[Event]:
    follower.used(from_wire(item.usage), origin)
    return ()


def _done(follower: Follower, item: wire.Finished, origin: str) -> Sequence[Event]:
    return () if origin else follower.done(item.stop_reason)


def _failed(follower: Follower, item: wire.Failed, origin: str) -> Sequence[Event]:
    return () if origin else follower.failed(item.message)


def _nothing(follower: Follower, item: Struct, origin: str) -> Sequence[Event]:
    return ()


_READERS: Final[dict[type[Struct], _Reader]] = {
    wire.Step: _plain(lambda item: bus.StepStarted(max(0, item.index - 1), item.max)),
    wire.Token: _plain(lambda item: bus.TextDelta(item.text)),
    wire.Reasoning: _plain(lambda item: bus.ReasoningDelta(item.text)),
    wire.ToolCallStarted: _plain(lambda item: bus.CallStarted(item.id, item.name)),
    wire.ToolCallArgsDelta: _plain(lambda item: bus.CallArgumentsDelta(item.id, item.delta)),
    wire.ToolCall: _plain(_call),
    wire.ToolOutputDelta: _plain(lambda item: bus.CallOutputDelta(item.id, item.delta)),
    wire.ToolResult: _plain(_result),
    wire.ToolDetails: _plain(lambda item: bus.HostToolDetails(item.id, facts.one_line(item.details.copy()))),
    wire.PermissionRequest: _plain(_question),
    wire.ToolRequest: _plain(_host_request),
    wire.ToolRequestCancelled: _plain(_host_cancel),
    wire.RequestProvenance: _plain(_provenance),
    wire.TurnUsage: _used,
    wire.MessagesUpdated: _nothing,
    wire.Compaction: _plain(_compaction),
    wire.Retry: _plain(lambda item: bus.RetryScheduled(item.attempt, item.max_attempts, item.delay_ms, item.reason)),
    wire.Notice: _plain(lambda item: bus.Notice(item.text)),
    wire.Parked: _plain(lambda item: bus.Parked()),
    wire.SubagentStart: _plain(lambda item: bus.SubagentStarted(item.run_id, item.name, _text(item.task))),
    wire.SubagentQueued: _plain(
        lambda item: bus.SubagentQueued(item.run_id, item.name, _text(item.task), item.waiting)
    ),
    wire.SubagentEnd: _plain(lambda item: bus.SubagentFinished(item.run_id, item.name, _text(item.error))),
    wire.Finished: _done,
    wire.Failed: _failed,
}
"""``messages_updated`` says nothing that the events did not: the history is a fold of them."""
