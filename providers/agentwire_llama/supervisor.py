"""Keeps one ``llama-server`` running for as long as somebody asks for it.

There is no task in the background. Whoever needs the server calls :meth:`Supervisor.ready`, which starts it, waits
until it is healthy, and starts it again if it has ended. Callers take turns at that, so there is one start for all of
them; the process does not depend on any caller: one that is cancelled leaves the server loading for the next.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from agentwire.provider import Child, ConfigError, ProviderError, start_child
from agentwire_llama.log import ServerLog
from agentwire_llama.options import LlamaOptions
from agentwire_llama.plan import KEY_VARIABLE, LaunchPlan
from agentwire_llama.survey import take_port

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger("agentwire.llama")

PROGRESS_SECONDS = 5.0
"""How often a person is told that the model is still loading."""

LONGEST_DELAY = 30.0
"""Seconds between two starts, at most."""

_POLL = (0.05, 0.5)
"""Seconds between two looks at a server that is loading: at first, and in the long run."""

_POLL_PATIENCE = 5.0
_LAST_BREATH = 0.5
"""Seconds within which a process ends whose connection has broken off."""


class Server:
    """One start of the program."""

    def __init__(self, child: Child, url: str, key: str, model: str) -> None:
        self.child = child
        self.url = url
        """Base address, without a path."""
        self.key = key
        """What opens it; made for this start."""
        self.model = model
        self.started = trio.current_time()
        self.ended: float | None = None
        """When it was noticed that it is no more."""
        self.words = ""
        """What it said last, once it has ended."""
        self.healthy = False

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.child.process.returncode is None

    @property
    def fate(self) -> str:
        """How it ended, as the middle of a sentence."""
        code = self.child.process.returncode
        if code is None:
            return "still runs"
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit status {code}"


class Supervisor:
    """The server, started when it is needed. ``plan`` is called on a worker thread and raises ``ConfigError``."""

    def __init__(self, plan: Callable[[], LaunchPlan], options: LlamaOptions, log: ServerLog) -> None:
        self._make_plan = plan
        self._options = options
        self._log = log
        self._plan: LaunchPlan | None = None
        self._server: Server | None = None
        self._http: httpx.AsyncClient | None = None
        self._failures = 0
        self._not_before = 0.0
        self._stopping = trio.Event()
        """Set, and replaced by another, when the server is stopped."""
        self._turn = trio.Lock()

    @property
    def server(self) -> Server | None:
        """The server that was started last, if it was not stopped."""
        return self._server

    async def ready(self) -> Server:
        """A server that takes requests: started, restarted or waited for as need be.

        Raises :class:`ProviderError`: the set-up is at fault (kind ``config``), it does not become healthy in time
        (``timeout``), or it ended again and again or was stopped meanwhile (``connect``). The next call tries anew.
        """
        stopping = self._stopping
        async with self._turn:
            while True:
                server = await self._running(stopping)
                if server.healthy or await self._becomes_healthy(server):
                    return server

    async def stop(self) -> None:
        """End the server (TERM, a grace, KILL, for all of its group); whoever waits for it fails."""
        self._stopping.set()
        self._stopping = trio.Event()
        server, self._server = self._server, None
        self._failures, self._not_before = 0, 0.0
        if server is not None:
            await server.child.end()
            logger.info("llama-server was stopped")

    async def cause_of_death(self, server: Server) -> str:
        """After a request has failed: how the server ended, in a sentence; empty if it still runs."""
        with trio.move_on_after(_LAST_BREATH):
            await server.child.process.wait()
        if server.alive:
            return ""
        self._noticed(server)
        return f"llama-server {server.fate}" + (f": {server.words}" if server.words else "")

    def answered(self, server: Server) -> None:
        """The server has finished a reply: what happened before is forgiven."""
        if server is self._server:
            self._failures = 0

    def trim_log(self) -> None:
        """Keep the log within its bounds. Raises nothing: a log is not worth a reply."""
        try:
            self._log.trim()
        except OSError as error:
            logger.warning("the log %s cannot be kept short: %s", self._log.path, error)

    async def _running(self, stopping: trio.Event) -> Server:
        """A process that runs, healthy or not yet; ``stopping`` is set if it is not wanted any more."""
        _refuse_if(stopping)
        server = self._server
        if server is not None and server.alive:
            return server
        if server is not None:
            await self._bury(server)
        with trio.move_on_at(self._not_before):
            await stopping.wait()
        plan = await self._planned()
        _refuse_if(stopping)
        server = await self._start(plan)
        if stopping.is_set():  # in the very moment in which it was started
            await server.child.end()
            _refuse_if(stopping)
        self._server = server
        return server

    async def _planned(self) -> LaunchPlan:
        if self._plan is None:
            try:
                self._plan = await trio.to_thread.run_sync(self._make_plan, abandon_on_cancel=True)
            except ConfigError as error:
                raise ProviderError(str(error), kind="config") from error
            for warning in self._plan.warnings:
                logger.warning("%s: %s", self._plan.model, warning)
        return self._plan

    async def _start(self, plan: LaunchPlan) -> Server:
        key = secrets.token_urlsafe(24)
        try:
            port = take_port(plan.host, plan.port)
        except OSError as error:
            wanted = f"port {plan.port}" if plan.port else "a free port"
            text = f"llama-server cannot have {wanted} on {plan.host}: {error.strerror}"
            raise ProviderError(text, kind="config") from error
        argv = plan.argv(port)
        try:
            output = self._log.begin(argv)
        except OSError as error:
            text = f"the log {self._log.path} cannot be written: {error.strerror}; set log_file"
            raise ProviderError(text, kind="config") from error
        try:
            # Not cancelled, and nothing is waited for until the server is noted: a caller that is loses nothing.
            child = await start_child(argv, cwd=Path.cwd(), environ={**plan.environ, KEY_VARIABLE: key}, output=output)
        except OSError as error:
            raise ProviderError(f"{plan.binary} cannot be started: {error}", kind="config") from error
        finally:
            os.close(output)
        logger.info("llama-server (process %d) loads %s on port %d", child.process.pid, plan.model, port)
        return Server(child, plan.url(port), key, plan.model)

    async def _becomes_healthy(self, server: Server) -> bool:
        """Wait until it takes requests; False if it ended or was stopped first."""
        deadline = server.started + self._options.startup_timeout
        tell = trio.current_time() + PROGRESS_SECONDS
        pause = _POLL[0]
        while server.alive:
            if await self._is_healthy(server) and server.alive:
                server.healthy = True
                logger.info("%s is ready after %.1f s", server.model, trio.current_time() - server.started)
                return True
            self.trim_log()
            now = trio.current_time()
            if now >= deadline:
                await self._give_up_waiting(server)
            if now >= tell:
                tell = now + PROGRESS_SECONDS
                logger.warning("%s is still loading (%d of at most %d s)", server.model, now - server.started,
                               self._options.startup_timeout)  # fmt: skip
            with trio.move_on_after(min(pause, deadline - now)):
                await server.child.process.wait()
            pause = min(2 * pause, _POLL[1])
        return False

    async def _is_healthy(self, server: Server) -> bool:
        import httpx

        if self._http is None:
            self._http = await trio.to_thread.run_sync(_http_client)
        try:
            answer = await self._http.get(f"{server.url}/health")
        except httpx.HTTPError:
            return False
        return answer.status_code == 200

    async def _give_up_waiting(self, server: Server) -> None:
        words = self._log.last_words()
        await server.child.end()
        if self._server is server:
            self._server = None
        self._failures = 0
        text = f"llama-server was not ready within {self._options.startup_timeout:g} s"
        raise ProviderError(self._with_log(text, words), kind="timeout")

    async def _bury(self, server: Server) -> None:
        """Count a server that ended by itself, and see to its group; raises if it was one too many."""
        self._noticed(server)
        await server.child.end()
        if self._server is server:
            self._server = None
        self._failures += 1
        failures, limit = self._failures, self._options.restart_limit
        if failures > limit:
            self._failures, self._not_before = 0, 0.0
            times = f" {failures} times in a row without a reply" if failures > 1 else ""
            raise ProviderError(self._with_log(f"llama-server {server.fate}{times}", server.words), kind="connect")
        delay = min(LONGEST_DELAY, self._options.restart_delay * 2 ** (failures - 1))
        self._not_before = (server.ended or trio.current_time()) + delay
        text = self._with_log(f"llama-server {server.fate}", server.words)
        logger.warning("%s; starting it again in %.1f s (%d of %d)", text, delay, failures, limit)

    def _noticed(self, server: Server) -> None:
        if server.ended is None:  # later the log may be another's
            server.ended = trio.current_time()
            server.words = self._log.last_words()

    def _with_log(self, text: str, words: str) -> str:
        return f"{text}: {words} (log: {self._log.path})" if words else f"{text} (log: {self._log.path})"


def _refuse_if(stopping: trio.Event) -> None:
    if stopping.is_set():
        raise ProviderError("llama-server was stopped", kind="connect")


def _http_client() -> httpx.AsyncClient:
    """For addresses on this machine: no proxy, no certificates, and nothing kept open that had to be closed."""
    import ssl

    import httpx

    return httpx.AsyncClient(
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        trust_env=False,
        timeout=_POLL_PATIENCE,
        limits=httpx.Limits(max_keepalive_connections=0),
    )
