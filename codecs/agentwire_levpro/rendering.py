"""Records into lines: what the agent side writes of a session's log (section 5).

Nearly every record is a text delta: a run of them is encoded at once and spliced between bytes that are fixed for the
step. What else there is goes through the structs of :mod:`agentwire_levpro.wire`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from agentwire import events as bus
from agentwire.commands import JsonId
from agentwire.events import Event, TextDelta
from agentwire.log.record import Record
from agentwire.text import scrub
from agentwire_levpro import wire
from agentwire_levpro.calls import Shown, StepCalls
from agentwire_levpro.decisions import ABORT_WARNING, ENDS
from agentwire_levpro.envelope import chunk_splice, error_line, event_head, event_line, result_line
from agentwire_levpro.facts import (
    SETUP_CODES,
    Warnings,
    abort_reason,
    duration,
    failure,
    own_line,
    preview,
    retryable,
    user_input,
    warning,
)
from agentwire_levpro.inflight import InFlight

_ENCODER: Final = msgspec.json.Encoder()
_encode: Final = _ENCODER.encode
_encode_lines: Final = _ENCODER.encode_lines

CANCELLED: Final = "The chat was cancelled."


class _Chat:
    """The chat under way."""

    __slots__ = ("calls", "chunk", "head", "request", "step", "step_open", "trace_id")

    def __init__(self, request: JsonId, trace_id: str) -> None:
        self.request = request
        self.trace_id = trace_id
        self.head = event_head(request)
        self.step = 0
        """The step under way, or the last one."""
        self.step_open = False
        """Its model call is not over."""
        self.chunk = chunk_splice(self.head, 0)
        self.calls = StepCalls()

    def line(self, event: Any) -> bytes:
        """An event of this chat."""
        return event_line(self.head, event)


class SessionLines:
    """Renders one session's records. What it remembers is of the current chat, and what the next one is to be told."""

    __slots__ = ("_chat", "_requests", "_session", "_warnings")

    def __init__(self, session: str, requests: InFlight) -> None:
        self._session = session
        self._requests = requests
        self._chat: _Chat | None = None
        self._warnings: Warnings[str] = Warnings()

    @property
    def idle(self) -> bool:
        """Nothing is remembered."""
        return self._chat is None and not self._warnings

    # --- the contract's ways in ---

    def render_one(self, record: Record, out: bytearray) -> None:
        """Append the lines for a single record."""
        if record.origin:
            return  # a subagent's own events are not on this wire
        event = record.event
        if event.__class__ is TextDelta:
            if self._chat is not None and event.text:
                start, _, end = self._chat.chunk
                try:
                    out += start + _encode(event.text) + end
                except UnicodeEncodeError:
                    out += start + _encode(scrub(event.text)) + end
        elif (make := _MAKERS.get(event.__class__)) is not None:
            out += make(self, event, record)

    def render(self, records: Sequence[Record], out: bytearray) -> None:
        """Append the lines for ``records``."""
        deltas: list[str] = []
        for record in records:
            event = record.event
            if event.__class__ is TextDelta and not record.origin:
                deltas.append(event.text)
                continue
            if deltas:
                self._append_chunks(deltas, out)
                deltas = []
            self.render_one(record, out)
        if deltas:
            self._append_chunks(deltas, out)

    def feed(self, records: Sequence[Record]) -> None:
        """Remember what ``records`` say, without writing."""
        for record in records:
            if not record.origin and (make := _MAKERS.get(record.event.__class__)) is not None:
                make(self, record.event, record)

    def _append_chunks(self, deltas: list[str], out: bytearray) -> None:
        """Append one line for each piece of the model's text."""
        chat = self._chat
        if chat is None:
            return
        start, between, end = chat.chunk
        if not all(deltas):
            deltas = [delta for delta in deltas if delta]
            if not deltas:
                return
        try:
            lines = _encode_lines(deltas)
        except UnicodeEncodeError:
            lines = _encode_lines([scrub(delta) for delta in deltas])
        # JSON text holds no line feed of its own, so each one stands between two deltas.
        out += start
        out += lines[:-1].replace(b"\n", between)
        out += end

    # --- beside the chat ---

    def _warned(self, event: Event, record: Record) -> bytes:
        if (text := warning(event)) is not None:
            self._warnings.add(text, record)
        return b""

    def _unknown(self, event: bus.Unknown, record: Record) -> bytes:
        return own_line(event) or b""

    # --- the chat ---

    def _turn_started(self, event: bus.TurnStarted, record: Record) -> bytes:
        chat = self._chat = _Chat(self._requests.name_of(event, self._session), event.id)
        return chat.line(wire.RunStart(user_input(event), event.id))

    def _step_started(self, event: bus.StepStarted, record: Record) -> bytes:
        chat = self._chat
        if chat is None:
            return b""
        before = self._close_step(chat) + self._show(chat, chat.calls.cut())
        chat.step, chat.step_open = event.index, True
        chat.chunk = chunk_splice(chat.head, event.index)
        chat.calls.clear()
        return before + chat.line(wire.LlmStart(event.index))

    def _step_finished(self, event: bus.StepFinished, record: Record) -> bytes:
        return b"" if self._chat is None else self._close_step(self._chat)

    @staticmethod
    def _close_step(chat: _Chat) -> bytes:
        """The end of the model call, if it is not over: one that broke off is, on the wire."""
        if not chat.step_open:
            return b""
        chat.step_open = False
        return chat.line(wire.LlmDone(chat.step))

    def _turn_finished(self, event: bus.TurnFinished, record: Record) -> bytes:
        chat = self._chat
        if chat is None:
            return b""  # the rest of a turn that a killed process left open
        self._chat = None
        self._requests.answered(chat.request, self._session)
        how = ENDS[event.outcome]
        lines = self._close_step(chat) + self._show(chat, chat.calls.cut())
        if how.event == "final":
            lines += chat.line(wire.FinalAnswer(chat.step, event.text))
        elif how.event == "loop_abort":
            lines += chat.line(wire.LoopAbort(chat.step, abort_reason(event)))
        if how.code:
            self._warnings.end_turn()
            why = failure(event)
            message = CANCELLED if how.code == "cancelled" else why.message
            code = why.kind if how.code != "cancelled" and why.kind in SETUP_CODES else how.code
            return lines + error_line(chat.request, code, message)
        warnings = self._warnings.take()
        if how.event == "loop_abort":
            warnings.append(ABORT_WARNING + abort_reason(event))
        return lines + result_line(
            chat.request, wire.ChatResult(event.text, self._session, chat.trace_id, warnings)
        )  # fmt: skip

    # --- calls ---

    def _call_ready(self, event: bus.CallReady, record: Record) -> bytes:
        if self._chat is not None:
            self._chat.calls.ready(event)
        return b""

    def _call_running(self, event: bus.CallRunning, record: Record) -> bytes:
        return b"" if self._chat is None else self._show(self._chat, self._chat.calls.running(event))

    def _call_ended(self, event: bus.CallFinished | bus.CallCancelled, record: Record) -> bytes:
        return b"" if self._chat is None else self._show(self._chat, self._chat.calls.ended(event))

    def _show(self, chat: _Chat, shown: Shown) -> bytes:
        lines = [self._close_step(chat)] if shown else []
        for what, call in shown:
            if what == "start":
                lines.append(chat.line(wire.ToolStart(chat.step, call.name, call.arguments)))
            else:
                done = wire.ToolDone(chat.step, call.name, call.status, preview(call), retryable(call), duration(call))
                lines.append(chat.line(done))
        return b"".join(lines)


_MAKERS: Final[dict[type[Event], Callable[[SessionLines, Any, Record], bytes]]] = {
    bus.Notice: SessionLines._warned,
    bus.McpServerFailed: SessionLines._warned,
    bus.ErrorRaised: SessionLines._warned,
    bus.Unknown: SessionLines._unknown,
    bus.TurnStarted: SessionLines._turn_started,
    bus.StepStarted: SessionLines._step_started,
    bus.StepFinished: SessionLines._step_finished,
    bus.CallReady: SessionLines._call_ready,
    bus.CallRunning: SessionLines._call_running,
    bus.CallFinished: SessionLines._call_ended,
    bus.CallCancelled: SessionLines._call_ended,
    bus.TurnFinished: SessionLines._turn_finished,
}
"""Events not listed are absent from this wire; the codec's fidelity table says why."""
