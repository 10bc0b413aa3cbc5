"""Records into lines: what the agent side writes of a session's log.

Nearly every record is a text delta, so those do not become messages first: a run of them is encoded at once and
spliced between bytes that are made once a turn. Everything else is a struct of :mod:`agentwire_aionrs.wire` and goes
through one encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire import events as bus
from agentwire.codec.jsontext import append_line, canonical_object, sorted_json
from agentwire.events import Event, ReasoningDelta, TextDelta
from agentwire.log.record import Record
from agentwire.text import scrub
from agentwire_aionrs import texts, wire

_ENCODER: Final = msgspec.json.Encoder()
_encode = _ENCODER.encode
_encode_into = _ENCODER.encode_into
_encode_lines = _ENCODER.encode_lines

_NO_ARGUMENTS: Final = Raw(b"{}")
_STARTS: Final[dict[type[Event], bytes]] = {
    TextDelta: b'{"type":"text_delta","text":',
    ReasoningDelta: b'{"type":"thinking","text":',
}

Message = Struct | Raw | tuple[Struct, ...] | None
"""What a record becomes: a line, several, or none. ``Raw`` is a line that is written as it is."""


class _Call:
    """What later lines need to know of a call."""

    __slots__ = ("arguments", "description", "name", "shown")

    def __init__(self, name: str, arguments: Raw = _NO_ARGUMENTS, description: str = "") -> None:
        self.name = name
        self.arguments = arguments
        self.description = description
        self.shown = False
        """Asked about or running. A call that was neither has no lines at all."""


class SessionLines:
    """Renders one session's records. What it remembers is of the current turn and made of records alone."""

    __slots__ = ("_calls", "_msg_id", "_splices")

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._msg_id = ""
        self._splices: dict[type[Event], tuple[bytes, bytes, bytes]] = {}

    def render_one(self, record: Record, out: bytearray) -> None:
        """Append the lines for a single record."""
        if record.origin:
            return  # a subagent's own events are not on this wire
        event = record.event
        kind = event.__class__
        if kind is TextDelta or kind is ReasoningDelta:
            start, _, end = self._splices.get(kind) or self._splice(kind)
            try:
                out += start + _encode(event.text) + end  # type: ignore[union-attr]  # its class tells
            except UnicodeEncodeError:
                out += start + _encode(scrub(event.text)) + end  # type: ignore[union-attr]
        elif (make := _MAKERS.get(kind)) is not None and (message := make(self, event, record)) is not None:
            if message.__class__ is tuple:
                for line in message:
                    append_line(_ENCODER, line, out)
                return
            # append_line() for the usual case, without the call
            begin = len(out)
            try:
                _encode_into(message, out, -1)
            except UnicodeEncodeError:
                del out[begin:]
                append_line(_ENCODER, message, out)
            else:
                out += b"\n"

    def render(self, records: Sequence[Record], out: bytearray) -> None:
        """Append the lines for ``records``."""
        run: type[Event] | None = None
        deltas: list[str] = []
        for record in records:
            kind: type[Event] = record.event.__class__
            if kind is run and not record.origin:
                deltas.append(record.event.text)  # type: ignore[union-attr]
                continue
            if run is not None:
                self._append_run(run, deltas, out)
                run = None
            if (kind is TextDelta or kind is ReasoningDelta) and not record.origin:
                run, deltas = kind, [record.event.text]  # type: ignore[union-attr]
            else:
                self.render_one(record, out)
        if run is not None:
            self._append_run(run, deltas, out)

    def feed(self, records: Sequence[Record]) -> None:
        """Remember what ``records`` say, without writing."""
        for record in records:
            if not record.origin and (learn := _LEARNERS.get(record.event.__class__)) is not None:
                learn(self, record.event)

    def _append_run(self, kind: type[Event], deltas: list[str], out: bytearray) -> None:
        """Append one line for each delta of a run."""
        start, between, end = self._splices.get(kind) or self._splice(kind)
        try:
            lines = _encode_lines(deltas)
        except UnicodeEncodeError:
            lines = _encode_lines([scrub(delta) for delta in deltas])
        # JSON text holds no line feed of its own, so each one stands between two deltas.
        out += start
        out += lines[:-1].replace(b"\n", between)
        out += end

    def _splice(self, kind: type[Event]) -> tuple[bytes, bytes, bytes]:
        """What stands before, between and after the deltas of one kind in this turn."""
        start, end = _STARTS[kind], b',"msg_id":' + _encode(self._msg_id) + b"}\n"
        splice = self._splices[kind] = (start, end + start, end)
        return splice

    # --- what is remembered ---

    def _turn_began(self, event: bus.TurnStarted) -> None:
        self._msg_id = scrub(turn_ref(event))
        self._splices.clear()
        self._calls.clear()

    def _call_known(self, event: bus.CallReady) -> None:
        arguments = event.arguments
        arguments = _NO_ARGUMENTS if isinstance(arguments, UnsetType) else _on_one_line(arguments)
        self._calls[event.call_id] = _Call(event.name, arguments, event.description)

    def _call_shown(self, event: bus.ApprovalRequested | bus.CallRunning) -> _Call:
        call = self._calls.get(event.call_id)
        if call is None:
            call = self._calls[event.call_id] = _Call(event.name)
        call.shown = True
        return call

    def _call_closed(self, event: bus.CallFinished | bus.CallCancelled) -> _Call | None:
        """The call, if it was shown."""
        call = self._calls.pop(event.call_id, None)
        return call if call is not None and call.shown else None

    # --- what is written ---

    def _session_opened(self, event: bus.SessionOpened, record: Record) -> Message:
        session_id = UNSET if event.ephemeral else event.id
        return wire.Ready(session_id=session_id, capabilities=_capabilities(event.capabilities))

    def _capabilities_changed(self, event: bus.CapabilitiesChanged, record: Record) -> Message:
        return wire.ConfigChanged(_capabilities(event.capabilities))

    def _mode_changed(self, event: bus.ModeChanged, record: Record) -> Message:
        changed = wire.ConfigChanged(_capabilities(event.capabilities))
        return wire.Info("", texts.mode_updated(event.mode)), changed

    def _config_changed(self, event: bus.ConfigChanged, record: Record) -> Message:
        changed = wire.ConfigChanged(_capabilities(event.capabilities))
        text = texts.config_updated(event)
        return (wire.Info("", text), changed) if text else changed

    def _mcp_server_ready(self, event: bus.McpServerReady, record: Record) -> Message:
        return wire.McpReady(event.name, event.tools) if event.dynamic else None

    def _mcp_server_failed(self, event: bus.McpServerFailed, record: Record) -> Message:
        text = texts.mcp_failed(event)
        if not event.dynamic:
            return self._info(text, record)
        return wire.Error(error=wire.ErrorBody(event.error.code, text, event.error.retryable))

    def _notice(self, event: bus.Notice, record: Record) -> Message:
        return self._info(texts.plain(event.text), record)

    def _error_raised(self, event: bus.ErrorRaised, record: Record) -> Message:
        error = event.error
        body = wire.ErrorBody(error.code, error.message, error.retryable)
        return wire.Error(msg_id=self._msg_id if record.turn else None, error=body)

    def _turn_started(self, event: bus.TurnStarted, record: Record) -> Message:
        self._turn_began(event)
        return wire.StreamStart(self._msg_id)

    def _call_ready(self, event: bus.CallReady, record: Record) -> Message:
        self._call_known(event)
        return None

    def _approval_requested(self, event: bus.ApprovalRequested, record: Record) -> Message:
        call = self._call_shown(event)
        tool = wire.Tool(event.name, event.category, call.arguments, call.description)
        return wire.ToolRequest(self._msg_id, event.call_id, tool)

    def _call_running(self, event: bus.CallRunning, record: Record) -> Message:
        call = self._call_shown(event)
        return wire.ToolRunning(self._msg_id, event.call_id, event.name or call.name)

    def _call_finished(self, event: bus.CallFinished, record: Record) -> Message:
        if self._call_closed(event) is None:
            return None
        output, output_type, metadata = shown_result(event)
        return wire.ToolResult(
            self._msg_id,
            event.call_id,
            event.name,
            "success" if event.status == "ok" else "error",
            output,
            output_type,
            sorted_json(metadata) if metadata else UNSET,
        )

    def _call_cancelled(self, event: bus.CallCancelled, record: Record) -> Message:
        if self._call_closed(event) is None:
            return None
        return wire.ToolCancelled(self._msg_id, event.call_id, texts.cancel_reason(event))

    def _retry_scheduled(self, event: bus.RetryScheduled, record: Record) -> Message:
        return self._info(texts.retrying(event), record)

    def _compaction(
        self, event: bus.CompactionStarted | bus.CompactionFinished | bus.CompactionFailed, record: Record
    ) -> Message:
        return self._info(texts.compaction(event), record)

    def _turn_finished(self, event: bus.TurnFinished, record: Record) -> Message:
        return wire.StreamEnd(self._msg_id, known_usage(event.usage))

    def _unknown(self, event: bus.Unknown, record: Record) -> Message:
        return event.raw if is_own(event) else None

    def _info(self, text: str, record: Record) -> Message:
        return wire.Info(self._msg_id if record.turn else "", text)


_MAKERS: Final[dict[type[Event], Callable[[SessionLines, Any, Record], Message]]] = {
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
    metadata = {} if isinstance(event.metadata, UnsetType) else event.metadata
    if display is UNSET:
        return event.output, "text", metadata
    if isinstance(display, bus.Text):
        return display.text, "text", metadata
    if isinstance(display, bus.Diff) and event.status == "ok":
        return display.unified, "diff", {"file_path": display.path, **metadata}
    if isinstance(display, bus.Image) and display.data:
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
