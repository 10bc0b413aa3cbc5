"""We drive an agent that tells one run as stream-json: ours, or ``jan cli agent run``.

The run's task is on the agent's command line, or it is the first input that is sent. Nearly nothing is answered on
this wire: a command was carried out once the run goes on as it should, and was not if its line is given back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.framing import LineFault
from agentwire.codec.heard import Answered, Heard
from agentwire.codec.jsontext import BadJson, BadShape, LineDecoder, append_line
from agentwire.commands import Command, Done, JsonId, Refusal
from agentwire.events import TextDelta
from agentwire_jan import stream_wire, wire
from agentwire_jan.events_in import Told, TurnReader, unknown
from agentwire_jan.facts import NO_OUTCOME
from agentwire_jan.following import Run
from agentwire_jan.messages import parts_to_wire, plain_text

RUN: Final = "run"
"""What the one turn is called."""

LIMIT: Final = "reached the "
"""How the message begins that tells of the limit of model calls."""

Said = list[Heard | Answered]

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = LineDecoder[Struct](wire.Item | stream_wire.Frame)
"""Tags that are not listed become unknown events."""

_decode: Final = _DECODER.decode
_TEXT: Final = wire.Token

ERRORS: Final = {"upstream_error": "provider_error", "setup_error": "config_error"}
"""What failed, in the words of the bus; anything else is the agent's own."""


class _Sent(Struct):
    """A command whose outcome is open."""

    number: int
    command: Command
    line: str
    """As it is given back."""


