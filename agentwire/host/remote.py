"""One session of an agent process, as its host drives it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio
from msgspec import UNSET

from agentwire.commands import (
    AnswerHostTool,
    Approve,
    ArchiveSession,
    Deny,
    Done,
    ForkSession,
    GetHistory,
    GetHostTools,
    Prompt,
    Refusal,
    ResetSession,
    SessionState,
    SetConfig,
    SetHostTools,
    SetMode,
    SetModel,
    Steer,
    Stop,
)
from agentwire.events import (
    AnyEvent,
    ApprovalRequested,
    Capabilities,
    CapabilitiesChanged,
    ConfigChanged,
    HostToolCancelled,
    HostToolRequested,
    Mode,
    ModeChanged,
    Part,
    SessionOpened,
    Text,
    TurnFinished,
)
from agentwire.host.conversation import Conversation, OnApproval, decide
from agentwire.host.offering import HostToolAnswer, HostToolFunction, HostTools, offered, run_tool
from agentwire.host.process import GRACE, AgentDied
from agentwire.host.refused import Refused
from agentwire.log.log import SessionLog

if TYPE_CHECKING:
    from agentwire.codec.contract import Heard
    from agentwire.host.connect import Peer


logger = logging.getLogger("agentwire.connect")


class RemoteSession(Conversation):
    """A session of an agent process. Made by :class:`agentwire.host.connect.Peer`."""

    def __init__(
        self,
        peer: Peer,
        id: str = "",
        *,
        on_approval: OnApproval | None = None,
        opens: bool = False,
    ) -> None:
        self.id = id
        """As the agent calls it; empty until it says so."""
        self.state = SessionState(id)
        """What the agent said when the session was opened: model, tools."""
        self.capabilities = Capabilities()
        self.log = SessionLog(None)
        """Everything heard of this session, in order, with this host's own numbering."""
        self._peer = peer
        self.on_approval = on_approval
        self.tools: dict[str, HostToolFunction] | None = None
        """Functions for the tools that the host offers, by their declared names. None: whoever drives the session
        answers the agent's requests by commands."""
        self._turns: dict[object, int] = {}
        self._open: set[int] = set()  # turns that began and have not ended
        self._running = ""
        self._sending = self._stop_next = False
        self._serving: dict[str, trio.CancelScope] = {}
        self._opens = opens  # the wire opens sessions by their first prompt

    # --- driving ---

    async def prompt(
        self, text: str, *, files: Sequence[str] = (), parts: Sequence[Part] = (), timeout: float = float("inf")
    ) -> AsyncGenerator[AnyEvent, None]:
        """Send a user input and yield the events of its turn, its end included.

        Leaving the loop early stops the turn; so does ``timeout`` (seconds), which then raises
        :class:`trio.TooSlowError`. Raises :class:`AgentDied` if the process ends first, after what it said;
        :class:`Refused` if a turn runs already, the agent refuses, or the wire cannot carry the prompt.
        """
        if self._running:
            raise Refused(Refusal("busy", "a turn is running", retryable=True))
        ref = self._running = uuid.uuid4().hex
        self._stop_next = False
        deadline = trio.current_time() + timeout
        cursor = self.log.cursor()
        ended = False
        news = trio.Event()
        refused: list[Refusal] = []

        def answered(result: Done | Refusal) -> None:
            if isinstance(result, Refusal):
                refused.append(result)
            news.set()

        try:
            command = Prompt(text, ref=ref, files=list(files), parts=list(parts), session=self.id, open=self._opens)
            try:
                ended = self._sending = True  # until something is sent there is nothing to stop
                with trio.fail_at(deadline):
                    await self._peer.agent.at_hand()
                ended = False
                await self._peer.send(command, answered)
            except Refused:
                ended = True
                raise
            finally:
                self._sending = False
            if self._stop_next:
                await self.stop()
            while not ended:
                records = cursor.take()
                for record in records:
                    if record.turn != self._turns.get(ref):
                        continue
                    ended = ended or (isinstance(record.event, TurnFinished) and not record.origin)
                    yield record.event
                    await self._attend(record.event)
                if refused and not ended:
                    if self._peer.silent and not self._peer.agent.ended_well:
                        break  # not the agent's word: it is dead
                    ended = True
                    raise Refused(refused[0])
                if not records and not ended:
                    if self._peer.silent:
                        break
                    if trio.current_time() >= deadline:
                        raise trio.TooSlowError(f"the turn did not end within {timeout} seconds")
                    news = trio.Event()
                    if cursor.park(news.set):
                        await self._peer.process.until(news, deadline)
        finally:
            cursor.close()
            if not ended:
                # Whoever leaves has an error of their own, or none; the next turn is to find none before it.
                with trio.CancelScope(shield=True):
                    await self._stop_until(lambda: self._finished(ref))
            self._running = ""
        if self._peer.silent:
            await self._peer.process.gone.wait()
            if not (ended and self._peer.agent.ended_well):
                raise self._peer.process.died()

    async def approve(self, call_id: str, scope: Literal["once", "always"] = "once") -> None:
        """Let a call run."""
        await self._peer.send(Approve(call_id, scope=scope, session=self.id))

    async def deny(self, call_id: str, reason: str = "") -> None:
        """Do not let a call run."""
        await self._peer.send(Deny(call_id, reason=reason, session=self.id))

    async def stop(self) -> None:
        """End the running turn; its end comes as an event."""
        if self._sending:  # an agent that has to be started first; the stop is not to pass the prompt
            self._stop_next = True
        else:
            await self._peer.send(Stop(self.id))

    async def steer(self, text: str) -> None:
        """Add text to the running turn. Raises :class:`Refused` if the wire cannot."""
        await self._peer.call(Steer(text, self.id))

    async def set_mode(self, mode: Mode) -> None:
        """Change the approval mode. Raises :class:`Refused` if the wire cannot."""
        await self._peer.send(SetMode(mode, self.id))

    async def set_model(self, model: str) -> None:
        """Change the model. Raises :class:`Refused` if the wire cannot, or nobody serves it."""
        try:
            self._peer.check(SetModel(self.id, model))
        except Refused:
            await self._peer.send(SetConfig(model=model, session=self.id))
            return
        told = await self._peer.call(SetModel(self.id, model))
        self.state.model = (told.model if isinstance(told, SessionState) else "") or model

    async def reset(self) -> None:
        """Have the agent forget the conversation. Raises :class:`Refused` if the wire cannot."""
        await self._peer.call(ResetSession(self.id))

    async def history(self) -> Any:
        """The conversation as the agent tells it. Raises :class:`Refused` if the wire cannot."""
        return await self._peer.call(GetHistory(self.id))

    async def fork(self) -> RemoteSession:
        """Copy the session; this one is not touched. Raises :class:`Refused` if the wire cannot."""
        state = await self._peer.call(ForkSession(self.id))
        other = self._peer.adopt(state)
        other.state.model = other.state.model or self.state.model
        await other.look()
        other.on_approval, other.tools = self.on_approval, dict(self.tools or {})
        return other

    async def look(self) -> None:
        """Learn which tools the session has, where opening it said nothing of them and the wire can tell."""
        if not self.state.tools:
            with suppress(Refused):
                told = await self._peer.call(GetHostTools(self.id))
                self.state.tools, self.state.host_tools = told.tools, told.host_tools

    async def close(self) -> None:
        """Have the agent close the session. Raises :class:`Refused` if the wire cannot."""
        await self._peer.call(ArchiveSession(self.id))
        self._peer.sessions.pop(self.id, None)

    async def set_tools(self, tools: HostTools) -> None:
        """Offer the agent other tools of the host than before. Raises :class:`Refused`."""
        declared, functions = offered(tools)
        await self._peer.call(SetHostTools(self.id, declared))
        self.tools = functions

    # --- listening ---

    def take(self, heard: Heard) -> None:
        """Note what the agent said of this session."""
        event = heard.event
        if isinstance(event, SessionOpened):
            self.id = event.id or self.id
        if isinstance(event, SessionOpened | CapabilitiesChanged | ConfigChanged | ModeChanged):
            self.capabilities = event.capabilities
        turn = 0
        if heard.ref is not None:
            turn = self._turns.get(heard.ref, 0)
            if not turn:
                turn = self._turns[heard.ref] = len(self._turns) + 1
                self._open.add(turn)
        if isinstance(event, TurnFinished):
            if not heard.origin:
                self._open.discard(turn)
                for scope in self._serving.values():
                    scope.cancel()
        elif isinstance(event, HostToolRequested):
            if self.tools is not None:
                self._serve(event, self.tools)
        elif isinstance(event, HostToolCancelled) and event.request_id in self._serving:
            self._serving[event.request_id].cancel()
        self.log.append(event, turn, heard.origin)  # type: ignore[arg-type]  # every event is of the union

    async def _attend(self, event: AnyEvent) -> None:
        """Answer what the agent asks of its host, if somebody said how."""
        if isinstance(event, ApprovalRequested) and self.on_approval is not None:
            allowed = await decide(event, self.on_approval)
            with suppress(Refused):  # the question was settled meanwhile
                await (self.approve(event.call_id) if allowed else self.deny(event.call_id, "Not allowed"))

    # --- tools of the host ---

    def _serve(self, event: HostToolRequested, tools: dict[str, HostToolFunction]) -> None:
        """Begin to run a tool, beside whatever else goes on; nobody has to follow the turn for that."""
        scope = self._serving[event.request_id] = trio.CancelScope()

        async def serve() -> None:
            with scope:
                answer = await run_tool(tools.get(event.name), event)
            self._serving.pop(event.request_id, None)
            if not scope.cancelled_caught:  # else the request was withdrawn: nobody waits for an answer
                await self._answer(event.request_id, answer)

        self._peer.nursery.start_soon(serve)

    async def _answer(self, request_id: str, answer: HostToolAnswer) -> None:
        """Answer a request. An answer that is not taken leaves it open: then the model is told why."""
        try:
            details = UNSET if answer.details is None else msgspec.Raw(msgspec.json.encode(answer.details))
            await self._peer.call(AnswerHostTool(request_id, list(answer.content), answer.is_error, details, self.id))
        except (Refused, TypeError, ValueError, RecursionError) as why:  # the others: JSON has no words for it
            if isinstance(why, Refused) and why.refusal.code in ("not_pending", "not_found"):
                return  # it was withdrawn meanwhile
            logger.warning("the agent does not take the answer of a host's tool: %s", why)
            told = AnswerHostTool(request_id, [Text(f"The tool's answer cannot be used: {why}")], True, UNSET, self.id)
            with suppress(AgentDied, Refused):
                await self._peer.call(told)
        except AgentDied:
            return  # whoever follows the turn is told

    # --- ends ---

    async def end_turns(self) -> None:
        """Stop what runs and wait for its end, within some seconds."""
        await self._stop_until(lambda: not self._open)

    def _finished(self, ref: str) -> bool:
        turn = self._turns.get(ref)
        return turn is not None and turn not in self._open

    async def _stop_until(self, over: Callable[[], bool]) -> None:
        """Stop the turn, unless it is over, and wait until it is: so that the next finds none before it."""
        if over() or self._peer.silent:
            return
        cursor = self.log.cursor()
        with trio.move_on_after(GRACE) as scope, suppress(AgentDied, Refused):
            await self._peer.send(Stop(self.id))
            if self._peer.agent.restarts:
                scope.deadline += 2 * GRACE  # if it does not stop it is ended
            while not (over() or self._peer.silent):
                cursor.take()
                news = trio.Event()
                if cursor.park(news.set):
                    await self._peer.process.until(news)
        cursor.close()
