"""Hypothesis strategies for whole logs, as a session would write them.

:func:`logs` draws well-formed logs: sequence numbers without gaps, one turn at a time, every call of a turn closed
before its one end, an error before a failed end, capabilities that follow from what changed them. Between those, any
event may stand wherever the bus allows it. :func:`complete_log` is one fixed log that holds every kind of event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from agentwire import events as bus
from agentwire.events import Capabilities, ErrorInfo, Event, Usage
from agentwire.log.record import Record

TRICKY = (
    "", " ", "\n", "a\r\nb", "\u2028x\u0085y", "\x00\x1b[0m\x7f", '"\\/', "é你好🙂", "null", "{}", "data: x\n\n",
    "mode updated: yolo", "config updated: model: a → b", "set_config: no changes", "Tool call: Read",
    "[Read success] x", "Stream interrupted, retrying... (1/2)", "Request failed (x), retrying in 1s... (1/2)",
    "AddMcpServer 'x' failed: y", "Cancelled by user", "Client disconnected",
)  # fmt: skip

texts = st.sampled_from(TRICKY) | st.text(max_size=12)
names = st.sampled_from(("Read", "Write", "ExecCommand", "Spawn", "mcp__a_b")) | st.text(min_size=1, max_size=8)
counts = st.integers(0, 2**40)
refs = st.none() | texts | st.integers(-3, 2**53) | st.sampled_from((0.5, 1.0, -0.0, 1e300))

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.fixed_dictionaries(
    {}, optional={"file_path": texts | json_values, "cmd": texts | json_values}
) | st.dictionaries(texts, json_values, max_size=3)


def canonical(value: Any) -> Raw:
    """Compact JSON with sorted keys, as the engine keeps it."""
    return Raw(msgspec.json.encode(value, order="sorted"))


usages = st.builds(
    Usage,
    st.just(UNSET) | counts,
    st.just(UNSET) | counts,
    st.just(UNSET) | counts,
    st.just(UNSET) | counts,
    st.just(UNSET) | counts,
    st.just(UNSET) | st.dictionaries(texts, json_values, max_size=2),
)
codes = st.sampled_from(("provider_error", "tool_error", "config_error", "protocol_error", "internal_error"))
errors = st.builds(ErrorInfo, codes, texts, st.booleans())
capabilities = st.builds(
    Capabilities,
    image_input=st.sampled_from(("supported", "unsupported", "unknown")),
    thinking=st.booleans(),
    effort=st.booleans(),
    effort_levels=st.sampled_from(((), ("low", "high"))),
    current_mode=st.sampled_from(bus.MODES),
    mcp=st.booleans(),
)
changes = st.builds(
    bus.ConfigChange,
    field=st.sampled_from(("model", "image_input", "thinking", "thinking_budget", "effort", "compaction")),
    old=texts,
    new=texts,
    budget=st.just(UNSET) | counts,
    problem=st.sampled_from(("", "invalid", "unsupported")),
    allowed=st.sampled_from(((), ("off", "safe", "full"))),
)
images = st.builds(bus.Image, st.sampled_from(("image/png", "image/jpeg")), st.sampled_from(("", "aGk=")), texts)
diffs = st.builds(bus.Diff, texts, texts, st.just(UNSET) | texts, st.just(UNSET) | texts)
displays = st.just(UNSET) | st.builds(bus.Text, texts) | diffs | images
extras = st.just(UNSET) | st.dictionaries(names, json_values, min_size=1, max_size=2)
parts = (
    st.builds(bus.Text, texts, extras)
    | st.builds(bus.Image, st.just("image/png"), st.just("aGk="), extra=extras)
    | images
    | st.builds(bus.File, texts)
)
categories = st.sampled_from(("info", "edit", "exec", "mcp"))
host_tools = st.builds(
    bus.HostTool,
    names,
    texts,
    st.just({"type": "object", "properties": {}}),
    names,
    st.sampled_from(("", "read", "actuator")),
)

asides: st.SearchStrategy[Event] = st.one_of(
    st.builds(bus.Notice, texts, st.sampled_from(("info", "warning"))),
    st.builds(bus.McpServerReady, names, st.lists(names, max_size=2), st.booleans()),
    st.builds(bus.McpServerFailed, names, errors, st.booleans()),
    st.builds(bus.ContextAdded, texts),
    st.just(bus.HistoryCleared()),
    st.builds(bus.HostToolsChanged, st.lists(host_tools, max_size=2)),
    st.builds(
        bus.Unknown,
        st.sampled_from(("aionrs", "jan", "levpro", "pagent", "agentwire")),
        st.just("input_accepted"),
        st.just(Raw(b'{"type":"input_accepted","msg_id":"m1"}')),
    ),
)
"""What may be said at any time and changes nothing that a log must keep consistent."""

turn_asides: st.SearchStrategy[Event] = st.one_of(
    st.builds(bus.UserJoined, texts, texts, st.just([]) | st.lists(images, min_size=1, max_size=1)),
    st.just(bus.Parked()),
    st.builds(bus.RetryScheduled, st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6), texts, st.booleans()),
    st.builds(
        bus.RequestSent,
        names,
        names,
        texts,
        st.just("0" * 64),
        counts,
        st.just("1" * 64),
        st.lists(st.builds(bus.SentImage, st.just("2" * 64), st.just("image/png"), counts, texts), max_size=2),
    ),
    st.builds(bus.CompactionStarted, texts),
    st.builds(bus.CompactionFinished, texts, texts, counts, st.just(UNSET) | counts),
    st.builds(bus.CompactionFailed, texts, texts),
    st.builds(bus.ErrorRaised, errors),
    st.builds(bus.HostToolRequested, names, names, names, st.just(UNSET) | json_objects.map(canonical), names),
    st.builds(bus.HostToolCancelled, names, st.sampled_from(("stopped", "client_gone")), names),
    st.builds(bus.HostToolDetails, names, json_values.map(canonical)),
    st.builds(bus.SubagentQueued, names, names, texts, counts),
    st.builds(bus.SubagentStarted, names, names, texts),
    st.builds(bus.SubagentFinished, names, names, texts, usages),
)

subagent_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(bus.TextDelta, texts),
    st.builds(bus.CallReady, st.just("sub_1"), names, st.just("{}"), st.just(Raw(b"{}")), categories, texts),
    st.builds(bus.CallRunning, st.just("sub_1"), names),
    st.builds(bus.CallFinished, st.just("sub_1"), names, st.just("ok"), texts),
    st.builds(bus.ErrorRaised, errors),
)


class _Writer:
    """Writes a log while keeping the books that make it well-formed."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.records: list[Record] = []
        self.turn = 0
        self.turns = 0
        self.calls = 0
        self.capabilities = Capabilities()

    def say(self, event: Event, turn: int | None = None, origin: str = "") -> None:
        seq = len(self.records) + 1
        turn = self.turn if turn is None else turn
        self.records.append(Record(seq, 1_764_468_000_000 + 7 * seq, event, turn, origin))  # type: ignore[arg-type]

    def open(self) -> None:
        self.capabilities = self.draw(capabilities)
        kind = self.draw(st.sampled_from(("new", "resumed", "forked")))
        self.say(
            bus.SessionOpened(
                self.draw(names), kind, "/w", "script", "m", self.capabilities, "", "", self.draw(st.booleans()), "p"
            )
        )

    def aside(self) -> None:
        """Perhaps something beside the turn's own course."""
        what = self.draw(st.integers(0, 11))
        if what < 6:
            return
        if what == 6:
            turn = self.turn if self.draw(st.booleans()) else 0
            self.say(self.draw(asides), turn)
        elif what == 7:
            self.set_mode()
        elif what == 8:
            self.set_config()
        elif what == 9:
            self.capabilities = self.draw(capabilities)
            self.say(bus.CapabilitiesChanged(self.capabilities))
        elif self.turn and what == 10:
            self.say(self.draw(subagent_events), origin="run-1")
        elif self.turn:
            self.say(self.draw(turn_asides))

    def set_mode(self) -> None:
        old, mode = self.capabilities.current_mode, self.draw(st.sampled_from(bus.MODES))
        self.capabilities = msgspec.structs.replace(self.capabilities, current_mode=mode)
        self.say(bus.ModeChanged(mode, old, self.capabilities))

    def set_config(self) -> None:
        mode = self.capabilities.current_mode
        self.capabilities = msgspec.structs.replace(self.draw(capabilities), current_mode=mode)
        held = self.draw(st.booleans())
        self.say(bus.ConfigChanged(self.draw(st.lists(changes, max_size=3)), self.capabilities, held))

    def run_turn(self) -> None:
        self.turns += 1
        self.turn = self.turns
        ref = self.draw(refs)
        self.say(bus.TurnStarted(f"turn-{self.turn}", ref, self.draw(st.lists(parts, max_size=2)), *self.draw(_WHO)))
        steps = self.draw(st.integers(0, 2))
        for index in range(steps):
            self.step(index)
        self.end(steps)
        self.turn = 0

    def step(self, index: int) -> None:
        self.say(bus.StepStarted(index, self.draw(st.sampled_from((0, 8)))))
        for kind, text, message_id in self.draw(st.lists(_DELTAS, max_size=5)):
            self.aside()
            self.say(kind(text, message_id))
        calls = [self.new_call() for _ in range(self.draw(st.integers(0, 3)))]
        for call_id, name, text in calls:
            if self.draw(st.booleans()):
                self.say(bus.CallStarted(call_id, name))
                self.say(bus.CallArgumentsDelta(call_id, text))
        refs = [bus.CallRef(*call) for call in calls]
        self.say(
            bus.StepFinished(
                index, self.draw(texts), self.draw(texts), refs, self.draw(st.just(UNSET) | usages), "stop", "script",
                [Raw(b'{"type":"text"}')],
            )
        )  # fmt: skip
        self.run_calls(calls)

    def new_call(self) -> tuple[str, str, str]:
        self.calls += 1
        text = self.draw(
            st.sampled_from(("", "{", "[1]")) | json_objects.map(lambda value: bytes(canonical(value)).decode())
        )
        return f"{self.draw(st.sampled_from(TRICKY))}call_{self.calls}", self.draw(names), text

    def run_calls(self, calls: Sequence[tuple[str, str, str]]) -> None:
        """Each call takes one of the ways a call can take; their steps are mixed in any order that a log allows."""
        ways = []
        for call_id, name, text in calls:
            category = self.draw(categories)
            arguments = Raw(text.encode()) if text.startswith("{") and text != "{" else UNSET
            way = self.draw(st.sampled_from(tuple(_WAYS)))
            self.say(
                bus.CallReady(
                    call_id, name, text, arguments, category, self.draw(texts), self.draw(_LOCATIONS), way == "barred"
                )
            )
            ways.append([step(self, call_id, name, category) for step in _WAYS[way]])
        while ways := [way for way in ways if way]:
            self.aside()
            self.say(self.draw(st.sampled_from(ways)).pop(0))

    def end(self, steps: int) -> None:
        outcome = self.draw(st.sampled_from(("completed", "cancelled", "failed", "limit")))
        error: Any = UNSET
        if outcome == "failed":
            error = self.draw(errors)
            self.say(bus.ErrorRaised(error))
        self.aside()
        self.say(bus.TurnFinished(outcome, self.draw(texts), self.draw(usages), error, "stop", steps))


