"""HTTP for providers: one POST with a streamed reply, and every way it can fail as a ``ProviderError``.

httpx (and its TLS context) is imported and set up at the first request, on a worker thread: both take long enough
to be felt on the event loop. trio too is imported by whoever awaits something: a provider is made before a server's
first line is written, and that does not wait for it. A client keeps its connections for the next request.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentwire.provider import errors
from agentwire.provider.address import host, is_local, secrets_in
from agentwire.provider.contract import ProviderError, ProviderSettings
from agentwire.provider.hearing import LISTENER, Exchange
from agentwire.provider.reader import ReplyReader

if TYPE_CHECKING:
    import ssl

    import httpx
    import trio

MAX_ERROR_BODY = 64 * 1024
MAX_JSON_BODY = 64 * 1024 * 1024
ERROR_BODY_PATIENCE = 10.0
"""Seconds that the text of an error may take; the status alone says enough."""

LEAST_COOKIE = 8
"""Characters of a cookie's value that may be a secret: to take out a shorter one would only mangle messages."""

KEEP_ALIVE = 60.0
"""Seconds that an idle connection is kept: tools run between two requests of a turn."""


class HttpClient:
    """Posts to one service. Cheap to make; opens nothing and imports nothing until the first request."""

    def __init__(self, url: str, settings: ProviderSettings, *, secrets: Sequence[str] = ()) -> None:
        self.url = url
        """Where requests go that name no other address of the service."""
        self.service = host(url)
        """What messages call the service."""
        found = (*secrets, *secrets_in(url))
        self.secrets = tuple(dict.fromkeys(part for secret in found for part in _parts(secret) if part))
        self.transport: httpx.AsyncBaseTransport | None = None
        """Answers in the place of the network, if it is set before the first request."""
        self._connect_timeout = settings.connect_timeout
        self._silence_timeout = settings.silence_timeout
        self._client: httpx.AsyncClient | None = None
        self._setting_up: trio.Lock | None = None

    async def post(self, headers: Mapping[str, str], body: bytes, reader: ReplyReader, *, url: str = "") -> None:
        """Send ``body`` and feed the reply to ``reader`` until it ends; raises :class:`ProviderError`.

        Once the reader has a whole reply, nothing that happens to the connection is an error any more. Being
        cancelled closes the connection.
        """
        client = await self._ready()
        import httpx
        import trio

        failure: ProviderError | None = None
        began = False
        exchange: Exchange | None = None
        if (listener := LISTENER.get()) is not None:
            exchange = listener.asks(self.service, "POST", urlsplit(url or self.url).path, self.secrets)
        # One scope for the whole request: its deadline moves when the reply is whole, and cancelling it is the way
        # to leave a response early in which httpx's nested generators are all unwound.
        with trio.CancelScope() as scope:
            try:
                async with client.stream("POST", url or self.url, headers=_sent(headers), content=body) as response:
                    began = True
                    if exchange is not None:
                        from agentwire.provider.overheard import listen

                        listen(response, exchange)
                    if not response.is_success:
                        raise await self._refusal(response)
                    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                    if media in ("application/json", "text/html"):
                        await self._not_a_stream(response, media, reader)
                        return
                    async for chunk in _chunks(response):
                        if failure is not None:
                            continue
                        try:
                            reader.feed(chunk)
                        except ProviderError as error:
                            failure = error
                            scope.cancel()
                        else:
                            if reader.patience is not None:
                                scope.deadline = min(scope.deadline, trio.current_time() + reader.patience)
            except httpx.HTTPError as error:
                if exchange is not None:
                    exchange.broke(type(error).__name__, self._said(error), type(_root(error)).__name__)
                if reader.patience is None and failure is None:
                    raise self._broken(error, began) from error
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ready(self) -> httpx.AsyncClient:
        import trio

        if self._client is None and self.transport is not None:
            self._client = self._set_up()
        if self._client is None:
            if self._setting_up is None:
                self._setting_up = trio.Lock()
            async with self._setting_up:
                if self._client is None:
                    self._client = await trio.to_thread.run_sync(self._set_up)
        return self._client

    def _set_up(self) -> httpx.AsyncClient:
        import ssl

        import httpx

        silence = self._silence_timeout
        try:
            if self.transport is not None:
                return httpx.AsyncClient(transport=self.transport, trust_env=False, timeout=httpx.Timeout(None))
            # A context without certificates trusts nobody, and takes no time to make: right for plain HTTP.
            context = _tls_context() if self.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            return httpx.AsyncClient(
                verify=context,
                timeout=httpx.Timeout(connect=self._connect_timeout, read=silence, write=silence, pool=None),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEP_ALIVE),
                trust_env=not is_local(self.url),
            )
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            # The environment's proxy or certificates.
            text = errors.redact(str(error), self.secrets)
            raise ProviderError(f"HTTP cannot be set up for {self.service}: {text}", kind="config") from error

    async def _refusal(self, response: httpx.Response) -> ProviderError:
        import trio

        with trio.move_on_after(ERROR_BODY_PATIENCE):
            body = await _read(response, MAX_ERROR_BODY)
            return errors.refused(
                response.status_code, response.headers, body, service=self.service, secrets=self.secrets
            )
        return errors.refused(response.status_code, response.headers, b"", service=self.service, secrets=self.secrets)

    async def _not_a_stream(self, response: httpx.Response, media: str, reader: ReplyReader) -> None:
        body = await _read(response, MAX_JSON_BODY if media == "application/json" else MAX_ERROR_BODY)
        if body.lstrip().startswith((b"data:", b"event:", b":")):
            reader.feed(body)  # it is a stream, under a wrong name
        elif media == "application/json":
            reader.whole(body)
        else:
            raise errors.not_understood("a web page", body, service=self.service, secrets=self.secrets)

    def _broken(self, error: httpx.HTTPError, began: bool) -> ProviderError:
        import ssl

        import httpx

        service, cause, text = self.service, _root(error), self._said(error)
        match error:
            case httpx.ConnectTimeout():
                seconds = f"{self._connect_timeout:g}"
                return ProviderError(f"No connection to {service} within {seconds} s.", kind="connect", retryable=True)
            case httpx.TimeoutException():
                seconds = f"{self._silence_timeout:g}"
                return ProviderError(f"Nothing from {service} for {seconds} s.", kind="timeout", retryable=True)
            case httpx.ConnectError() | httpx.ProxyError():
                # A certificate that does not fit will not fit the next time either.
                retryable = not isinstance(cause, ssl.SSLCertVerificationError)
                return ProviderError(f"Cannot connect to {service}: {text}", kind="connect", retryable=retryable)
            case httpx.LocalProtocolError() | httpx.UnsupportedProtocol():
                return ProviderError(f"The request to {service} cannot be sent: {text}", kind="config")
            case httpx.DecodingError():
                return ProviderError(f"{service} sent what cannot be decompressed: {text}", kind="bad_reply")
        message = f"The connection to {service} broke off: {text}"
        return ProviderError(message, kind="stream" if began else "connect", retryable=True)

    def _said(self, error: httpx.HTTPError) -> str:
        cause = _root(error)
        return errors.redact(str(error) or str(cause) or type(cause).__name__, self.secrets)


