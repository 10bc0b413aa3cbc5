"""We drive or follow an agent that speaks the pagent wire: ours, ``pagent --wire``, a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.framing import LineFault
from agentwire.codec.heard import Heard
from agentwire.codec.jsontext import BadJson, canonical_object, parse
from agentwire.commands import Command, Done, JsonId, Refusal, SessionState
from agentwire.events import TextDelta
from agentwire_pagent import sending, wire
from agentwire_pagent.envelope import spaced
from agentwire_pagent.reading import DECODE, WireError, decode
from agentwire_pagent.replay import messages
from agentwire_pagent.runs import OpenCall, Run, Said
from agentwire_pagent.sending import Ledger
from agentwire_pagent.usage import from_wire

_TEXT: Final = wire.TextDelta


class PagentHost:
    """The host side of one agent; see :class:`agentwire.codec.contract.HostSide`."""

    def __init__(self, dialect: wire.Dialect = "classic") -> None:
        self._dialect = dialect
        self._v4 = dialect == "v4"
        self._decode = DECODE[dialect]
        self._ledger = Ledger()
        self._run: Run | None = None
        self._runs = 0
        self._call_ids: set[str] = set()

    # --- commands ---

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``."""
        make = _SENDERS[self._dialect].get(type(command))
        if make is None:
            return Refusal("unsupported", f"{wire.NAMES[self._dialect]} has no word for {_tag(command)}")
        made = make(self, command)
        if isinstance(made, Refusal):
            return made
        message, key = made
        out += spaced(sending.as_line(message)) + b"\n"
        return self._ledger.add(command, key)

    def _prompt(self, command: commands.Prompt) -> tuple[msgspec.Struct, str] | Refusal:
        # The agent would lose it without a word. Only v4 says of every run that it is over.
        if (self._run is not None and self._v4) or self._ledger.find(commands.Prompt) is not None:
            return Refusal("busy", "a run is under way; send the next input after its end", retryable=True)
        message = sending.user(command)
        return message if isinstance(message, Refusal) else (message, "")

    def _stop(self, command: commands.Stop) -> tuple[msgspec.Struct, str] | Refusal:
        run = self._run
        if command.ref is not UNSET and (run is None or run.ref != command.ref):
            return Refusal("not_found", "that turn is not running")
        if run is not None:
            run.stopping = True
        return wire.Cancel(), ""

    def _approve(self, command: commands.Approve) -> tuple[msgspec.Struct, str] | Refusal:
        call = self._asked(command)
        return call if isinstance(call, Refusal) else (wire.Permit(call.wire_id), call.call_id)

    def _deny(self, command: commands.Deny) -> tuple[msgspec.Struct, str] | Refusal:
        call = self._asked(command)
        if isinstance(call, Refusal):
            return call
        call.denied = True
        return wire.Deny(call.wire_id, command.reason), call.call_id

    def _asked(self, command: commands.Approve | commands.Deny) -> OpenCall | Refusal:
        """The call that an answer is for."""
        call_id = command.call_id or command.approval_id
        for call in self._run.open_calls if self._run is not None else ():
            if call.call_id == call_id and call.asked and self._ledger.find(*_ANSWERS, key=call_id) is None:
                return call
        if call_id in self._call_ids:
            return Refusal("not_pending", "that call does not wait for an answer")
        return Refusal("not_found", "no such call")

    # --- lines ---

    def receive(self, line: bytes | LineFault) -> Said:
        """Read one line of the agent. It never raises: what cannot be understood is kept as it is."""
        if type(line) is LineFault:
            return [Heard(bus.Notice(f"The agent sent a line that cannot be read: {line.message}", "warning"))]
        try:
            notification = self._decode(line)
        except (msgspec.DecodeError, RecursionError):
            return self._receive_again(line)
        message = notification.params
        if message.__class__ is _TEXT and notification.id is UNSET and not self._ledger.waiting:
            # Nearly all there is: what _on_text_delta() does, without its calls.
            run, text = self._run, message.text
            if text and run is not None and run.turn_open:
                run.pieces.append(text)
                return [Heard(TextDelta(text), "", run.ref)]
        if message is None or notification.id is not UNSET:
            return self._receive_again(line)
        return self._heard(message, line)

    def _receive_again(self, line: bytes) -> Said:
        """The slow way, for a line that is not a notification as it stands."""
        try:
            message = decode(line, self._dialect)
        except WireError as fault:
            return [self._unknown(fault.method or "line", line)] if line.strip() else []
        return self._heard(message, line)

    def _heard(self, message: msgspec.Struct, line: bytes) -> Said:
        settled: Said = [] if not self._ledger.waiting else self._settle_silent() + self._answered(message)
        handle = _HANDLERS.get(type(message))
        said = None if handle is None else handle(self, message)
        return [*settled, self._unknown(_METHODS[type(message)], line)] if said is None else settled + said

    def close(self) -> Said:
        """The agent's output ended: so did the run, and every command that still waits was not carried out."""
        said: Said = [] if self._run is None else self._end(self._run.cut_off())
        said += self._ledger.settle_all(commands.Stop)
        gone = Refusal("internal", "The agent ended before it answered.")
        return said + self._ledger.settle_all(Command, result=gone)

    def _unknown(self, name: str, line: bytes) -> Heard:
        """A line kept as it is. Text, and JSON that only we can read, is kept as a JSON string or encoded again."""
        try:
            value = parse(line)
            raw = spaced(value) if b"\\u" in line else line.strip()
        except (BadJson, RecursionError):
            raw = spaced(line.decode(errors="replace"))
        return Heard(bus.Unknown(wire.NAMES[self._dialect], name, Raw(raw)))

    def _settle_silent(self) -> Said:
        """Commands that nothing answers: carried out once the agent went on."""
        if self._run is not None and self._run.stopping:
            return []
        kinds = (commands.Stop,) if self._v4 else (commands.Stop, commands.ResetSession)
        return [*self._ledger.settle_all(*kinds)]

    # --- the run ---

    def _on_run_begin(self, message: wire.RunBegin) -> Said:
        said: Said = [] if self._run is None else self._end(self._run.cut_off())
        self._runs += 1
        identifier = f"run-{self._runs}"
        sent = self._ledger.find(commands.Prompt)
        ref: JsonId = None if sent is None else sent.command.ref  # type: ignore[attr-defined]  # it is a prompt
        run = self._run = Run(identifier, identifier if ref is None else ref)
        said += self._ledger.settle(commands.Prompt)
        parts: list[bus.Part] = [bus.Text(message.user_input)] if message.user_input else []
        said.append(run.say(bus.TurnStarted(identifier, run.ref, parts)))
        return said

    def _on_turn_begin(self, message: wire.TurnBegin) -> Said | None:
        run = self._run
        return None if run is None else run.begin(message.turn)

    def _in_step(self, said: Said) -> Run | None:
        """The run under way; a step whose beginning was left out begins now."""
        run = self._run
        if run is not None and not run.turn_open:
            said += run.begin(run.step + 1)
        return run

    def _on_text_delta(self, message: wire.TextDelta) -> Said | None:
        said: Said = []
        run = self._in_step(said)
        if run is None:
            return None
        if message.text:
            run.pieces.append(message.text)
            said.append(run.say(bus.TextDelta(message.text)))
        return said

    def _on_reasoning_delta(self, message: wire.ReasoningDelta) -> Said | None:
        said: Said = []
        run = self._in_step(said)
        if run is None:
            return None
        if message.text:
            said.append(run.say(bus.ReasoningDelta(message.text)))
        return said

    def _on_step_end(self, message: wire.StepEnd) -> Said | None:
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls]
        return self._step_finished(message, calls)

    def _on_turn_result(self, message: wire.TurnResult) -> Said | None:
        calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
        return self._step_finished(message, calls)

    def _step_finished(self, message: wire.StepEnd | wire.TurnResult, calls: list[tuple[str, str, str]]) -> Said | None:
        said: Said = []
        run = self._in_step(said)
        if run is None:
            return None
        usage = from_wire(message.usage)
        run.finished(message.content, usage)
        refs = run.list(calls, self._call_ids)
        said.append(run.say(bus.StepFinished(run.step, message.content, message.reasoning_content, refs, usage)))
        return said

    def _on_turn_end(self, message: wire.TurnEnd | wire.TurnEndV4) -> Said | None:
        run = self._run
        if run is None:
            return None
        run.turn_open = False
        run.stopped = message.stopped
        return []

    def _on_run_end(self, message: wire.RunEnd) -> Said | None:
        run = self._run
        if run is None:
            return None
        if not run.steps:
            run.finished(message.content, UNSET)
        return self._end(run.end(run.classic_outcome()))

    def _on_run_end_v4(self, message: wire.RunEndV4) -> Said | None:
        run = self._run
        return None if run is None else self._end(run.end(_OUTCOMES.get(message.stop_reason, "completed")))

    def _end(self, said: Said) -> Said:
        self._run = None
        return said + self._ledger.settle_all(commands.Stop, *_ANSWERS)

    # --- calls ---

    def _on_tool_call_begin(self, message: wire.ToolCallBegin) -> Said | None:
        said: Said = []
        run = self._in_step(said)
        if run is None:
            return None
        call = run.began(message.tool_call_id, message.name, self._call_ids)
        self._show(run, call, message.arguments, said)
        if not self._v4:
            call.running = True
            said.append(run.say(bus.CallRunning(call.call_id, call.name)))
        return said

    @staticmethod
    def _show(run: Run, call: OpenCall, arguments: str, said: Said) -> None:
        parsed = canonical_object(arguments)
        said.append(run.say(bus.CallReady(call.call_id, call.name, arguments, UNSET if parsed is None else parsed)))

    def _on_permit_request(self, message: wire.PermitRequest) -> Said | None:
        run = self._run
        call = None if run is None else run.under_way(message.tool_call_id)
        if run is None or call is None or call.asked:
            return None
        call.asked = True
        question = bus.ApprovalRequested(
            call.call_id, call.call_id, call.name, command=message.summary, offers_always=False
        )
        return [run.say(question)]

    def _on_tool_result(self, message: wire.ToolResult) -> Said | None:
        said: Said = []
        run = self._in_step(said)
        if run is None:
            return None
        call = run.under_way(message.tool_call_id)
        if call is None:
            call = run.began(message.tool_call_id, message.name, self._call_ids)
            self._show(run, call, "", said)
        call.ended = True
        if call.denied and not message.ok:
            said.append(run.say(bus.CallCancelled(call.call_id, "denied", message.content, call.name)))
        else:
            if not call.running:
                said.append(run.say(bus.CallRunning(call.call_id, call.name)))
            status = "ok" if message.ok else "error"
            said.append(run.say(bus.CallFinished(call.call_id, call.name, status, message.content)))  # type: ignore[arg-type]
        return said + self._ledger.settle_all(*_ANSWERS, key=call.call_id)

    # --- beside the run ---

    def _on_error(self, message: wire.Error) -> Said:
        run = self._run
        error = bus.ErrorInfo("provider_error" if message.where == "turn" else "internal_error", message.message)
        if message.where == "turn" and run is not None:
            return [run.say(bus.ErrorRaised(error)), *self._end(run.end("failed", error))]
        kinds = _WHERE.get(message.where, ())
        refused = self._ledger.settle(*kinds, result=Refusal("internal", message.message)) if kinds else []
        return [*refused] or [Heard(bus.ErrorRaised(error))]

    def _on_current_thread(self, message: wire.CurrentThread) -> Said:
        return [Heard(bus.SessionOpened(message.thread_id, workspace=message.project_path))]

    def _on_slash_commands(self, message: wire.SlashCommands) -> Said | None:
        return None if message.commands else []

    def _on_history_replay(self, message: wire.HistoryReplay) -> Said | None:
        return None if message.messages else [Heard(bus.HistoryCleared())]

    def _answered(self, message: msgspec.Struct) -> Said:
        """The command that a line is the answer to has its outcome."""
        answers = _OUTCOMES_IN.get(message.__class__)
        if answers is None:
            return []
        kinds, value = answers
        sent = self._ledger.find(*kinds)
        told = UNSET if sent is None else value(message, sent.command)
        return [] if told is UNSET else [*self._ledger.settle(*kinds, result=Done(told))]