_WHO = st.tuples(texts, texts)
_DELTAS = st.tuples(
    st.sampled_from((bus.TextDelta, bus.TextDelta, bus.ReasoningDelta)), texts, st.sampled_from(("", "x"))
)
_LOCATIONS = st.lists(st.builds(bus.Location, texts, st.just(UNSET) | counts), max_size=1)

_Step = Callable[[_Writer, str, str, Any], Event]


def _asked(writer: _Writer, call_id: str, name: str, category: Any) -> Event:
    diff = writer.draw(st.just(UNSET) | diffs)
    return bus.ApprovalRequested(f"a-{call_id}", call_id, name, category, "/w/x", "ls", diff, "exec", True)


def _resolved(decision: Any) -> _Step:
    return lambda writer, call_id, name, category: bus.ApprovalResolved(
        f"a-{call_id}", call_id, decision, "call", "host"
    )


def _running(writer: _Writer, call_id: str, name: str, category: Any) -> Event:
    return bus.CallRunning(call_id, writer.draw(st.sampled_from((name, ""))))


def _output(writer: _Writer, call_id: str, name: str, category: Any) -> Event:
    return bus.CallOutputDelta(call_id, writer.draw(texts), "stdout")


def _finished(writer: _Writer, call_id: str, name: str, category: Any) -> Event:
    draw = writer.draw
    return bus.CallFinished(
        call_id, name, draw(st.sampled_from(("ok", "error"))), draw(texts), draw(displays),
        draw(st.lists(images, max_size=1)), draw(st.just(UNSET) | json_objects),
        draw(st.just(UNSET) | json_values.map(canonical)), draw(st.just(UNSET) | counts), draw(st.booleans()),
    )  # fmt: skip


