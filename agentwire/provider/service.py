"""The base of every provider that is one HTTP service: what a request goes through, whatever its body looks like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agentwire.provider.contract import Completion, Emit, ModelRequest, ProviderError, ProviderSettings
from agentwire.provider.hearing import LISTENER, Reading
from agentwire.provider.http import HttpClient
from agentwire.provider.quirks import HttpQuirks, auth

if TYPE_CHECKING:
    import httpx

    from agentwire.provider.reader import EventStreamReader


class Target(Struct, frozen=True):
    """Where a request goes, and the headers that go with it."""

    url: str
    headers: Mapping[str, str]


class HttpService(ABC):
    """A model service, see :class:`agentwire.provider.Provider`. Subclasses make its bodies and read its replies."""

    name: str
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    api: str
    """The form of the bodies, in the words of :func:`agentwire.provider.provenance`."""

    def __init__(self, settings: ProviderSettings, quirks: HttpQuirks, url: str, key: str, *, model: str) -> None:
        """Opens nothing and imports no HTTP library. ``model`` is the default, ``key`` may be empty."""
        self.model = settings.model or model
        self._headers: dict[str, str] = auth(quirks.auth_header, key) | quirks.headers
        self._http = HttpClient(url, settings, secrets=(key, *quirks.secrets()))
        self._reading = partial(Reading, self.name, connect_timeout=settings.connect_timeout,
                                silence_timeout=settings.silence_timeout)  # fmt: skip
        self._choices = quirks.choices

    @abstractmethod
    def _body(self, request: ModelRequest) -> bytes:
        """The request as JSON. Its images have been loaded."""

    @abstractmethod
    def _reader(self, request: ModelRequest, emit: Emit) -> EventStreamReader:
        """What reads the reply. Called when the target is known."""

    async def _target(self, request: ModelRequest, body: bytes) -> Target:
        """Where to send ``body``. By default it is one address, and the same headers for all requests."""
        return Target(self._http.url, self._headers | request.headers)

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Send one request and stream the reply through ``emit``."""
        from agentwire.provider.conversation import load_images
        from agentwire.provider.hashes import provenance

        request = replace(request, messages=await load_images(request.messages))
        body = self._body(request)
        if (listener := LISTENER.get()) is not None:
            listener.reads(self._reading(options=self._choices()))
        # Where nobody is reached nothing has to be opened.
        target = Target("", {}) if self._http.transport else await self._target(request, body)
        reader = self._reader(request, emit)
        emit(provenance(body, provider=self.name, model=request.model, api=self.api, messages=request.messages))
        try:
            await self._http.post(target.headers, body, reader, url=target.url)
            return reader.finish()
        except ProviderError as error:
            error.usage = reader.usage
            raise

    def answered_by(self, transport: httpx.AsyncBaseTransport, service: str) -> None:
        """Let ``transport`` answer instead of the service, which messages call ``service`` all the same.

        To be called before the first request. No key is looked for then, and nothing is signed.
        """
        self._http.transport, self._http.service = transport, service

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
