"""Turns as OpenTelemetry spans, where an SDK is at work in this process; else nothing is imported and nothing made.

Run the server under ``opentelemetry-instrument``, or set up a tracer provider before :func:`agentwire.serve`. A turn
is a span with one for each step inside, and in each step one for the model request and one for each call, named and
described by the semantic conventions for generative AI. Spans hold no text of the conversation. The W3C trace context
of the innermost span goes along with model requests, MCP calls and child processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from agentwire.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    CallRunning,
    Event,
    RetryScheduled,
    StepFinished,
    StepStarted,
    SubagentFinished,
    SubagentStarted,
    TurnFinished,
    TurnStarted,
    Usage,
)
from agentwire.log.record import Record

if TYPE_CHECKING:
    from opentelemetry.trace import Span

SDK = "opentelemetry.sdk.trace"

Key = tuple[str, str]
"""What a span is of, and its id."""


def tracer_for(session: str, provider: str, model: Callable[[], str]) -> Tracer | None:
    """A tracer for a session, if an SDK was loaded in this process."""
    return Tracer(session, provider, model) if SDK in sys.modules else None


class Tracer:
    """Makes spans of one session out of what enters its log. Called with every record but deltas."""

    def __init__(self, session: str, provider: str, model: Callable[[], str]) -> None:
        from opentelemetry import trace

        self._tracer = trace.get_tracer("agentwire")
        self._session = session
        self._provider = provider
        self._model = model
        self._spans: dict[Key, Span] = {}

    def __call__(self, record: Record) -> None:
        """Note what was appended."""
        handler = _HANDLERS.get(type(record.event))
        if handler is not None:
            handler(self, record.event, record.origin)

    def headers(self, call_id: str = "", origin: str = "") -> dict[str, str]:
        """The trace context for what a call starts, or (no call) for a model request: W3C header names and values."""
        from opentelemetry.trace import set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        key = ("call", call_id) if call_id else ("chat", origin)
        span = self._spans.get(key)
        found: dict[str, str] = {}
        if span is not None:
            TraceContextTextMapPropagator().inject(found, set_span_in_context(span))
        return found

    # --- spans ---

    def _start(self, key: Key, name: str, under: Key | None, *, client: bool = False, **attributes: Any) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        parent = self._spans.get(under) if under is not None else None
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(parent) if parent is not None else None,
            kind=SpanKind.CLIENT if client else SpanKind.INTERNAL,
            attributes={
                "gen_ai.conversation.id": self._session,
                **{key.replace("__", "."): value for key, value in attributes.items()},
            },
        )
        self._end(key)
        self._spans[key] = span

    def _end(self, key: Key, error: str = "", /, **attributes: Any) -> None:
        from opentelemetry.trace import Status, StatusCode

        span = self._spans.pop(key, None)
        if span is None:
            return
        for name, value in attributes.items():
            span.set_attribute(name.replace("__", "."), value)
        if error:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end()

    def _turn_started(self, event: TurnStarted, origin: str) -> None:
        self._start(
            ("turn", origin), "invoke_agent", None, gen_ai__operation__name="invoke_agent",
            gen_ai__provider__name=self._provider, agentwire__turn__id=event.id,
        )  # fmt: skip

    def _turn_finished(self, event: TurnFinished, origin: str) -> None:
        for key in [key for key in reversed(self._spans) if key[0] != "turn"]:
            self._end(key, "" if key[0] in ("step", "subagent") else "the turn ended first")
        error = event.error.message if event.error is not UNSET else ""
        self._end(("turn", origin), error, agentwire__turn__outcome=event.outcome, **_tokens(event.usage))

    def _step_started(self, event: StepStarted, origin: str) -> None:
        self._end(("step", origin))
        above: Key = ("subagent", origin) if origin else ("turn", "")
        self._start(("step", origin), f"step {event.index}", above, agentwire__step__index=event.index)
        self._request(origin)

    def _request(self, origin: str) -> None:
        model = self._model()
        self._start(
            ("chat", origin), f"chat {model}", ("step", origin), client=True, gen_ai__operation__name="chat",
            gen_ai__provider__name=self._provider, gen_ai__request__model=model,
        )  # fmt: skip

    def _retry(self, event: RetryScheduled, origin: str) -> None:
        self._end(("chat", origin), event.reason)
        self._request(origin)

    def _step_finished(self, event: StepFinished, origin: str) -> None:
        usage = event.usage if event.usage is not UNSET else Usage()
        self._end(("chat", origin), gen_ai__response__finish_reasons=[event.finish_reason], **_tokens(usage))

    def _asked(self, event: ApprovalRequested, origin: str) -> None:
        self._start(("approval", event.approval_id), "approval", ("step", origin), gen_ai__tool__name=event.name)

    def _resolved(self, event: ApprovalResolved, origin: str) -> None:
        self._end(("approval", event.approval_id), agentwire__approval__decision=event.decision)

    def _running(self, event: CallRunning, origin: str) -> None:
        self._start(
            ("call", event.call_id), f"execute_tool {event.name}", ("step", origin),
            gen_ai__operation__name="execute_tool", gen_ai__tool__name=event.name, gen_ai__tool__call__id=event.call_id,
        )  # fmt: skip

    def _finished(self, event: CallFinished, origin: str) -> None:
        self._end(("call", event.call_id), "the tool failed" if event.status == "error" else "")

    def _cancelled(self, event: CallCancelled, origin: str) -> None:
        self._end(("call", event.call_id), event.cause)

    def _subagent_started(self, event: SubagentStarted, origin: str) -> None:
        self._start(
            ("subagent", event.run_id), "invoke_agent", ("step", origin), gen_ai__operation__name="invoke_agent",
            gen_ai__agent__name=event.name, gen_ai__agent__id=event.run_id,
        )  # fmt: skip

    def _subagent_finished(self, event: SubagentFinished, origin: str) -> None:
        for kind in ("chat", "step"):
            self._end((kind, event.run_id))
        self._end(("subagent", event.run_id), event.error, **_tokens(event.usage))


def _tokens(usage: Usage) -> dict[str, int]:
    counts = {"gen_ai__usage__input_tokens": usage.input_tokens, "gen_ai__usage__output_tokens": usage.output_tokens}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


_HANDLERS: dict[type[Event], Callable[[Tracer, Any, str], None]] = {
    TurnStarted: Tracer._turn_started,
    TurnFinished: Tracer._turn_finished,
    StepStarted: Tracer._step_started,
    StepFinished: Tracer._step_finished,
    RetryScheduled: Tracer._retry,
    ApprovalRequested: Tracer._asked,
    ApprovalResolved: Tracer._resolved,
    CallRunning: Tracer._running,
    CallFinished: Tracer._finished,
    CallCancelled: Tracer._cancelled,
    SubagentStarted: Tracer._subagent_started,
    SubagentFinished: Tracer._subagent_finished,
}