def _cancelled(*causes: str) -> _Step:
    def step(writer: _Writer, call_id: str, name: str, category: Any) -> Event:
        cause: Any = writer.draw(st.sampled_from(causes))
        return bus.CallCancelled(call_id, cause, writer.draw(texts), writer.draw(st.sampled_from((name, ""))), "out")

    return step


_WAYS: dict[str, tuple[_Step, ...]] = {
    "free": (_running, _output, _finished),
    "allowed": (_asked, _resolved("allowed"), _running, _output, _finished),
    "denied": (_asked, _resolved("denied"), _cancelled("denied", "client_gone")),
    "barred": (_finished,),
    "refused": (_cancelled("refused"),),
    "stopped before": (_cancelled("stopped"),),
    "stopped while asked": (_asked, _resolved("cancelled"), _cancelled("stopped", "crashed")),
    "stopped while running": (_running, _output, _cancelled("stopped", "crashed")),
}


@st.composite
def logs(draw: Callable[[st.SearchStrategy[Any]], Any], max_turns: int = 2) -> list[Record]:
    """A whole log of one session."""
    writer = _Writer(draw)
    writer.open()
    for _ in range(draw(st.integers(0, max_turns))):
        writer.aside()
        writer.run_turn()
    writer.aside()
    if draw(st.booleans()):
        writer.say(bus.SessionClosed(draw(texts)))
    return writer.records


