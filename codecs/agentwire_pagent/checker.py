"""The rules of this wire, checked line by line: envelope and parameters (sections 1, 2, 8), order (section 3).

A classic run may stop anywhere: that is how it tells of a failure (section 5). What a v4 peer says beside a run may
stand between any two lines of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from agentwire.codec.checking import Violation, decoded
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import LineDecoder, clip
from agentwire_pagent import wire
from agentwire_pagent.reading import WireError, decode

_COMMANDS: Final[LineDecoder[wire.HostCommand]] = LineDecoder(wire.HostCommand)

_SECTIONS: Final = {"unknown": "6", "missing": "2", "type": "2"}

_MORE_METHODS: Final = frozenset({
    "ThreadTitle", "ProviderState", "ProviderHandoff", "Skills", "SandboxStatus", "SandboxTree", "EnvironmentCheck",
    "SubagentEvent",
})  # fmt: skip
"""What the peer says in v4 beside what we do (section 8)."""

_MORE_COMMANDS: Final = frozenset({
    "skills", "sandbox_status", "sandbox_tree", "set_provider", "handoff_provider", "environment_check",
    "client_features",
})  # fmt: skip
"""What the peer's host may ask beside what we understand (section 8)."""

_STOPS: Final = frozenset({"continuing", "no_tool_calls", "empty_response", "max_turns", "cancelled"})


class _Run:
    """A run under way. ``phase``: between turns, in the pieces of a reply, or at the calls that follow it."""

    def __init__(self) -> None:
        self.turn = -1
        self.phase = "between"
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.listed: list[tuple[str, str, str]] = []
        self.last: Any = None
        """The parameters of the last reply's end."""
        self.reason = ""
        """Of the last turn's end."""
        self.ran = False
        self.call: wire.ToolCallBegin | None = None
        """Began, and has no result."""
        self.asked = False


