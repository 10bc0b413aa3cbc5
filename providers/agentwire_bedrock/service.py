"""The provider: one request to Bedrock."""

from __future__ import annotations

import re
from urllib.parse import quote

from agentwire.provider import (
    ConfigError,
    Emit,
    EventStreamReader,
    HttpService,
    ModelRequest,
    ProviderSettings,
    Target,
    endpoint,
    find_key,
    host,
    need_extra,
    read_quirks,
)
from agentwire_bedrock import DEFAULT_MODEL
from agentwire_bedrock.account import DEFAULT_REGION, Account
from agentwire_bedrock.quirks import BedrockQuirks

KEY = "AWS_BEARER_TOKEN_BEDROCK"
BASE_URL = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
ACTIONS = {"invoke": "invoke-with-response-stream", "converse": "converse-stream"}

_REGION = re.compile(r"[a-z0-9-]+")


class Bedrock(HttpService):
    """Bedrock's models, see :class:`agentwire.provider.Provider`."""

    name = "bedrock"
    thinking = True

    def __init__(self, settings: ProviderSettings) -> None:
        """Looks for no credentials yet. Raises :class:`ConfigError` for a bad address, region or option."""
        need_extra("botocore", self.name)
        self._quirks = quirks = read_quirks(BedrockQuirks, settings, self.name)
        self.api = "converse" if quirks.api == "converse" else "messages"
        environ = settings.environ
        region = quirks.region or environ.get("AWS_REGION", "") or environ.get("AWS_DEFAULT_REGION", "")
        if region and not _REGION.fullmatch(region):
            raise ConfigError(f"{region!r} is no AWS region")
        self._base_url = settings.base_url or environ.get(BASE_URL, "")
        self._account = Account(environ, profile=quirks.profile, region=region)
        self._key = find_key(settings, KEY)
        url = endpoint(self._base_url or _regional(region or DEFAULT_REGION), "/", verbatim=True)
        super().__init__(settings, quirks, url, self._key, model=DEFAULT_MODEL)
        self._fixed_secrets = self._http.secrets

    def _body(self, request: ModelRequest) -> bytes:
        if self.api == "converse":
            from agentwire_bedrock.converse import build as build_converse

            return build_converse(request, self._quirks)
        from agentwire_anthropic.request import build

        return build(request, self._quirks, anthropic_version=self._quirks.anthropic_version)

    def _reader(self, request: ModelRequest, emit: Emit) -> EventStreamReader:
        from agentwire_bedrock.stream import FrameReader

        return FrameReader(emit, service=self._http.service, secrets=self._http.secrets)

    async def _target(self, request: ModelRequest, body: bytes) -> Target:
        """Signed on a worker thread: to find credentials may take a while, and so does loading botocore."""
        import trio

        return await trio.to_thread.run_sync(self._signed, request, body, abandon_on_cancel=True)

    def _signed(self, request: ModelRequest, body: bytes) -> Target:
        from agentwire_bedrock import frames  # noqa: F401 - loaded here, for the reader

        path = self._quirks.api_path or f"/model/{quote(request.model, safe='')}/{ACTIONS[self._quirks.api]}"
        url = endpoint(self._base_url or _regional(self._account.region()), path, verbatim=True)
        self._http.service = host(url)
        headers = {"accept": "application/vnd.amazon.eventstream", "content-type": "application/json"}
        if not self._key:
            signed = self._account.sign(url, headers, body)
            headers, self._http.secrets = signed.headers, (*self._fixed_secrets, *signed.secrets)
        return Target(url, {**headers, **self._headers, **request.headers})


def _regional(region: str) -> str:
    return f"https://bedrock-runtime.{region}.amazonaws.com"
