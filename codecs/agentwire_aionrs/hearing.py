"""What a host makes of an agent's lines: events, and the outcomes of what it asked.

It follows whatever speaks this wire, live or recorded, and only listens: what the lines of a real binary leave for its
host to do is the affair of :mod:`agentwire_aionrs.driving`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Raw

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.framing import LineFault
from agentwire.codec.heard import Heard
from agentwire.codec.jsontext import BadJson, BadShape, canonical_object, parse
from agentwire.commands import Command, Done, JsonId, Refusal, RefusalCode
from agentwire_aionrs import reading, sending, texts
from agentwire_aionrs.reading import TextDelta
from agentwire_aionrs.sending import Ledger
from agentwire_aionrs.totals import RunningTotal, is_original
from agentwire_aionrs.turns import OpenTurn, Said

_ENCODER: Final = msgspec.json.Encoder()
_decode = reading.DECODER.decode

Handler = Callable[[Any, Any], "Said | None"]
"""Makes of a message what a host hears; None for a line that does not fit where it stands: it is kept as unknown."""


class Hearing:
    """The half of a host side that listens."""

    handlers: ClassVar[dict[type[Any], Handler]]
    """By kind of message."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._capabilities = bus.Capabilities()
        self._turn: OpenTurn | None = None
        self._ended: str | None = None  # msg_id of the turn before
        self._call_ids: set[str] = set()
        self._announced: Literal["", "mode", "config", "held config"] = ""  # what the next config_changed belongs to
        self._total: RunningTotal | None = None

    # --- lines ---

    def receive(self, line: bytes | LineFault) -> Said:
        """Read one line of the agent. It never raises: what cannot be understood is kept as it is."""
        if type(line) is LineFault:
            return [Heard(bus.Notice(f"The agent sent a line that cannot be read: {line.message}", "warning"))]
        try:
            message = _decode(line)
        except (msgspec.DecodeError, RecursionError):
            return self._receive_again(line)
        turn = self._turn
        if type(message) is TextDelta and turn is not None and message.msg_id == turn.msg_id:
            # Nearly all there is: what _on_text_delta() does, without its calls.
            text = message.text
            turn.course.said(text)
            return [Heard(bus.TextDelta(text), "", turn.ref)]
        return self._heard(message, line)

    def _receive_again(self, line: bytes) -> Said:
        """The slow way, for a line that is not a message as it stands."""
        try:
            message = reading.DECODER.recover(line)
        except BadJson:
            return [_unknown("line", line)] if line.strip() else []
        except BadShape as fault:
            name = fault.value.get("type") if isinstance(fault.value, dict) else None
            return [_unknown(name if isinstance(name, str) else "line", line)]
        return self._heard(message, line)

    def _heard(self, message: reading.AgentEvent, line: bytes) -> Said:
        said = self.handlers[type(message)](self, message)
        return [_unknown(str(type(message).__struct_config__.tag), line)] if said is None else said

    def close(self) -> Said:
        """The agent's output ended: so did the turn, and every command that still waits was not carried out."""
        said: Said = []
        if (turn := self._turn) is not None:
            if not turn.stopping:
                turn.course.error = bus.ErrorInfo("internal_error", "The agent ended in the middle of the turn.")
            said += self._finish(turn, bus.Usage())
        said += self._ledger.settle_all(commands.Stop)
        gone = Refusal("internal", "The agent ended before it answered.")
        return said + self._ledger.settle_all(Command, result=gone)

    # --- session ---

    def _on_ready(self, message: reading.Ready) -> Said:
        self._capabilities = reading.capabilities(message.capabilities)
        self._total = RunningTotal() if is_original(message.version) else None
        return [
            Heard(
                bus.SessionOpened(
                    message.session_id or "",
                    capabilities=self._capabilities,
                    ephemeral=not message.session_id,
                )
            )
        ]

    def _on_config_changed(self, message: reading.ConfigChanged) -> Said:
        now, before = reading.capabilities(message.capabilities), self._capabilities
        announced, self._announced = self._announced, ""
        self._capabilities = now
        if announced == "mode":
            return [] if now == before else [Heard(bus.CapabilitiesChanged(now))]
        if announced:
            return [Heard(bus.ConfigChanged([], now, announced == "held config"))]
        return [Heard(bus.CapabilitiesChanged(now))]

    def _on_mcp_ready(self, message: reading.McpReady) -> Said:
        tools = message.tools or []
        said: Said = [*self._ledger.settle(commands.AddMcpServer, key=message.name)]
        said.append(Heard(bus.McpServerReady(message.name, tools, dynamic=True)))
        if not tools:
            said.append(Heard(bus.Notice(texts.no_tools(message.name), "warning")))
        return said

    def _on_pong(self, message: reading.Pong) -> Said:
        ping = self._ledger.find(commands.Ping)
        if ping is None:
            return []
        # Commands that are carried out without a word were read before the ping was.
        said = self._ledger.settle_all(*_SILENT, before=ping.number)
        return [*said, *self._ledger.settle(commands.Ping)]

    def _on_info(self, message: reading.Info) -> Said | None:
        told = texts.read_info(message.message)
        turn = self._turn if self._turn is not None and message.msg_id == self._turn.msg_id else None
        ref = turn.ref if turn is not None else None
        if told is None or (told.retry is not None and turn is None):
            return [Heard(bus.Notice(message.message), "", ref)]
        if told.retry is not None:
            return [Heard(told.retry, "", ref)]
        if told.kind == "mode":
            self._announced = "mode"
            old, now = self._capabilities.current_mode, told.mode
            self._capabilities = msgspec.structs.replace(self._capabilities, current_mode=now)
            changed = Heard(bus.ModeChanged(now, old, self._capabilities))
            return [*self._ledger.settle(commands.SetMode, key=now), changed]
        if told.kind == "queued":
            answered = self._ledger.settle(commands.SetConfig, result=Done(deferred=True))
            return [*answered] or [Heard(bus.Notice(message.message))]
        if told.kind == "config":
            self._announced = "held config" if told.deferred else "config"
            answered = [] if told.deferred else self._ledger.settle(commands.SetConfig)
            return [*answered, Heard(bus.Notice(message.message))]
        return None  # words about a call that has events of its own

    def _on_error(self, message: reading.Error) -> Said:
        error = reading.error(message.error)
        turn = self._turn
        if turn is not None and (message.msg_id == turn.msg_id or (not message.msg_id and unplaced(error))):
            turn.course.error = error
            return [turn.say(bus.ErrorRaised(error))]
        if message.msg_id:
            refused = self._ledger.settle(commands.Prompt, key=message.msg_id, result=_refusal(error))
            return [*refused] or [Heard(bus.ErrorRaised(error))]
        return self._on_error_outside(error)

    def _on_error_outside(self, error: bus.ErrorInfo) -> Said:
        """An error of no turn: the answer to a command, where its text tells which."""
        name = texts.refused_server(error.message)
        if name is not None:
            refused = self._ledger.settle(commands.AddMcpServer, key=name, result=_refusal(error))
            if texts.failed_server(error.message) is not None:
                return [*refused, Heard(bus.McpServerFailed(name, error, dynamic=True))]
            return [*refused] or [Heard(bus.ErrorRaised(error))]
        refused = self._ledger.settle_refused(error.message, _refusal(error))
        return [*refused] or [Heard(bus.ErrorRaised(error))]

    # --- turn ---

    def _on_stream_start(self, message: reading.StreamStart) -> Said | None:
        msg_id = message.msg_id
        if msg_id is None:
            waiting = self._ledger.find(commands.Prompt)
            msg_id = waiting.key if waiting is not None else ""
        turn = self._turn
        if turn is None:
            return self._start(msg_id)
        if turn.msg_id == msg_id:
            return None
        turn.course.error = bus.ErrorInfo("internal_error", "The agent began another turn before this one ended.")
        return [*self._finish(turn, bus.Usage()), *self._start(msg_id)]

    def _start(self, msg_id: str) -> Said:
        sent = self._ledger.find(commands.Prompt, key=msg_id)
        ref: JsonId = msg_id
        parts: list[bus.Part] = []
        if sent is not None and isinstance(sent.command, commands.Prompt):
            ref = msg_id if sent.command.ref is None else sent.command.ref
            parts = sending.prompt_parts(sent.command)
        said: Said = [
            *self._ledger.settle_all(commands.InitHistory),
            *self._ledger.settle(commands.Prompt, key=msg_id),
        ]
        self._turn = OpenTurn(msg_id, ref)
        said.append(self._turn.say(bus.TurnStarted(msg_id, ref, parts)))
        return said

    def _current(self, msg_id: Any) -> OpenTurn | None:
        """The turn under way, if a line with this ``msg_id`` is part of it. Old agents leave the id out."""
        turn = self._turn
        return turn if turn is not None and (not msg_id or msg_id == turn.msg_id) else None

    def _join(self, msg_id: Any, said: Said) -> OpenTurn | None:
        """The same, but a turn whose beginning was left out begins now. None for a turn that is over."""
        if self._turn is None and msg_id and isinstance(msg_id, str) and msg_id != self._ended:
            said += self._start(msg_id)
        return self._current(msg_id)

    def _on_text_delta(self, message: reading.TextDelta) -> Said | None:
        said: Said = []
        turn = self._join(message.msg_id, said)
        if turn is None:
            return None
        turn.course.said(message.text)
        said.append(turn.say(bus.TextDelta(message.text)))
        return said

    def _on_thinking(self, message: reading.Thinking) -> Said | None:
        said: Said = []
        turn = self._join(message.msg_id, said)
        if turn is None:
            return None
        turn.course.went_on()
        said.append(turn.say(bus.ReasoningDelta(message.text)))
        return said

    def _on_stream_end(self, message: reading.StreamEnd) -> Said | None:
        said: Said = []
        turn = self._join(message.msg_id, said)
        if turn is None:
            return None
        usage = reading.usage(message.usage)
        return said + self._finish(turn, usage if self._total is None else self._total.turn(usage))

    def _finish(self, turn: OpenTurn, usage: bus.Usage) -> Said:
        """The end of the turn, after the end of every call in it."""
        cause: Literal["stopped", "crashed"] = "stopped" if turn.stopping else "crashed"
        said: Said = [turn.say(bus.CallCancelled(call.call_id, cause, "", call.name)) for call in turn.calls.values()]
        outcome = "cancelled" if turn.stopping else turn.course.outcome
        error = turn.course.error if outcome == "failed" else UNSET
        said.append(turn.say(bus.TurnFinished(outcome, turn.course.text, usage, error)))
        self._turn, self._ended = None, turn.msg_id
        return said + self._ledger.settle_all(commands.Stop, commands.Approve, commands.Deny)

    # --- calls ---

    def _on_tool_request(self, message: reading.ToolRequest) -> Said | None:
        said: Said = []
        turn = self._join(message.msg_id, said)
        if turn is None or message.call_id in turn.calls:
            return None
        turn.course.called()
        tool, kind = message.tool, reading.category(message.tool.category)
        call = turn.show(message.call_id, tool.name, self._call_ids)
        call.asked = True
        arguments = canonical_object(bytes(tool.args)) or Raw(b"{}")
        text = bytes(arguments)
        said.append(
            turn.say(bus.CallReady(call.call_id, tool.name, text.decode(), arguments, kind, tool.description or ""))
        )
        said.append(turn.say(reading.question(call.call_id, tool.name, kind, msgspec.json.decode(text))))
        return said

    def _on_tool_running(self, message: reading.ToolRunning) -> Said | None:
        said: Said = []
        turn = self._join(message.msg_id, said)
        if turn is None:
            return None
        turn.course.called()
        call = turn.known(message.call_id, message.tool_name, self._call_ids, said)
        if call.running:
            return None
        call.running = True
        said.append(turn.say(bus.CallRunning(call.call_id, message.tool_name or call.name)))
        return said + self._ledger.settle_all(commands.Approve, key=message.call_id)

    def _on_tool_result(self, message: reading.ToolResult) -> Said | None:
        said: Said = []
        turn = self._join(message.msg_id, said)
        if turn is None:
            return None
        turn.course.called()
        call = turn.known(message.call_id, message.tool_name, self._call_ids, said)
        del turn.calls[message.call_id]
        said.append(turn.say(reading.result(message, call.call_id, message.tool_name or call.name)))
        return said

    def _on_tool_cancelled(self, message: reading.ToolCancelled) -> Said | None:
        turn = self._current(message.msg_id)
        call = turn.calls.pop(message.call_id, None) if turn is not None else None
        if turn is None or call is None:
            return None
        reason = message.reason or ""
        cause = texts.cancel_cause(reason)
        turn.course.stopped = turn.course.stopped or cause == "stopped"
        cancelled = turn.say(bus.CallCancelled(call.call_id, cause, reason, call.name))
        return [cancelled, *self._ledger.settle_all(commands.Deny, key=message.call_id)]


