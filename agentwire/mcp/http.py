"""The HTTP transports, sse and streamable-http, through the SDK (Model Context Protocol, transports).

The SDK swallows some failures of its requests, which would leave a call waiting for ever. So its HTTP client is ours
and reports what happens to the requests that carry messages.

This module imports the SDK: see :mod:`agentwire.mcp`.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx2
import trio
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agentwire.mcp.spec import McpServerSpec

CONNECT_TIMEOUT = 30.0
"""Seconds for connecting and for sending; silence while a call runs has no limit."""


def _one_line(record: logging.LogRecord) -> bool:
    """Keep the SDK's complaints without their tracebacks: what failed is told where it matters."""
    record.exc_info = None
    return True


for _name in ("mcp.client.sse", "mcp.client.streamable_http"):
    logging.getLogger(_name).addFilter(_one_line)

Report = Callable[[httpx2.Request, str, int], None]
"""``report(request, trouble, status)``: a message's request failed (status 0) or was refused with a status."""


class _Client(httpx2.AsyncClient):
    """An HTTP client that reports the fate of messages."""

    def __init__(self, report: Report, *, answers_elsewhere: bool, **options: Any) -> None:
        super().__init__(timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=None), **options)
        self._report = report
        self._answers_elsewhere = answers_elsewhere

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if self._answers_elsewhere and request.method == "POST":
            # No call is answered here, so there is nothing to wait long for.
            request.extensions = {**request.extensions, "timeout": httpx2.Timeout(CONNECT_TIMEOUT).as_dict()}
        try:
            response = await super().send(request, **options)
        except httpx2.HTTPError as error:
            if request.method == "POST":
                self._report(request, trouble_of(error), 0)
            raise
        if request.method == "POST" and response.status_code >= 400:
            self._report(request, _status(response), response.status_code)
        return response


def trouble_of(error: Exception) -> str:
    """What went wrong with a request, without anything secret."""
    if isinstance(error, httpx2.HTTPStatusError):
        return _status(error.response)
    text = str(error) or type(error).__name__
    if isinstance(error, httpx2.RequestError):
        with suppress(RuntimeError):  # it may not know its request
            return f"{place(str(error.request.url))}: {text}"
    return text


def place(url: str) -> str:
    """A URL fit to be shown. Paths and queries hold keys with some services, so they are left out."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def _status(response: httpx2.Response) -> str:
    code = response.status_code
    known = any(code == status.value for status in HTTPStatus)
    return f"{place(str(response.request.url))}: HTTP {code}{f' {HTTPStatus(code).phrase}' if known else ''}"


@asynccontextmanager
async def open_http(spec: McpServerSpec, report: Report) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to a server over HTTP; yields the streams of messages."""
    # Reading the certificates takes tens of milliseconds.
    context: ssl.SSLContext = await trio.to_thread.run_sync(httpx2.create_ssl_context, abandon_on_cancel=True)

    sse = spec.wire == "sse"

    def client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return _Client(report, answers_elsewhere=sse, headers=headers, auth=auth, verify=context)

    if sse:
        async with sse_client(spec.url, headers=dict(spec.headers), httpx_client_factory=client) as streams:
            yield streams
        return
    async with (
        client(dict(spec.headers)) as http,
        streamable_http_client(spec.url, http_client=http) as streams,
    ):
        yield streams
