"""Records into lines: what the agent side writes of a session's log.

Nearly every record is a text delta, so those do not become structs first: their texts are encoded and spliced between
bytes that are the same all through a turn, a whole run at once. Everything else is a struct of
:mod:`agentwire_aionrs.wire`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw

from agentwire import events as bus
from agentwire.codec.jsontext import canonical_object
from agentwire.codec.runs import splice
from agentwire.events import Event, ReasoningDelta, TextDelta
from agentwire.log.record import Record
from agentwire.text import scrub
from agentwire_aionrs import texts, wire

_encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode

_TEXT: Final = b'{"type":"text_delta","text":'
_THINKING: Final = b'{"type":"thinking","text":'
_DELTAS: Final[dict[type[Event], bytes]] = {TextDelta: _TEXT, ReasoningDelta: _THINKING}
_STREAM_START: Final = b'{"type":"stream_start"'
_NO_ARGUMENTS: Final = Raw(b"{}")

Lines = bytes
"""Whole lines, or none."""


class _Call:
    """What later lines need to know of a call."""

    __slots__ = ("arguments", "description", "name", "shown")

    def __init__(self, name: str, arguments: Raw = _NO_ARGUMENTS, description: str = "") -> None:
        self.name = scrub(name)
        self.arguments = arguments
        self.description = scrub(description)
        self.shown = False
        """Asked about or running. A call that was neither has no lines at all."""


class SessionLines:
    """Renders one session's records. What it remembers is of the current turn and made of records alone."""

    __slots__ = ("_calls", "_end", "_msg_id")

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._msg_id = ""
        self._end = b',"msg_id":""}\n'
        """The end of a line whose last key is the turn's id."""

    def render_run(self, first: Record, deltas: list[str], out: bytearray) -> None:
        """Append a line for each delta of a run."""
        start = _DELTAS.get(type(first.event))
        if start is not None and not first.origin:
            out += splice(deltas, start, self._end)

    def feed(self, records: Sequence[Record]) -> None:
        """Remember what ``records`` say, without writing."""
        for record in records:
            if not record.origin and (learn := _LEARNERS.get(type(record.event))) is not None:
                learn(self, record.event)

    # --- what is remembered ---

    def _turn_began(self, event: bus.TurnStarted) -> None:
        msg_id = turn_ref(event)
        self._end = b',"msg_id":' + _encode(msg_id) + b"}\n"
        self._msg_id = msg_id
        self._calls = {}

    def _call_known(self, event: bus.CallReady) -> None:
        arguments = event.arguments
        arguments = _NO_ARGUMENTS if arguments is UNSET else _on_one_line(arguments)
        self._calls[event.call_id] = _Call(event.name, arguments, event.description)

    def _call_shown(self, event: bus.ApprovalRequested | bus.CallRunning) -> _Call:
        call = self._calls.get(event.call_id)
        if call is None:
            call = self._calls[event.call_id] = _Call(event.name)
        call.shown = True
        return call

    def _call_closed(self, event: bus.CallFinished | bus.CallCancelled) -> None:
        self._calls.pop(event.call_id, None)

    # --- what is written ---

    def _text(self, event: TextDelta, record: Record) -> Lines:
        return _TEXT + _encode(event.text) + self._end

    def _reasoning(self, event: ReasoningDelta, record: Record) -> Lines:
        return _THINKING + _encode(event.text) + self._end

    def _session_opened(self, event: bus.SessionOpened, record: Record) -> Lines:
        session_id = UNSET if event.ephemeral else event.id
        return _encode(wire.Ready(session_id=session_id, capabilities=_capabilities(event.capabilities))) + b"\n"

    def _capabilities_changed(self, event: bus.CapabilitiesChanged, record: Record) -> Lines:
        return _encode(wire.ConfigChanged(_capabilities(event.capabilities))) + b"\n"

    def _mode_changed(self, event: bus.ModeChanged, record: Record) -> Lines:
        changed = wire.ConfigChanged(_capabilities(event.capabilities))
        return _encode(wire.Info("", texts.mode_updated(event.mode))) + b"\n" + _encode(changed) + b"\n"

    def _config_changed(self, event: bus.ConfigChanged, record: Record) -> Lines:
        changed = _encode(wire.ConfigChanged(_capabilities(event.capabilities))) + b"\n"
        text = texts.config_updated(event)
        return _encode(wire.Info("", text)) + b"\n" + changed if text else changed

    def _mcp_server_ready(self, event: bus.McpServerReady, record: Record) -> Lines:
        return _encode(wire.McpReady(event.name, event.tools)) + b"\n" if event.dynamic else b""

    def _mcp_server_failed(self, event: bus.McpServerFailed, record: Record) -> Lines:
        text = texts.mcp_failed(event)
        if not event.dynamic:
            return _encode(wire.Info(self._msg_id if record.turn else "", text)) + b"\n"
        body = wire.ErrorBody(event.error.code, text, event.error.retryable)
        return _encode(wire.Error(error=body)) + b"\n"

    def _notice(self, event: bus.Notice, record: Record) -> Lines:
        return _encode(wire.Info(self._msg_id if record.turn else "", texts.plain(event.text))) + b"\n"

    def _error_raised(self, event: bus.ErrorRaised, record: Record) -> Lines:
        error = event.error
        body = wire.ErrorBody(error.code, error.message, error.retryable)
        return _encode(wire.Error(msg_id=self._msg_id if record.turn else None, error=body)) + b"\n"

    def _turn_started(self, event: bus.TurnStarted, record: Record) -> Lines:
        self._turn_began(event)
        return _STREAM_START + self._end

    def _call_ready(self, event: bus.CallReady, record: Record) -> Lines:
        self._call_known(event)
        return b""

    def _approval_requested(self, event: bus.ApprovalRequested, record: Record) -> Lines:
        call = self._call_shown(event)
        tool = wire.Tool(event.name, event.category, call.arguments, call.description)
        return _encode(wire.ToolRequest(self._msg_id, event.call_id, tool)) + b"\n"

    def _call_running(self, event: bus.CallRunning, record: Record) -> Lines:
        call = self._call_shown(event)
        return _encode(wire.ToolRunning(self._msg_id, event.call_id, event.name or call.name)) + b"\n"

    def _call_finished(self, event: bus.CallFinished, record: Record) -> Lines:
        call = self._calls.get(event.call_id)
        line = b""
        if call is not None and call.shown:
            output, output_type, metadata = shown_result(event)
            status: Literal["success", "error"] = "success" if event.status == "ok" else "error"
            more = Raw(_encode_sorted(metadata)) if metadata else UNSET
            result = wire.ToolResult(self._msg_id, event.call_id, event.name, status, output, output_type, more)
            line = _encode(result) + b"\n"
        self._calls.pop(event.call_id, None)  # last: what cannot be encoded is mended and comes again
        return line

    def _call_cancelled(self, event: bus.CallCancelled, record: Record) -> Lines:
        call = self._calls.get(event.call_id)
        line = b""
        if call is not None and call.shown:
            line = _encode(wire.ToolCancelled(self._msg_id, event.call_id, texts.cancel_reason(event))) + b"\n"
        self._calls.pop(event.call_id, None)
        return line

    def _retry_scheduled(self, event: bus.RetryScheduled, record: Record) -> Lines:
        return _encode(wire.Info(self._msg_id if record.turn else "", texts.retrying(event))) + b"\n"

    def _compaction(
        self, event: bus.CompactionStarted | bus.CompactionFinished | bus.CompactionFailed, record: Record
    ) -> Lines:
        return _encode(wire.Info(self._msg_id if record.turn else "", texts.compaction(event))) + b"\n"

    def _turn_finished(self, event: bus.TurnFinished, record: Record) -> Lines:
        return _encode(wire.StreamEnd(self._msg_id, known_usage(event.usage))) + b"\n"

    def _unknown(self, event: bus.Unknown, record: Record) -> Lines:
        return bytes(event.raw) + b"\n" if is_own(event) else b""


