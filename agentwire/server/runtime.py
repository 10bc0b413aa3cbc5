"""A process that serves one connection over standard input and output, under trio."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from agentwire.agent.loop import Agent
from agentwire.agent.running import as_run
from agentwire.agent.tracing import tracer_for
from agentwire.server.connection import Connection
from agentwire.server.mcp_servers import McpServers
from agentwire.server.outbox import Outbox
from agentwire.server.runner import ProviderFor, SessionRunner
from agentwire.server.server import Server
from agentwire.server.signals import ORDERLY_SECONDS, Signals
from agentwire.server.toolboxes import toolbox_for
from agentwire.session import Session
from agentwire.transport.stdio import StdioPipes, StdioTransport

if TYPE_CHECKING:
    from agentwire.codec.contract import Codec
    from agentwire.provider.contract import Provider
    from agentwire.setup import Boot, Setup

logger = logging.getLogger("agentwire.serve")

CLOSING_SECONDS = 1.0
"""How long a provider may take to close its connections."""


def run_stdio(
    setup: Setup, boot: Boot | None, codec: Codec, outbox: Outbox, pipes: StdioPipes, signals: Signals
) -> int:
    """Serve until the host is gone or a signal comes: the session of ``boot``, or those that the host opens.

    The exit status.
    """
    try:
        return trio.run(_serve, setup, boot, codec, outbox, pipes, signals, strict_exception_groups=True)
    finally:
        pipes.close()
        if boot is not None:
            boot.session.log.close()


def make_runner(
    session: Session, agent: object, nursery: trio.Nursery, provider_for: ProviderFor | None = None
) -> SessionRunner:
    """A session ready to run turns of an agent."""
    toolbox = toolbox_for(agent, session)
    session.tracer = tracer_for(session.id, session.provider_name, lambda: session.model.model)
    mcp = McpServers(session, toolbox, nursery)
    return SessionRunner(session, as_run(agent), toolbox, nursery, mcp, provider_for)


async def _serve(
    setup: Setup, boot: Boot | None, codec: Codec, outbox: Outbox, pipes: StdioPipes, signals: Signals
) -> int:
    agent = setup.agent if setup.agent is not None else Agent()
    status = 0
    async with trio.open_nursery() as nursery:

        def run(opened: Boot) -> SessionRunner:
            runner = make_runner(opened.session, agent, nursery, setup.provider_for)
            runner.toolbox.watch = setup.witness.tool if setup.witness is not None else None
            runner.mcp.configure(opened.mcp_specs)
            return runner

        server = Server(nursery, run, setup)
        if boot is not None:
            server.add(run(boot))
        connection = Connection(
            server,
            outbox.side,
            StdioTransport(pipes),
            max_line=codec.max_line,
            session=boot.session.id if boot is not None else "",
            outbox=outbox,
            begin=codec.begin,
            end=codec.end,
            single=codec.sessions == "one",
            outlives_output=codec.outlives_output,
        )
        server.attach(connection)
        nursery.start_soon(stop_on_signal, signals, server, nursery.cancel_scope)
        status = await connection.run()
        nursery.cancel_scope.cancel()
    for runner in server.sessions:
        runner.session.log.close()
    for provider in setup.models.made.values():
        await close_provider(provider)
    return status


async def stop_on_signal(signals: Signals, server: Server, scope: trio.CancelScope) -> None:
    """Shut the server down when a signal comes; ``scope`` is cancelled if that takes too long."""
    number = await signals.wait()
    logger.info("%s: stopping", number.name)
    with trio.move_on_after(ORDERLY_SECONDS):
        await server.shut_down()
        # The connection writes what is due and ends, which ends this task too.
        await trio.sleep_forever()
    logger.warning("a turn did not end, or the host did not read what was due, in time")
    scope.cancel()


async def close_provider(provider: Provider) -> None:
    """Close a provider; one that cannot be closed is said and left."""
    with trio.move_on_after(CLOSING_SECONDS):
        try:
            await provider.aclose()
        except Exception:  # a foreign provider's trouble at the very end is nobody's exit status
            logger.exception("the provider %s could not be closed", provider.name)
