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
_TEXT_DELTA: Final = b'{"type":"text_delta","text":'
_THINKING: Final = b'{"type":"thinking","text":'


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
        self._open_turn("")

    def render_one(self, record: Record, out: bytearray) -> None:
        """Append the lines for a single record: what :meth:`render` does, without its loop."""
        if record.origin:
            return  # a subagent's own events are not on this wire
        event = record.event
        kind = event.__class__
        if kind is TextDelta or kind is ReasoningDelta:
            self._splice(kind, event.text, out)  # type: ignore[union-attr]  # told by its class: cheaper than isinstance
        elif (write := _WRITERS.get(kind)) is not None:
            write(self, event, record, out)

    def render(self, records: Sequence[Record], out: bytearray) -> None:
        """Append the lines for ``records``."""
        run: type[Event] | None = None
        deltas: list[str] = []
        for record in records:
            if record.origin:
                continue
            event = record.event
            kind: type[Event] = event.__class__
            if kind is run:
                deltas.append(event.text)  # type: ignore[union-attr]
                continue
            if run is not None:
                self._splice_run(run, deltas, out)
                run = None
            if kind is TextDelta or kind is ReasoningDelta:
                run, deltas = kind, [event.text]  # type: ignore[union-attr]
            elif (write := _WRITERS.get(kind)) is not None:
                write(self, event, record, out)
        if run is not None:
            self._splice_run(run, deltas, out)

    def feed(self, records: Sequence[Record]) -> None:
        """Remember what ``records`` say, without writing."""
        for record in records:
            if not record.origin and (learn := _LEARNERS.get(record.event.__class__)) is not None:
                learn(self, record.event)

    def _splice(self, kind: type[Event], delta: str, out: bytearray) -> None:
        """Append the line for one delta."""
        start, _, end = self._splices[kind]
        try:
            out += start + _encode(delta) + end
        except UnicodeEncodeError:
            out += start + _encode(scrub(delta)) + end

    def _splice_run(self, kind: type[Event], deltas: list[str], out: bytearray) -> None:
        """Append one line for each delta of a run."""
        if len(deltas) == 1:
            return self._splice(kind, deltas[0], out)
        start, between, end = self._splices[kind]
        try:
            lines = _encode_lines(deltas)
        except UnicodeEncodeError:
            lines = _encode_lines([scrub(delta) for delta in deltas])
        # JSON text holds no line feed of its own, so each one stands between two deltas.
        out += start
        out += lines[:-1].replace(b"\n", between)
        out += end
        return None

    # --- what is remembered ---

    def _learn_turn_started(self, event: bus.TurnStarted) -> None:
        self._open_turn(scrub(turn_ref(event)))

    def _open_turn(self, msg_id: str) -> None:
        self._msg_id = msg_id
        self._calls.clear()
        end = b',"msg_id":' + _encode(msg_id) + b"}\n"
        self._splices: dict[type[Event], tuple[bytes, bytes, bytes]] = {
            TextDelta: (_TEXT_DELTA, end + _TEXT_DELTA, end),
            ReasoningDelta: (_THINKING, end + _THINKING, end),
        }
        """What stands before, between and after the deltas of each kind in this turn."""

    def _learn_call_ready(self, event: bus.CallReady) -> None:
        arguments = _NO_ARGUMENTS if isinstance(event.arguments, UnsetType) else _one_line(event.arguments)
        self._calls[event.call_id] = _Call(event.name, arguments, event.description)

    def _learn_shown(self, event: bus.ApprovalRequested | bus.CallRunning) -> _Call:
        call = self._calls.get(event.call_id)
        if call is None:
            call = self._calls[event.call_id] = _Call(event.name)
        call.shown = True
        return call

    def _learn_closed(self, event: bus.CallFinished | bus.CallCancelled) -> bool:
        call = self._calls.pop(event.call_id, None)
        return call is not None and call.shown

    def _learn_turn_finished(self, event: bus.TurnFinished) -> None:
        self._calls.clear()

    # --- what is written ---

    def _session_opened(self, event: bus.SessionOpened, record: Record, out: bytearray) -> None:
        session_id = UNSET if event.ephemeral else event.id
        _line(wire.Ready(session_id=session_id, capabilities=_capabilities(event.capabilities)), out)

    def _capabilities_changed(self, event: bus.CapabilitiesChanged, record: Record, out: bytearray) -> None:
        _line(wire.ConfigChanged(_capabilities(event.capabilities)), out)

    def _mode_changed(self, event: bus.ModeChanged, record: Record, out: bytearray) -> None:
        _line(wire.Info("", texts.mode_updated(event.mode)), out)
        _line(wire.ConfigChanged(_capabilities(event.capabilities)), out)

    def _config_changed(self, event: bus.ConfigChanged, record: Record, out: bytearray) -> None:
        if text := texts.config_updated(event):
            _line(wire.Info("", text), out)
        _line(wire.ConfigChanged(_capabilities(event.capabilities)), out)

    def _mcp_server_ready(self, event: bus.McpServerReady, record: Record, out: bytearray) -> None:
        if event.dynamic:
            _line(wire.McpReady(event.name, event.tools), out)

    def _mcp_server_failed(self, event: bus.McpServerFailed, record: Record, out: bytearray) -> None:
        text = texts.mcp_failed(event)
        if event.dynamic:
            _line(wire.Error(error=wire.ErrorBody(event.error.code, text, event.error.retryable)), out)
        else:
            self._info(text, record, out)

    def _notice(self, event: bus.Notice, record: Record, out: bytearray) -> None:
        self._info(texts.plain(event.text), record, out)

    def _error_raised(self, event: bus.ErrorRaised, record: Record, out: bytearray) -> None:
        error = event.error
        msg_id = self._msg_id if record.turn else None
        _line(wire.Error(msg_id=msg_id, error=wire.ErrorBody(error.code, error.message, error.retryable)), out)

    def _turn_started(self, event: bus.TurnStarted, record: Record, out: bytearray) -> None:
        self._learn_turn_started(event)
        _line(wire.StreamStart(self._msg_id), out)

    def _call_ready(self, event: bus.CallReady, record: Record, out: bytearray) -> None:
        self._learn_call_ready(event)

    def _approval_requested(self, event: bus.ApprovalRequested, record: Record, out: bytearray) -> None:
        call = self._learn_shown(event)
        tool = wire.Tool(event.name, event.category, call.arguments, call.description)
        _line(wire.ToolRequest(self._msg_id, event.call_id, tool), out)

    def _call_running(self, event: bus.CallRunning, record: Record, out: bytearray) -> None:
        call = self._learn_shown(event)
        _line(wire.ToolRunning(self._msg_id, event.call_id, event.name or call.name), out)

    def _call_finished(self, event: bus.CallFinished, record: Record, out: bytearray) -> None:
        if self._learn_closed(event):
            shown = shown_result(event)
            message = wire.ToolResult(
                self._msg_id,
                event.call_id,
                event.name,
                "success" if event.status == "ok" else "error",
                shown.output,
                shown.output_type,
                sorted_json(shown.metadata) if shown.metadata else UNSET,
            )
            _line(message, out)

    def _call_cancelled(self, event: bus.CallCancelled, record: Record, out: bytearray) -> None:
        if self._learn_closed(event):
            _line(wire.ToolCancelled(self._msg_id, event.call_id, texts.cancel_reason(event)), out)

    def _retry_scheduled(self, event: bus.RetryScheduled, record: Record, out: bytearray) -> None:
        self._info(texts.retrying(event), record, out)

    def _compaction(
        self,
        event: bus.CompactionStarted | bus.CompactionFinished | bus.CompactionFailed,
        record: Record,
        out: bytearray,
    ) -> None:
        self._info(texts.compaction(event), record, out)

    def _turn_finished(self, event: bus.TurnFinished, record: Record, out: bytearray) -> None:
        self._learn_turn_finished(event)
        usage = event.usage
        known = wire.Usage(
            usage.input_tokens or 0, usage.output_tokens or 0, usage.cache_read_tokens, usage.cache_write_tokens
        )
        _line(wire.StreamEnd(self._msg_id, known), out)

    def _unknown(self, event: bus.Unknown, record: Record, out: bytearray) -> None:
        if is_own(event):
            out += bytes(event.raw)
            out += b"\n"

    def _info(self, text: str, record: Record, out: bytearray) -> None:
        _line(wire.Info(self._msg_id if record.turn else "", text), out)


