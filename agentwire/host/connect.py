"""Driving an agent process of any codec: start it, prompt it, answer its questions, stop it, see it die."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import trio

from agentwire import registry
from agentwire.codec.contract import Codec, Heard
from agentwire.commands import (
    Command,
    Doctor,
    Done,
    ListSessions,
    OpenSession,
    Ping,
    Plan,
    Refusal,
    ResumeSession,
    SessionState,
    Shutdown,
)
from agentwire.events import AnyEvent, Capabilities, Mode, Part
from agentwire.host.conversation import Conversation, OnApproval
from agentwire.host.driven import Answer, Driven, Tap
from agentwire.host.groups import one_error
from agentwire.host.offering import HostToolAnswer, HostTools, offered
from agentwire.host.process import AgentDied, AgentProcess, start_process
from agentwire.host.refused import Refused
from agentwire.host.remote import RemoteSession
from agentwire.log.log import SessionLog
from agentwire.recording import Recorder

__all__ = ["AgentDied", "HostToolAnswer", "Peer", "RemoteSession", "connect"]


class Peer(Conversation):
    """An agent process, as its host sees it. Made by :func:`connect`.

    On a wire with one session, and for whoever needs but one, the peer is a conversation by itself: the session is
    opened when it is first needed. More are opened by :meth:`open`.

    Some agents end their process when a turn is stopped. The next prompt starts another, that takes the session up:
    whoever drives it sees a second :class:`~agentwire.events.SessionOpened`, and :attr:`process` is another then.
    """

    def __init__(self, codec: Codec, on_approval: OnApproval | None, cwd: str, nursery: trio.Nursery) -> None:
        self.codec = codec
        self.sessions: dict[str, RemoteSession] = {}
        """By id: those opened here, beside the peer's own."""
        self.nursery = nursery
        """Runs the host's tools, as long as the connection lasts."""
        self.agent: Driven
        """What is at the other end; :func:`connect` puts it there."""
        self._own = RemoteSession(self, on_approval=on_approval)
        self._on_approval = on_approval
        self._cwd = cwd
        self._opened = codec.sessions == "one" or codec.begin is not None
        self._opening = trio.Lock()

    # --- its own session ---

    async def prompt(
        self, text: str, *, files: Sequence[str] = (), parts: Sequence[Part] = (), timeout: float = float("inf")
    ) -> AsyncGenerator[AnyEvent, None]:
        """Send a user input to the peer's own session; see :meth:`RemoteSession.prompt`."""
        await self._open_own()
        events = self._own.prompt(text, files=files, parts=parts, timeout=timeout)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def approve(self, call_id: str, scope: Literal["once", "always"] = "once") -> None:
        """Let a call of the peer's own session run."""
        await self._own.approve(call_id, scope)

    async def deny(self, call_id: str, reason: str = "") -> None:
        """Do not let a call of the peer's own session run."""
        await self._own.deny(call_id, reason)

    async def stop(self) -> None:
        """End the running turn of the peer's own session; its end comes as an event."""
        await self._own.stop()

    async def steer(self, text: str) -> None:
        """Add text to the running turn of the peer's own session."""
        await self._own.steer(text)

    async def set_mode(self, mode: Mode) -> None:
        """Change the approval mode of the peer's own session."""
        await self._open_own()
        await self._own.set_mode(mode)

    async def set_model(self, model: str) -> None:
        """Change the model of the peer's own session."""
        await self._open_own()
        await self._own.set_model(model)

    @property
    def capabilities(self) -> Capabilities:
        """What the peer's own session can do, as far as the agent said."""
        return self._own.capabilities

    @property
    def session_id(self) -> str:
        """The id of the peer's own session; empty if the agent does not say."""
        return self._own.id

    @property
    def log(self) -> SessionLog:
        """Everything heard of the peer's own session."""
        return self._own.log

    # --- more sessions ---

    async def open(
        self,
        *,
        workspace: str = "",
        model: str = "",
        tools: HostTools = (),
        on_approval: OnApproval | None = None,
        **more: Any,
    ) -> RemoteSession:
        """Open a session. ``tools`` are run by this host when the agent calls them.

        ``more`` are the other fields of :class:`agentwire.commands.OpenSession`. Raises :class:`Refused` for what the
        agent refuses and on a wire that has one session only.
        """
        declared, functions = offered(tools)
        command = OpenSession(workspace=workspace or self._cwd, model=model, tools=declared, **more)
        session = self.adopt(await self.call(command), on_approval)
        session.tools = functions
        return session

    async def resume(self, session: str, *, on_approval: OnApproval | None = None) -> RemoteSession:
        """Take up a session that the agent has. Raises :class:`Refused`.

        The tools that were offered to it here are still run. A call of one that nobody here offered is answered with
        an error, for the agent would wait for ever.
        """
        taken = self.adopt(await self.call(ResumeSession(session)), on_approval)
        taken.tools = taken.tools or {}
        await taken.look()
        return taken

    async def list(self, *, stored: bool = False) -> Any:
        """The sessions that the agent tells of: a list of :class:`agentwire.commands.SessionState`."""
        return await self.call(ListSessions(stored))

    def adopt(self, state: Any, on_approval: OnApproval | None = None) -> RemoteSession:
        """The session that an agent's answer tells of."""
        told = state if isinstance(state, SessionState) else SessionState(str(state or ""))
        session = self.sessions.get(told.id)
        if session is None:
            session = self.sessions[told.id] = RemoteSession(self, told.id)
        session.state = told
        session.on_approval = on_approval or session.on_approval or self._on_approval
        return session

    async def _open_own(self) -> None:
        """Have the peer's own session, on a wire where a host opens it."""
        async with self._opening:
            if self._opened:
                return
            try:
                self.check(OpenSession(workspace=self._cwd))
            except Refused:  # a wire whose prompts open their session
                self._own = RemoteSession(self, secrets.token_hex(4), on_approval=self._on_approval, opens=True)
                self.sessions[self._own.id] = self._own
            else:
                self._own = self.adopt(await self.call(OpenSession(workspace=self._cwd)))
            self._opened = True

    # --- the process ---

    async def ping(self) -> None:
        """Wait until the agent has read everything sent before."""
        await self.call(Ping())

    async def doctor(self) -> Any:
        """Have the agent check its set-up. Raises :class:`Refused` if the wire cannot."""
        return await self.call(Doctor())

    async def plan(self) -> Any:
        """Have the agent say how its model would be launched. Raises :class:`Refused` if the wire cannot."""
        return await self.call(Plan())

    async def shut_down(self) -> None:
        """Have the agent end in good order. Raises :class:`Refused` if the wire cannot."""
        await self.call(Shutdown())

    async def call(self, command: Command) -> Any:
        """Send a command and wait for its outcome. Raises :class:`Refused` and :class:`AgentDied`.

        On a wire where commands may stay without an answer, a ping follows: when the agent has answered that, it has
        read the command.
        """
        heard = trio.Event()
        results: list[Done | Refusal] = []

        def answered(outcome: Done | Refusal) -> None:
            if not self.silent:  # else it is not the agent's word
                results.append(outcome)
            heard.set()

        await self.send(command, answered)
        process = self.process
        if self.codec.fences and not isinstance(command, Ping) and not heard.is_set():
            await self.send(Ping())
        await process.until(heard)
        if not results:
            await process.gone.wait()
            raise process.died()
        if isinstance(results[0], Refusal):
            raise Refused(results[0])
        return results[0].value

    def check(self, command: Command) -> None:
        """Raise :class:`Refused` if the wire has no word for a command; nothing is sent."""
        refusal = self.codec.host().send(command, bytearray())
        if isinstance(refusal, Refusal):
            raise Refused(refusal)

    async def send(self, command: Command, answered: Answer | None = None) -> None:
        """Send any command. Raises :class:`Refused` if the agent cannot be sent it, :class:`AgentDied`.

        If a stop has ended the agent's process, as it does with some, another takes up the session first.
        """
        await self.agent.send(command, answered)

    @property
    def process(self) -> AgentProcess:
        """The agent's process; the last one, where a stop has ended others before."""
        return self.agent.process

    @property
    def silent(self) -> bool:
        """The process's output has ended: what it did not answer it never will."""
        return self.agent.silent

    @property
    def gone(self) -> bool:
        """Nothing more will be heard."""
        return self.agent.gone

    @property
    def stderr(self) -> str:
        """The end of what the agent wrote to its standard error."""
        return self.process.stderr

    async def close(self) -> None:
        """End the agent. A turn that would go on without its host is stopped before its input is closed."""
        with trio.CancelScope(shield=True):
            if self.codec.policy.on_eof == "run_on":
                async with trio.open_nursery() as nursery:  # all at once: one that does not end is waited for once
                    for session in {id(one): one for one in (self._own, *self.sessions.values())}.values():
                        nursery.start_soon(session.end_turns)
            await self.agent.close()

    # --- listening ---

    def hear(self, heard: Heard) -> None:
        """Take what the agent said."""
        self._session(heard.session).take(heard)

    def _session(self, named: str) -> RemoteSession:
        """The session of that name; on a wire with one, that one."""
        if not named or self.codec.sessions == "one" or self.codec.begin is not None:
            return self._own
        session = self.sessions.get(named)
        if session is None:
            session = self.sessions[named] = RemoteSession(self, named, on_approval=self._on_approval)
        return session


