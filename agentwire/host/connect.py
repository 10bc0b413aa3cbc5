"""Driving an agent process of any codec: start it, prompt it, answer its questions, stop it, see it die."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import trio

from agentwire import registry
from agentwire.codec.contract import Answered, Codec
from agentwire.codec.framing import LineFault
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
from agentwire.events import AnyEvent, Capabilities, HostTool, Mode, Part, SessionOpened
from agentwire.host.conversation import Conversation, OnApproval
from agentwire.host.groups import one_error
from agentwire.host.process import AgentDied, AgentProcess, start_process
from agentwire.host.refused import Refused
from agentwire.host.remote import HostToolAnswer, HostToolFunction, RemoteSession
from agentwire.log.log import SessionLog
from agentwire.recording import Recorder

__all__ = ["AgentDied", "HostToolAnswer", "Peer", "RemoteSession", "connect"]

READY_TIMEOUT = 60.0
"""Seconds; a real aionrs with a hanging MCP server needs up to 30 before it is ready."""

Tap = Callable[[Literal["in", "out"], bytes], None]
"""Sees every line as it stands on the wire, without its line feed; ``in`` is what the agent reads."""

Answer = Callable[["Done | Refusal"], None]


class Peer(Conversation):
    """An agent process, as its host sees it. Made by :func:`connect`.

    On a wire with one session, and for whoever needs but one, the peer is a conversation by itself: the session is
    opened when it is first needed. More are opened by :meth:`open`.
    """

    def __init__(
        self, codec: Codec, process: trio.Process, on_approval: OnApproval | None, tap: Tap | None,
        recorder: Recorder | None, cwd: str,
    ) -> None:  # fmt: skip
        self.codec = codec
        self.process = AgentProcess(process, self._hear, recorder)
        self.sessions: dict[str, RemoteSession] = {}
        """By id: those opened here, beside the peer's own."""
        self._own = RemoteSession(self, on_approval=on_approval)
        self._side = codec.host()
        self._on_approval = on_approval
        self._tap = tap
        self._cwd = cwd
        self._opened = codec.sessions == "one" or codec.begin is not None
        self._opening = trio.Lock()
        self._answers: dict[int, Answer] = {}
        self._ready = trio.Event()
        self.silent = False
        """The agent's output has ended: what it did not answer it never will."""

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
        tools: Mapping[HostTool, HostToolFunction] | Sequence[tuple[HostTool, HostToolFunction]] = (),
        on_approval: OnApproval | None = None,
        **more: Any,
    ) -> RemoteSession:
        """Open a session. ``tools`` are run by this host when the agent calls them.

        ``more`` are the other fields of :class:`agentwire.commands.OpenSession`. Raises :class:`Refused` for what the
        agent refuses and on a wire that has one session only.
        """
        offered = list(tools.items() if isinstance(tools, Mapping) else tools)
        command = OpenSession(
            workspace=workspace or self._cwd, model=model, tools=[tool for tool, _ in offered], **more
        )
        session = self.adopt(await self.call(command), on_approval)
        session.tools = {tool.declared or tool.name: function for tool, function in offered}
        return session

    async def resume(self, session: str, *, on_approval: OnApproval | None = None) -> RemoteSession:
        """Take up a session that the agent has. Raises :class:`Refused`."""
        return self.adopt(await self.call(ResumeSession(session)), on_approval)

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
        """Send a command and wait for its outcome. Raises :class:`Refused` and :class:`AgentDied`."""
        heard = trio.Event()
        results: list[Done | Refusal] = []

        def answered(outcome: Done | Refusal) -> None:
            if not self.silent:  # else it is not the agent's word
                results.append(outcome)
            heard.set()

        await self.send(command, answered)
        await self.process.until(heard)
        if not results:
            await self.process.gone.wait()
            raise self.process.died()
        if isinstance(results[0], Refusal):
            raise Refused(results[0])
        return results[0].value

    def check(self, command: Command) -> None:
        """Raise :class:`Refused` if the wire has no word for a command; nothing is sent."""
        refusal = self.codec.host().send(command, bytearray())
        if isinstance(refusal, Refusal):
            raise Refused(refusal)

    async def send(self, command: Command, answered: Answer | None = None) -> None:
        """Send any command. Raises :class:`Refused` if the wire has no word for it, :class:`AgentDied`."""
        out = bytearray()
        number = self._side.send(command, out)
        if isinstance(number, Refusal):
            raise Refused(number)
        if answered is not None:
            self._answers[number] = answered
        if self._tap is not None:
            for line in out.removesuffix(b"\n").split(b"\n"):
                self._tap("in", bytes(line))
        await self.process.write(out)

    @property
    def gone(self) -> bool:
        """Nothing more will be heard."""
        return self.process.gone.is_set()

    @property
    def stderr(self) -> str:
        """The end of what the agent wrote to its standard error."""
        return self.process.stderr

    async def wait_ready(self, timeout: float) -> None:
        """Wait for the agent's greeting. Raises :class:`AgentDied` or :class:`trio.TooSlowError`."""
        with trio.fail_after(timeout):
            await self.process.until(self._ready)
        if not self._ready.is_set():
            raise self.process.died()

    # --- listening ---

    def _hear(self, line: bytes | LineFault | None) -> None:
        if self._tap is not None and isinstance(line, bytes):
            self._tap("out", line)
        self.silent = line is None
        for item in self._side.close() if line is None else self._side.receive(line):
            if isinstance(item, Answered):
                callback = self._answers.pop(item.command, None)
                if callback is not None:
                    callback(item.result)
                continue
            if isinstance(item.event, SessionOpened):
                self._ready.set()
            self._session(item.session).take(item)

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
    ready_timeout: float = READY_TIMEOUT,
) -> AsyncIterator[Peer]:
    """Start an agent process that speaks ``codec`` and drive it as its host.

    ``on_approval`` answers its questions (True lets a call run); without it, answer them with
    :meth:`Peer.approve` and :meth:`Peer.deny` while iterating over :meth:`Peer.prompt`. ``tap`` sees every line in
    both directions, ``record`` names a file to record them to. The process is ended when the block is left. Raises
    :class:`AgentDied` if it ends before it is ready, :class:`trio.TooSlowError` if that takes longer than
    ``ready_timeout`` seconds, :class:`agentwire.recording.RecordingError`, and ``OSError`` if it cannot be started.
    """
    wire = registry.load_codec(codec)
    recorder = Recorder(record, codec, role="connect", about={"argv": list(argv)}) if record is not None else None
    try:
        process = await start_process(argv, cwd=cwd, env=env)
        peer = Peer(wire, process, on_approval, tap, recorder, str(Path(cwd or Path.cwd()).resolve()))
        with one_error():
            async with trio.open_nursery() as nursery:
                peer.process.start(nursery)
                try:
                    if wire.greets:
                        await peer.wait_ready(ready_timeout)
                    yield peer
                finally:
                    await peer.process.close()
                    nursery.cancel_scope.cancel()
    finally:
        if recorder is not None:
            recorder.close()
