"""We drive an agent that speaks the LevPRO wire: ours, or a real core, which may leave events out."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from typing import Any, Final

from msgspec import DecodeError

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.framing import LineFault
from agentwire.codec.heard import Answered, Heard
from agentwire.commands import Check, Command, Done, JsonId, Refusal, RefusalCode
from agentwire.events import TextDelta
from agentwire_levpro import sending, wire
from agentwire_levpro.facts import SETUP_CODES, kept
from agentwire_levpro.reading import DECODE, Message, recover
from agentwire_levpro.runs import Run, Said
from agentwire_levpro.sending import INITIALIZE, Ledger, Sent

GONE: Final = "The agent ended before it answered."

_CHUNK: Final = "llm_chunk"


class LevproHost:
    """The host side of one agent; see :class:`agentwire.codec.contract.HostSide`.

    ``session`` is the session of prompts that name none: one for the life of this host, so that a conversation goes on.
    """

    def __init__(self, session: str = "") -> None:
        self._session = session or secrets.token_hex(4)
        self._ledger = Ledger()
        self._runs: dict[JsonId, Run] = {}
        self._last: Run | None = None
        """The chat that an event came of last, while it runs."""
        self._stops: dict[JsonId, list[int]] = {}
        """Stops that wait for the end of a chat, by its id."""
        self._stopped: set[int] = set()
        """Stops that had their outcome from that end, before the core answered them."""
        self._greeted = False
        self._names = (f"call-{n}" for n in itertools.count(1))

    # --- commands ---

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``; before the first of all, the handshake."""
        make = _SENDERS.get(type(command))
        if make is None:
            return Refusal("unsupported", f"{wire.NAME} has no word for {type(command).__struct_config__.tag}")
        made = make(self, command)
        if isinstance(made, Refusal):
            return made
        sent, line = made
        if not self._greeted:
            self._greeted = True
            out += sending.handshake()
        out += line
        return sent.number

    def _prompt(self, command: commands.Prompt) -> tuple[Sent, bytes] | Refusal:
        session = command.session or self._session
        if command.when_busy in ("refuse", "ignore") and any(sent.session == session for sent in self._ledger.chats()):
            return Refusal("busy", "a chat of this session runs", retryable=True)
        params = sending.chat(command, session)
        if isinstance(params, Refusal):
            return params
        sent = self._ledger.add(command, command.ref, session)
        return sent, sending.line(sent.request, "chat", params)

    def _stop(self, command: commands.Stop) -> tuple[Sent, bytes] | Refusal:
        chat = sending.cancel(self._ledger.chats(), command)
        if isinstance(chat, Refusal):
            return chat
        sent = self._ledger.add(command)
        if chat is None:
            return sent, sending.line(sent.request, "cancel")
        if command.wait:
            self._stops.setdefault(chat.request, []).append(sent.number)
        params = wire.Cancel(chat.request)  # type: ignore[arg-type]  # an id of ours is no null
        return sent, sending.line(sent.request, "cancel", params)

    # --- lines ---

    def receive(self, line: bytes | LineFault) -> Said:
        """Read one line of the core. It never raises: what cannot be understood is kept as it is."""
        if type(line) is LineFault:
            return [Heard(bus.Notice(f"The agent sent a line that cannot be read: {line.message}", "warning"))]
        try:
            message = DECODE(line)
        except (DecodeError, RecursionError):
            return self._receive_again(line)
        run = self._last
        if message.event == _CHUNK and run is not None and message.id == run.request and message.type == "event":
            # Nearly all there is: what Run.chunk() does, without its calls.
            text = message.delta
            if text and message.step == run.step:
                run.pieces.append(text)
                return [Heard(TextDelta(text), run.session, run.ref)]
        return self._heard(message, line)

    def _receive_again(self, line: bytes) -> Said:
        """The slow way, for a line that is not a message as it stands."""
        if not line or line.isspace():
            return []
        message = recover(line)
        return [Heard(kept(line))] if message is None else self._heard(message, line)

    def _heard(self, message: Message, line: bytes) -> Said:
        handle = _HANDLERS.get(message.type)
        said = None if handle is None else handle(self, message)
        if said is not None:
            return said
        run = self._runs.get(message.id) if message.type else None
        return [Heard(kept(line)) if run is None else run.say(kept(line))]

    def close(self) -> Said:
        """The core's output ended: so did every chat, and what still waits was not carried out."""
        said: Said = []
        for request in list(self._runs):
            said += self._end_run(request, self._runs[request].fail("internal_error", GONE))
        for sent in self._ledger.waiting():
            self._ledger.settle(sent.request)
            if sent.number not in self._stopped:
                said.append(Answered(sent.number, Refusal("internal", GONE)))
        return said

    # --- events ---

    def _on_event(self, message: Message) -> Said | None:
        tell = _EVENTS.get(message.event)
        if tell is None or message.id is None:
            return None
        said: Said = [] if message.id in self._runs else self._begin(message)
        run = self._last = self._runs[message.id]
        return said + tell(run, message)

    def _begin(self, message: Message, session: str = "") -> Said:
        """A chat begins, with its first event or with whatever comes first of it."""
        sent = self._ledger.find(message.id)
        ref = message.id if sent is None else sent.ref
        if sent is not None:
            session = sent.session
        run = Run(message.id, ref, session, message.trace_id or str(message.id), self._names)
        self._runs[message.id] = run
        parts: list[bus.Part] = [bus.Text(message.user_input)] if message.user_input else []
        said: Said = [] if sent is None else [Answered(sent.number, Done(run.id))]
        return [*said, run.say(bus.TurnStarted(run.id, ref, parts))]

    # --- terminals ---

    def _on_result(self, message: Message) -> Said | None:
        request = message.id
        sent = self._ledger.find(request)
        if request == INITIALIZE and self._greeted:
            return []
        if request in self._runs or _is_chat(sent, message.result):
            return self._chat_result(message)
        if sent is None:
            return None
        self._ledger.settle(request)
        if self._has_or_waits(sent.number):
            return []
        value = _RESULTS.get(type(sent.command))
        return [Answered(sent.number, Done(None if value is None else value(message.result)))]

    def _has_or_waits(self, stop: int) -> bool:
        """Whether a stop is answered by its chat's end, and not by what the core says to it."""
        if stop in self._stopped:
            self._stopped.remove(stop)
            return True
        return any(stop in numbers for numbers in self._stops.values())

    def _chat_result(self, message: Message) -> Said:
        result = message.result if isinstance(message.result, dict) else {}
        session, trace_id = _text(result, "session_id"), _text(result, "trace_id")
        said: Said = []
        if message.id not in self._runs:
            message.trace_id = trace_id
            said = self._begin(message, session)
        run = self._runs[message.id]
        run.session = session or run.session
        warnings = result.get("warnings")
        texts = [text for text in warnings if isinstance(text, str)] if isinstance(warnings, list) else []
        return said + self._end_run(message.id, run.end(_text(result, "response"), texts))

    def _on_error(self, message: Message) -> Said:
        request = message.id
        sent = self._ledger.find(request)
        if request == INITIALIZE and self._greeted:
            return [Heard(bus.Notice(f"The agent refused the handshake: {message.message}", "warning"))]
        if request in self._runs:
            return self._end_run(request, self._runs[request].fail(message.code, message.message))
        if sent is None:
            return [Heard(bus.ErrorRaised(bus.ErrorInfo("protocol_error", message.message)))]
        self._ledger.settle(request)
        for numbers in self._stops.values():
            if sent.number in numbers:
                numbers.remove(sent.number)
        if sent.number in self._stopped:
            self._stopped.remove(sent.number)
            return []
        return [Answered(sent.number, _refusal(message)), *self._answer_stops(request)]

    def _end_run(self, request: JsonId, said: Said) -> Said:
        del self._runs[request]
        self._last = None
        self._ledger.settle(request)
        return said + self._answer_stops(request)

    def _answer_stops(self, request: JsonId) -> Said:
        """The stops that waited for that chat's end have their outcome."""
        numbers = self._stops.pop(request, [])
        unanswered = {sent.number for sent in self._ledger.waiting()}
        self._stopped.update(unanswered.intersection(numbers))
        return [Answered(number, Done(True)) for number in numbers]


