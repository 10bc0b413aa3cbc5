"""How a run went: what the last line says, gathered from its records (section 4.1)."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.commands import SessionState
from agentwire.log.record import Record
from agentwire_jan import facts
from agentwire_jan.stream_wire import ReportUsage, Result, RunError

FINISHED: Final = 0
FAILED: Final = 1
OUT_OF_TURNS: Final = 53
"""The limit of model calls was used up while the model still called tools."""

ABORTED: Final = "aborted"
"""Why a run stopped that the host stopped."""

SHORT: Final = 8
"""Characters of a session's id that the last line tells."""

ERROR_CODES: Final = {"provider_error": "upstream_error", "config_error": "setup_error"}
"""What failed, as the wire says it; anything else is the loop's own."""

LOOP: Final = "error"

REPORTED: Final = frozenset({bus.SessionOpened, bus.TurnStarted, bus.StepStarted, bus.TextDelta})
"""Records that :meth:`Report.feed` learns from; others it need not be told of."""


class Report:
    """Gathers what the last line of a run says. It knows time from the records alone."""

    def __init__(self) -> None:
        self.state = SessionState("")
        """The session as it was opened."""
        self.resumed = False
        self.ephemeral = False
        self._began: int | None = None
        self.said: list[str] = []
        """The answer since the last step began."""
        self._steps = 0

    def feed(self, record: Record) -> None:
        """Take the next record, of the main run or of a subagent."""
        event = record.event
        if record.origin:
            return
        if self._began is None:
            self._began = record.time
        if type(event) is bus.TextDelta:
            self.said.append(event.text)
        elif type(event) is bus.StepStarted:
            self.said.clear()
            self._steps = max(self._steps, event.index + 1)
        elif type(event) is bus.SessionOpened:
            self.resumed = event.kind != "new"
            self.ephemeral = event.ephemeral

    def result(self, event: bus.TurnFinished, time: int) -> Result:
        """The last line of a run that ended at ``time``."""
        completed, aborted = event.outcome == "completed", event.outcome == "cancelled"
        began = time if self._began is None else self._began
        return Result(
            is_error=not (completed or aborted),
            result=event.text if completed else "".join(self.said),
            stop_reason=facts.stop_reason(event) if completed else ABORTED if aborted else "error",
            error=UNSET if completed or aborted else RunError(error_code(event), facts.failure(event)),
            session_id=self._session_id(kept=completed or event.outcome == "limit"),
            model=self.state.model,
            num_turns=self._steps,
            duration_ms=max(0, time - began),
            usage=report_usage(event.usage),
        )

    def setup_failure(self, message: str) -> Result:
        """The last line, and the only one, of a run that could not begin."""
        return Result(is_error=True, stop_reason="error", error=RunError("setup_error", message), usage=ReportUsage())

    def _session_id(self, *, kept: bool) -> str | None:
        if self.ephemeral or not (kept or self.resumed):
            return None
        return self.state.id[:SHORT]


def exit_status(event: bus.TurnFinished) -> int:
    """The exit status of a run that ended so (section 4.4)."""
    if event.outcome in ("completed", "cancelled"):
        return FINISHED
    return OUT_OF_TURNS if event.outcome == "limit" and event.limit != "bad_calls" else FAILED


def error_code(event: bus.TurnFinished) -> str:
    """What failed."""
    return LOOP if isinstance(event.error, UnsetType) else ERROR_CODES.get(event.error.code, LOOP)


def report_usage(usage: bus.Usage) -> ReportUsage:
    """The tokens of a whole run; what was not reported counts nothing, but for the cache, where it is told apart."""
    sent, written = _count(usage.input_tokens) or 0, _count(usage.output_tokens) or 0
    cached, cache_written = _count(usage.cache_read_tokens), _count(usage.cache_write_tokens)
    return ReportUsage(sent, written, sent + written, cached, cache_written)


def _count(tokens: int | UnsetType) -> int | None:
    return None if isinstance(tokens, UnsetType) else tokens
