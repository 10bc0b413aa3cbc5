"""When a failed model request is sent again, and when that would be wrong.

A request is never sent again once answer text or a call was shown: what a person has read is not taken back.
Reasoning alone may be void. Every retry is announced (:class:`agentwire.events.RetryScheduled`) and its delay ends
with the turn.
"""

from __future__ import annotations

from agentwire.events import ErrorInfo, RetryScheduled
from agentwire.provider.contract import ConfigError, ProviderError

DELAYS_MS: dict[str, tuple[int, ...]] = {
    "connect": (300, 600),
    "status": (500, 2_000, 5_000),
    "stream": (1_000, 2_000),
    "rate_limit": (2_000, 5_000),
}
"""Delay before each retry, by kind of failure; a service's own word (Retry-After) wins. Other kinds get none."""

LONGEST_WAIT_MS = 20_000
"""A service that asks for more than this is not waited for: the host decides what to do."""


def schedule(error: ProviderError, attempt: int, *, shown: bool) -> RetryScheduled | None:
    """The retry after the ``attempt``-th failure (from 1) of a request, or None if the failure stands.

    ``shown``: answer text or a call has already been streamed.
    """
    delays = DELAYS_MS.get(error.kind, ()) if error.retryable and not shown else ()
    if attempt > len(delays):
        return None
    delay = delays[attempt - 1]
    if error.retry_after_ms is not None:
        delay = max(0, error.retry_after_ms)
        if delay > LONGEST_WAIT_MS:
            return None
    return RetryScheduled(attempt, len(delays), delay, error.message, error.kind == "stream")


def error_info(error: ProviderError) -> ErrorInfo:
    """What the host is told of a failure that stands."""
    code = "config_error" if error.kind == "config" else "provider_error"
    kind = error.__cause__.kind if isinstance(error.__cause__, ConfigError) else ""
    return ErrorInfo(code, error.message, error.retryable, kind)
