"""A model service that answers as it was recorded: the same bytes, cut at the same places, and the same failures.

It stands where the network is, below everything that reads a reply: the HTTP client, the stream parser and the
provider are the real ones. Imports httpx.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Final

import httpx
import trio

from agentwire.recording import Broke, HttpReply

Until = Callable[[int], Awaitable[None]]
"""Waits for a time of the request's, in microseconds."""

NO_REPLY: Final = "The recording holds no further reply to this request"


class RecordedService(httpx.AsyncBaseTransport):
    """Gives one HTTP reply after the other, each to the next request that is sent."""

    def __init__(self, replies: Sequence[HttpReply], until: Until, wait_ms: int | None = None) -> None:
        """``wait_ms``: how long a service that named a date wanted to be left alone, for the date is long past."""
        self._replies = iter(replies)
        self._until = until
        self._wait_ms = wait_ms

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as it was recorded. Nothing of the request is looked at."""
        reply = next(self._replies, None)
        if reply is None:
            raise httpx.ConnectError(NO_REPLY)
        if not reply.status:
            await self._no_more(reply)
        await self._until(reply.answered)
        return httpx.Response(reply.status, headers=self._headers(reply), stream=_Body(self, reply))

    async def body(self, reply: HttpReply) -> AsyncIterator[bytes]:
        """The pieces of a body when they came, and how it ended."""
        for chunk in reply.body:
            await self._until(chunk.at)
            yield chunk.data
        if not reply.whole:
            await self._no_more(reply)

    async def _no_more(self, reply: HttpReply) -> None:
        """The connection breaks; or it was left, by a stop or for being silent, which will come."""
        if reply.broke is None:
            await trio.sleep_forever()
            return
        await self._until(reply.ended)
        raise _broken(reply.broke)

    def _headers(self, reply: HttpReply) -> list[tuple[str, str]]:
        """The headers, with the time that was left until a date in its place."""
        if self._wait_ms is None:
            return reply.headers
        wait = f"{self._wait_ms / 1000:.3f}"
        return [(name, wait if name in _WAITS and _is_date(value) else value) for name, value in reply.headers]


class _Body(httpx.AsyncByteStream):
    def __init__(self, service: RecordedService, reply: HttpReply) -> None:
        self._service = service
        self._reply = reply

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._service.body(self._reply)


def _is_date(value: str) -> bool:
    try:
        parsedate_to_datetime(value)
    except (ValueError, IndexError, OverflowError):
        return False
    return True


_WAITS: Final = ("retry-after", "x-ratelimit-reset-after")
"""Headers that may name a date."""

_CAUSES: Final[dict[str, type[Exception]]] = {"SSLCertVerificationError": ssl.SSLCertVerificationError}
"""What a failure comes from, where that makes a difference."""


def _broken(broke: Broke) -> Exception:
    named = getattr(httpx, broke.kind, None)
    kind = named if isinstance(named, type) and issubclass(named, httpx.RequestError) else httpx.NetworkError
    error = kind(broke.message)
    if broke.cause in _CAUSES:
        error.__cause__ = _CAUSES[broke.cause](broke.message)
    return error
