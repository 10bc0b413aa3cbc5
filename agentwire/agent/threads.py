"""A turn and other threads: the log has one writer, so whatever they ask is done in the server's own thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import trio

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="OwnThread")


class TurnOver(RuntimeError):
    """Something was said in a turn that has ended; it is not in the log."""


def from_any_thread(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A method that is carried out in the server's thread, whoever calls it."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.in_own_thread(functools.partial(method, self, *args, **kwargs))

    return call


class OwnThread:
    """Something that belongs to the thread it was made in, which runs an event loop."""

    __slots__ = ("_helpers", "_thread", "_token", "nursery", "over")

    def __init__(self) -> None:
        self.over = False
        """Its end has been told; nothing more is done."""
        self.nursery: trio.Nursery | None = None
        """Where what other threads ask is done, as long as there is somebody to ask."""
        self._helpers: dict[trio.CancelScope, trio.Event] = {}
        """What is done for other threads, and when it has ended."""
        self._thread = threading.get_ident()
        self._token = trio.lowlevel.current_trio_token()

    @property
    def here(self) -> bool:
        """Whether this is its own thread."""
        return threading.get_ident() == self._thread

    def in_own_thread(self, function: Callable[..., R], *arguments: object) -> R:
        """Call a function in the server's thread, where the log is written, from whichever thread this is."""
        if threading.get_ident() == self._thread:
            return function(*arguments)
        return trio.from_thread.run_sync(function, *arguments, trio_token=self._token)

    def wait_for(self, function: Callable[..., Awaitable[R]], *arguments: object) -> R:
        """Have an async function run in the server's thread and block this one, which is another, until it has."""
        return trio.from_thread.run(self._as_helper, function, arguments, trio_token=self._token)

    async def _as_helper(self, function: Callable[..., Awaitable[R]], arguments: tuple[object, ...]) -> R:
        """Run a function in a task of its own, which ends with the turn at the latest."""
        if self.nursery is None or self.over:
            raise TurnOver("the turn has ended")
        # A nursery of the turn's own would cost every turn two KiB, and few agents have other threads.
        scope, done = trio.CancelScope(), trio.Event()
        self._helpers[scope] = done
        result: list[Any] = []
        failed: list[Exception] = []

        async def run() -> None:
            try:
                with scope:
                    result.append(await function(*arguments))
            except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
                failed.append(error)
            finally:
                del self._helpers[scope]
                done.set()

        self.nursery.start_soon(run)
        await done.wait()
        if failed:
            raise failed[0]
        if not result:
            raise TurnOver("the turn was stopped")
        found: R = result[0]
        return found

    async def end_helpers(self) -> None:
        """The agent has ended: what is still done for its other threads ends too, and nothing more begins."""
        self.nursery = None
        if self._helpers:
            with trio.CancelScope(shield=True):
                for scope, done in list(self._helpers.items()):
                    scope.cancel()
                    await done.wait()
