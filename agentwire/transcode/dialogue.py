"""Both directions of a wire out of a log and what a host asked: as if it had been spoken there.

An agent side of the wire and a host side of it talk to each other. What the recorded host asked its successor sends in
the wire's own words, and reads everything that the agent says; so requests and answers, turns, questions and sessions
go by the ids of this wire, on both sides. What the wire makes the host say beside (a handshake, the opening of a
session) is made up; what it has no word for is dropped. Both are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.contract import Codec, Request
from agentwire.codec.fidelity import Declaration
from agentwire.commands import Command, Done, Outcome, Refusal, SessionState
from agentwire.log.record import Record
from agentwire.transcode.logbook import Logged
from agentwire.transcode.prompts import fitting, said_otherwise
from agentwire.transcode.reading import Asked, Read
from agentwire.transcode.underway import Sight, UnderWay
from agentwire.transcode.writing import LogWriter, Stream, Told

OTHER_REF: Final = Declaration("turn_started", "ref", "narrowed", "as the host of this wire calls it")

ONE_SESSION: Final = "the wire's session is there from the start"

ANOTHER_TURN: Final = "it was for a turn that does not run here"

Emit = Callable[[Literal["host", "agent"], bytes], object]
"""Takes a line of the wire, without its line end."""

_OPENING: Final = (commands.OpenSession, commands.ResumeSession, commands.ForkSession)

_ANSWERS: Final = (commands.Approve, commands.Deny)


class Crossing:
    """What became of a host's commands, counted."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        """By tag."""
        self.dropped = Counter[tuple[str, str]]()
        """By tag, and why."""
        self.unsaid = Counter[str]()
        """Fields that the command on this wire says otherwise or not at all, as in ``approve.scope``."""
        self.invented = Counter[str]()
        """Commands that nobody had given, by tag."""


class _Sent(Struct):
    """A command that was said and has no outcome yet."""

    request: Request
    stream: Stream | None


