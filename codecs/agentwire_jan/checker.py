"""The rules of the RPC, checked line by line: frames (section 1.2), requests and answers, one turn at a time.

Answers are held to the host's requests, if any were seen: a log of the agent's lines alone does not hold them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire.codec.checking import Violation
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, clip, parse
from agentwire_jan.item_rules import ItemRules, must, should

_encode: Final = msgspec.json.Encoder().encode

_METHODS: Final = frozenset({
    "initialize", "initialized", "session/start", "session/tools/get", "session/tools/set", "session/model/set",
    "session/reset", "session/list", "session/resume", "session/fork", "session/archive", "turn/start", "turn/steer",
    "turn/interrupt", "permission/respond", "tool/respond",
})  # fmt: skip
"""What a host may ask (section 1.6)."""

_STOPS: Final = {"completed": "done", "error": "error", "interrupted": ""}
"""What a turn ends with, and the event that told it before."""


class JanChecker:
    """See :class:`agentwire.codec.Checker`."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, str] = {}
        """Methods of requests that have no answer, by id."""
        self._heard = False
        """The host said something."""
        self._initialized = False
        self._turn: tuple[str, str] | None = None
        """Session and id of the turn under way."""
        self._ended: dict[str, str] = {}
        """Of each session, the turn that ended last."""
        self._rules = ItemRules()

    # --- lines ---

    def agent(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the agent."""
        frame = _frame(line)
        if isinstance(frame, Violation):
            return [frame]
        method = frame.get("method")
        if method is None:
            return self._answer(frame)
        if not isinstance(method, str) or "id" in frame:
            return [must("an agent sends notifications: a method without an id", "1.7")]
        params = frame.get("params")
        if method == "turn/completed":
            return self._completed(params)
        if method.startswith("item/"):
            return self._item(method.removeprefix("item/"), params)
        return [should(f"unknown notification {clip(method)!r}", "1.7")]

    def host(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the host."""
        self._heard = True
        frame = _frame(line)
        if isinstance(frame, Violation):
            return [frame]
        method = frame.get("method")
        if not isinstance(method, str) or not method:
            return [must("a request needs a method", "1.2")]
        if "id" in frame:
            self._waiting[_encode(frame["id"])] = method
        if method == "initialize":
            return []
        if method == "initialized":
            self._initialized = True
            return []
        found = [] if self._initialized else [must(f"{clip(method)} before the handshake", "1.3")]
        if method not in _METHODS:
            found.append(must(f"unknown method {clip(method)!r}", "1.6"))
        if method == "turn/start" and self._turn is not None:
            found.append(should("turn/start while a turn runs is refused", "1.6"))
        return found + self._responds(method, frame.get("params"))

    def close(self) -> list[Violation]:
        """The agent's output ended."""
        found = [] if self._turn is None else [must(f"turn {clip(self._turn[1])!r} has no end", "1.7")]
        if self._waiting:
            found.append(must(f"requests without an answer: {clip(', '.join(self._waiting.values()))}", "1.2"))
        return found

    # --- the host ---

    def _responds(self, method: str, params: Any) -> list[Violation]:
        if method not in ("permission/respond", "tool/respond"):
            return []
        asked = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(asked, str) and self._rules.settled(asked):
            return []
        return [should(f"{method}: request {clip(str(asked))!r} is not pending", "1.6")]

    # --- the agent ---

    def _answer(self, frame: dict[str, Any]) -> list[Violation]:
        found = []
        if "id" not in frame or ("result" in frame) == ("error" in frame):
            return [must("an answer has an id, and either a result or an error", "1.2")]
        if "error" in frame:
            found += _error(frame["error"])
        if self._heard and frame["id"] is not None:
            method = self._waiting.pop(_encode(frame["id"]), None)
            if method is None:
                found.append(must(f"an answer to {clip(str(frame['id']))!r}, which was not asked", "1.2"))
        return found

    def _item(self, tag: str, params: Any) -> list[Violation]:
        place = _place(params)
        if place is None or "event" not in params:
            return [must("params are sessionId, turnId and event", "1.7")]
        found = self._in_turn(place, f"item/{tag}")
        event = params["event"]
        if isinstance(event, dict) and event.get("type") != tag:
            found.append(must(f"item/{clip(tag)} holds a {clip(str(event.get('type')))}", "1.7"))
        return found + self._rules.check(event)

    def _in_turn(self, place: tuple[str, str], what: str) -> list[Violation]:
        """Whether a notification stands in the turn it names; the first one of a turn begins it."""
        session, turn = place
        if self._turn == place:
            return []
        if self._ended.get(session) == turn:
            return [must(f"{clip(what)} after the end of its turn", "2.2")]
        before, self._turn, self._rules = self._turn, place, ItemRules()
        return [] if before is None else [must(f"{clip(what)} of another turn while one runs", "1.1")]

    def _completed(self, params: Any) -> list[Violation]:
        place = _place(params)
        if place is None or "error" not in params:
            return [must("params are sessionId, turnId, stopReason and error", "1.7")]
        found = self._in_turn(place, "turn/completed")
        if place != self._turn:
            return found
        reason, error = params.get("stopReason"), params["error"]
        if reason not in _STOPS:
            found.append(must(f"unknown stopReason {clip(str(reason))!r}", "1.7"))
        elif _STOPS[reason] != self._rules.outcome:
            found.append(should(f"{reason} after {self._rules.outcome or 'neither done nor error'}", "1.7"))
        if isinstance(error, str) is not (reason == "error"):
            found.append(must("error is a string exactly when stopReason is error, else null", "1.7"))
        self._ended[place[0]] = place[1]
        self._turn = None
        return found


def _frame(line: bytes | LineFault) -> dict[str, Any] | Violation:
    if type(line) is LineFault:
        return must(line.message, "1.1")
    try:
        frame = parse(line)
    except BadJson as fault:
        return must(f"not JSON: {fault}", "1.1")
    if not isinstance(frame, dict) or frame.get("jsonrpc") != "2.0":
        return must("not an object of JSON-RPC 2.0", "1.2")
    return frame


def _place(params: Any) -> tuple[str, str] | None:
    if not isinstance(params, dict):
        return None
    session, turn = params.get("sessionId"), params.get("turnId")
    return (session, turn) if isinstance(session, str) and isinstance(turn, str) else None


def _error(error: Any) -> list[Violation]:
    if not isinstance(error, dict) or type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        return [must("an error has an integer code and a message", "1.5")]
    return [] if "data" in error else [should("an error says data, null if there is none", "1.1")]
