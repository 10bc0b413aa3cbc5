"""A chat under way, as a host follows it. Events may be missing on this wire: what they would have said is made up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.codec.heard import Answered, Heard
from agentwire.codec.jsontext import canonical_object
from agentwire.commands import JsonId
from agentwire_levpro.decisions import ABORT_WARNING, LIMITS, STATUSES
from agentwire_levpro.facts import ERROR_CODES, SETUP_CODES, told_error
from agentwire_levpro.reading import Message

Said = list[Heard | Answered]
"""What a host makes of a line."""

_LIMIT_OF = {reason: limit for limit, reason in LIMITS.items()}


class Run:
    """A chat that began and has no result or error yet. ``names`` gives ids to calls, which have none on the wire."""

    def __init__(self, request: JsonId, ref: JsonId, session: str, trace_id: str, names: Iterator[str]) -> None:
        self.request = request
        """Its id on the wire."""
        self.ref = ref
        self.session = session
        self.id = trace_id
        self._names = names
        self.step = -1
        """The one under way, or the last."""
        self._steps = 0
        self._step_open = False
        self.pieces: list[str] = []
        """Of the step's text."""
        self._call: tuple[str, str] | None = None
        """Id and name of the call that began and has no end."""
        self._answered = False
        self._abort: str | None = None

    def say(self, event: bus.Event) -> Heard:
        """An event of this chat."""
        return Heard(event, self.session, self.ref)

    # --- steps ---

    def start_step(self, message: Message) -> Said:
        """A model call begins."""
        return self._begin(self.step + 1 if isinstance(message.step, UnsetType) else message.step)

    def chunk(self, message: Message) -> Said:
        """A piece of the model's text."""
        said = self._in_step(message.step)
        if message.delta:
            self.pieces.append(message.delta)
            said.append(self.say(bus.TextDelta(message.delta)))
        return said

    def end_step(self, message: Message) -> Said:
        """The model call is over."""
        return [*self._in_step(message.step), *self._close_step()]

    def _in_step(self, step: int | UnsetType) -> Said:
        """What is missing if this comes now: the beginning of the step, or of a first one."""
        if isinstance(step, UnsetType):
            return self._begin(0) if self.step < 0 else []
        return self._begin(step) if step != self.step else []

    def _begin(self, step: int) -> Said:
        said = [*self._close_step(), *self._close_call("crashed")]
        self.step, self._step_open = step, True
        self._steps += 1
        self.pieces.clear()
        return [*said, self.say(bus.StepStarted(step))]

    def _close_step(self) -> Said:
        if not self._step_open:
            return []
        self._step_open = False
        return [self.say(bus.StepFinished(self.step, "".join(self.pieces)))]

    # --- calls ---

    def start_call(self, message: Message) -> Said:
        """A tool begins; one that has no end by now will have none."""
        said = [*self._in_step(message.step), *self._close_step(), *self._close_call("crashed")]
        call_id = next(self._names)
        self._call = (call_id, message.tool)
        arguments = canonical_object(bytes(message.args))
        said.append(
            self.say(
                bus.CallReady(
                    call_id,
                    message.tool,
                    bytes(arguments or message.args).decode(),
                    UNSET if arguments is None else arguments,
                )
            )
        )
        said.append(self.say(bus.CallRunning(call_id, message.tool)))
        return said

    def end_call(self, message: Message) -> Said:
        """A tool is over; if its start is missing it begins now."""
        said: Said = []
        if self._call is None or self._call[1] != message.tool:
            said = self.start_call(message)
        call_id, name = self._call or ("", message.tool)
        self._call = None
        end: bus.Event
        if message.status == STATUSES[2]:
            end = bus.CallCancelled(call_id, "refused", message.preview, name)
        else:
            end = bus.CallFinished(
                call_id,
                name,
                "ok" if message.status == STATUSES[0] else "error",
                message.preview,
                duration_ms=_milliseconds(message.ms),
                retryable=message.retryable,
            )
        return [*said, self.say(end)]

    def _close_call(self, cause: Literal["stopped", "crashed"]) -> Said:
        if self._call is None:
            return []
        call_id, name = self._call
        self._call = None
        return [self.say(bus.CallCancelled(call_id, cause, "", name))]

    # --- the end ---

    def answered(self, message: Message) -> Said:
        """``final``: the chat has an answer; the result tells it."""
        self._answered = True
        return [*self._close_step(), *self._close_call("crashed")]

    def aborted(self, message: Message) -> Said:
        """``loop_abort``: the chat gave up; what it ends with tells how."""
        self._abort = message.reason
        return [*self._close_step(), *self._close_call("crashed")]

    def end(self, response: str, warnings: list[str]) -> Said:
        """The result: the answer, or what there is of it at a limit, which the warnings tell in any case."""
        reason = None if self._answered else self._abort
        if reason is None and not self._answered:
            told = [text for text in warnings if text.startswith(ABORT_WARNING)]
            reason = told[-1].removeprefix(ABORT_WARNING) if told else None
        said = [*self._close_step(), *self._close_call("crashed")]
        if reason is None:
            end = self._finished("completed", response)
        else:
            warnings = _without_last(warnings, ABORT_WARNING + reason)
            end = self._finished("limit", response, limit=_LIMIT_OF.get(reason, ""))
        notices = [self.say(bus.Notice(text, "warning")) for text in warnings]
        return [*said, *notices, end]

    def fail(self, code: str, text: str) -> Said:
        """The error: the chat was cancelled, or failed."""
        said = self._close_step()
        if code == "cancelled":
            said += self._close_call("stopped")
            return [*said, self._finished("cancelled", "".join(self.pieces))]
        if self._abort in ERROR_CODES and code not in SETUP_CODES:
            code = self._abort  # it tells more than the code, which is always the same
        error = told_error(code, text)
        said += self._close_call("crashed")
        return [*said, self._finished("failed", "".join(self.pieces), error)]

    def _finished(
        self,
        outcome: bus.Outcome,
        text: str,
        error: bus.ErrorInfo | UnsetType = UNSET,
        limit: Literal["", "steps", "bad_calls"] = "",
    ) -> Heard:
        return self.say(bus.TurnFinished(outcome, text, error=error, steps=self._steps, limit=limit))


def _without_last(texts: list[str], text: str) -> list[str]:
    """``texts`` less the last that is ``text``."""
    for at in range(len(texts) - 1, -1, -1):
        if texts[at] == text:
            return texts[:at] + texts[at + 1 :]
    return texts


def _milliseconds(value: float | UnsetType) -> int | UnsetType:
    if isinstance(value, UnsetType) or not math.isfinite(value) or value < 0:
        return UNSET
    return round(value)