def _sent(headers: Mapping[str, str]) -> dict[str, str]:
    # Without compression the bytes of an event are there when they arrive, and cost nothing to look at.
    ours = {"accept": "text/event-stream", "accept-encoding": "identity", "content-type": "application/json"}
    return ours | {name.lower(): value for name, value in headers.items()}


def _parts(secret: str) -> Iterator[str]:
    """A header's value as it is sent, and what a service may quote of it alone: what stands behind a scheme
    (``Bearer``), and the values of cookies."""
    yield secret
    scheme, _, rest = secret.partition(" ")
    if scheme.isalpha():
        yield rest.strip()
        return
    for pair in secret.split(";"):
        value = pair.partition("=")[2].strip()
        if len(value) >= LEAST_COOKIE:
            yield value


def _chunks(response: httpx.Response) -> AsyncIterable[bytes]:
    """The body as it arrives."""
    stream = response.stream
    if "content-encoding" in response.headers or not isinstance(stream, AsyncIterable):
        return response.aiter_bytes()  # we asked for no compression, but some proxy did
    return stream  # the same as `aiter_raw` without its bookkeeping, a tenth of the cost of a small chunk


async def _read(response: httpx.Response, limit: int) -> bytes:
    """The body, cut at ``limit``."""
    import trio

    body = bytearray()
    with trio.CancelScope() as scope:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= limit:
                scope.cancel()
    return bytes(body[:limit])


def _root(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """One for the process: reading the certificates is the slow part of every client."""
    import httpx

    return httpx.create_ssl_context()