_SILENT: Final = (commands.Stop, commands.Approve, commands.Deny, commands.InitHistory)
"""Commands that are carried out without an answer."""

Hearing.handlers = {
    reading.Ready: Hearing._on_ready,
    reading.StreamStart: Hearing._on_stream_start,
    reading.TextDelta: Hearing._on_text_delta,
    reading.Thinking: Hearing._on_thinking,
    reading.ToolRequest: Hearing._on_tool_request,
    reading.ToolRunning: Hearing._on_tool_running,
    reading.ToolResult: Hearing._on_tool_result,
    reading.ToolCancelled: Hearing._on_tool_cancelled,
    reading.StreamEnd: Hearing._on_stream_end,
    reading.Error: Hearing._on_error,
    reading.Info: Hearing._on_info,
    reading.ConfigChanged: Hearing._on_config_changed,
    reading.McpReady: Hearing._on_mcp_ready,
    reading.Pong: Hearing._on_pong,
}

_REFUSALS: Final[dict[str, RefusalCode]] = {
    "protocol_error": "bad_params",
    "config_error": "config",
    "internal_error": "internal",
}


def _refusal(error: bus.ErrorInfo) -> Refusal:
    """The refusal that an error stands for, as nearly as its code and text tell."""
    code = _REFUSALS.get(error.code, "internal")
    if "rejected — only allowed before" in error.message:
        code = "too_late"
    elif ": unknown transport: " in error.message:
        code = "bad_params"
    elif error.code == "protocol_error" and error.retryable:
        code = "busy"
    elif "no pending call" in error.message:
        code = "not_found"
    return Refusal(code, error.message, error.retryable)


def unplaced(error: bus.ErrorInfo) -> bool:
    """Real agents name no turn in an error; their one code tells them from ours. Answers name a server."""
    return error.code == "engine_error" and texts.refused_server(error.message) is None


def _unknown(name: str, line: bytes) -> Heard:
    """A line kept as it is. Text, and JSON that only we can read, is kept as a JSON string."""
    try:
        value = parse(line)
        raw = Raw(_ENCODER.encode(value) if b"\\u" in line else line.strip())
    except (BadJson, RecursionError):
        raw = Raw(_ENCODER.encode(line.decode(errors="replace")))
    return Heard(bus.Unknown("aionrs", name, raw))