def _tag(command: Command) -> Any:
    return type(command).__struct_config__.tag


_ANSWERS: Final = (commands.Approve, commands.Deny)

_OUTCOMES: Final[dict[str, bus.Outcome]] = {"max_turns": "limit", "cancelled": "cancelled"}
"""What a v4 run's ``stop_reason`` says; any other is a good end."""

_WHERE: Final[dict[str, tuple[type[Command], ...]]] = {
    "user": (commands.Prompt,),
    "slash": (commands.Prompt,),
    "open": (commands.Prompt,),
    "reset": (commands.ResetSession,),
    "resume": (commands.ResumeSession,),
    "history": (commands.GetHistory,),
    "delete_thread": (commands.ArchiveSession,),
    "list_threads": (commands.ListSessions,),
    "capabilities": (commands.GetHostTools,),
}
"""Which commands an error with this ``where`` refuses."""


def _nothing(message: msgspec.Struct, command: Command) -> None:
    return None


def _replayed(message: wire.HistoryReplay, command: Command) -> Any:
    """A thread that could not be taken up is told by an error, after a replay of the one before."""
    if isinstance(command, commands.GetHistory):
        return messages(message.messages)
    if isinstance(command, commands.ResumeSession) and command.id not in (message.thread_id, "latest"):
        return UNSET
    return SessionState(message.thread_id, workspace=message.project_path)


