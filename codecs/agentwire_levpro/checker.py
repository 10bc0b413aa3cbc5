"""The rules of this wire, checked line by line: envelope (sections 2 and 3), and of each chat its events (section 5).

A core may leave events out (section 8), so what is missing breaks no rule; what stands in a place where the grammar has
none does, and so does anything after a request's result or error.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec

from agentwire.codec.checking import Violation
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, clip, parse
from agentwire_levpro import wire
from agentwire_levpro.decisions import usable_id

_encode: Final = msgspec.json.Encoder().encode
_EVENT: Final = msgspec.json.Decoder(reduce(or_, wire.EVENTS))
_CODES: Final = frozenset(wire.Code.__args__)  # type: ignore[attr-defined]  # a Literal's words

_RANK: Final = {
    "run_start": 0, "memory_start": 1, "llm_start": 2, "llm_chunk": 2, "llm_done": 2, "tool_start": 2, "tool_done": 2,
    "final": 3, "loop_abort": 3,
}  # fmt: skip
"""The parts of a chat, in their order."""

_IN_STEP: Final = {"llm_start": 0, "llm_chunk": 1, "llm_done": 2, "tool_start": 3, "tool_done": 3}
"""The parts of a step, in their order."""


class _Chat:
    def __init__(self) -> None:
        self.rank = -1
        self.step = -1
        self.part = -1
        self.tool: str | None = None
        self.trace_id: str | None = None


class LevproChecker:
    """See :class:`agentwire.codec.Checker`."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, str] = {}
        """Methods of requests that have no answer, by id."""
        self._heard = False
        """The host said something."""
        self._chats: dict[bytes, _Chat] = {}
        self._over: set[bytes] = set()
        """Ids of chats that have ended, until they are used again."""
        self._shut = False

    # --- lines ---

    def agent(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the core."""
        message = _object(line, "3")
        if isinstance(message, Violation):
            return [message]
        kind, asked = message.get("type"), message.get("id")
        if kind not in ("event", "result", "error"):
            return [_should(f"unknown type {clip(str(kind))!r}", "3")]
        if "id" not in message or not (usable_id(asked) or (kind == "error" and asked is None)):
            return [_must(f"{kind} without the id of a request", "3")]
        key = _encode(asked)
        if kind == "event":
            return self._event(key, message)
        return self._terminal(key, kind, message)

    def host(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the host."""
        self._heard = True
        if isinstance(line, bytes) and not line.strip():
            return []
        request = _object(line, "2")
        if isinstance(request, Violation):
            return [request]
        asked, method, params = request.get("id"), request.get("method"), request.get("params")
        if not usable_id(asked):
            return [_must("a request needs an id: a string or a number", "2")]
        key = _encode(asked)
        if not isinstance(method, str) or method not in wire.PARAMS:
            self._waiting.setdefault(key, str(method))
            return [_must(f"unknown method {clip(str(method))!r}", "4")]
        found = [_should("nothing is read after shutdown", "9")] if self._shut else []
        self._shut = self._shut or method == "shutdown"
        if key in self._waiting:
            found.append(_must(f"the id {clip(str(asked))!r} is in use", "2"))
        self._waiting[key] = method
        self._over.discard(key)
        try:
            msgspec.convert({} if params is None else params, wire.PARAMS[method])
        except (msgspec.ValidationError, RecursionError) as fault:
            found.append(_must(f"{method}: {fault}", "4"))
        return found

    def close(self) -> list[Violation]:
        """The core's output ended."""
        left = [*(key.decode() for key in self._waiting), *(key.decode() for key in self._chats.keys() - self._waiting)]
        return [_must(f"requests without a result or error: {clip(', '.join(left))}", "3")] if left else []

    # --- chats ---

    def _event(self, key: bytes, message: dict[str, Any]) -> list[Violation]:
        name = message.get("event")
        if key in self._over:
            return [_must(f"{clip(str(name))} after the end of its chat", "3")]
        if not isinstance(name, str) or name not in _RANK:
            return [_should(f"unknown event {clip(str(name))!r}", "5")]
        found = []
        if self._heard and self._waiting.get(key) != "chat":
            found.append(_must(f"{name} of a chat that was not asked for", "5"))
        chat = self._chats.setdefault(key, _Chat())
        try:
            _EVENT.decode(_encode({name: value for name, value in message.items() if name not in ("id", "type")}))
        except (msgspec.DecodeError, RecursionError) as fault:
            found.append(_should(f"{name}: {fault}", "5"))
        return found + _place(chat, name, message)

    def _terminal(self, key: bytes, kind: str, message: dict[str, Any]) -> list[Violation]:
        if kind == "error":
            found = _error(message)
        else:
            found = [] if "result" in message else [_must("a result without result", "3")]
        if message.get("id") is None:
            return found
        chat = self._chats.pop(key, None)
        method = self._waiting.pop(key, None)
        if key in self._over or (self._heard and method is None):
            found.append(_must(f"a second {kind}, or one that nobody asked for", "3"))
        if chat is not None or method == "chat":
            self._over.add(key)
        if kind == "result" and chat is not None:
            found += _answer(chat, message.get("result"))
        return found


def _place(chat: _Chat, name: str, message: dict[str, Any]) -> list[Violation]:
    """Whether an event may stand where it does."""
    found = []
    rank = _RANK[name]
    if rank < chat.rank or (rank == chat.rank and rank != 2):
        found.append(_must(f"{name} out of its place", "5"))
    chat.rank = max(rank, chat.rank)
    if name == "run_start":
        chat.trace_id = message.get("trace_id")
    if name not in _IN_STEP:
        return found
    step, part = message.get("step", chat.step), _IN_STEP[name]
    if name == "llm_start" or step != chat.step:
        if type(step) is int and step <= chat.step:
            found.append(_must(f"step {step} after step {chat.step}", "5"))
        chat.step, chat.part, chat.tool = step, -1, None
    if part < chat.part:
        found.append(_must(f"{name} out of its place in step {step}", "5"))
    chat.part = max(part, chat.part)
    if name == "tool_start":
        if chat.tool is not None:
            found.append(_must(f"a tool begins before {clip(chat.tool)!r} is done", "5"))
        chat.tool = str(message.get("tool"))
    elif name == "tool_done":
        if chat.tool is not None and chat.tool != message.get("tool"):
            found.append(_must(f"{clip(str(message.get('tool')))!r} is done, but {clip(chat.tool)!r} runs", "5"))
        chat.tool = None
    return found


def _answer(chat: _Chat, result: Any) -> list[Violation]:
    try:
        told = msgspec.convert(result, wire.ChatResult)
    except (msgspec.ValidationError, RecursionError) as fault:
        return [_must(f"the result of a chat: {fault}", "4")]
    if chat.trace_id is not None and told.trace_id != chat.trace_id:
        return [_must("trace_id is not the one of run_start", "5")]
    return []


def _error(message: dict[str, Any]) -> list[Violation]:
    code = message.get("code")
    if not isinstance(code, str) or not isinstance(message.get("message"), str):
        return [_must("an error has a code and a message", "3")]
    return [] if code in _CODES else [_should(f"unknown code {clip(code)!r}", "6")]


def _object(line: bytes | LineFault, section: str) -> dict[str, Any] | Violation:
    if type(line) is LineFault:
        return _must(line.message, "1")
    try:
        value = parse(line)
    except BadJson as fault:
        return _must(f"not JSON: {fault}", "1")
    return value if isinstance(value, dict) else _must("not a JSON object", section)


def _must(message: str, section: str) -> Violation:
    return Violation(message, section)


def _should(message: str, section: str) -> Violation:
    return Violation(message, section, "should")
