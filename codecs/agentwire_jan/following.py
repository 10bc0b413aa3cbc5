"""A turn as a host follows it: what the wire leaves to be worked out from the order of what it says.

The wire does not say that a reply is complete, nor that a call runs, nor which call a question is about. A step is
finished once its calls were told and anything else is, or its usage was and something shows that the run went on; a
call runs before its first output; a question is about the oldest call of that name that was neither asked about nor
started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, UnsetType, structs

from agentwire import events as bus
from agentwire.events import Event
from agentwire_jan.facts import NO_OUTCOME


class OpenCall:
    """A call that was shown and has no result."""

    __slots__ = ("asked", "call_id", "denied", "name", "running")

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        self.name = name
        self.asked = False
        self.running = False
        self.denied: str | None = None
        """Why we denied it, if we did."""


class Run:
    """The main run, or a subagent's."""

    def __init__(self) -> None:
        self.steps = 0
        self.index = 0
        self.finished = True
        """No step is under way."""
        self.complete = False
        """Its usage or its calls were told: the reply is whole."""
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.refs: list[bus.CallRef] = []
        self.usage: bus.Usage | UnsetType = UNSET
        self.streamed: dict[str, list[str]] = {}
        """Arguments of calls that are not complete."""
        self.open: dict[str, OpenCall] = {}
        self.closed: set[str] = set()

    def begin(self, index: int) -> None:
        """A step begins."""
        self.steps += 1
        self.index, self.finished, self.complete, self.usage = index, False, False, UNSET
        self.void()
        self.refs = []
        self.streamed.clear()

    def void(self) -> None:
        """What was said is said anew."""
        self.text.clear()
        self.reasoning.clear()

    def close(self, *, sure: bool, finish_reason: str = "") -> list[Event]:
        """The end of the step under way, if it is ``sure`` that it ended or its reply is whole."""
        if self.finished or not (sure or self.complete):
            return []
        self.finished = True
        reason = "tool_calls" if self.refs else finish_reason
        text, reasoning = "".join(self.text), "".join(self.reasoning)
        return [bus.StepFinished(self.index, text, reasoning, self.refs, self.usage, reason)]

    def started(self, call_id: str) -> list[Event]:
        """A call runs, if it did not before; one that was never shown is shown now."""
        said: list[Event] = []
        call = self.open.get(call_id)
        if call is None:
            call = self.open[call_id] = OpenCall(call_id, "")
            said.append(bus.CallReady(call_id, ""))
        if not call.running:
            call.running = True
            said.append(bus.CallRunning(call_id, call.name))
        return said


