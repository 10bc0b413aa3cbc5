"""We are the agent of one stream-json run: a first line, events, a last line, and the exit status."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, get_args
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.contract import Directive, Request, View
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import append_line
from agentwire.codec.runs import runs
from agentwire.commands import Command, Outcome, Refusal, SessionState
from agentwire.log.record import Record
from agentwire.text import scrub
from agentwire_jan import wire
from agentwire_jan.declarations import read_tools, tool_specs
from agentwire_jan.rendering import ItemLines
from agentwire_jan.stream_report import ABORTED, FAILED, REPORTED, Report, exit_status
from agentwire_jan.stream_requests import Echo, Unreadable, echo, fault, read
from agentwire_jan.stream_wire import INPUT_KINDS, PROTOCOL_VERSION, Init, InputError, PermissionDecision, Result
from agentwire_jan.surface import STREAM

_ENCODER: Final = msgspec.json.Encoder()

UNREAD: Final = "run ended before this follow-up was read"

Input = Literal["text", "stream-json"]
Output = Literal["text", "json", "stream-json"]

_INPUTS: Final = get_args(Input)
_OUTPUTS: Final = get_args(Output)


class _Lines(ItemLines):
    """Events as bare lines."""

    def frame(self, tag: str) -> tuple[bytes, bytes]:
        """Nothing stands around an event."""
        return b"", b"\n"

    def ended(self, event: bus.TurnFinished, turn_id: str) -> bytes:
        """The last line is the run's, not the events'."""
        return b""


class JanStreamAgent:
    """The agent side of one run; see :class:`agentwire.codec.contract.AgentSide`.

    ``task`` is the user's input; without one it is the first ``user`` line. ``host_tools`` are declarations as a host
    writes them, and ``host_gate`` says that the host itself decides about their calls. ``resume`` names a stored
    session to go on with. ``output_format`` can leave only the last line (``json``) or only its text (``text``);
    ``report`` is called with the last line. Raises ``ValueError`` for options that do not fit.
    """

    def __init__(
        self,
        task: Any = "",
        *,
        input_format: Input = "stream-json",
        output_format: Output = "stream-json",
        host_tools: Sequence[Any] = (),
        host_gate: bool = False,
        resume: str = "",
        report: Callable[[Result], None] | None = None,
    ) -> None:
        for name, given, known in (("input_format", input_format, _INPUTS), ("output_format", output_format, _OUTPUTS)):
            if given not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}, not {given!r}")
        if input_format == "text" and not task:
            raise ValueError("without a task there has to be an input to read one from")
        self._task = task if isinstance(task, str) else _ENCODER.encode(task).decode()
        self._reads = input_format == "stream-json"
        self._streams = output_format == "stream-json"
        self._prose = output_format == "text"
        self._host_gate = host_gate
        self._tools = read_tools(list(host_tools))
        self._resume = str(resume)  # on a command line, an id of digits is a number
        self._tell = report
        self._lines = _Lines(STREAM)
        self._report = Report()
        self._session: str | None = None
        self._prompted = bool(self._task)
        self._aborted = False
        self._over = False
        self._waiting: deque[tuple[list[bus.Part], Echo]] = deque()
        """Follow-ups that the model has not read yet."""

    # --- what the run begins with ---

    def opening(self) -> list[Request]:
        """What the connection asks for by itself."""
        wanted: list[Request] = []
        if self._resume:
            wanted.append(
                Request(commands.ResumeSession(self._resume, tools=self._tools, host_permissions=self._host_gate))
            )
        else:
            # The first characters of a random id tell it from others: the last line gives no more of it.
            wanted.append(
                Request(commands.OpenSession(str(uuid4()), tools=self._tools, host_permissions=self._host_gate))
            )
        wanted[-1].token = _OPENED
        if self._task:
            wanted.append(Request(commands.Prompt(self._task)))
        return wanted

    def closing(self) -> list[Request]:
        """What the connection asks for when the host's input has ended: no run will come that has not begun."""
        return [] if self._prompted or self._over else [Request(commands.Stop())]

    # --- in ---

    def receive(self, line: bytes | LineFault, view: View) -> Request | None:
        """Read one line of the host."""
        if not self._reads or self._aborted or self._over:
            return None
        if type(line) is LineFault:
            return Request(None, Refusal("bad_line", fault(line)), Echo("", truncated=True))
        if not line.strip():
            return None
        shown = echo(line)
        try:
            command = read(line)
        except Unreadable as error:
            return Request(None, Refusal("bad_request", str(error)), shown)
        if isinstance(command, commands.Stop):
            self._aborted = True
        elif isinstance(command, commands.Steer):
            if not self._prompted:
                self._prompted = True
                return Request(commands.Prompt(command.text, parts=command.parts), token=shown)
            self._waiting.append((_content(command), shown))
        return Request(command, token=shown)

    # --- out ---

    def outcome(self, request: Request, outcome: Outcome, out: bytearray) -> Directive | None:
        """Append what answers a request: the first line, or what is wrong with a line. Most have no answer."""
        if self._over:
            return None
        result, command = outcome.result, request.command
        if isinstance(result, Refusal):
            if isinstance(command, _BEGINNING):
                return self._fail(result.message, out)
            if not isinstance(command, commands.Stop):
                self._input_error(request.token, _why(command, result), out)
        elif isinstance(command, commands.Stop) and not self._prompted:
            return self._end_idle(out)
        elif request.token is _OPENED and isinstance(result.value, SessionState):
            self._report.state = result.value
            self._lines.items.session = result.value.id
            self._line(self._init(result.value), out)
        return None

    def render(self, session: str, records: Sequence[Record], out: bytearray) -> Directive | None:
        """Append the lines for ``records``, up to the end of the run."""
        if self._session is None:
            self._session = session
        if self._over or session != self._session:
            return None
        done = 0
        for record, deltas in runs(records):
            event: Any = record.event
            kind = type(event)
            if deltas:
                done += len(deltas)
                if kind is bus.TextDelta and not record.origin:
                    self._report.said += deltas
                if self._streams:
                    self._lines.render_run(record, deltas, out)
                continue
            done += 1
            if kind in REPORTED:
                self._report.feed(record)
            elif kind is bus.ApprovalResolved:
                self._settled(event, out)
            elif kind is bus.UserJoined and not record.origin:
                self._joined(event)
            if self._streams:
                self._lines.render_other(record, out)
            if kind is bus.TurnFinished and not record.origin:
                self._end(self._report.result(event, record.time), out)
                return Directive(done, exit_status=exit_status(event))
        return None

    def feed(self, session: str, records: Sequence[Record]) -> None:
        """Learn from ``records`` without writing."""
        for record in records:
            self._report.feed(record)
        self._lines.feed(records)

    def fatal(self, refusal: Refusal, out: bytearray) -> None:
        """Append the only line of a run that cannot begin."""
        self._fail(refusal.message, out)

    # --- how ---

    def _init(self, state: SessionState) -> Init:
        return Init(
            PROTOCOL_VERSION,
            state.id,
            state.model,
            state.workspace or None,
            state.tools,
            tool_specs(state.host_tools) or UNSET,
            INPUT_KINDS if self._reads else (),
            wire.CAPS if self._reads else None,
        )

    def _settled(self, event: bus.ApprovalResolved, out: bytearray) -> None:
        decision = decided(event)
        if decision:
            self._line(PermissionDecision(event.approval_id, decision), out)

    def _joined(self, event: bus.UserJoined) -> None:
        """The model reads a follow-up: the oldest of those that say the same."""
        content = list(event.parts) or [bus.Text(event.text)]
        for entry in self._waiting:
            if entry[0] == content:
                self._waiting.remove(entry)
                return

    def _input_error(self, shown: Echo, message: str, out: bytearray) -> None:
        for entry in self._waiting:
            if entry[1] is shown:
                self._waiting.remove(entry)
                break
        self._line(InputError(message, shown.text, shown.truncated), out)

    def _fail(self, message: str, out: bytearray) -> Directive:
        self._end(self._report.setup_failure(message), out)
        return Directive(0, exit_status=FAILED)

    def _end_idle(self, out: bytearray) -> Directive:
        """The host wants no run after all."""
        self._line(wire.Finished(stop_reason=ABORTED), out)
        end = bus.TurnFinished("cancelled")
        self._end(self._report.result(end, 0), out)
        return Directive(0, exit_status=exit_status(end))

    def _end(self, result: Result, out: bytearray) -> None:
        for _, shown in self._waiting:
            self._line(InputError(UNREAD, shown.text, shown.truncated), out)
        self._waiting.clear()
        self._over = True
        if self._tell is not None:
            self._tell(result)
        if not self._prose:
            append_line(_ENCODER, result, out)
        elif not result.is_error and (said := scrub(result.result).rstrip("\n")):
            out += said.encode() + b"\n"

    def _line(self, item: Struct, out: bytearray) -> None:
        if self._streams:
            append_line(_ENCODER, item, out)


_OPENED: Final = "opened"
"""The token of the request whose outcome the first line tells."""

_BEGINNING: Final = (commands.OpenSession, commands.ResumeSession, commands.Prompt)
"""Without one of these there is no run."""


def decided(event: bus.ApprovalResolved) -> str:
    """How a question was settled; ``""`` if it fell with the run."""
    if event.decision == "allowed":
        return "allow_once" if event.scope in ("", "call") else "allow_always"
    return "deny" if event.decision == "denied" or event.by == "client_gone" else ""


def _why(command: Command | None, refusal: Refusal) -> str:
    """What a host reads of a line that was understood and not carried out."""
    match command:
        case commands.Approve(approval_id=asked) | commands.Deny(approval_id=asked):
            return f"no permission request '{asked}' is pending"
        case commands.AnswerHostTool(request_id=asked):
            return f"no host tool request '{asked}' is pending"
        case commands.Steer():
            return UNREAD
    return refusal.message


def _content(command: commands.Steer) -> list[bus.Part]:
    return command.parts or [bus.Text(command.text)]