def complete_log() -> list[Record]:
    """One log with every kind of event in it, in a place where it may stand."""
    now = Capabilities(image_input="supported", thinking=True, effort=True, effort_levels=("low", "high"), mcp=True)
    yolo = msgspec.structs.replace(now, current_mode="yolo")
    usage = Usage(1500, 320, 800, 200, 40, {"cost": 1})
    diff = bus.Diff("/w/a", "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-x\n+y", "x\n", "y\n")
    error = ErrorInfo("provider_error", "Rate limit exceeded", retryable=True)
    calls = [bus.CallRef("c1", "Edit", '{"b":1, "a":2}'), bus.CallRef("c2", "ExecCommand", '{"cmd":"ls"}')]
    where, shots = [bus.Location("/w/a", 1)], [bus.Image("image/png", "aGk=")]
    writer = _Writer(lambda strategy: None)
    writer.say(bus.SessionOpened("s1", "new", "/w", "script", "m", now, "", "s1", False, "aionrs"))
    for event in (
        bus.ContextAdded("before"),
        bus.HostToolsChanged([bus.HostTool("host__t", "d", {"type": "object"}, "t", "read")]),
        bus.McpServerReady("my-tools", ["tool_a", "tool_b"], dynamic=True),
        bus.McpServerReady("configured", ["c"]),
        bus.McpServerFailed("gone", ErrorInfo("config_error", "AddMcpServer 'gone' failed: no"), dynamic=True),
        bus.McpServerFailed("dead", ErrorInfo("config_error", "died")),
        bus.CapabilitiesChanged(now),
        bus.ConfigChanged([bus.ConfigChange("model", "a", "b")], now),
        bus.ModeChanged("yolo", "default", yolo),
        bus.HistoryCleared(),
        bus.ErrorRaised(ErrorInfo("internal_error", "outside")),
    ):
        writer.say(event)
    writer.turn = 1
    for event in (
        bus.TurnStarted("turn-1", "m1", [bus.Text("hi")], "main", "me"),
        bus.StepStarted(0, 8),
        bus.RequestSent("script", "m", "chat", "0" * 64, 10, "1" * 64, [bus.SentImage("2" * 64, "image/png", 2, "c0")]),
        bus.RetryScheduled(1, 2, 1000, "reset", stream=True),
        bus.RetryScheduled(1, 3, 2500, "503", stream=False),
        bus.ReasoningDelta("hmm", "x"),
        bus.TextDelta("Hello ", "x"),
        bus.TextDelta("there", "x"),
        bus.CallStarted("c1", "Edit"),
        bus.CallArgumentsDelta("c1", '{"b":1,'),
        bus.StepFinished(0, "Hello there", "hmm", calls, usage, "tool_calls", "script", [Raw(b"{}")]),
        bus.CallReady("c1", "Edit", '{"b":1, "a":2}', Raw(b'{"a":2,"b":1}'), "edit", "Edit a", where),
        bus.CallReady("c2", "ExecCommand", '{"cmd":"ls"}', Raw(b'{"cmd":"ls"}'), "exec", "Execute: ls"),
        bus.CallReady("c3", "", "{}", Raw(b"{}"), "exec", "", [], barred=True),
        bus.ApprovalRequested("c1", "c1", "Edit", "edit", "/w/a", "", diff, "write"),
        bus.ApprovalRequested("c2", "c2", "ExecCommand", "exec", "", "ls"),
        bus.ApprovalResolved("c1", "c1", "allowed", "call", "host"),
        bus.CallRunning("c1", "Edit"),
        bus.CallOutputDelta("c1", "line\n", "stdout"),
        bus.CallFinished("c1", "Edit", "ok", "done", diff, shots, {"n": 1}, Raw(b"1"), 5, True),
        bus.CallFinished("c3", "", "error", "Malformed"),
        bus.CallCancelled("c2", "denied", "no", "ExecCommand", "Tool denied: no"),
        bus.HostToolRequested("r1", "c1", "host", Raw(b"{}"), "run"),
        bus.HostToolCancelled("r1", "client_gone", "c1"),
        bus.HostToolDetails("c1", Raw(b"{}")),
        bus.UserJoined("and also", "x"),
        bus.UserJoined("", "x", [bus.Text("and"), bus.Image("image/png", "aGk=")]),
        bus.Parked(),
        bus.CompactionStarted("threshold"),
        bus.CompactionFinished("threshold", "summary", 2, 9),
        bus.CompactionFailed("manual", "nothing to do"),
        bus.SubagentQueued("run-1", "sub", "task", 2),
        bus.SubagentStarted("run-1", "sub", "task"),
    ):  # fmt: skip
        writer.say(event)
    writer.say(bus.TextDelta("from below"), origin="run-1")
    for event in (
        bus.SubagentFinished("run-1", "sub", "", usage),
        bus.Notice("careful", "warning"),
        bus.Unknown("aionrs", "input_accepted", Raw(b'{"type":"input_accepted","msg_id":"m1"}')),
        bus.ErrorRaised(error),
        bus.TurnFinished("failed", "Hello there", usage, error, "stop", 1),
    ):
        writer.say(event)
    writer.say(bus.SessionClosed("bye"), turn=0)
    return writer.records
