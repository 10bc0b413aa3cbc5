"""Access tokens of Google's, as google-auth gets them, over httpx.

Everything here may block: it is for a worker thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import google.auth
import httpx
from google.auth import exceptions
from google.auth.transport import Request, Response
from msgspec import Struct

from agentwire.provider import ProviderError

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT = 30.0
"""Seconds for one request to the token service, unless google-auth says otherwise."""


class Access(Struct, frozen=True):
    """What a request is opened with."""

    token: str
    project: str
    """The credentials' own; empty if they have none."""


class Tokens:
    """One account's tokens: found as every Google program finds it, and renewed in time before they expire."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._project = ""

    def access(self) -> Access:
        """A token that is good for some minutes at least; raises :class:`ProviderError`."""
        with self._lock:
            try:
                return self._access(_HttpxRequest())
            except exceptions.DefaultCredentialsError as error:
                raise ProviderError(f"No Google credentials: {error}", kind="config") from error
            except exceptions.TransportError as error:
                message = f"Google's token service cannot be reached: {error}"
                raise ProviderError(message, kind="connect", retryable=True) from error
            except exceptions.GoogleAuthError as error:
                raise ProviderError(f"Google gives no access token: {_said(error)}", kind="auth") from error
            except (OSError, ValueError) as error:  # a file that cannot be read, or holds what is no key
                raise ProviderError(f"No Google credentials: {error}", kind="config") from error

    def _access(self, request: Request) -> Access:
        if self._credentials is None:
            self._credentials, project = google.auth.default(scopes=[SCOPE], request=request)
            self._project = project or ""
        if not self._credentials.valid:
            self._credentials.refresh(request)
        return Access(self._credentials.token, self._project)


def _said(error: exceptions.GoogleAuthError) -> str:
    """The sentence of an error; further arguments are the service's reply, which may hold more than is to be shown."""
    return str(error.args[0]) if error.args else type(error).__name__


class _HttpxRequest(Request):
    """The transport that google-auth asks for."""

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> Response:
        """Send a request, whatever the status of its answer."""
        try:
            reply = httpx.request(method, url, content=body, headers=dict(headers or {}), timeout=timeout or TIMEOUT)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise exceptions.TransportError(str(error) or type(error).__name__) from error
        return _HttpxResponse(reply)


class _HttpxResponse(Response):
    def __init__(self, reply: httpx.Response) -> None:
        self._reply = reply

    @property
    def status(self) -> int:
        return self._reply.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return self._reply.headers

    @property
    def data(self) -> bytes:
        return self._reply.content
