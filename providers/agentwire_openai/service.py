"""The provider: one request to a Chat Completions service."""

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
from agentwire_openai import DEFAULT_MODEL
from agentwire_openai.quirks import OpenAIQuirks

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"


class OpenAI:
    """A Chat Completions service, see :class:`agentwire.provider.Provider`."""

    name = "openai"
    thinking = False

    def __init__(self, settings: ProviderSettings) -> None:
        """Raises :class:`ConfigError` for a missing key, a bad address or an unknown option."""
        self._quirks = quirks = read_quirks(OpenAIQuirks, settings, self.name)
        base_url = settings.base_url or settings.environ.get(BASE_URL, "") or DEFAULT_BASE_URL
        url = endpoint(base_url, quirks.api_path or "/chat/completions", verbatim=bool(quirks.api_path))
        key = find_key(settings, KEY)
        official = host(url) == host(DEFAULT_BASE_URL)
        if official and not key:
            raise ConfigError(f"{KEY} not set")
        self.model = settings.model or DEFAULT_MODEL
        self.effort_levels = quirks.effort_levels
        self._max_tokens_field = quirks.max_tokens_field or ("max_completion_tokens" if official else "max_tokens")
        self._headers = auth(quirks.auth_header, key) | quirks.headers
        self._http = HttpClient(url, settings, secrets=(key, *quirks.secrets()))

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Send one request and stream the reply through ``emit``."""
        from agentwire.provider import load_images
        from agentwire_openai.request import build
        from agentwire_openai.stream import ChatReader

        request = replace(request, messages=await load_images(request.messages))
        body = build(request, self._quirks, self._max_tokens_field)
        reader = ChatReader(
            emit,
            model=request.model,
            service=self._http.service,
            secrets=self._http.secrets,
            thinking_tags=self._quirks.thinking_tags,
            make_call_ids=self._quirks.make_call_ids,
        )
        try:
            await self._http.post(self._headers | request.headers, body, reader)
            return reader.finish()
        except ProviderError as error:
            error.usage = reader.usage
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
