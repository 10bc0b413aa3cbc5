"""The rules of a turn's events, which both surfaces share (section 2): shape, and order within the turn."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire.codec.checking import Violation
from agentwire.codec.jsontext import clip
from agentwire_jan import wire

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(wire.Item).decode

_OVER: Final = frozenset({"done", "error"})

_AFTER: Final = frozenset({"messages_updated", "permission_decision"})
"""What may follow the run's outcome."""


class ItemRules:
    """Follows the events of one turn."""

    def __init__(self) -> None:
        self.outcome = ""
        """``done`` or ``error``, once it was told."""
        self.questions: dict[str, str] = {}
        """By request id, of questions and host tool requests: the tag of what asked."""
        self._steps = 0
        self._open: set[str] = set()
        self._results = False
        """Calls of this step have results."""

    def check(self, event: Any) -> list[Violation]:
        """Check an event object."""
        found = shape(event)
        if not isinstance(event, dict) or not isinstance(tag := event.get("type"), str):
            return found
        if self.outcome and tag not in _AFTER:
            found.append(must(f"{clip(tag)} after {self.outcome}", "2.2"))
        if tag == "subagent":
            return found + self._nested(event.get("event"))
        if tag in _OVER:
            self.outcome = tag
        elif tag == "step":
            found += self._step(event.get("index"))
        elif tag == "tool_call":
            found += self._call(str(event.get("id")))
        elif tag == "tool_result":
            found += self._result(str(event.get("id")))
        elif tag in ("permission_request", "tool_request", "tool_request_cancelled"):
            found += self._question(tag, str(event.get("request_id")))
        return found

    def settled(self, request_id: str) -> bool:
        """A question has its answer; whether it waited for one."""
        return self.questions.pop(request_id, None) is not None

    def _nested(self, event: Any) -> list[Violation]:
        """A subagent's event: its calls and steps are its own, its questions are the host's."""
        found = shape(event)
        tag = event.get("type") if isinstance(event, dict) else None
        if tag in _OVER:
            found.append(must(f"a subagent's {tag} is told by subagent_end", "2.3"))
        elif tag == "permission_request":
            found += self._question(tag, str(event.get("request_id")))
        return found

    def _step(self, index: Any) -> list[Violation]:
        self._steps += 1
        self._results = False
        self._open.clear()
        if index == self._steps:
            return []
        expected, self._steps = self._steps, index if type(index) is int else self._steps
        return [must(f"step {index} where step {expected} begins", "2.1")]

    def _call(self, call_id: str) -> list[Violation]:
        self._open.add(call_id)
        if self._results:
            return [should("a call after the first result of its step", "2.2")]
        return []

    def _result(self, call_id: str) -> list[Violation]:
        self._results = True
        if call_id not in self._open:
            return [must(f"a result of call {clip(call_id)!r}, which is not open", "2.2")]
        self._open.discard(call_id)
        return []

    def _question(self, tag: str, request_id: str) -> list[Violation]:
        if tag == "tool_request_cancelled":
            if self.questions.pop(request_id, "") != "tool_request":
                return [must(f"request {clip(request_id)!r} is withdrawn, but was not open", "3.5")]
            return []
        if request_id in self.questions:
            return [must(f"request {clip(request_id)!r} is asked twice", "2.1")]
        self.questions[request_id] = tag
        return []


def shape(event: Any) -> list[Violation]:
    """What is wrong with an event object as such. Tags that are not known are for hosts to ignore."""
    if not isinstance(event, dict) or not isinstance(tag := event.get("type"), str):
        return [must("an event is an object with a type", "2.1")]
    if tag not in wire.ITEMS:
        return []
    try:
        _decode(_encode(event))
    except (msgspec.DecodeError, RecursionError) as fault:
        return [must(f"{tag}: {fault}", "2.1")]
    return []


def must(message: str, section: str) -> Violation:
    """A rule that peers rely on is broken."""
    return Violation(message, section)


def should(message: str, section: str) -> Violation:
    """A rule is broken that peers can do without."""
    return Violation(message, section, "should")