def _listed(message: wire.ThreadList, command: Command) -> list[SessionState]:
    return [SessionState(thread.id, open=False, workspace=thread.project_path) for thread in message.threads]


def _tools(message: wire.Capabilities, command: Command) -> SessionState:
    return SessionState(getattr(command, "session", ""), tools=[tool.name for tool in message.tools])


_OUTCOMES_IN: Final[dict[type[Any], tuple[tuple[type[Command], ...], Callable[[Any, Command], Any]]]] = {
    wire.SlashCommands: ((commands.Ping,), _nothing),
    wire.SlashResult: ((commands.Prompt,), _nothing),
    wire.HistoryReplay: ((commands.ResetSession, commands.ResumeSession, commands.GetHistory), _replayed),
    wire.ThreadList: ((commands.ListSessions, commands.ArchiveSession), _listed),
    wire.Capabilities: ((commands.GetHostTools,), _tools),
}
"""Lines that answer a command, and what they tell of it (unset: it is not the answer); they are heard, too."""

_Sender = Callable[[PagentHost, Any], tuple[msgspec.Struct, str] | Refusal]

_CLASSIC_SENDERS: Final[dict[type[Command], _Sender]] = {
    commands.Prompt: PagentHost._prompt,
    commands.Stop: PagentHost._stop,
    commands.ResetSession: lambda host, command: (wire.Reset(), ""),
}

