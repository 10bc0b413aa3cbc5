"""We drive an agent that speaks the Jan RPC: ours, or a real Jan of any build (section 8)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, structs

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.framing import LineFault
from agentwire.codec.heard import Answered, Heard
from agentwire.codec.jsontext import BadJson, append_line, parse
from agentwire.commands import Command, JsonId, Refusal
from agentwire.events import TextDelta
from agentwire_jan import frames, hearing, rpc, sending
from agentwire_jan.events_in import Told, TurnReader, unknown

Said = list[Heard | Answered]
"""What a host makes of a line."""

_ENCODER: Final = msgspec.json.Encoder()
_decode: Final = frames.decode
_TEXT: Final[Any] = frames.PARAMS["token"]

INITIALIZE: Final = rpc.Initialize(rpc.PROTOCOL_VERSION, rpc.ClientInfo("agentwire", "0.1.0"), {})
"""What a host says first; ``initialized`` follows."""

ENDED: Final = "The agent ended before the turn did."


class _Sent(Struct):
    """A request that waits for its answer."""

    method: str
    command: Command
    session: str = ""


class _Turn:
    """A turn that began and has not ended."""

    def __init__(self, session: str, identifier: str, ref: JsonId) -> None:
        self.session = session
        self.id = identifier
        self.ref = ref
        self.stopping = False
        """We asked for its end."""
        self.reader = TurnReader()
        self.follower = self.reader.follower
        self.main = self.follower.main

    def say(self, told: list[Told]) -> Said:
        """Events of this turn."""
        return [Heard(event, self.session, self.ref, origin) for event, origin in told]


class JanHost:
    """The host side of one agent; see :class:`agentwire.codec.contract.HostSide`."""

    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[int, _Sent] = {}
        self._session = ""
        """The session that commands without one are for: the last that was opened."""
        self._turns: dict[str, _Turn] = {}
        """By id."""
        self._ended: dict[str, str] = {}
        """Of each session, the turn that ended last."""

    # --- commands ---

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``, before the first one also those of the handshake."""
        session = getattr(command, "session", "") or self._session
        settled = self._settled(command, session)
        if isinstance(settled, Refusal):
            return settled
        made = sending.request(settled, session)
        if isinstance(made, Refusal):
            return made
        if not self._last:
            self._write("initialize", INITIALIZE, commands.Ping(), out)
            append_line(_ENCODER, rpc.Call(method="initialized", params={}), out)
        return self._write(*made, command, out, session)

    def _write(
        self, method: str, params: Struct | dict[str, Any], command: Command, out: bytearray, session: str = ""
    ) -> int:
        self._last += 1
        self._waiting[self._last] = _Sent(method, command, session)
        append_line(_ENCODER, rpc.Call(id=self._last, method=method, params=params), out)
        return self._last

    def _settled(self, command: Command, session: str) -> Command | Refusal:
        """The command with what only the turns know; what is remembered of it for later."""
        if isinstance(command, commands.Stop):
            turn = self._running(session)
            if command.ref is not UNSET and (turn is None or turn.ref != command.ref):
                return Refusal("not_found", "that turn is not running")
            if turn is not None:
                turn.stopping = True
        elif isinstance(command, commands.Approve | commands.Deny):
            return self._answer(command)
        return command

    def _answer(self, command: commands.Approve | commands.Deny) -> Command | Refusal:
        for turn in self._turns.values():
            follower = turn.follower
            if approval_id := follower.question(command.approval_id or command.call_id):
                if isinstance(command, commands.Deny):
                    follower.deny(approval_id, command.reason)
                return structs.replace(command, approval_id=approval_id)
        if command.approval_id:
            return command
        return Refusal("not_found", "that call does not wait for an answer")

    def _running(self, session: str) -> _Turn | None:
        return next((turn for turn in self._turns.values() if turn.session == session), None)

    # --- lines ---

    def receive(self, line: bytes | LineFault) -> Said:
        """Read one line of the agent. It never raises: what cannot be understood is kept as it is."""
        if type(line) is LineFault:
            return [Heard(bus.Notice(f"The agent sent a line that cannot be read: {line.message}", "warning"))]
        try:
            params = _decode(line).params
        except (msgspec.DecodeError, RecursionError):
            return self._receive_again(line)
        if params.__class__ is _TEXT and (turn := self._turns.get(params.turnId)) is not None:
            # Nearly all there is: what _told() does, without its calls.
            text = params.event.text
            turn.main.text.append(text)
            return [Heard(TextDelta(text), turn.session, turn.ref)]
        return self._told(params)

    def _receive_again(self, line: bytes) -> Said:
        """The slow way, for a line that is not a notification as it stands."""
        if not line or line.isspace():
            return []
        frame = frames.recover(line)
        return self._other(line) if frame is None else self._told(frame.params)

    def _told(self, params: Any) -> Said:
        """The parameters of a notification."""
        if params.__class__ is frames.Completed:
            return self._completed(params)
        return self._in_turn(params.sessionId, params.turnId, params.event)

    def _in_turn(self, session: str, turn_id: str, item: Struct) -> Said:
        said: Said = []
        turn = self._turns.get(turn_id)
        if turn is None:
            if self._ended.get(session) == turn_id:
                return []  # nothing of a turn comes after its end
            turn = self._begin(turn_id, session, self._prompt_for(session), said)
        return said + turn.say(turn.reader.read(item))

    def _prompt_for(self, session: str) -> Command | None:
        """What a turn that is heard of before it was answered for is the answer to; None: another host's prompt."""
        sent = (one for one in self._waiting.values() if one.method == "turn/start" and one.session == session)
        return next((one.command for one in sent), None)

    def _begin(self, turn_id: str, session: str, prompt: Command | None, said: Said) -> _Turn:
        ref: JsonId = turn_id
        parts: list[bus.Part] = []
        if isinstance(prompt, commands.Prompt):
            ref = turn_id if prompt.ref is None else prompt.ref
            parts = prompt.parts or [bus.Text(prompt.text)]
        turn = self._turns[turn_id] = _Turn(session, turn_id, ref)
        said += turn.say([(bus.TurnStarted(turn_id, ref, parts), "")])
        return turn

    def _completed(self, params: frames.Completed) -> Said:
        said: Said = []
        session, turn_id = params.sessionId, params.turnId
        turn = self._turns.get(turn_id)
        if turn is None:
            if self._ended.get(session) == turn_id:
                return []
            turn = self._begin(turn_id, session, self._prompt_for(session), said)
        outcome = _OUTCOMES.get(params.stopReason, "completed")
        return said + self._end(turn, outcome, params.error or "")

    def _end(self, turn: _Turn, outcome: bus.Outcome, message: str) -> Said:
        self._turns.pop(turn.id, None)
        self._ended[turn.session] = turn.id
        return turn.say(turn.reader.end(outcome, message))

    # --- answers, and what is not understood ---

    def _other(self, line: bytes) -> Said:
        """A line that is no notification as we know them."""
        try:
            frame = parse(line)
        except BadJson:
            return [Heard(unknown(line))]
        if not isinstance(frame, dict):
            return [Heard(unknown(line))]
        method = frame.get("method")
        if isinstance(method, str):
            return self._unknown(line, method, frame.get("params"))
        number = frame.get("id")
        if type(number) is not int or (sent := self._waiting.pop(number, None)) is None:
            return [Heard(unknown(line, "answer"))]
        return self._answered(number, sent, frame)

    def _unknown(self, line: bytes, method: str, params: Any) -> Said:
        """An event that the bus has no word for, or that is not as it should be."""
        item = params.get("event") if isinstance(params, dict) else None
        if not method.startswith("item/") or not isinstance(item, dict):
            return [Heard(unknown(line, method))]
        session, turn_id = (value if isinstance(value := params.get(key), str) else "" for key in _PLACE)
        raw = _ENCODER.encode(item)
        return self._in_turn(session, turn_id, unknown(raw, method.removeprefix("item/")))

    def _answered(self, number: int, sent: _Sent, frame: dict[str, Any]) -> Said:
        if "error" in frame or "result" not in frame:
            refusal = hearing.refusal(sent.method, frame.get("error"))
            if sent.method != "initialize":
                return [Answered(number, refusal)]
            return self._shaken(None, refusal)
        result = frame["result"]
        if sent.method == "initialize":
            return self._shaken(result, None)
        said: Said = [Answered(number, hearing.done(sent.method, sent.command, result))]
        if sent.method == "turn/start":
            said += self._turn_started(sent, result)
        elif (opened := hearing.opened(sent.method, sent.command, result)) is not None:
            self._session = opened.id
            said.insert(0, Heard(opened, opened.id))
        return said

    def _shaken(self, result: Any, refusal: Refusal | None) -> Said:
        """The handshake was answered."""
        return [] if refusal is None else [Heard(bus.ErrorRaised(bus.ErrorInfo("protocol_error", refusal.message)))]

    def _turn_started(self, sent: _Sent, result: Any) -> Said:
        turn_id = hearing.text(result, "turnId")
        said: Said = []
        if turn_id and turn_id not in self._turns and self._ended.get(sent.session) != turn_id:
            self._begin(turn_id, sent.session, sent.command, said)
        return said

    def close(self) -> Said:
        """The agent's output ended: so did its turns, and what waits was not carried out."""
        said: Said = []
        for turn in list(self._turns.values()):
            said += self._end(turn, "cancelled" if turn.stopping else "failed", ENDED)
        gone = Refusal("internal", "The agent ended before it answered.")
        said += [Answered(number, gone) for number, sent in self._waiting.items() if sent.method != "initialize"]
        self._waiting.clear()
        return said


_PLACE: Final = ("sessionId", "turnId")

_OUTCOMES: Final[dict[str, bus.Outcome]] = {
    "completed": "completed",
    "interrupted": "cancelled",
    "error": "failed",
}
