"""Calling asyncio code from trio.

Most Python agents and client libraries are written for asyncio. :func:`on_asyncio` makes one of their functions
awaitable here: it runs on one asyncio loop that all such calls share, in a thread of its own, started with the first
call. asyncio is not imported before that.
"""

from __future__ import annotations

import atexit
import contextvars
import functools
import inspect
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import trio

if TYPE_CHECKING:
    import asyncio

P = ParamSpec("P")
T = TypeVar("T")

CANCEL_WAIT = 0.5
"""Seconds to wait for an asyncio task that was told to stop; then it is left to itself."""

_log = logging.getLogger(__name__)


@overload
def on_asyncio(function: Callable[P, AsyncIterator[T]]) -> Callable[P, AsyncGenerator[T, None]]: ...
@overload
def on_asyncio(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]: ...
def on_asyncio(function: Callable[P, Any]) -> Callable[P, Any]:
    """``function``, an asyncio coroutine function or one that returns an awaitable, for use in trio.

    The call's context variables go along. If the trio side is cancelled, so is the asyncio task, and its end is
    waited for (:data:`CANCEL_WAIT`). What it raises is raised here. An async generator function becomes one that
    trio can iterate, in step with it; leave its loop early only inside ``contextlib.aclosing``.
    """
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        def iterate(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Any, None]:
            return _iterate(functools.partial(function, *args, **kwargs))

        return iterate

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        async def main() -> Any:
            return await function(*args, **kwargs)

        task = _Task(main)
        task.start()
        await task.wait(task.done)
        return task.result()

    return call


async def _iterate(function: Callable[[], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    items: deque[T] = deque()
    wanted: list[Callable[[], None]] = []

    async def main() -> None:
        import asyncio
        import contextlib

        ready = asyncio.Event()
        wanted.append(ready.set)
        async with contextlib.aclosing(function()) as source:
            async for item in source:
                task.report(functools.partial(items.append, item))
                await ready.wait()
                ready.clear()

    task: _Task[None] = _Task(main)
    task.start()
    try:
        while True:
            await task.wait(task.news)
            if not items:
                break
            task.news = trio.Event()
            yield items.popleft()
            _loop().submit(wanted[0])
        task.result()
    finally:
        await task.stop()


class _Task(Generic[T]):
    """One asyncio task, seen from the trio task that wants its result."""

    def __init__(self, main: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.done = trio.Event()
        self.news = trio.Event()
        """Set when the task is done or has reported something."""
        self._main = main
        self._token = trio.lowlevel.current_trio_token()
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._value: Any = None
        self._error: BaseException | None = None

    # --- called by the trio task

    def start(self) -> None:
        """Start it; once."""
        _loop().submit(self._begin)

    async def wait(self, event: trio.Event) -> None:
        """Wait for ``done`` or ``news``; if that is cancelled, the asyncio task is stopped first."""
        try:
            await event.wait()
        except trio.Cancelled:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Cancel the asyncio task if it still runs, and wait for its end."""
        if self.done.is_set():
            return
        _loop().submit(self._cancel)
        with trio.CancelScope(shield=True), trio.move_on_after(CANCEL_WAIT):
            await self.done.wait()
        if not self.done.is_set():
            _log.warning("an asyncio task did not end within %s s of being cancelled", CANCEL_WAIT)
        elif isinstance(self._error, Exception):
            _log.warning("an asyncio task failed while it was being cancelled", exc_info=self._error)

    def result(self) -> T:
        """What it returned; raises what it raised."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        value: T = self._value
        return value

    # --- called on the asyncio loop

    def report(self, action: Callable[[], None]) -> None:
        """Do something in the trio thread and wake the trio task."""

        def tell() -> None:
            action()
            self.news.set()

        try:
            self._token.run_sync_soon(tell)
        except trio.RunFinishedError:
            _log.debug("the trio program ended before an asyncio task that it had abandoned")

    def _begin(self) -> None:
        import asyncio

        if self._stopped:
            self.report(self.done.set)
        else:
            self._task = asyncio.get_running_loop().create_task(self._run(), context=self._context)
            # Not at the end of _run: a task that is cancelled before its first step never gets there.
            self._task.add_done_callback(lambda task: self.report(self.done.set))

    def _cancel(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        import asyncio

        try:
            self._value = await self._main()
        except asyncio.CancelledError:
            if not self._stopped:
                self._error = RuntimeError("the asyncio code cancelled its own task")
        except BaseException as error:  # noqa: BLE001 - it is raised again where it belongs, in the trio task
            self._error = error


class _Loop:
    """The asyncio loop and its thread."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="agentwire-asyncio", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], None]) -> None:
        """Call ``function`` on the loop, in the order of submission."""
        with self._lock:
            if self._loop is None:
                self._early.append(function)
            else:
                self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Stop the loop, and cancel what still runs on it: the process is about to end."""
        with self._lock:
            loop = self._loop
        if loop is not None and self.process == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(0.2)

    def _run(self) -> None:
        # Here, not in the trio thread: the import alone takes longer than anything may stop that thread for.
        import asyncio

        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        with self._lock:
            self._loop = loop
            for function in self._early:
                loop.call_soon(function)
            self._early.clear()
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=0.5))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


_started: _Loop | None = None


def _loop() -> _Loop:
    global _started
    if _started is None or _started.process != os.getpid():
        _started = _Loop()
        atexit.register(_started.close)
    return _started
