"""A step's calls: judged, asked about, run, shown.

The order of things is part of the protocol, so it is decided in plain functions and never left to the scheduler:
questions go out in the model's order, an approved call is shown as running at the moment it is approved, calls that
only read overlap, the others exclude each other and the earliest approved one goes first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec
import trio
from msgspec import UNSET, UnsetType

from agentwire.agent.planning import PlannedCall, ask_tool, context_for
from agentwire.approvals import Decision, Question, Verdict, new_approval_id
from agentwire.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    CallRunning,
    Category,
    Diff,
    Text,
)
from agentwire.log.history import cancelled_text
from agentwire.text import scrub
from agentwire.tools.contract import ToolError, ToolResult
from agentwire.tools.output import clean, post_process

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

logger = logging.getLogger("agentwire.calls")

PROMPT_KINDS: dict[tuple[Category, bool], str] = {
    ("info", False): "read",
    ("info", True): "read_escape",
    ("edit", False): "write",
    ("edit", True): "write_escape",
    ("exec", False): "exec",
    ("exec", True): "exec",
    ("mcp", False): "mcp",
    ("mcp", True): "mcp",
}

Cause = Literal["denied", "refused", "stopped", "client_gone", "crashed"]

CAUSES: dict[str, Cause] = {"stop": "stopped", "client_gone": "client_gone"}
"""Why a call is cancelled whose question nobody answered, by who settled it."""


def _checked(result: object) -> ToolResult:
    """A tool's result, if it is one that can be told."""
    if not isinstance(result, ToolResult):
        raise TypeError(f"a tool must give a ToolResult, not {type(result).__name__}")
    if result.metadata is not UNSET:
        msgspec.json.encode(result.metadata)
    return result