class JanStreamHost:
    """The host side of one run; see :class:`agentwire.codec.contract.HostSide`."""

    def __init__(self) -> None:
        self._sent: list[_Sent] = []
        self._numbers = 0
        self._session = ""
        self._reader: TurnReader | None = None
        """What reads the run that is under way."""
        self._main: Run | None = None
        """What it knows of the main run."""
        self._ref: JsonId = RUN
        self._questions: dict[str, str] = {}
        """Of each question, the call that it is about."""
        self._opened = False
        self._over = False

    # --- commands ---

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``."""
        make = _SENDERS.get(type(command))
        if make is None:
            return Refusal("unsupported", f"stream-json has no word for {command.__struct_config__.tag}")
        if self._over:
            return Refusal("too_late", "the run is over")
        if isinstance(command, commands.Prompt) and (self._reader is not None or self._waits(commands.Prompt)):
            return Refusal("busy", "a run is under way, and there is only one; add to it by steering")
        if isinstance(command, commands.Approve | commands.Deny):
            asked = self._question(command.approval_id or command.call_id)
            if not asked:
                return Refusal("not_found", "no such question")
            command = replace(command, approval_id=asked)
        made = make(command)
        if isinstance(made, Refusal):
            return made
        line = bytearray()
        append_line(_ENCODER, made, line)
        out += line
        self._numbers += 1
        shown = bytes(line[:-1])[: stream_wire.MAX_ECHO].decode(errors="ignore")
        self._sent.append(_Sent(self._numbers, command, shown))
        return self._numbers

    def _waits(self, kind: type[Command]) -> bool:
        return any(isinstance(sent.command, kind) for sent in self._sent)

    def _question(self, name: str) -> str:
        """The question that its own id or the id of its call stands for; ``""``: none."""
        if name in self._questions:
            return name
        return next((asked for asked, call_id in self._questions.items() if call_id == name), "")

    # --- lines ---

    def receive(self, line: bytes | LineFault) -> Said:
        """Read one line of the agent. It never raises: what cannot be understood is kept as it is."""
        if type(line) is LineFault:
            return [self._heard(bus.Notice(f"The agent sent a line that cannot be read: {line.message}", "warning"))]
        try:
            item: Any = _decode(line)
        except (msgspec.DecodeError, RecursionError):
            return self._receive_again(line)
        run = self._main
        if item.__class__ is _TEXT and run is not None:
            # Nearly all there is: what _event() does, without its calls.
            text = item.text
            run.text.append(text)
            return [Heard(TextDelta(text), self._session, self._ref)]
        return self._said(item, line)

    def _receive_again(self, line: bytes) -> Said:
        """The slow way, for a line that is none of ours as it stands."""
        if not line.strip():
            return []
        try:
            item = _DECODER.recover(line)
        except (BadJson, BadShape):
            return self._unknown(unknown(line))
        return self._said(item, line)

    def _said(self, item: Struct, line: bytes) -> Said:
        frame = _FRAMES.get(item.__class__)
        if frame is not None:
            return frame(self, item)
        if self._over:
            return [self._heard(unknown(line))]
        return self._running() + self._event(item)

    def close(self) -> Said:
        """The agent's output ended: so did the run, and every command that still waits was not carried out."""
        said: Said = []
        if self._reader is not None:
            said = self._told(self._reader.end("failed", "the agent ended without a result"))
            self._reader = self._main = None
        self._over = True
        return said + self._settle(commands.Command, Refusal("internal", "The agent ended before it answered."))

    # --- a run's events ---

    def _running(self) -> Said:
        """The run has begun; the first thing that is said of it tells so."""
        if self._reader is not None:
            return []
        self._reader = TurnReader()
        self._main = self._reader.follower.main
        return self._begin()

    def _event(self, item: Struct) -> Said:
        if self._reader is None or (type(item) is wire.Finished and item.stop_reason == "aborted"):
            return []  # the last line says it, too
        return self._told(self._reader.read(item))

    def _unknown(self, event: bus.Unknown) -> Said:
        """A line that the bus has no word for: an object that comes while the run is on is of the run."""
        if self._over or not self._opened or event.name == "line":
            return [self._heard(event)]
        return self._running() + self._told([(event, "")])

    def _begin(self) -> Said:
        sent = next((sent for sent in self._sent if isinstance(sent.command, commands.Prompt)), None)
        parts: list[bus.Part] = []
        if sent is not None and isinstance(sent.command, commands.Prompt):
            prompt = sent.command
            self._ref = RUN if prompt.ref is None else prompt.ref
            parts = prompt.parts or [bus.Text(prompt.text)]
        return [*self._settle(commands.Prompt), self._heard(bus.TurnStarted(RUN, self._ref, parts), of_run=True)]

    def _told(self, told: list[Told]) -> Said:
        said: Said = []
        for event, origin in told:
            if type(event) is bus.ApprovalRequested:
                self._questions[event.approval_id] = event.call_id
            said.append(self._heard(event, origin, of_run=True))
        return said

    def _heard(self, event: bus.Event, origin: str = "", *, of_run: bool = False) -> Heard:
        return Heard(event, self._session, self._ref if of_run else None, origin)

    # --- lines that are no events ---

    def _on_init(self, line: stream_wire.Init) -> Said:
        self._session = line.session_id
        self._opened = True
        return [self._heard(bus.SessionOpened(line.session_id, workspace=line.cwd or "", model=line.model))]

    def _on_decision(self, line: stream_wire.PermissionDecision) -> Said:
        decision, scope = DECISIONS.get(line.decision, ("denied", ""))
        call_id = self._questions.pop(line.request_id, "")
        if decision == "denied" and self._reader is not None:
            self._reader.follower.deny(line.request_id, "")
        resolved = bus.ApprovalResolved(line.request_id, call_id, decision, scope, "host")
        said: Said = [self._heard(resolved, of_run=self._reader is not None)]
        return said + self._settle(
            (commands.Approve, commands.Deny), fits=lambda command: command.approval_id == line.request_id
        )

    def _on_input_error(self, line: stream_wire.InputError) -> Said:
        for sent in self._sent:
            if sent.line == line.line:
                self._sent.remove(sent)
                return [Answered(sent.number, Refusal(_code(line.message), line.message))]
        return [self._heard(bus.Notice(line.message, "warning"))]

    def _on_result(self, line: stream_wire.Result) -> Said:
        reader, self._reader, self._main = self._reader, None, None
        self._over = True
        if reader is not None:
            said = self._told(_closed(reader, line))
            return said + self._settle(commands.Command)
        error = failure(line)
        if isinstance(error, UnsetType):
            return self._settle(commands.Command)
        refused = Refusal("config", error.message)
        return [self._heard(bus.ErrorRaised(error)), *self._settle(commands.Command, refused)]

    # --- outcomes ---

    def _settle(
        self,
        kinds: type[Command] | tuple[type[Command], ...],
        result: Done | Refusal | None = None,
        *,
        fits: Callable[[Any], bool] = lambda command: True,
    ) -> Said:
        """The commands of these kinds have their outcome."""
        settled = [sent for sent in self._sent if isinstance(sent.command, kinds) and fits(sent.command)]
        self._sent = [sent for sent in self._sent if sent not in settled]
        return [Answered(sent.number, Done() if result is None else result) for sent in settled]


