"""Small strategies for single events and for whole turns, and what two readings of one log must have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from agentwire.events import (
    AnyEvent,
    CallArgumentsDelta,
    CallCancelled,
    CallFinished,
    CallOutputDelta,
    CallReady,
    CallRef,
    CallStarted,
    CompactionFinished,
    ContextAdded,
    HistoryCleared,
    HostToolDetails,
    Notice,
    ReasoningDelta,
    RetryScheduled,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    TurnFinished,
    TurnStarted,
    Unknown,
    Usage,
    UserJoined,
)
from agentwire.log import Record
from agentwire.log.deltas import DELTAS

texts = st.sampled_from(("a", "hello wo", "é", "日本", "🙂", '"\\\n', "x" * 300, "y" * 5000)) | st.text(max_size=5)
broken_texts = st.sampled_from(("\ud83d", "a\udcff", "\ud83d\ude00"))
ids = st.sampled_from(("c1", "c2"))

deltas: st.SearchStrategy[Any] = st.one_of(
    st.builds(TextDelta, texts, st.sampled_from(("", "m1"))),
    st.builds(ReasoningDelta, texts),
    st.builds(CallArgumentsDelta, ids, texts),
    st.builds(CallOutputDelta, ids, texts, st.sampled_from(("stdout", "stderr"))),
    st.builds(TextDelta, broken_texts),
    st.builds(CallOutputDelta, broken_texts, texts),
)
others: st.SearchStrategy[Any] = st.one_of(
    st.builds(Notice, texts | broken_texts),
    st.builds(ContextAdded, texts),
    st.builds(CallFinished, ids, st.just("Read"), st.just("ok"), texts, metadata=st.just({"n": [1, {"é": None}]})),
    st.builds(
        CallReady, ids, st.just("Read"), texts, st.sampled_from((Raw(b'{"a":1}'), Raw(b'{\n "a": 1\r\n}'), UNSET))
    ),
    st.builds(HostToolDetails, ids, st.just(Raw(b"[1,\n2]"))),
    st.builds(StepFinished, st.integers(0, 9), texts, items=st.just([Raw(b'{"x":\n1}'), Raw(b"2")])),
    st.builds(Unknown, st.just("jan"), texts, st.just(Raw(b'{"type":"new"}'))),
)
events = deltas | others
places = st.tuples(st.integers(0, 2), st.sampled_from(("", "", "sub-1")))


def mended(event: AnyEvent) -> bytes:
    """The event as any reader must see it, encoded: surrogates replaced, ready-made JSON on one line."""
    plain = msgspec.to_builtins(event, builtin_types=(Raw,))
    return msgspec.json.encode(_mended(plain), order="sorted")


def _mended(value: Any) -> Any:
    if isinstance(value, Raw):
        return Raw(msgspec.json.format(bytes(value), indent=-1))
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list | tuple):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


def essence(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    """What joining must not change: other events exactly, and the texts of neighbouring deltas of one item together."""
    found: list[tuple[Any, ...]] = []
    for record in records:
        event: Any = record.event
        place = (record.turn, record.origin)
        if type(event) not in DELTAS:
            found.append((record.seq, *place, mended(event)))
            continue
        field = "text" if isinstance(event, TextDelta | ReasoningDelta) else "delta"
        text = getattr(event, field)
        item = (*place, mended(msgspec.structs.replace(event, **{field: ""})))
        if found and found[-1][1:-1] == item:
            text = found.pop()[-1] + text
        found.append((record.seq, *item, text))
    return found


class _Turns:
    """Writes turns as an engine would: every call of a step answered or the turn cut off, nothing after the end."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.records: list[Record] = []
        self.turn = 0
        self.calls = 0

    def say(self, event: AnyEvent, origin: str = "") -> None:
        seq = len(self.records) + 1
        self.records.append(Record(seq, seq, event, self.turn, origin))

    def run(self) -> None:
        self.turn += 1
        self.say(TurnStarted(f"t{self.turn}", input=[Text(f"question {self.turn}")]))
        for index in range(self.draw(st.integers(0, 3))):
            if not self.step(index):
                self.say(TurnFinished("cancelled", usage=Usage(1, 1)))
                return
            if self.draw(st.integers(0, 4)) == 0:
                self.say(CompactionFinished("full", f"summary {len(self.records)}", self.draw(st.integers(0, 5))))
        self.say(TurnFinished("completed", "done", usage=Usage(1, 1)))

    def step(self, index: int) -> bool:
        """One step; False: it was stopped."""
        self.say(StepStarted(index))
        text = ""
        for _ in range(self.draw(st.integers(0, 4))):
            what = self.draw(st.integers(0, 7))
            if what == 0:
                self.say(RetryScheduled(1, 3, 10, "busy"))
                text = ""
            elif what == 1:
                self.say(UserJoined(f"by the way {len(self.records)}"))
            elif what == 2:
                self.say(TextDelta("a subagent's"), "sub-1")
            elif what == 3:
                self.say(ReasoningDelta("hm"))
            else:
                piece = self.draw(st.sampled_from(("one ", "two ", "é ")))
                self.say(TextDelta(piece))
                text += piece
        calls = []
        for _ in range(self.draw(st.integers(0, 3))):
            self.calls += 1
            calls.append(CallRef(f"c{self.calls}", "Read", self.draw(st.sampled_from(('{"a":1}', "{", "")))))
            self.say(CallStarted(calls[-1].call_id, "Read"))
            self.say(CallArgumentsDelta(calls[-1].call_id, calls[-1].arguments_text))
        if self.draw(st.integers(0, 5)) == 0:
            for call in calls:
                self.say(CallCancelled(call.call_id, "stopped", name="Read"))
            return False
        self.say(StepFinished(index, text, "", calls, Usage(1, 1), provider="p", items=[Raw(b"{}")]))
        for call in self.draw(st.permutations(calls)):
            self.say(CallReady(call.call_id, "Read", call.arguments_text))
            if self.draw(st.integers(0, 3)) == 0:
                self.say(CallFinished(f"sub-{call.call_id}", "Read", "ok", "of a subagent"), "sub-1")
            if self.draw(st.integers(0, 4)) == 0:
                self.say(UserJoined(f"also {len(self.records)}"))
            if self.draw(st.integers(0, 3)) == 0:
                cause = self.draw(st.sampled_from(("denied", "refused", "stopped", "client_gone", "crashed")))
                self.say(CallCancelled(call.call_id, cause, "because"))
            else:
                self.say(CallFinished(call.call_id, "Read", "ok", f"result of {call.call_id}"))
        return True


@st.composite
def session_logs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Record]:
    """A whole session: context, turns, now and then a reset between them."""
    turns = _Turns(draw)
    turns.say(ContextAdded("context"))
    for _ in range(draw(st.integers(1, 4))):
        turns.run()
        if draw(st.integers(0, 5)) == 0:
            turns.say(HistoryCleared())
    return turns.records