_MAKERS: Final[dict[type[Event], Callable[[SessionLines, Any, Record], Lines]]] = {
    bus.TextDelta: SessionLines._text,
    bus.ReasoningDelta: SessionLines._reasoning,
    bus.SessionOpened: SessionLines._session_opened,
    bus.CapabilitiesChanged: SessionLines._capabilities_changed,
    bus.ConfigChanged: SessionLines._config_changed,
    bus.ModeChanged: SessionLines._mode_changed,
    bus.McpServerReady: SessionLines._mcp_server_ready,
    bus.McpServerFailed: SessionLines._mcp_server_failed,
    bus.Notice: SessionLines._notice,
    bus.ErrorRaised: SessionLines._error_raised,
    bus.TurnStarted: SessionLines._turn_started,
    bus.CallReady: SessionLines._call_ready,
    bus.ApprovalRequested: SessionLines._approval_requested,
    bus.CallRunning: SessionLines._call_running,
    bus.CallFinished: SessionLines._call_finished,
    bus.CallCancelled: SessionLines._call_cancelled,
    bus.RetryScheduled: SessionLines._retry_scheduled,
    bus.CompactionStarted: SessionLines._compaction,
    bus.CompactionFinished: SessionLines._compaction,
    bus.CompactionFailed: SessionLines._compaction,
    bus.TurnFinished: SessionLines._turn_finished,
    bus.Unknown: SessionLines._unknown,
}
"""Events not listed are absent from this wire; the codec's fidelity table says why."""

