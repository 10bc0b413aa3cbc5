"""The provider: one request to Vertex AI."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentwire.provider import (
    ConfigError,
    Emit,
    EventStreamReader,
    HttpService,
    ModelRequest,
    ProviderError,
    ProviderSettings,
    Target,
    endpoint,
    find_key,
    need_extra,
    read_quirks,
)
from agentwire_vertex import DEFAULT_MODEL
from agentwire_vertex.quirks import VertexQuirks

if TYPE_CHECKING:
    from agentwire_vertex.tokens import Access, Tokens

PROJECT = "VERTEX_PROJECT_ID"
REGION = "VERTEX_REGION"
TOKEN = "VERTEX_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
"""Holds a token that is ready to be used, for who gets them elsewhere."""

DEFAULT_REGION = "us-central1"

HOSTS = {
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
    "eu": "aiplatform.eu.rep.googleapis.com",
}
"""Regions that are larger than one place; every other has a host of the usual form."""

_REGION = re.compile(r"[a-z0-9-]+")


class Vertex(HttpService):
    """Anthropic's models on Vertex AI, see :class:`agentwire.provider.Provider`."""

    name = "vertex"
    api = "messages"
    thinking = True

    def __init__(self, settings: ProviderSettings) -> None:
        """Looks for no credentials yet. Raises :class:`ConfigError` for a bad address, region or option."""
        need_extra("google.auth", self.name)
        self._quirks = quirks = read_quirks(VertexQuirks, settings, self.name)
        self._project = quirks.project or settings.environ.get(PROJECT, "")
        self._region = quirks.region or settings.environ.get(REGION, "") or DEFAULT_REGION
        if not _REGION.fullmatch(self._region):
            raise ConfigError(f"{self._region!r} is no Google Cloud region")
        host = HOSTS.get(self._region, f"{self._region}-aiplatform.googleapis.com")
        self._base_url = settings.base_url or f"https://{host}"
        self._key = find_key(settings, TOKEN)
        if self._key and not self._project:
            raise ConfigError(f"{PROJECT} not set")
        super().__init__(settings, quirks, endpoint(self._base_url, "/projects"), self._key, model=DEFAULT_MODEL)
        self._fixed_secrets = self._http.secrets
        self._tokens: Tokens | None = None
        self._setting_up = threading.Lock()

    def _body(self, request: ModelRequest) -> bytes:
        from agentwire_anthropic.request import build

        return build(request, self._quirks, anthropic_version=self._quirks.anthropic_version, stream=True)

    def _reader(self, request: ModelRequest, emit: Emit) -> EventStreamReader:
        from agentwire_anthropic.stream import MessageReader

        return MessageReader(emit, service=self._http.service, secrets=self._http.secrets)

    async def _target(self, request: ModelRequest, body: bytes) -> Target:
        """With a token from a worker thread: to get one may take a while, and so does loading google-auth."""
        import trio

        return await trio.to_thread.run_sync(self._opened, request, abandon_on_cancel=True)

    def _opened(self, request: ModelRequest) -> Target:
        opened, project = self._headers, self._project
        if not self._key:
            access = self._access()
            project = project or access.project
            opened = {"authorization": f"Bearer {access.token}", **opened}
            self._http.secrets = (*self._fixed_secrets, access.token)
        if not project:
            raise ProviderError(f"{PROJECT} not set, and the credentials name no project", kind="config")
        place = f"/projects/{quote(project, safe='')}/locations/{self._region}/publishers/anthropic/models"
        path = f"{place}/{quote(request.model, safe='@')}:streamRawPredict"
        by_hand = self._quirks.api_path
        return Target(endpoint(self._base_url, by_hand or path, verbatim=bool(by_hand)), opened | request.headers)

    def _access(self) -> Access:
        with self._setting_up:
            if self._tokens is None:
                from agentwire_vertex.tokens import Tokens

                self._tokens = Tokens()
        return self._tokens.access()