def failure(line: stream_wire.Result) -> bus.ErrorInfo | UnsetType:
    """Why a run failed."""
    if not line.is_error:
        return UNSET
    error = line.error if isinstance(line.error, stream_wire.RunError) else stream_wire.RunError("", NO_OUTCOME)
    return bus.ErrorInfo(ERRORS.get(error.code, "internal_error"), error.message)


def _closed(reader: TurnReader, line: stream_wire.Result) -> list[Told]:
    """Everything that follows from the last line."""
    error = failure(line)
    outcome = outcome_of(line, error)
    *before, (finished, origin) = reader.end(
        "failed" if outcome == "limit" else outcome, "" if isinstance(error, UnsetType) else error.message
    )
    return [*before, (told_end(finished, line), origin)]


def told_end(finished: bus.Event, line: stream_wire.Result) -> bus.Event:
    """The end of a run, as the last line tells it."""
    error = failure(line)
    outcome = outcome_of(line, error)
    return replace(
        finished,
        outcome=outcome,
        text=line.result,
        usage=_usage(line.usage),
        error=error if outcome == "failed" else UNSET,
        finish_reason=line.stop_reason if outcome == "completed" else "",
        steps=line.num_turns,
        limit="steps" if outcome == "limit" else "",
    )


def outcome_of(line: stream_wire.Result, error: bus.ErrorInfo | UnsetType) -> bus.Outcome:
    """How a run ended."""
    if not isinstance(error, UnsetType):
        return "limit" if error.message.startswith(LIMIT) else "failed"
    return "cancelled" if line.stop_reason == "aborted" else "completed"


def _usage(usage: stream_wire.ReportUsage) -> bus.Usage:
    """The tokens of a whole run."""
    return bus.Usage(
        usage.prompt_tokens,
        usage.completion_tokens,
        UNSET if usage.cached_tokens is None else usage.cached_tokens,
        UNSET if usage.cache_write_tokens is None else usage.cache_write_tokens,
    )


def _code(message: str) -> Any:
    return "not_pending" if message.endswith(" is pending") else "too_late" if "run ended" in message else "bad_params"


DECISIONS: Final[dict[str, tuple[Any, Any]]] = {
    "allow_once": ("allowed", "call"),
    "allow_always": ("allowed", "tool"),
    "deny": ("denied", ""),
}

_FRAMES: Final[dict[type[Struct], Callable[[JanStreamHost, Any], Said]]] = {
    stream_wire.Init: JanStreamHost._on_init,
    stream_wire.PermissionDecision: JanStreamHost._on_decision,
    stream_wire.InputError: JanStreamHost._on_input_error,
    stream_wire.Result: JanStreamHost._on_result,
}


# --- commands as lines ---------------------------------------------------------------------------------------

_Sender = Callable[[Any], Struct | Refusal]


def _prompt(command: commands.Prompt) -> Struct | Refusal:
    if command.files or command.resume or command.agent:
        return Refusal("unsupported", "stream-json carries neither files nor agents, and resumes no turn")
    return _user(command)


def _user(command: commands.Prompt | commands.Steer) -> Struct | Refusal:
    if not command.parts:
        return stream_wire.User(command.text)
    if any(isinstance(part, bus.File) or (isinstance(part, bus.Image) and not part.data) for part in command.parts):
        return Refusal("unsupported", "stream-json carries images by content, not by path")
    return stream_wire.User(content=parts_to_wire(command.parts))


def _approve(command: commands.Approve) -> Struct | Refusal:
    return stream_wire.Permission(command.approval_id, "allow_once" if command.scope == "once" else "allow_always")


def _deny(command: commands.Deny) -> Struct | Refusal:
    return stream_wire.Permission(command.approval_id, "deny")


def _answer(command: commands.AnswerHostTool) -> Struct | Refusal:
    text = plain_text(command.content)
    content: str | list[Any] = parts_to_wire(command.content) if text is None else text
    details = None if isinstance(command.details, UnsetType) else command.details
    return stream_wire.ToolAnswer(command.request_id, content, command.is_error, details)


_SENDERS: Final[dict[type[Command], _Sender]] = {
    commands.Prompt: _prompt,
    commands.Steer: _user,
    commands.Approve: _approve,
    commands.Deny: _deny,
    commands.AnswerHostTool: _answer,
    commands.Stop: lambda command: stream_wire.Abort(),
}