class Dialogue(LogWriter):
    """Writes what host and agent say; see :class:`LogWriter`. ``single``: the source knows one session."""

    def __init__(self, codec: Codec, emit: Emit, *, single: bool, told: Told | None = None) -> None:
        super().__init__(codec, keep=False, told=told)
        self.crossing = Crossing()
        self._emit = emit
        self._host = codec.host()
        self._from_single = single
        self._agent = bytearray()
        self._states: dict[Stream, UnderWay] = {}
        self._sent: dict[int, _Sent] = {}
        self._keys: dict[int, str | None] = {}
        """Of each command without an outcome, whose it is: the key of its session; None: the process's."""
        self._openings: list[int] = []
        """Commands that open a session and have no outcome yet."""
        self._known: set[str] = set()
        """Sessions that the host opened by command."""
        self._by_command = False
        """The recorded host did so, too: what it says of others is of none that there are."""

    def take(self, item: Read) -> None:
        """Take the next thing that the recording tells."""
        if isinstance(item, Logged):
            self._take("" if self._from_single else item.session, item.record, self._agent)
        elif isinstance(item, Asked):
            self._ask(item)
        else:
            key = self._keys.pop(item.number, None)
            self._later(key, partial(self._answer, item.number, item.command, item.result))
        self._flush()

    def finish(self) -> None:
        """The recording is over: write what was held back."""
        self._rest(self._agent)
        for number in list(self._sent):
            self._settle(number, Refusal("internal", "The recording ends before the answer"))
        self._flush()

    # --- what the host asks ---

    def _ask(self, asked: Asked) -> None:
        command = asked.command
        if command is None:
            self.crossing.asked["unreadable"] += 1
            self._drop("unreadable", asked.refusal)
            return
        self.crossing.asked[_tag(command)] += 1
        if asked.refusal is not None:
            self._drop(_tag(command), asked.refusal)
            return
        key = self._keys[asked.number] = self._key_of(command)
        self._later(key, partial(self._carry, command, asked.number, key))

    def _key_of(self, command: Command) -> str | None:
        if self._from_single:
            return ""
        return (getattr(command, "session", "") or None) if not isinstance(command, _OPENING) else None

    def _later(self, key: str | None, do: Callable[[], None]) -> None:
        """Do something when its session is that far; what is the process's own waits for no session's turn."""
        if key is not None and not (self._by_command and key not in self._streams):
            self._take(key, do, self._agent)
        elif self._single:
            self._pass("", do, self._agent)
        else:
            do()

    def _carry(self, command: Command, number: int, key: str | None) -> None:
        """Say a command on this wire, or not."""
        stream = self._streams.get("" if self._single else key or "")
        if isinstance(command, commands.Prompt) and stream is not None:
            own = self._of(stream)
            own.prompts.add(command, number)
            busy = [own] if self._queue is None else list(self._states.values())
            if not any(state.turn for state in busy) and sum(len(state.prompts) for state in busy) == 1:
                own.prompts.try_now(number)
                self._prompt(stream, command, number)
        elif isinstance(command, commands.Stop) and self._of_another_turn(command, stream):
            self._drop(_tag(command), ANOTHER_TURN)
        elif isinstance(command, _OPENING) and (self._single or self._from_single):
            self._drop(_tag(command), ONE_SESSION)
        else:
            self._say_or_drop(self._renamed(command, key), number, stream)

    def _of_another_turn(self, command: commands.Stop, stream: Stream | None) -> bool:
        state = self._of(stream) if stream is not None else UnderWay()
        return command.ref is not UNSET and not (state.turn and state.ref == command.ref)

    def _renamed(self, command: Command, key: str | None) -> Command:
        """An answer under the id that its call has here."""
        if isinstance(command, _ANSWERS) and self._queue is not None:
            return replace(command, call_id=self._queue.own_call(key or "", command.call_id))
        return command

    def _say_or_drop(self, command: Command, number: int, stream: Stream | None) -> None:
        command = self._addressed(command, stream)
        refused = self._say(command, number, stream)
        if refused is None:
            if isinstance(command, commands.OpenSession | commands.ResumeSession | commands.ForkSession):
                self._openings.append(number)
                self._by_command = True
        elif isinstance(command, _ANSWERS) and refused.code in ("not_found", "not_pending") and self._turn_of(stream):
            self._of(stream).early.append((command, number))  # type: ignore[arg-type]  # it has a turn
        elif (other := _other_word(command)) is not None and refused.code == "unsupported":
            self._say_or_drop(other, number, stream)
        else:
            self._drop(_tag(command), refused)

    def _say(self, command: Command, number: int, stream: Stream | None) -> Refusal | None:
        """Have the host say a command, and the agent read it; why it cannot, if it cannot. 0: nobody gave it."""
        self._flush()
        said = bytearray()
        sent = self._host.send(command, said)
        if isinstance(sent, Refusal):
            return sent
        *before, last = bytes(said).removesuffix(b"\n").split(b"\n")
        for line in before:  # what the wire wants first
            self._read(line, lambda request: self._reply(request, Done()))
        self._read(last, lambda request: self._was_read(command, number, request, stream))
        return None

    def _read(self, line: bytes, go_on: Callable[[Request], None]) -> None:
        self._emit("host", line)
        request = self._side.receive(line, self._view)
        if request is None:
            return
        if request.refusal is not None:
            self._reply(request, request.refusal)
        else:
            go_on(request)

    def _was_read(self, command: Command, number: int, request: Request, stream: Stream | None) -> None:
        if number:
            self.crossing.unsaid.update(said_otherwise(command, request.command))
        self._sent[number] = _Sent(request, stream)

    def _addressed(self, command: Any, stream: Stream | None) -> Any:
        """A command with the names that sessions, turns and questions have here."""
        if "session" in command.__struct_fields__:
            command = replace(command, session="" if self._single or stream is None else stream.name or "")
        if isinstance(command, _ANSWERS) and stream is not None:
            for asked, begun in self._of(stream).open.approvals.items():
                if asked == command.approval_id or (not command.approval_id and begun.call_id == command.call_id):
                    return replace(command, approval_id=asked, call_id=begun.call_id)
        if isinstance(command, commands.Stop):
            return replace(command, ref=UNSET)
        if isinstance(command, commands.OpenSession):
            return replace(command, id="")
        return command

    # --- outcomes ---

    def _answer(self, number: int, command: Command, result: Done | Refusal) -> None:
        sent = self._sent.get(number)
        stream = sent.stream if sent is not None else None
        if number in self._openings:
            self._openings.remove(number)
            if isinstance(result, Done) and isinstance(result.value, SessionState):
                self._known.add(result.value.id)
        if isinstance(command, commands.Prompt):
            if isinstance(result, Done):
                return  # the turn's beginning says so
            for state in self._states.values():
                if state.prompts.remove(number) and not state.prompts.tried(number):
                    self._drop(_tag(command), result)
        elif sent is None:
            return  # it was dropped
        elif isinstance(sent.request.command, commands.Stop) and sent.request.command.wait and self._turn_of(stream):
            self._of(stream).stops.append(number)  # type: ignore[arg-type]  # it has a turn
            return
        self._settle(number, result)

    def _settle(self, number: int, result: Done | Refusal) -> None:
        sent = self._sent.pop(number, None)
        if sent is None:
            return
        if isinstance(result, Done):
            result = Done(self._value(sent, result.value), result.deferred)
        self._reply(sent.request, result)

    def _reply(self, request: Request, result: Done | Refusal) -> None:
        self._side.outcome(request, Outcome(result), self._agent)
        self._flush()

    def _value(self, sent: _Sent, told: Any) -> Any:
        """What a command asked for: as it was told, or as far as it is known."""
        command, name = sent.request.command, sent.stream.name or "" if sent.stream is not None else ""
        if isinstance(command, _STATES):
            return told if isinstance(told, SessionState) else SessionState(name)
        if isinstance(command, commands.ListSessions):
            here = [stream.name for stream in self._streams.values() if stream.name]
            return told if isinstance(told, list) else [SessionState(known) for known in here]
        if isinstance(command, commands.GetHistory | commands.Doctor):
            return told if isinstance(told, list) else []
        if isinstance(command, commands.Plan):
            return told if isinstance(told, dict) else {}
        if isinstance(command, commands.Stop):
            return told if isinstance(told, bool) else True
        return told if isinstance(command, commands.Prompt) else None

    # --- turns ---

    def _begin(self, stream: Stream, opened: bus.SessionOpened) -> None:
        """On a wire whose host opens sessions, have it do so, if it has not."""
        name = stream.name or ""
        if self._single or self._openings or name in self._known:
            return
        command = commands.OpenSession(workspace=opened.workspace, model=opened.model, ephemeral=opened.ephemeral)
        if self._say(command, 0, stream) is None:
            self.crossing.invented[_tag(command)] += 1
            self._settle(0, Done(SessionState(name, opened.model, workspace=opened.workspace)))
        self._known.add(name)

    def _render(self, stream: Stream, record: Record, out: bytearray) -> None:
        state, event = self._of(stream), record.event
        if isinstance(event, bus.TurnStarted) and not record.origin:
            record = self._turn_begins(stream, state, record)
        super()._render(stream, record, out)
        if isinstance(event, bus.TextDelta | bus.ReasoningDelta):
            return
        state.open.feed(record)
        if state.early:
            early, state.early = state.early, []
            for command, number in early:
                self._say_or_drop(command, number, stream)
        if isinstance(event, bus.TurnFinished) and not record.origin:
            self._turn_ended(state)

    def _turn_begins(self, stream: Stream, state: UnderWay, record: Record) -> Record:
        """A turn answers a prompt: the host has said it, or says it now."""
        event: bus.TurnStarted = record.event  # type: ignore[assignment]  # it was just looked at
        found = state.prompts.meant(event)
        number, command = found or (0, commands.Prompt(ref=event.ref, parts=event.input))
        if found is None or not state.prompts.tried(number):
            self._prompt(stream, command, number)
        state.turn, state.ref = event.id, event.ref
        sent = self._sent.get(number)
        if sent is None:
            return record
        asked = sent.request.command
        if isinstance(asked, commands.Prompt) and asked.ref is not None and asked.ref != event.ref:
            self.changes[OTHER_REF] += 1
            event = replace(event, ref=asked.ref)
        self._settle(number, Done(event.id))
        return Record(record.seq, record.time, event, record.turn, record.origin)

    def _prompt(self, stream: Stream, command: commands.Prompt, number: int) -> None:
        """Say a prompt, with what this wire can say of it."""
        if command.ref in self._refs:
            command = replace(command, ref=None)
        told, unsaid = fitting(self._addressed(command, stream), self._codec)
        refused = self._say(told, number, stream)
        if not number:
            self.crossing.invented["prompt"] += refused is None
        elif refused is not None:
            self._drop("prompt", refused)
        else:
            self.crossing.unsaid.update(unsaid)

    def _turn_ended(self, state: UnderWay) -> None:
        state.turn = ""
        stops, state.stops = state.stops, []
        for number in stops:
            self._settle(number, Done(True))
        for command, _ in state.early:
            self._drop(_tag(command), "the question was never put")
        state.early = []

    # --- lines ---

    def _flush(self) -> None:
        """Pass on what the agent has written; its host reads it."""
        if not self._agent:
            return
        lines = bytes(self._agent).removesuffix(b"\n").split(b"\n")
        self._agent.clear()
        for line in lines:
            self._emit("agent", line)
            self._host.receive(line)

    # --- how ---

    @property
    def _view(self) -> Sight:
        return Sight(self._states)

    def _of(self, stream: Stream) -> UnderWay:
        state = self._states.get(stream)
        if state is None:
            state = self._states[stream] = UnderWay()
        return state

    def _turn_of(self, stream: Stream | None) -> str:
        return self._of(stream).turn if stream is not None else ""

    def _drop(self, tag: str, why: Refusal | str | None) -> None:
        self.crossing.dropped[tag, why.code if isinstance(why, Refusal) else why or ""] += 1


_STATES: Final = (
    *_OPENING, commands.ResetSession, commands.GetHostTools, commands.SetHostTools, commands.SetModel,
)  # fmt: skip
"""Commands whose outcome is a session's state."""


def _other_word(command: Command) -> Command | None:
    """The same said otherwise."""
    if isinstance(command, commands.SetModel):
        return commands.SetConfig(model=command.model, session=command.session)
    return None


def _tag(command: Command) -> str:
    return str(type(command).__struct_config__.tag)
