"""A process that serves one connection over standard input and output, under trio."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

import trio

from agentwire.agent.loop import Agent
from agentwire.agent.running import as_run
from agentwire.agent.toolbox import Toolbox
from agentwire.server.connection import Connection
from agentwire.server.mcp_servers import McpServers
from agentwire.server.outbox import Outbox
from agentwire.server.runner import SessionRunner
from agentwire.server.server import Server
from agentwire.server.signals import ORDERLY_SECONDS, Signals
from agentwire.session import Session
from agentwire.tools import Tool, builtin_tools
from agentwire.transport.stdio import StdioPipes, StdioTransport

if TYPE_CHECKING:
    from agentwire.codec.contract import Codec
    from agentwire.serving import Boot

logger = logging.getLogger("agentwire.serve")

CLOSING_SECONDS = 1.0
"""How long a provider may take to close its connections."""


def run_stdio(boot: Boot, codec: Codec, outbox: Outbox, pipes: StdioPipes, signals: Signals) -> int:
    """Serve the session of ``boot`` until its host is gone or a signal comes. The exit status."""
    try:
        return trio.run(_serve, boot, codec, outbox, pipes, signals, strict_exception_groups=True)
    finally:
        pipes.close()
        boot.session.log.close()


@cache
def _builtins() -> tuple[Tool, ...]:
    """The built-in tools hold no state of their own: one set serves every session."""
    return tuple(builtin_tools())


def toolbox_for(agent: object) -> Toolbox:
    """The tools an agent brings, then the built-in ones unless it does without; of two of one name the first counts."""
    own = list(getattr(agent, "tools", ()))
    builtins = _builtins() if getattr(agent, "builtins", True) else ()
    return Toolbox([*own, *builtins], spawner=getattr(agent, "spawn", None))


def make_runner(session: Session, agent: object, nursery: trio.Nursery) -> SessionRunner:
    """A session ready to run turns of an agent."""
    toolbox = toolbox_for(agent)
    mcp = McpServers(session, toolbox, nursery)
    return SessionRunner(session, as_run(agent), toolbox, nursery, mcp)


async def _serve(boot: Boot, codec: Codec, outbox: Outbox, pipes: StdioPipes, signals: Signals) -> int:
    session = boot.session
    agent = boot.agent if boot.agent is not None else Agent()
    status = 0
    async with trio.open_nursery() as nursery:
        server = Server(nursery)
        runner = make_runner(session, agent, nursery)
        server.add(runner)
        connection = Connection(
            server,
            outbox.side,
            StdioTransport(pipes),
            max_line=codec.max_line,
            session=session.id,
            outbox=outbox,
        )
        server.attach(connection)
        nursery.start_soon(_stop_on_signal, signals, server, nursery.cancel_scope)
        runner.mcp.configure(boot.mcp_specs)
        status = await connection.run()
        nursery.cancel_scope.cancel()
    await close_provider(session)
    return status


async def _stop_on_signal(signals: Signals, server: Server, scope: trio.CancelScope) -> None:
    number = await signals.wait()
    logger.info("%s: stopping", number.name)
    with trio.move_on_after(ORDERLY_SECONDS):
        await server.shut_down()
        # The connection writes what is due and ends, which ends this task too.
        await trio.sleep_forever()
    logger.warning("a turn did not end, or the host did not read what was due, in time")
    scope.cancel()


async def close_provider(session: Session) -> None:
    """Close a session's provider; one that cannot be closed is said and left."""
    if session.provider is None:
        return
    with trio.move_on_after(CLOSING_SECONDS):
        try:
            await session.provider.aclose()
        except Exception:  # a foreign provider's trouble at the very end is nobody's exit status
            logger.exception("the provider %s could not be closed", session.provider.name)