_WRITERS: Final[dict[type[Event], Callable[[SessionLines, Any, Record, bytearray], None]]] = {
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
"""Events without a writer are absent from this wire; the codec's fidelity table says why."""

_LEARNERS: Final[dict[type[Event], Callable[[SessionLines, Any], object]]] = {
    bus.TurnStarted: SessionLines._learn_turn_started,
    bus.CallReady: SessionLines._learn_call_ready,
    bus.ApprovalRequested: SessionLines._learn_shown,
    bus.CallRunning: SessionLines._learn_shown,
    bus.CallFinished: SessionLines._learn_closed,
    bus.CallCancelled: SessionLines._learn_closed,
    bus.TurnFinished: SessionLines._learn_turn_finished,
}


class ShownResult(Struct):
    """A call's result as a ``tool_result`` carries it."""

    output: str
    output_type: Literal["text", "diff", "image"] = "text"
    metadata: dict[str, Any] = {}


def shown_result(event: bus.CallFinished) -> ShownResult:
    """What is shown of a result (section 1.7). A failed call and an image without data are text."""
    metadata = {} if isinstance(event.metadata, UnsetType) else event.metadata
    display = event.display
    if isinstance(display, bus.Text):
        return ShownResult(display.text, "text", metadata)
    if isinstance(display, bus.Diff) and event.status == "ok":
        return ShownResult(display.unified, "diff", {"file_path": display.path, **metadata})
    if isinstance(display, bus.Image) and display.data:
        return ShownResult(display.data, "image", {"mime_type": display.mime_type, **metadata})
    return ShownResult(event.output, "text", metadata)


def turn_ref(event: bus.TurnStarted) -> str:
    """The turn's ``msg_id``: the host's own id for it as text, or the turn's id if it gave none."""
    return event.id if event.ref is None else str(event.ref)


def is_own(event: bus.Unknown) -> bool:
    """Whether an event without a word on the bus came from this wire, as a whole object on one line."""
    raw = bytes(event.raw)
    return event.wire == "aionrs" and raw.startswith(b"{") and b"\n" not in raw


def _line(message: Struct, out: bytearray) -> None:
    """``append_line``, for the usual case without a second call."""
    begin = len(out)
    try:
        _encode_into(message, out, -1)
    except UnicodeEncodeError:
        del out[begin:]
        append_line(_ENCODER, message, out)
    else:
        out += b"\n"


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


def _one_line(arguments: Raw) -> Raw:
    """Arguments that may stand inside a line. The engine's do; anyone else's are encoded again."""
    if b"\n" not in bytes(arguments):
        return arguments
    return canonical_object(bytes(arguments)) or _NO_ARGUMENTS