_SENDERS: Final[dict[wire.Dialect, dict[type[Command], _Sender]]] = {
    "classic": _CLASSIC_SENDERS,
    "v4": {
        **_CLASSIC_SENDERS,
        commands.Approve: PagentHost._approve,
        commands.Deny: PagentHost._deny,
        commands.ResumeSession: lambda host, command: (wire.Resume(command.id), ""),
        commands.ArchiveSession: lambda host, command: (wire.DeleteThread(command.session), ""),
        commands.ListSessions: lambda host, command: (wire.ListThreads(), ""),
        commands.GetHostTools: lambda host, command: (wire.GetCapabilities(), ""),
        commands.GetHistory: lambda host, command: (wire.History(), ""),
        commands.Ping: lambda host, command: (wire.Commands(), ""),
    },
}
"""The classic dialect answers nothing, so what is only a question is not asked there."""

_HANDLERS: Final[dict[type[Any], Callable[[PagentHost, Any], Said | None]]] = {
    wire.RunBegin: PagentHost._on_run_begin,
    wire.TurnBegin: PagentHost._on_turn_begin,
    wire.TextDelta: PagentHost._on_text_delta,
    wire.ReasoningDelta: PagentHost._on_reasoning_delta,
    wire.StepEnd: PagentHost._on_step_end,
    wire.TurnResult: PagentHost._on_turn_result,
    wire.ToolCallBegin: PagentHost._on_tool_call_begin,
    wire.ToolResult: PagentHost._on_tool_result,
    wire.TurnEnd: PagentHost._on_turn_end,
    wire.TurnEndV4: PagentHost._on_turn_end,
    wire.RunEnd: PagentHost._on_run_end,
    wire.RunEndV4: PagentHost._on_run_end_v4,
    wire.PermitRequest: PagentHost._on_permit_request,
    wire.Error: PagentHost._on_error,
    wire.CurrentThread: PagentHost._on_current_thread,
    wire.SlashCommands: PagentHost._on_slash_commands,
    wire.HistoryReplay: PagentHost._on_history_replay,
}
"""A handler gives None for a line that is kept as it is; lines without a handler are."""

_METHODS: Final[dict[type[Any], str]] = {
    kind: method for methods in (*wire.EVENTS.values(), wire.CONTROL) for method, kind in methods.items()
}
