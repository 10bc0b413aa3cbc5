"""A bridge on standard input and output."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import trio

from agentwire.bridge.agents import Agents
from agentwire.bridge.opening import BridgeSetup
from agentwire.bridge.report import Account, Report
from agentwire.bridge.server import BridgeServer
from agentwire.commands import OpenSession, Refusal, ResumeSession
from agentwire.host.refused import Refused
from agentwire.opening import LATEST
from agentwire.options import ServeOptions
from agentwire.provider.contract import ConfigError
from agentwire.server.connection import Connection
from agentwire.server.outbox import Outbox
from agentwire.server.runtime import make_runner, stop_on_signal
from agentwire.store import SessionNotFound, StoreError
from agentwire.transport.stdio import StdioPipes, StdioTransport

if TYPE_CHECKING:
    from agentwire.codec.contract import AgentSide, Codec
    from agentwire.server.connection import Transport
    from agentwire.server.runner import SessionRunner
    from agentwire.server.signals import Signals
    from agentwire.setup import Boot

logger = logging.getLogger("agentwire.bridge")

FAILED = 1


class Bridge:
    """One host and its agents. Of ``options`` those are heeded that have nothing to do with models and tools of ours.

    Sessions are kept in ``directory`` (empty: the usual place), unless ``options.ephemeral`` says otherwise.
    """

    def __init__(
        self,
        host: Codec,
        agent: Codec,
        argv: Sequence[str],
        options: ServeOptions,
        *,
        silence: float = 0,
        directory: str = "",
    ) -> None:
        self._host, self._agent = host, agent
        self._argv = list(argv)
        self._options = options
        self._silence = silence
        self._directory = directory
        self._account = Account(host.name, agent.name, host.fidelity())

    @property
    def report(self) -> Report:
        """What could not cross."""
        return self._account.report()

    async def serve(self, transport: Transport, signals: Signals | None = None) -> int:
        """Serve a host until it is gone. The exit status.

        On a wire that has its session from the start the agent is started first; an agent that cannot be is told as
        the wire tells that a process cannot start.
        """
        status = FAILED
        with ExitStack() as after:
            async with trio.open_nursery() as nursery:
                status = await self._serve(transport, signals, nursery, after)
                nursery.cancel_scope.cancel()
        return status

    async def _serve(
        self, transport: Transport, signals: Signals | None, nursery: trio.Nursery, after: ExitStack
    ) -> int:
        """``after`` is left when the agents are gone."""
        codec, options = self._host, self._options
        side = codec.agent(**options.codec_options)
        status = FAILED
        agents = Agents(self._argv, self._agent, nursery, self._account, options.record)
        setup = BridgeSetup(options, codec.policy, agents, nursery, self._silence, self._directory)
        after.callback(setup.close)

        def run(boot: Boot) -> SessionRunner:
            return make_runner(boot.session, boot.agent, nursery, setup.provider_for)

        server = BridgeServer(nursery, run, setup)
        outbox = Outbox(side, feeds=codec.feeds)
        single = codec.sessions == "one"
        own = ""
        boot: Boot | None = None
        try:
            if single or codec.begin is not None:
                await self._prepare(setup, agents, options.resume or _wanted(codec, side))
            if single:
                boot = setup.at_start()
        except Refused as why:
            await self._fatal(side, why.refusal, transport)
        except (ConfigError, StoreError) as error:
            setup.drop_prepared()
            await self._fatal(side, Refusal("config", str(error)), transport)
        else:
            if boot is not None:
                own = boot.session.id
                server.add(run(boot))
                outbox.follow(boot.session, after=boot.session.opened.seq - 1 if boot.session.opened else None)
            connection = Connection(
                server,
                side,
                transport,
                max_line=codec.max_line,
                session=own,
                outbox=outbox,
                begin=codec.begin,
                single=single,
                outlives_output=codec.outlives_output,
            )
            server.attach(connection)
            if signals is not None:
                nursery.start_soon(stop_on_signal, signals, server, nursery.cancel_scope)
            status = await connection.run()
        for session in list(setup.links):
            setup.left(session)
        return status

    async def _prepare(self, setup: BridgeSetup, agents: Agents, resume: str) -> None:
        """The first session: new, or one to go on with. Raises :class:`Refused` and :class:`StoreError`."""
        options = self._options
        if resume:
            memory = setup.remembered(resume)
            if memory is None:
                raise SessionNotFound("" if resume == LATEST else resume)
            setup.prepare(await agents.again(memory, options.workspace), memory)
            return
        first = OpenSession(id=options.session_id or "", workspace=options.workspace, model=options.model)
        setup.prepare(await agents.open(first))

    @staticmethod
    async def _fatal(side: AgentSide, why: Refusal, transport: Transport) -> None:
        """Tell host and person why there is no session."""
        print(f"Error: {why.message}", file=sys.stderr)
        out = bytearray()
        side.fatal(Refusal("config", why.message, data=why.data), out)
        try:
            while out:
                del out[: transport.send_now(out)]
                if out:
                    await transport.wait_writable()
        except OSError as error:
            logger.info("the host closed its end: %s", error)


def _wanted(codec: Codec, side: AgentSide) -> str:
    """The session that a connection of this wire goes on with by itself, or ``""``."""
    requests = codec.begin(side) if codec.begin is not None else ()
    return next((asked.command.id for asked in requests if isinstance(asked.command, ResumeSession)), "")


def run_stdio(bridge: Bridge, pipes: StdioPipes, signals: Signals) -> int:
    """Serve the host on the pipes until it is gone or a signal comes. The exit status."""
    try:
        return trio.run(bridge.serve, StdioTransport(pipes), signals, strict_exception_groups=True)
    finally:
        pipes.close()
