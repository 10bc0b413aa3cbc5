"""We are the agent: a Jan host, such as its ADK, drives us over the RPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentwire import events as bus
from agentwire.codec.contract import Directive, Request, View
from agentwire.codec.framing import LineFault
from agentwire.commands import Done, Outcome, Refusal
from agentwire.log.record import Record
from agentwire_jan import answers, facts, rpc, surface
from agentwire_jan.rendering import ItemLines, encoded
from agentwire_jan.requests import Reader, Token

GAP_MS: Final = 20
"""A turn's end is not written within this time of the answer to its ``turn/start``: a client may not have looked the
turn up by then, and would wait for its end for ever (section 6.5)."""


class JanAgent:
    """The agent side of one connection; see :class:`agentwire.codec.contract.AgentSide`."""

    __slots__ = ("_answered", "_reader", "_sessions")

    def __init__(self) -> None:
        self._reader = Reader()
        self._sessions: dict[str, RpcLines] = {}
        self._answered: set[str] = set()
        """Turns whose id was told in an answer and whose end did not wait yet."""

    def receive(self, line: bytes | LineFault, view: View) -> Request | None:
        """Read one line. None for what is silently ignored."""
        return self._reader.read(line, view)

    def outcome(self, request: Request, outcome: Outcome, out: bytearray) -> Directive | None:
        """Append the answer to a request, if it has one."""
        token = request.token
        if not isinstance(token, Token):
            return None  # a command of the connection's own
        answer = answers.answer(token, outcome.result)
        if answer is not None:
            out += encoded(answer)
            out += b"\n"
            if token.method == "turn/start" and isinstance(outcome.result, Done):
                self._answered.add(outcome.result.value)
        return None

    def render(self, session: str, records: Sequence[Record], out: bytearray) -> Directive | None:
        """Append the lines for ``records``. The end of a turn that was just begun waits, once."""
        lines = self._sessions.get(session) or self._begin(session)
        done = lines.render_one(records[0], out) if len(records) == 1 else lines.render(records, out)
        return None if done == len(records) else Directive(done, hold_ms=GAP_MS)

    def feed(self, session: str, records: Sequence[Record]) -> None:
        """Learn the session's history, its turn and its calls from ``records``."""
        (self._sessions.get(session) or self._begin(session)).feed(records)

    def fatal(self, refusal: Refusal, out: bytearray) -> None:
        """Append nothing: what is wrong with the set-up is the answer to ``session/start``."""

    def _begin(self, session: str) -> RpcLines:
        lines = self._sessions[session] = RpcLines(session, self._answered)
        return lines


class RpcLines(ItemLines):
    """Renders one session's records in the RPC's envelope (section 1.7)."""

    __slots__ = ("_answered", "_session")

    def __init__(self, session: str, answered: set[str]) -> None:
        super().__init__(surface.RPC, session)
        self._session = session
        self._answered = answered

    def frame(self, tag: str) -> tuple[bytes, bytes]:
        """The notification around an event."""
        method = encoded(f"item/{tag}")
        where = b'{"sessionId":' + encoded(self._session) + b',"turnId":' + encoded(self.items.turn_id)
        return b'{"jsonrpc":"2.0","method":' + method + b',"params":' + where + b',"event":', b"}}\n"

    def ended(self, event: bus.TurnFinished, turn_id: str) -> bytes:
        """The last line of a turn."""
        stop_reason = _STOP_REASONS[event.outcome]
        error = facts.failure(event) if stop_reason == "error" else None
        completed = rpc.Completed(self._session, turn_id, stop_reason, error)
        return b'{"jsonrpc":"2.0","method":"turn/completed","params":' + encoded(completed) + b"}\n"

    def holds(self) -> bool:
        """Whether the turn under way was told in an answer, and its end did not wait for that yet."""
        if self.items.turn_id not in self._answered:
            return False
        self._answered.discard(self.items.turn_id)
        return True


_STOP_REASONS: Final[dict[bus.Outcome, str]] = {
    "completed": "completed",
    "cancelled": "interrupted",
    "failed": "error",
    "limit": "error",
}
