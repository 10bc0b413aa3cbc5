"""Signals that end the process: in good order if that goes quickly, and in any case."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import trio

logger = logging.getLogger("agentwire.serve")

ORDERLY_SECONDS = 1.2
"""How long turns may take to end and connections to write what is due."""

LAST_RESORT_SECONDS = 1.9
"""After this the process ends whatever it does: an agent may block the event loop, or refuse to be cancelled."""


class Signals:
    """Notes signals from before the event loop runs until after it has ended; interrupts nothing by itself."""

    def __init__(self, numbers: Sequence[signal.Signals]) -> None:
        self._numbers = numbers
        self._came: int | None = None
        self._last_resort: threading.Timer | None = None
        self._event: trio.Event | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Handle the signals within the block."""
        before = {number: signal.signal(number, self._handle) for number in self._numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if self._last_resort is not None:
                self._last_resort.cancel()

    async def wait(self) -> signal.Signals:
        """Wait for the first signal and say which it was."""
        self._event, self._token = trio.Event(), trio.lowlevel.current_trio_token()
        while self._came is None:
            await self._event.wait()
        return signal.Signals(self._came)

    def _handle(self, number: int, frame: object) -> None:
        if self._came is not None:
            return
        self._came = number
        # Started here, in the handler: nothing says that the event loop will come to it.
        self._last_resort = threading.Timer(LAST_RESORT_SECONDS, _leave_now)
        self._last_resort.daemon = True
        self._last_resort.start()
        if self._token is not None and self._event is not None:
            self._token.run_sync_soon(self._event.set)


def _leave_now() -> None:
    logger.error("something does not let itself be stopped; leaving it")
    os._exit(0)