class CallBatch:
    """The calls of one step on their way from planned to done."""

    __slots__ = ("_calls", "_group", "_nursery", "_results_last", "_stirred", "_turn")

    def __init__(self, turn: Turn, calls: Sequence[PlannedCall]) -> None:
        self._turn = turn
        self._calls = list(calls)
        self._group: list[PlannedCall] = []
        self._nursery: trio.Nursery | None = None
        """What calls run in; None while nothing runs."""
        self._stirred = trio.Event()
        """Set when the first call of the group can run, and when all are done."""
        self._results_last = turn.session.policy.calls == "reads_together"

    async def run(self) -> None:
        """Bring every call to its end."""
        order = self._turn.session.policy.calls
        try:
            if order == "parallel":
                await self._together(self._calls)
            else:
                last = [call for call in self._calls if order == "reads_together" and call.overlaps]
                for call in self._calls:
                    if call not in last:
                        await self._together([call])
                await self._together(last)
        finally:
            # Also when stopped: what was done is done, and the model must know.
            for call in self._calls:
                if call.state == "done" and call.ref.call_id in self._turn.open_calls:
                    self._show_result(call)

    async def _together(self, calls: list[PlannedCall]) -> None:
        if not calls:
            return
        self._group = calls
        self._stirred = trio.Event()
        coming = iter(calls)
        for call in coming:
            await self._judge(call)
            if self._stirred.is_set():
                break
        else:
            # A person's answer may take hours, and thousands of sessions may wait for one: without a nursery.
            await self._stirred.wait()
        if self._is_done():
            return
        self._stirred = trio.Event()
        async with trio.open_nursery() as self._nursery:
            for call in calls:
                if call.state == "running":
                    self._nursery.start_soon(self._run, call)
            for call in coming:
                await self._judge(call)
            self._start_what_can()
            await self._stirred.wait()
        self._nursery = None

    def _is_done(self) -> bool:
        return all(call.state == "done" for call in self._group)

    # --- judging ---

    async def _judge(self, call: PlannedCall) -> None:
        if call.barred or await self._is_wrong(call):
            return self._finish(call)
        verdict = self._verdict(call)
        if verdict == "free":
            call.state = "approved"
            self._start_what_can()
        elif verdict == "ask":
            await self._ask(call)
        else:
            self._cancel(call, "refused", self._why_refused(call))
        return None

    async def _is_wrong(self, call: PlannedCall) -> bool:
        """Whether its arguments cannot be right; then the result says why."""
        if call.tool is None:
            return False
        try:
            problem = await call.tool.check(None if call.malformed else call.arguments)
        except Exception:  # anybody's tool
            logger.exception("the tool %s could not check its arguments", call.ref.name)
            return False
        if problem:
            call.result = ToolResult(scrub(problem), is_error=True)
        return bool(problem)

    def _verdict(self, call: PlannedCall) -> Verdict:
        turn, approvals = self._turn, self._turn.session.approvals
        gate = call.tool.gate if call.tool else "judged"
        hidden = bool(turn.origin) and not turn.session.policy.shows_subagents
        if hidden and gate != "always" and approvals.mode != "yolo":
            # The yes to the call that spawned this subagent covers what stays inside the workspace.
            return "refuse" if call.outside else "free"
        verdict = approvals.judge(
            call.ref.name,
            call.category,
            outside=call.outside,
            also=turn.approved,
            gate=gate,
            command=partial(self._command, call),
        )
        return "refuse" if hidden and verdict == "ask" else verdict

    @staticmethod
    def _command(call: PlannedCall) -> str:
        """The command line that would be run; ``""``: it runs none."""
        return ask_tool(call.tool, call.tool.command, "", call.arguments) if call.tool else ""

    def _why_refused(self, call: PlannedCall) -> str:
        if call.outside:
            return f"{call.path} is outside the workspace"
        return f"{call.ref.name} needs an approval that this host cannot give"

    async def _ask(self, call: PlannedCall) -> None:
        turn, tool = self._turn, call.tool
        preview = await self._preview(call)
        call.state = "asked"
        approval_id = new_approval_id()
        covers, gate = turn.session.policy.always_covers, tool.gate if tool else "judged"
        turn.say(
            ApprovalRequested(
                approval_id=approval_id,
                call_id=call.ref.call_id,
                name=call.ref.name,
                category=call.category,
                path=call.path,
                command=scrub(self._command(call)),
                diff=preview if preview is not None else UNSET,
                prompt_kind=PROMPT_KINDS[call.category, call.outside],  # type: ignore[arg-type]
                offers_always=not call.outside and covers in (("tool",) if gate == "always" else ("tool", "category")),
            )
        )
        turn.session.approvals.ask(
            Question(
                approval_id=approval_id,
                call_id=call.ref.call_id,
                name=call.ref.name,
                category=call.category,
                settle=partial(self._settled, call, approval_id),
                origin=turn.origin,
            )
        )

    async def _preview(self, call: PlannedCall) -> Diff | None:
        if call.tool is None:
            return None
        try:
            return await call.tool.preview(call.arguments, context_for(self._turn, call))
        except Exception:  # anybody's tool
            logger.exception("the tool %s could not preview a call", call.ref.name)
            return None

    def _settled(self, call: PlannedCall, approval_id: str, decision: Decision) -> None:
        verdict: Literal["allowed", "denied", "cancelled"] = "allowed" if decision.allowed else "denied"
        self._turn.say(
            ApprovalResolved(
                approval_id,
                call.ref.call_id,
                "cancelled" if decision.cancelled else verdict,
                decision.scope if decision.allowed else "",
                decision.by,
                decision.reason,
            )
        )
        if decision.allowed:
            call.state = "approved"
            self._start_what_can()
        else:
            self._cancel(call, CAUSES.get(decision.by, "denied") if decision.cancelled else "denied", decision.reason)

    def _cancel(self, call: PlannedCall, cause: Cause, reason: str) -> None:
        event = CallCancelled(call.ref.call_id, cause, scrub(reason), call.ref.name)
        call.result = ToolResult(cancelled_text(event), is_error=True)
        if warning := self._warning(call):
            event.output = call.result.output = f"{call.result.output}\n\n{warning}"
        self._turn.open_calls.pop(call.ref.call_id, None)
        self._turn.say(event)
        self._close(call)

    # --- running ---

    def _start_what_can(self) -> None:
        if self._turn.cancelled:
            return
        busy = any(call.state == "running" and not call.overlaps for call in self._group)
        for call in self._group:
            if call.state != "approved" or (busy and not call.overlaps):
                continue
            busy = busy or not call.overlaps
            call.state = "running"
            self._turn.say(CallRunning(call.ref.call_id, call.ref.name))
            if self._nursery is None:
                self._stirred.set()
            else:
                self._nursery.start_soon(self._run, call)

    async def _run(self, call: PlannedCall) -> None:
        # Whoever else was approved in the same breath is shown as running before any result.
        await trio.lowlevel.checkpoint()
        began = trio.current_time()
        call.result = await self._execute(call)
        self._finish(call, round((trio.current_time() - began) * 1000))

    async def _execute(self, call: PlannedCall) -> ToolResult:
        tool = call.tool
        if tool is None:
            return ToolResult(f"Unknown tool: {call.ref.name}", is_error=True)
        context = context_for(self._turn, call, live=True)
        try:
            result = _checked(await tool.run(call.arguments, context))
        except ToolError as error:
            result = ToolResult(str(error), is_error=True)
        except (Exception, SystemExit) as error:  # a tool's bug is the model's to read and the log's to explain
            logger.exception("tool %s failed", call.ref.name)
            result = ToolResult(f"{call.ref.name} failed: {type(error).__name__}: {error}", is_error=True)
        result.output = (
            post_process(result.output, tool.output_limit, context.compaction)
            if tool.output_limit
            else clean(result.output)
        )
        return result

    def _finish(self, call: PlannedCall, duration_ms: int | UnsetType = UNSET) -> None:
        call.duration_ms = duration_ms
        if warning := self._warning(call):
            # For the model alone: a person is shown what the tool said.
            if call.result.display is UNSET:
                call.result.display = Text(call.result.output)
            call.result.output = f"{call.result.output}\n\n{warning}"
        if not self._results_last:
            self._show_result(call)
        self._close(call)

    def _warning(self, call: PlannedCall) -> str:
        """What to tell the model beside the result, if calls have failed before."""
        if self._turn.guard is None:
            return ""
        others = any(other.state != "done" for other in self._calls if other is not call)
        return self._turn.guard.note(
            call.ref.name, call.ref.arguments_text, failed=call.result.is_error, last=not others
        )

    def _show_result(self, call: PlannedCall) -> None:
        result = call.result
        self._turn.open_calls.pop(call.ref.call_id, None)
        self._turn.say(
            CallFinished(
                call.ref.call_id,
                call.ref.name,
                "error" if result.is_error else "ok",
                result.output,
                result.display,
                result.images,
                result.metadata,
                result.details,
                call.duration_ms,
                result.retryable,
            )
        )

    def _close(self, call: PlannedCall) -> None:
        call.state = "done"
        if self._is_done():
            self._stirred.set()
        else:
            self._start_what_can()
