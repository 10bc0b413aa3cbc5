"""A process that serves one connection over standard input and output, under trio."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import trio

from agentwire.agent.loop import Agent
from agentwire.agent.running import as_run
from agentwire.agent.toolbox import Toolbox
from agentwire.events import Notice
from agentwire.server.connection import Connection
from agentwire.server.mcp_servers import McpServers
from agentwire.server.outbox import Outbox
from agentwire.server.runner import SessionRunner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.tools import builtin_tools
from agentwire.transport.stdio import StdioPipes, StdioTransport

if TYPE_CHECKING:
    from agentwire.codec.contract import Codec
    from agentwire.serving import Boot

logger = logging.getLogger("agentwire.serve")

LAST_SECONDS = 2.0
"""How long a signalled process may take to end its turns and write what is due."""


def run_stdio(boot: Boot, codec: Codec, outbox: Outbox, pipes: StdioPipes, stopping: Sequence[signal.Signals]) -> int:
    """Serve the session of ``boot`` until its host is gone or a signal of ``stopping`` comes. The exit status."""
    early: list[int] = []
    for number in stopping:
        # Until the receiver is there, and after it: a signal is noted, and interrupts nothing.
        signal.signal(number, lambda number, frame: early.append(number))
    try:
        return trio.run(_serve, boot, codec, outbox, pipes, stopping, early, strict_exception_groups=True)
    finally:
        pipes.close()
        boot.session.log.close()


def toolbox_for(agent: object) -> Toolbox:
    """The tools an agent brings, after the built-in ones unless it does without."""
    own = list(getattr(agent, "tools", ()))
    builtins = builtin_tools() if getattr(agent, "builtins", True) else []
    return Toolbox([*own, *builtins], spawner=getattr(agent, "spawn", None))


def make_runner(session: Session, agent: object, nursery: trio.Nursery) -> SessionRunner:
    """A session ready to run turns of an agent."""
    toolbox = toolbox_for(agent)
    mcp = McpServers(session, toolbox, nursery)
    return SessionRunner(session, as_run(agent), toolbox, nursery, mcp)


async def _serve(
    boot: Boot, codec: Codec, outbox: Outbox, pipes: StdioPipes, stopping: Sequence[signal.Signals], early: list[int]
) -> int:
    session = boot.session
    agent = boot.agent if boot.agent is not None else Agent()
    status = 0
    with trio.open_signal_receiver(*stopping) as signals:
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
            nursery.start_soon(_watch_signals, signals, early, server, nursery.cancel_scope)
            if boot.loaded.notice:
                logger.warning("%s", boot.loaded.notice)
                session.append(Notice(boot.loaded.notice, "warning"))
            runner.mcp.configure(boot.mcp_specs())
            status = await connection.run()
            nursery.cancel_scope.cancel()
    if session.provider is not None:
        await session.provider.aclose()
    return status


async def _watch_signals(
    signals: AsyncIterator[int], early: list[int], server: Server, scope: trio.CancelScope
) -> None:
    number = early[0] if early else await anext(signals)
    logger.info("%s: stopping", signal.Signals(number).name)
    with trio.move_on_after(LAST_SECONDS):
        await server.shut_down()
        # The connection writes what is due and ends, which ends this task too; further signals change nothing.
        async for number in signals:
            logger.info("%s: stopping already", signal.Signals(number).name)
    logger.warning("the host did not read what was due in time")
    scope.cancel()
