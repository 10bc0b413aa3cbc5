"""The provider: one request to a Messages service."""

from __future__ import annotations

from msgspec.structs import replace

from agentwire.provider import (
    Completion,
    ConfigError,
    Emit,
    HttpClient,
    ModelRequest,
    ProviderError,
    ProviderSettings,
    auth,
    endpoint,
    find_key,
    host,
    read_quirks,
)
from agentwire_anthropic import DEFAULT_MODEL
from agentwire_anthropic.quirks import AnthropicQuirks

DEFAULT_BASE_URL = "https://api.anthropic.com"
KEY = "ANTHROPIC_API_KEY"
BASE_URL = "ANTHROPIC_BASE_URL"


class Anthropic:
    """A Messages service, see :class:`agentwire.provider.Provider`."""

    name = "anthropic"
    thinking = True
    effort_levels: tuple[str, ...] = ()

    def __init__(self, settings: ProviderSettings) -> None:
        """Raises :class:`ConfigError` for a missing key, a bad address or an unknown option."""
        self._quirks = quirks = read_quirks(AnthropicQuirks, settings, self.name)
        base_url = settings.base_url or settings.environ.get(BASE_URL, "") or DEFAULT_BASE_URL
        url = endpoint(base_url, quirks.api_path or "/messages", verbatim=bool(quirks.api_path))
        key = find_key(settings, KEY)
        if host(url) == host(DEFAULT_BASE_URL) and not key:
            raise ConfigError(f"{KEY} not set")
        self.model = settings.model or DEFAULT_MODEL
        self._headers = {
            "anthropic-version": quirks.anthropic_version,
            **auth(quirks.auth_header, key),
            **quirks.headers,
        }
        self._http = HttpClient(url, settings, secrets=(key, *quirks.secrets()))

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Send one request and stream the reply through ``emit``."""
        from agentwire.provider import load_images
        from agentwire_anthropic.request import build
        from agentwire_anthropic.stream import MessageReader

        request = replace(request, messages=await load_images(request.messages))
        reader = MessageReader(emit, service=self._http.service, secrets=self._http.secrets)
        try:
            await self._http.post(self._headers | request.headers, build(request, self._quirks), reader)
            return reader.finish()
        except ProviderError as error:
            error.usage = reader.usage
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
