"""One session of an agent process, as its host drives it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio
from msgspec import UNSET, Struct

from agentwire.commands import (
    AnswerHostTool,
    Approve,
    ArchiveSession,
    Deny,
    Done,
    ForkSession,
    GetHistory,
    Prompt,
    Refusal,
    ResetSession,
    SessionState,
    SetConfig,
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
    HostToolRequested,
    Mode,
    ModeChanged,
    Part,
    SessionOpened,
    Text,
    TurnFinished,
)
from agentwire.host.conversation import Conversation, OnApproval, decide
from agentwire.host.process import GRACE, AgentDied
from agentwire.host.refused import Refused
from agentwire.log.log import SessionLog

if TYPE_CHECKING:
    from agentwire.codec.contract import Heard
    from agentwire.host.connect import Peer


class HostToolAnswer(Struct, frozen=True):
    """What a host's own tool gives back."""

    content: Sequence[Part]
    is_error: bool = False
    details: Any = None
    """For the host alone, as JSON; the model does not read it."""


HostToolFunction = Callable[[dict[str, Any]], "str | HostToolAnswer | Awaitable[str | HostToolAnswer]"]
"""Runs a tool that the host offers, given its arguments; what it raises is the model's to read."""


class RemoteSession(Conversation):
    """A session of an agent process. Made by :class:`agentwire.host.connect.Peer`."""

    def __init__(
        self,
        peer: Peer,
        id: str = "",
        *,
        on_approval: OnApproval | None = None,
        tools: Mapping[str, HostToolFunction] | None = None,
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
        self.tools = dict(tools or {})
        """Functions for the tools that the host offers, by their declared names."""
        self._turns: dict[object, int] = {}
        self._running = ""
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
        process = self._peer.process
        ref = self._running = uuid.uuid4().hex
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
            await self._peer.send(command, answered)
            while not ended:
                records = cursor.take()
                for record in records:
                    if record.turn != self._turns.get(ref):
                        continue
                    ended = ended or (isinstance(record.event, TurnFinished) and not record.origin)
                    yield record.event
                    await self._attend(record.event)
                if refused and not ended:
                    if self._peer.silent:
                        break  # not the agent's word: it is dead
                    ended = True
                    raise Refused(refused[0])
                if not records and not ended:
                    if self._peer.gone:
                        break
                    if trio.current_time() >= deadline:
                        raise trio.TooSlowError(f"the turn did not end within {timeout} seconds")
                    news = trio.Event()
                    if cursor.park(news.set):
                        await process.until(news, deadline)
        finally:
            cursor.close()
            if not ended and not self._peer.gone:
                # Whoever leaves has an error of their own, or none; a dead agent has stopped.
                with trio.CancelScope(shield=True), trio.move_on_after(GRACE), suppress(AgentDied, Refused):
                    await self._stop_and_wait(ref)
            self._running = ""
        if self._peer.silent:
            await process.gone.wait()
            if not (ended and process.orderly):
                raise process.died()

    async def approve(self, call_id: str, scope: Literal["once", "always"] = "once") -> None:
        """Let a call run."""
        await self._peer.send(Approve(call_id, scope=scope, session=self.id))

    async def deny(self, call_id: str, reason: str = "") -> None:
        """Do not let a call run."""
        await self._peer.send(Deny(call_id, reason=reason, session=self.id))

    async def stop(self) -> None:
        """End the running turn; its end comes as an event."""
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
        await self._peer.call(SetModel(self.id, model))

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
        other.on_approval, other.tools = self.on_approval, dict(self.tools)
        return other

    async def close(self) -> None:
        """Have the agent close the session. Raises :class:`Refused` if the wire cannot."""
        await self._peer.call(ArchiveSession(self.id))
        self._peer.sessions.pop(self.id, None)

    # --- listening ---

    def take(self, heard: Heard) -> None:
        """Note what the agent said of this session."""
        event = heard.event
        if isinstance(event, SessionOpened):
            self.id = event.id or self.id
        if isinstance(event, SessionOpened | CapabilitiesChanged | ConfigChanged | ModeChanged):
            self.capabilities = event.capabilities
        turn = 0 if heard.ref is None else self._turns.setdefault(heard.ref, len(self._turns) + 1)
        self.log.append(event, turn, heard.origin)  # type: ignore[arg-type]  # every event is of the union

    async def _attend(self, event: AnyEvent) -> None:
        """Answer what the agent asks of its host, if somebody said how."""
        if isinstance(event, ApprovalRequested) and self.on_approval is not None:
            if await decide(event, self.on_approval):
                await self.approve(event.call_id)
            else:
                await self.deny(event.call_id, "Not allowed")
        elif isinstance(event, HostToolRequested) and self.tools:
            answer = await self._run_tool(event)
            details = UNSET if answer.details is None else msgspec.Raw(msgspec.json.encode(answer.details))
            await self._peer.send(
                AnswerHostTool(event.request_id, list(answer.content), answer.is_error, details, self.id)
            )

    async def _run_tool(self, event: HostToolRequested) -> HostToolAnswer:
        function = self.tools.get(event.name)
        if function is None:
            return HostToolAnswer([Text(f"no host tool named '{event.name}' is offered here")], is_error=True)
        try:
            given = msgspec.json.decode(event.arguments) if event.arguments is not UNSET else {}
            found: Any = function(given)
            answer = await found if hasattr(found, "__await__") else found
        except Exception as error:  # noqa: BLE001 - the host's own tool: the model reads what went wrong
            return HostToolAnswer([Text(f"{type(error).__name__}: {error}")], is_error=True)
        return answer if isinstance(answer, HostToolAnswer) else HostToolAnswer([Text(str(answer))])

    async def _stop_and_wait(self, ref: str) -> None:
        """Stop a turn that nobody follows any more, and wait for its end, so that the next finds none before it."""
        cursor = self.log.cursor()
        await self._peer.send(Stop(self.id))
        while not self._peer.gone:
            for record in cursor.take():
                if record.turn == self._turns.get(ref) and isinstance(record.event, TurnFinished) and not record.origin:
                    return
            news = trio.Event()
            if cursor.park(news.set):
                await self._peer.process.until(news)
