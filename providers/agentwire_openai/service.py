"""The provider: one request to an OpenAI service, in either of its two forms."""

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
from agentwire_openai import DEFAULT_MODEL
from agentwire_openai.quirks import OpenAIQuirks

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
PATHS = {"chat": "/chat/completions", "responses": "/responses"}


class OpenAI(HttpService):
    """A Chat Completions or Responses service, see :class:`agentwire.provider.Provider`."""

    name = "openai"

    def __init__(self, settings: ProviderSettings) -> None:
        """Raises :class:`ConfigError` for a missing key, a bad address or an unknown option."""
        self._quirks = quirks = read_quirks(OpenAIQuirks, settings, self.name)
        self.api = quirks.api
        self.effort_levels = quirks.effort_levels
        service = find_service(
            settings,
            PATHS[quirks.api],
            base_url=DEFAULT_BASE_URL,
            base_url_variable=BASE_URL,
            key_variable=KEY,
            api_path=quirks.api_path,
        )
        super().__init__(settings, quirks, service.url, service.key, model=DEFAULT_MODEL)
        self._max_tokens_field = quirks.max_tokens_field or (
            "max_completion_tokens" if service.official else "max_tokens"
        )

    def _body(self, request: ModelRequest) -> bytes:
        if self.api == "responses":
            from agentwire_openai.responses_request import build as build_responses

            return build_responses(request, self._quirks)
        from agentwire_openai.request import build

        return build(request, self._quirks, self._max_tokens_field)

    def _reader(self, request: ModelRequest, emit: Emit) -> EventStreamReader:
        service, secrets, quirks = self._http.service, self._http.secrets, self._quirks
        if self.api == "responses":
            from agentwire_openai.responses_stream import ResponseReader

            return ResponseReader(
                emit, model=request.model, service=service, secrets=secrets, make_call_ids=quirks.make_call_ids
            )
        from agentwire_openai.stream import ChatReader

        return ChatReader(
            emit,
            model=request.model,
            service=service,
            secrets=secrets,
            thinking_tags=quirks.thinking_tags,
            make_call_ids=quirks.make_call_ids,
        )
