"""A reply that somebody listens to. Only imported then: httpx takes its time."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import httpx

from agentwire.provider.hearing import Exchange


def listen(response: httpx.Response, exchange: Exchange) -> None:
    """Let ``exchange`` hear a response that has just begun."""
    exchange.answered(response.status_code, response.headers.multi_items())
    stream = response.stream
    if isinstance(stream, httpx.AsyncByteStream):
        response.stream = _Overheard(stream, exchange)


class _Overheard(httpx.AsyncByteStream):
    """The bytes of a response on their way to whoever reads them."""

    def __init__(self, stream: httpx.AsyncByteStream, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        stream: AsyncIterable[bytes] = self._stream
        async for chunk in stream:
            self._exchange.heard(chunk)
            yield chunk
        self._exchange.ended()

    async def aclose(self) -> None:
        """Close the connection, or give it back."""
        await self._stream.aclose()