@asynccontextmanager
async def connect(
    argv: Sequence[str],
    *,
    codec: str = "aionrs",
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    tap: Tap | None = None,
    record: str | os.PathLike[str] | None = None,
    ready_timeout: float | None = None,
) -> AsyncIterator[Peer]:
    """Start an agent process that speaks ``codec`` and drive it as its host.

    ``on_approval`` answers its questions (True lets a call run); without it, answer them with
    :meth:`Peer.approve` and :meth:`Peer.deny` while iterating over :meth:`Peer.prompt`. ``tap`` sees every line in
    both directions, ``record`` names a file to record them to. ``env`` is the agent's whole environment; without it,
    it has ours, but for variables that agents of this wire take for a choice of the user's
    (:attr:`agentwire.codec.Codec.environment`). The process is ended when the block is left. Raises
    :class:`AgentDied` if it ends before it is ready or cannot be driven, :class:`trio.TooSlowError` if it takes longer
    than ``ready_timeout`` seconds (None: :attr:`agentwire.codec.Codec.ready_within`) until it is ready,
    :class:`agentwire.recording.RecordingError`, and ``OSError`` if it cannot be started.
    """
    wire = registry.load_codec(codec)
    recorder = Recorder(record, codec, role="connect", about={"argv": list(argv)}) if record is not None else None
    try:
        with one_error():
            async with trio.open_nursery() as nursery:
                peer = Peer(wire, on_approval, str(Path(cwd or Path.cwd()).resolve()), nursery)
                listening = _Listening()
                nursery.start_soon(listening.run)
                try:
                    await listening.begun.wait()
                    peer.agent = Driven(
                        wire, argv, listening.nursery, peer.hear, start=start_process, cwd=cwd, env=env, tap=tap,
                        recorder=recorder, ready_timeout=wire.ready_within if ready_timeout is None else ready_timeout,
                    )  # fmt: skip
                    try:
                        await peer.agent.start()
                        yield peer
                    finally:
                        await peer.close()
                finally:
                    listening.scope.cancel()
                    nursery.cancel_scope.cancel()
    finally:
        if recorder is not None:
            recorder.close()


class _Listening:
    """What hears an agent, until its host has closed it: one who is cancelled still stops its turn and is told so."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope(shield=True)
        self.begun = trio.Event()
        self.nursery: trio.Nursery

    async def run(self) -> None:
        """Let there be a nursery, until the scope is cancelled."""
        with self.scope:
            async with trio.open_nursery() as self.nursery:
                self.begun.set()
                await trio.sleep_forever()