maker: Final = _MAKERS.get
"""What makes the lines for an event of a class."""

_LEARNERS: Final[dict[type[Event], Callable[[SessionLines, Any], object]]] = {
    bus.TurnStarted: SessionLines._turn_began,
    bus.CallReady: SessionLines._call_known,
    bus.ApprovalRequested: SessionLines._call_shown,
    bus.CallRunning: SessionLines._call_shown,
    bus.CallFinished: SessionLines._call_closed,
    bus.CallCancelled: SessionLines._call_closed,
}


def shown_result(event: bus.CallFinished) -> tuple[str, Literal["text", "diff", "image"], dict[str, Any]]:
    """What is shown of a result: output, its type, metadata (section 1.7).

    A failed call is text, and so is an image without data.
    """
    display = event.display
    metadata = {} if event.metadata is UNSET else event.metadata
    if display is UNSET:
        return event.output, "text", metadata
    # The class itself, not isinstance: msgspec makes that slow where the answer is no.
    if type(display) is bus.Text:
        return display.text, "text", metadata
    if type(display) is bus.Diff and event.status == "ok":
        return display.unified, "diff", {"file_path": display.path, **metadata}
    if type(display) is bus.Image and display.data:
        return display.data, "image", {"mime_type": display.mime_type, **metadata}
    return event.output, "text", metadata


def known_usage(usage: bus.Usage) -> wire.Usage:
    """Usage as the wire wants it: the first two counts always, so what is not known is zero (section 1.9)."""
    return wire.Usage(
        0 if usage.input_tokens is UNSET else usage.input_tokens,
        0 if usage.output_tokens is UNSET else usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )


def turn_ref(event: bus.TurnStarted) -> str:
    """The turn's ``msg_id``: the host's own id for it as text, or the turn's id if it gave none."""
    return event.id if event.ref is None else str(event.ref)


def is_own(event: bus.Unknown) -> bool:
    """Whether an event without a word on the bus came from this wire, as a whole object on one line."""
    raw = bytes(event.raw)
    return event.wire == "aionrs" and raw.startswith(b"{") and b"\n" not in raw


def _capabilities(now: bus.Capabilities) -> wire.Capabilities:
    return wire.Capabilities(
        now.tool_approval,
        now.image_input,
        now.thinking,
        now.effort,
        now.effort_levels,
        now.modes,
        now.current_mode,
        now.mcp,
    )


def _on_one_line(arguments: Raw) -> Raw:
    """Arguments that may stand inside a line. The engine's do; anyone else's are encoded again."""
    if b"\n" not in bytes(arguments):
        return arguments
    return canonical_object(bytes(arguments)) or _NO_ARGUMENTS
