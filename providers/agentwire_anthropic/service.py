"""The provider: one request to a Messages service."""

from __future__ import annotations

from agentwire.provider import (
    Emit,
    EventStreamReader,
    HttpService,
    ModelRequest,
    ProviderSettings,
    find_service,
    read_quirks,
)
from agentwire_anthropic import DEFAULT_MODEL
from agentwire_anthropic.quirks import AnthropicQuirks

DEFAULT_BASE_URL = "https://api.anthropic.com"
KEY = "ANTHROPIC_API_KEY"
BASE_URL = "ANTHROPIC_BASE_URL"


class Anthropic(HttpService):
    """A Messages service, see :class:`agentwire.provider.Provider`."""

    name = "anthropic"
    api = "messages"
    thinking = True

    def __init__(self, settings: ProviderSettings) -> None:
        """Raises :class:`ConfigError` for a missing key, a bad address or an unknown option."""
        self._quirks = quirks = read_quirks(AnthropicQuirks, settings, self.name)
        service = find_service(
            settings,
            "/messages",
            base_url=DEFAULT_BASE_URL,
            base_url_variable=BASE_URL,
            key_variable=KEY,
            api_path=quirks.api_path,
        )
        super().__init__(settings, quirks, service.url, service.key, model=DEFAULT_MODEL)
        self._headers = {"anthropic-version": quirks.anthropic_version, **self._headers}

    def _body(self, request: ModelRequest) -> bytes:
        from agentwire_anthropic.request import build

        return build(request, self._quirks, model=request.model, stream=True)

    def _reader(self, request: ModelRequest, emit: Emit) -> EventStreamReader:
        from agentwire_anthropic.stream import MessageReader

        return MessageReader(emit, service=self._http.service, secrets=self._http.secrets)