def _is_chat(sent: Sent | None, result: Any) -> bool:
    """Whether a result is a chat's: of one that we asked for, or that looks like one."""
    if sent is not None:
        return isinstance(sent.command, commands.Prompt)
    return isinstance(result, dict) and {"response", "trace_id"} <= result.keys()


def _refusal(message: Message) -> Refusal:
    if message.code in SETUP_CODES:
        return Refusal("config", message.message, data=message.code)
    return Refusal(_REFUSALS.get(message.code, "internal"), message.message)


_REFUSALS: Final[dict[str, RefusalCode]] = {
    "unknown_method": "unknown_command",
    "invalid_json": "bad_line",
    "invalid_request": "bad_params",
    "cancelled": "cancelled",
}


def _text(result: dict[str, Any], key: str) -> str:
    value = result.get(key)
    return value if isinstance(value, str) else ""


def _checks(result: Any) -> list[Check]:
    """The checks of a ``doctor``, as far as they have the shape that we know."""
    checks = result.get("checks") if isinstance(result, dict) else None
    found = []
    for check in checks if isinstance(checks, list) else ():
        if isinstance(check, dict) and check.get("status") in ("ok", "warn", "fail"):
            found.append(Check(_text(check, "name"), check["status"], _text(check, "message")))
    return found


_RESULTS: Final[dict[type[Command], Callable[[Any], Any]]] = {
    commands.Doctor: _checks,
    commands.Plan: lambda result: result,
    commands.Stop: lambda result: isinstance(result, dict) and result.get("cancelled") is True,
}
"""What the result of a request is on the bus."""

_Sender = Callable[[LevproHost, Any], tuple[Sent, bytes] | Refusal]


def _plain(method: str) -> _Sender:
    def make(host: LevproHost, command: Command) -> tuple[Sent, bytes]:
        sent = host._ledger.add(command)
        return sent, sending.line(sent.request, method)

    return make


_SENDERS: Final[dict[type[Command], _Sender]] = {
    commands.Prompt: LevproHost._prompt,
    commands.Stop: LevproHost._stop,
    commands.Ping: _plain("ping"),
    commands.Doctor: _plain("doctor"),
    commands.Plan: _plain("plan"),
    commands.Shutdown: _plain("shutdown"),
}

_HANDLERS: Final[dict[str, Callable[[LevproHost, Message], Said | None]]] = {
    "event": LevproHost._on_event,
    "result": LevproHost._on_result,
    "error": LevproHost._on_error,
}
"""A handler gives None for a line that is kept as it is; lines without a handler are."""

_EVENTS: Final[dict[str, Callable[[Run, Message], Said]]] = {
    "run_start": lambda run, message: [],
    "llm_start": Run.start_step,
    _CHUNK: Run.chunk,
    "llm_done": Run.end_step,
    "tool_start": Run.start_call,
    "tool_done": Run.end_call,
    "final": Run.answered,
    "loop_abort": Run.aborted,
}
"""Chat events with a word on the bus; others are kept."""
