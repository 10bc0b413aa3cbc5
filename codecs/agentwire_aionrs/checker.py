"""The rules of this wire, checked line by line: shape (sections 1 and 2), one turn at a time (section 3.2), calls.

What a host sends is checked against what the agent told so far; a log that holds only the agent's lines is not held to
what depends on the host's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from agentwire.codec.checking import Violation, decoded
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, LineDecoder, clip, parse, sorted_json
from agentwire_aionrs import wire

_EVENTS: Final[LineDecoder[wire.AgentEvent]] = LineDecoder(wire.AgentEvent)
_COMMANDS: Final[LineDecoder[wire.HostCommand]] = LineDecoder(wire.HostCommand)

_KINDS: Final = frozenset(str(kind.__struct_config__.tag) for kind in wire.AgentEvent.__args__)

_CODES: Final = frozenset({"provider_error", "tool_error", "config_error", "protocol_error", "internal_error"})

_NEXT: Final[dict[type[Any], tuple[frozenset[str], str]]] = {
    wire.ToolRequest: (frozenset({"new"}), "asked"),
    wire.ToolRunning: (frozenset({"new", "asked"}), "running"),
    wire.ToolResult: (frozenset({"running"}), "closed"),
    wire.ToolCancelled: (frozenset({"asked", "running"}), "closed"),
}
"""Of every event of a call, from which states it may come and to which it leads."""


class AionrsChecker:
    """See :class:`agentwire.codec.Checker`."""

    def __init__(self) -> None:
        self._seen = False
        """The agent said something."""
        self._heard = False
        """The host did."""
        self._turn: str | None = None
        self._calls: dict[str, str] = {}
        """Of every call, what was last said of it."""
        self._messages: list[str] = []
        """Of messages that no turn answered yet, the ids."""
        self._began = False
        """A message was sent."""
        self._pings = 0

    # --- lines ---

    def agent(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the agent."""
        event = decoded(_EVENTS, line, "1")
        first, self._seen = not self._seen, True
        if isinstance(event, Violation):
            return [_unreadable(line, event)]
        found: list[Violation] = []
        if first and not isinstance(event, wire.Ready | wire.Error):
            found.append(_must("the first line is neither ready nor an error", "1.1"))
        check = _CHECKS.get(type(event))
        return found if check is None else found + check(self, event, first)

    def host(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the host."""
        command = decoded(_COMMANDS, line, "2")
        self._heard = True
        if isinstance(command, Violation):
            return [command]
        check = _HOST_CHECKS.get(type(command))
        return [] if check is None else check(self, command)

    def close(self) -> list[Violation]:
        """The agent's output ended."""
        return [] if self._turn is None else [_must(f"turn {clip(self._turn)!r} has no end", "3.2")]

    # --- the agent ---

    def _ready(self, event: wire.Ready, first: bool) -> list[Violation]:
        return [] if first else [_must("a second ready", "1.1")]

    def _start(self, event: wire.StreamStart, first: bool) -> list[Violation]:
        found = []
        if self._turn is not None:
            found.append(_must(f"a turn begins inside turn {clip(self._turn)!r}", "3.2"))
        if self._heard and event.msg_id not in self._messages:
            found.append(_must(f"no message has the id {clip(event.msg_id)!r}", "1.2"))
        self._messages = [msg_id for msg_id in self._messages if msg_id != event.msg_id]
        self._turn = event.msg_id
        return found

    def _of_turn(self, event: Any, first: bool) -> list[Violation]:
        if event.msg_id == self._turn:
            return []
        now = "no turn is under way" if self._turn is None else f"now is {clip(self._turn)!r}"
        return [_must(f"{_tag(event)} of turn {clip(event.msg_id)!r}: {now}", "3.2")]

    def _call(self, event: Any, first: bool) -> list[Violation]:
        found = self._of_turn(event, first)
        before, after = _NEXT[type(event)]
        state = self._calls.get(event.call_id, "new")
        if state == "closed" and "new" in before:
            found.append(_should(f"the id of call {clip(event.call_id)!r} was used before", "1.5"))
        elif state not in before:
            found.append(_must(f"{_tag(event)} of call {clip(event.call_id)!r}, which is {state}", "3.2"))
        self._calls[event.call_id] = after
        if isinstance(event, wire.ToolRequest) and bytes(event.tool.args) != bytes(_sorted(bytes(event.tool.args))):
            found.append(_should("args is not compact JSON with sorted keys", "1.5"))
        return found

    def _end(self, event: wire.StreamEnd, first: bool) -> list[Violation]:
        found = self._of_turn(event, first)
        left = [call for call, state in self._calls.items() if state != "closed"]
        if left:
            found.append(_must(f"the turn ended with calls open: {clip(', '.join(left))}", "3.2"))
            self._calls.update(dict.fromkeys(left, "closed"))
        self._turn = None
        return found

    def _error(self, event: wire.Error, first: bool) -> list[Violation]:
        if isinstance(event.msg_id, str):
            self._messages = [msg_id for msg_id in self._messages if msg_id != event.msg_id]
        code = event.error.code
        return [] if code in _CODES else [_should(f"unknown error code {clip(code)!r}", "1.10")]

    def _info(self, event: wire.Info, first: bool) -> list[Violation]:
        if event.msg_id in ("", self._turn):
            return []
        return [_must(f"info of turn {clip(event.msg_id)!r}, which is not under way", "1.11")]

    def _pong(self, event: wire.Pong, first: bool) -> list[Violation]:
        if not self._heard:
            return []
        self._pings -= 1
        return [] if self._pings >= 0 else [_must("a pong that no ping asked for", "1.14")]

    # --- the host ---

    def _message(self, command: wire.Message) -> list[Violation]:
        self._began = True
        self._messages.append(command.msg_id)
        if self._turn is None:
            return []
        return [_should("a message while a turn runs is refused", "2.1")]

    def _answer(self, command: wire.ToolApprove | wire.ToolDeny) -> list[Violation]:
        if command.call_id in self._calls:
            return []
        return [_should(f"call {clip(command.call_id)!r} was never asked about", "2.3")]

    def _early(self, command: wire.InitHistory | wire.AddMcpServer) -> list[Violation]:
        section = "2.5" if isinstance(command, wire.InitHistory) else "2.8"
        return [_must(f"{_tag(command)} after the first message", section)] if self._began else []

    def _ping(self, command: wire.Ping) -> list[Violation]:
        self._pings += 1
        return []


def _unreadable(line: bytes | LineFault, fault: Violation) -> Violation:
    """A kind that this version does not know is for hosts to ignore."""
    try:
        value = None if isinstance(line, LineFault) else parse(line)
    except BadJson:
        return fault
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in _KINDS:
        return _should(f"unknown type {clip(kind)!r}", "1")
    return fault


def _sorted(args: bytes) -> Any:
    return sorted_json(parse(args))


def _tag(message: Any) -> str:
    return str(type(message).__struct_config__.tag)


def _must(message: str, section: str) -> Violation:
    return Violation(message, section)


def _should(message: str, section: str) -> Violation:
    return Violation(message, section, "should")


_Check = Callable[[AionrsChecker, Any, bool], list[Violation]]

_CHECKS: Final[dict[type[Any], _Check]] = {
    wire.Ready: AionrsChecker._ready,
    wire.StreamStart: AionrsChecker._start,
    wire.TextDelta: AionrsChecker._of_turn,
    wire.Thinking: AionrsChecker._of_turn,
    wire.ToolRequest: AionrsChecker._call,
    wire.ToolRunning: AionrsChecker._call,
    wire.ToolResult: AionrsChecker._call,
    wire.ToolCancelled: AionrsChecker._call,
    wire.StreamEnd: AionrsChecker._end,
    wire.Error: AionrsChecker._error,
    wire.Info: AionrsChecker._info,
    wire.Pong: AionrsChecker._pong,
}

_HOST_CHECKS: Final[dict[type[Any], Callable[[AionrsChecker, Any], list[Violation]]]] = {
    wire.Message: AionrsChecker._message,
    wire.ToolApprove: AionrsChecker._answer,
    wire.ToolDeny: AionrsChecker._answer,
    wire.InitHistory: AionrsChecker._early,
    wire.AddMcpServer: AionrsChecker._early,
    wire.Ping: AionrsChecker._ping,
}