class Follower:
    """Follows one turn; it is told events as the wire tells them and gives them as the bus has them."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self.main = self._run("")
        self._questions: dict[str, OpenCall | None] = {}
        self._error: bus.ErrorInfo | UnsetType = UNSET
        self._finish_reason = ""
        self._usage = bus.Usage()

    def _run(self, origin: str) -> Run:
        run = self._runs.get(origin)
        if run is None:
            run = self._runs[origin] = Run()
        return run

    # --- what the wire says ---

    def hear(self, event: Event, origin: str = "") -> list[Event]:
        """An event that the bus has a word for."""
        kind = event.__class__
        run = self._run(origin)
        handle = _HANDLERS.get(kind)
        # Calls are shown one right after the other, so whatever follows them is not of the reply any more.
        before = run.close(sure=True) if run.refs and not run.finished and kind not in _OF_REPLY else []
        said = [event] if handle is None else handle(self, run, event)
        return before + said if before else said

    def used(self, usage: bus.Usage, origin: str = "") -> None:
        """Tokens of a request."""
        run = self._run(origin)
        run.usage = usage if isinstance(run.usage, UnsetType) else run.usage + usage
        run.complete = True
        if not origin:
            self._usage = self._usage + usage

    def done(self, finish_reason: str) -> list[Event]:
        """The run succeeded."""
        self._finish_reason = finish_reason
        return self.main.close(sure=True, finish_reason=finish_reason)

    def failed(self, message: str) -> list[Event]:
        """The run failed."""
        self._error = bus.ErrorInfo("provider_error", message)
        return [*self.main.close(sure=False), bus.ErrorRaised(self._error)]

    def end(self, outcome: bus.Outcome, message: str = "") -> list[Event]:
        """The turn is over: after every call in it."""
        said = self.main.close(sure=outcome == "completed")
        if outcome == "failed" and isinstance(self._error, UnsetType):
            said += self.failed(message or NO_OUTCOME)
        cause: Any = "stopped" if outcome == "cancelled" else "crashed"
        said += [bus.CallCancelled(call.call_id, cause, "", call.name) for call in self.main.open.values()]
        error = self._error if outcome == "failed" else UNSET
        text = "".join(self.main.text)
        return [*said, bus.TurnFinished(outcome, text, self._usage, error, self._finish_reason, self.main.steps)]

    # --- questions ---

    def question(self, request_id: str) -> str:
        """The id of the question that a request or a call stands for; ``""`` if there is none."""
        if request_id in self._questions:
            return request_id
        for approval_id, call in self._questions.items():
            if call is not None and call.call_id == request_id:
                return approval_id
        return ""

    def deny(self, approval_id: str, reason: str) -> None:
        """We deny the call that a question is about."""
        call = self._questions.get(approval_id)
        if call is not None:
            call.denied = reason

    # --- events that say less than the bus wants to know ---

    def _step_started(self, run: Run, event: bus.StepStarted) -> list[Event]:
        before = run.close(sure=True)
        run.begin(event.index)
        return [*before, event]

    def _text(self, run: Run, event: bus.TextDelta) -> list[Event]:
        run.text.append(event.text)
        return [event]

    def _reasoning(self, run: Run, event: bus.ReasoningDelta) -> list[Event]:
        run.reasoning.append(event.text)
        return [event]

    def _retry(self, run: Run, event: bus.RetryScheduled) -> list[Event]:
        if not run.finished:
            run.void()
        return [event]

    def _call_started(self, run: Run, event: bus.CallStarted) -> list[Event]:
        run.streamed[event.call_id] = []
        return [event]

    def _call_arguments(self, run: Run, event: bus.CallArgumentsDelta) -> list[Event]:
        run.streamed.setdefault(event.call_id, []).append(event.delta)
        return [event]

    def _call_ready(self, run: Run, event: bus.CallReady) -> list[Event]:
        text = "".join(run.streamed.pop(event.call_id, ())) or event.arguments_text
        run.complete = True
        run.refs.append(bus.CallRef(event.call_id, event.name, text))
        run.open[event.call_id] = OpenCall(event.call_id, event.name)
        run.closed.discard(event.call_id)
        return [structs.replace(event, arguments_text=text)]

    def _asked(self, run: Run, event: bus.ApprovalRequested) -> list[Event]:
        said = run.close(sure=False)
        fitting = (call for call in run.open.values() if call.name == event.name and not (call.asked or call.running))
        call = next(fitting, None)
        self._questions[event.approval_id] = call
        if call is not None:
            call.asked = True
        call_id = event.approval_id if call is None else call.call_id
        return [*said, structs.replace(event, call_id=call_id)]

    def _output(self, run: Run, event: bus.CallOutputDelta) -> list[Event]:
        if event.call_id in run.closed:
            return [event]  # a program that was left running in the background
        return [*run.close(sure=False), *run.started(event.call_id), event]

    def _call_finished(self, run: Run, event: bus.CallFinished) -> list[Event]:
        if event.call_id in run.closed:
            return []
        said = run.close(sure=False)
        call = run.open.get(event.call_id)
        if call is None or call.denied is None or event.status == "ok":
            said += run.started(event.call_id)
        call = run.open.pop(event.call_id, None)
        run.closed.add(event.call_id)
        if call is not None and call.denied is not None and event.status == "error":
            return [*said, bus.CallCancelled(event.call_id, "denied", call.denied, call.name, event.output)]
        return [*said, structs.replace(event, name="" if call is None else call.name)]

    def _host_tool_requested(self, run: Run, event: bus.HostToolRequested) -> list[Event]:
        return [event] if event.run_id else [*run.close(sure=False), event]

    def _parked(self, run: Run, event: bus.Parked) -> list[Event]:
        return [*run.close(sure=False), event]


_HANDLERS: Final[dict[type[Event], Callable[[Follower, Run, Any], list[Event]]]] = {
    bus.StepStarted: Follower._step_started,
    bus.TextDelta: Follower._text,
    bus.ReasoningDelta: Follower._reasoning,
    bus.RetryScheduled: Follower._retry,
    bus.CallStarted: Follower._call_started,
    bus.CallArgumentsDelta: Follower._call_arguments,
    bus.CallReady: Follower._call_ready,
    bus.ApprovalRequested: Follower._asked,
    bus.CallOutputDelta: Follower._output,
    bus.CallFinished: Follower._call_finished,
    bus.HostToolRequested: Follower._host_tool_requested,
    bus.Parked: Follower._parked,
}
"""Events not listed are passed on as they are."""

_OF_REPLY: Final = frozenset({
    bus.TextDelta, bus.ReasoningDelta, bus.CallStarted, bus.CallArgumentsDelta, bus.CallReady,
})  # fmt: skip