class PagentChecker:
    """See :class:`agentwire.codec.Checker`."""

    def __init__(self, dialect: wire.Dialect = "classic") -> None:
        self._dialect = dialect
        self._v4 = dialect == "v4"
        self._run: _Run | None = None

    # --- lines ---

    def agent(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the agent."""
        if type(line) is LineFault:
            return [Violation(line.message, "1")]
        try:
            message = decode(line, self._dialect)
        except WireError as fault:
            return self._unreadable(fault)
        check = _CHECKS.get(type(message))
        return [] if check is None else check(self, message)

    def host(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the host."""
        command = decoded(_COMMANDS, line, "8")
        if isinstance(command, Violation):
            known = any(f"'{name}'" in command.message for name in _MORE_COMMANDS)
            return [] if known else [command]
        run = self._run
        if isinstance(command, wire.User) and run is not None and self._v4:
            return [_should("a second input while a run is under way is ignored", "8")]
        if isinstance(command, wire.Permit | wire.Deny):
            call = run.call if run is not None and run.asked else None
            if call is None or call.tool_call_id != command.tool_call_id:
                return [_should(f"nobody asked about call {clip(command.tool_call_id)!r}", "8")]
        return []

    def close(self) -> list[Violation]:
        """The agent's output ended."""
        if self._run is None or not self._v4:
            return []
        return [_should("the run has no end", "8")]

    def _unreadable(self, fault: WireError) -> list[Violation]:
        if self._v4 and fault.reason == "unknown" and fault.method in _MORE_METHODS:
            return []
        return [Violation(str(fault), _SECTIONS.get(fault.reason, "1"))]

    # --- a run (section 3) ---

    def _run_begin(self, message: wire.RunBegin) -> list[Violation]:
        open_run, self._run = self._run, _Run()
        return [_should("a run begins before the last one ended", "8")] if open_run is not None and self._v4 else []

    def _in_run(self, what: str, *phases: str) -> tuple[_Run, list[Violation]]:
        """The run that a line belongs to, and what is wrong with its place."""
        run = self._run
        if run is None:
            self._run = run = _Run()
            run.phase = phases[0]
            return run, [_must(f"{what} outside of a run")]
        if run.call is not None:
            name, run.call = run.call.tool_call_id, None
            return run, [_must(f"{what}, but call {clip(name)!r} has no result")]
        return run, [] if run.phase in phases else [_must(f"{what} {_WHERE[run.phase]}")]

    def _turn_begin(self, message: wire.TurnBegin) -> list[Violation]:
        # v4 gives a turn that used up the limit no end if another follows to sum up.
        run, found = self._in_run("a turn begins", "between", *(("calls",) if self._v4 else ()))
        if message.turn != run.turn + 1:
            found.append(_must(f"turn {message.turn} where turn {run.turn + 1} begins"))
        run.turn, run.phase = message.turn, "pieces"
        run.text, run.reasoning, run.listed, run.ran = [], [], [], False
        return found

    def _delta(self, message: wire.TextDelta | wire.ReasoningDelta) -> list[Violation]:
        run, found = self._in_run("a piece comes", "pieces")
        (run.text if isinstance(message, wire.TextDelta) else run.reasoning).append(message.text)
        return found if message.text else [*found, _should("an empty piece", "2")]

    def _reply(self, message: wire.StepEnd | wire.TurnResult) -> list[Violation]:
        run, found = self._in_run("a reply ends", "pieces")
        run.phase, run.last = "calls", message
        for name, pieces, whole in (
            ("content", run.text, message.content),
            ("reasoning_content", run.reasoning, message.reasoning_content),
        ):
            if "".join(pieces) != whole:
                found.append(_should(f"{name} is not what its pieces were"))
        run.listed = [
            (call.id, call.name, call.arguments)
            if isinstance(call, wire.FlatCall)
            else (call.id, call.function.name, call.function.arguments)
            for call in message.tool_calls
        ]
        return found

    def _turn_end(self, message: wire.TurnEnd | wire.TurnEndV4) -> list[Violation]:
        run, found = self._in_run("a turn ends", "calls")
        if message.turn != run.turn:
            found.append(_must(f"turn {message.turn} ends, but turn {run.turn} is open"))
        if isinstance(message, wire.TurnEndV4):
            run.reason = message.stop_reason
            found += _reason(message.stop_reason)
            if message.stopped is (message.stop_reason == "continuing"):
                found.append(_must(f"stopped is {message.stopped}, but stop_reason {message.stop_reason!r}", "8"))
        elif message.stopped is run.ran:
            found.append(_must(f"stopped is {message.stopped}, but {'a' if run.ran else 'no'} tool ran"))
        run.phase = "between"
        return found

    def _run_end(self, message: wire.RunEnd | wire.RunEndV4) -> list[Violation]:
        run, found = self._in_run("the run ends", "between")
        self._run = None
        if isinstance(message, wire.RunEndV4):
            found += _reason(message.stop_reason)
            if run.reason and message.stop_reason != run.reason:
                found.append(_must(f"stop_reason is {message.stop_reason!r}, of its last turn {run.reason!r}", "8"))
        elif run.last is not None and any(
            getattr(message, name) != getattr(run.last, name) for name in message.__struct_fields__
        ):
            found.append(_must("the run's end does not repeat the last reply's"))
        return found

    # --- calls ---

    def _call_begin(self, message: wire.ToolCallBegin) -> list[Violation]:
        run, found = self._in_run("a call begins", "calls")
        run.call, run.ran, run.asked = message, True, False
        begun = (message.tool_call_id, message.name, message.arguments)
        if begun in run.listed:
            del run.listed[: run.listed.index(begun) + 1]
        else:
            found.append(_should(f"call {clip(message.tool_call_id)!r} is not the next that the reply lists"))
        return found

    def _permit(self, message: wire.PermitRequest) -> list[Violation]:
        run = self._run
        if run is None or run.call is None or run.call.tool_call_id != message.tool_call_id or run.asked:
            return [_must(f"a question about call {clip(message.tool_call_id)!r}, which did not just begin", "8")]
        run.asked = True
        return []

    def _result(self, message: wire.ToolResult) -> list[Violation]:
        run = self._run
        if run is None or run.call is None or run.call.tool_call_id != message.tool_call_id:
            return [_must(f"a result of call {clip(message.tool_call_id)!r}, which is not open")]
        name, run.call = run.call.name, None
        return [] if message.name == name else [_must(f"the result names {clip(message.name)!r}, not {clip(name)!r}")]

    def _error(self, message: wire.Error) -> list[Violation]:
        if message.where == "turn":
            run, self._run = self._run, None
            if run is None:
                return [_should("a turn failed, but no run is under way", "8")]
        return [] if self._v4 else [_should("the classic dialect has no errors", "5")]


def _must(message: str, section: str = "3") -> Violation:
    return Violation(message, section)


def _should(message: str, section: str = "3") -> Violation:
    return Violation(message, section, "should")


def _reason(reason: str) -> list[Violation]:
    return [] if reason in _STOPS else [_should(f"unknown stop_reason {clip(reason)!r}", "8")]


_WHERE: Final = {
    "between": "outside of a turn",
    "pieces": "before the reply ended",
    "calls": "after the reply ended",
}

_CHECKS: Final[dict[type[Any], Callable[[PagentChecker, Any], list[Violation]]]] = {
    wire.RunBegin: PagentChecker._run_begin,
    wire.TurnBegin: PagentChecker._turn_begin,
    wire.TextDelta: PagentChecker._delta,
    wire.ReasoningDelta: PagentChecker._delta,
    wire.StepEnd: PagentChecker._reply,
    wire.TurnResult: PagentChecker._reply,
    wire.ToolCallBegin: PagentChecker._call_begin,
    wire.PermitRequest: PagentChecker._permit,
    wire.ToolResult: PagentChecker._result,
    wire.TurnEnd: PagentChecker._turn_end,
    wire.TurnEndV4: PagentChecker._turn_end,
    wire.RunEnd: PagentChecker._run_end,
    wire.RunEndV4: PagentChecker._run_end,
    wire.Error: PagentChecker._error,
}
