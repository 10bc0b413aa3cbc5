"""The rules of stream-json, checked line by line: a first line, the events of one run, a last line (section 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from agentwire.codec.checking import Violation
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, clip, parse
from agentwire_jan import stream_requests, stream_wire
from agentwire_jan.item_rules import ItemRules, must, should

_encode: Final = msgspec.json.Encoder().encode
_FRAME: Final = msgspec.json.Decoder(stream_wire.Frame)


class JanStreamChecker:
    """See :class:`agentwire.codec.Checker`."""

    def __init__(self) -> None:
        self._begun = False
        self._over = False
        self._aborted = False
        self._rules = ItemRules()

    def agent(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the agent."""
        if type(line) is LineFault:
            return [must(line.message, "4.1")]
        try:
            value = parse(line)
        except BadJson as fault:
            return [must(f"not JSON: {fault}", "4.1")]
        tag = value.get("type") if isinstance(value, dict) else None
        if not isinstance(tag, str):
            return [must("a line is an object with a type", "4.1")]
        found = []
        if self._over:
            found.append(must(f"{clip(tag)} after the result", "4.1"))
        elif not self._begun and tag not in ("init", "result"):
            found.append(must(f"the first line is {clip(tag)}, not init", "4.1"))
        begun, self._begun = self._begun, True
        check = _FRAMES.get(tag)
        if check is None:
            return found + self._rules.check(value)
        try:
            frame = _FRAME.decode(_encode(value))
        except (msgspec.DecodeError, RecursionError) as fault:
            return [*found, must(f"{tag}: {fault}", "4.1")]
        return found + check(self, frame, begun)

    def host(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the host."""
        if type(line) is LineFault:
            return [must(line.message, "4.2")]
        if not line.strip():
            return []
        if self._aborted:
            return [should("nothing is read after abort", "4.2")]
        try:
            stream_requests.read(line)
        except stream_requests.Unreadable as fault:
            return [must(str(fault), "4.2")]
        value = parse(line)
        self._aborted = value["type"] == "abort"
        asked = value.get("request_id")
        if isinstance(asked, str) and asked not in self._rules.questions:
            return [should(f"request {clip(asked)!r} is not pending", "4.2")]
        if value["type"] == "tool_result":
            self._rules.settled(str(asked))
        return []

    def close(self) -> list[Violation]:
        """The agent's output ended."""
        return [] if self._over else [must("the last line is no result", "4.1")]

    # --- lines that are no events ---

    def _init(self, frame: stream_wire.Init, begun: bool) -> list[Violation]:
        return [must("a second init", "4.1")] if begun else []

    def _decision(self, frame: stream_wire.PermissionDecision, begun: bool) -> list[Violation]:
        if self._rules.settled(frame.request_id):
            return []
        return [must(f"a decision about request {clip(frame.request_id)!r}, which is not open", "4.1")]

    def _result(self, frame: stream_wire.Result, begun: bool) -> list[Violation]:
        self._over = True
        outcome = self._rules.outcome
        if frame.is_error is not isinstance(frame.error, stream_wire.RunError):
            return [must("is_error is true exactly when there is an error", "4.1")]
        if begun and frame.is_error and outcome == "done":
            return [should("an error after done", "4.1")]
        if begun and not frame.is_error and outcome != "done":
            return [should(f"a good result after {outcome or 'neither done nor error'}", "4.1")]
        return []


_FRAMES: Final[dict[str, Callable[[JanStreamChecker, Any, bool], list[Violation]]]] = {
    "init": JanStreamChecker._init,
    "permission_decision": JanStreamChecker._decision,
    "input_error": lambda checker, frame, begun: [],
    "result": JanStreamChecker._result,
}
