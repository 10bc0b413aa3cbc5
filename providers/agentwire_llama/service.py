"""The provider: a supervised server, and whoever reads its replies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from agentwire.events import RequestSent
from agentwire.messages import AssistantMessage, Message
from agentwire.provider import (
    Check,
    Completion,
    ConfigError,
    Emit,
    ModelRequest,
    Provider,
    ProviderError,
    ProviderPlugin,
    ProviderSettings,
    StreamEvent,
)
from agentwire.registry import UnknownName, load_provider
from agentwire_llama import NAME
from agentwire_llama.locate import find_binary, find_model, is_path, model_name
from agentwire_llama.log import ServerLog, default_path
from agentwire_llama.options import LlamaOptions, read_options

if TYPE_CHECKING:
    from agentwire_llama.supervisor import Server, Supervisor
    from agentwire_llama.survey import Survey

READER = "openai"
"""The provider that speaks the server's protocol."""


class Llama:
    """A model on this machine, see :class:`agentwire.provider.Provider` and :class:`agentwire.provider.Diagnosable`."""

    name = NAME
    thinking = False

    def __init__(self, settings: ProviderSettings) -> None:
        """Raises :class:`ConfigError`: no program, no model, a bad or unknown option."""
        self._settings = settings
        self._options, self._rest = read_options(settings)
        self._reader = _reader()
        self.effort_levels = self._reply_reader("http://127.0.0.1:1", "").effort_levels
        find_binary(self._options.binary, settings.environ)
        find_model(self._options.model_file, settings.model)
        self.model = model_name(settings.model, self._options.model_file)
        self._supervisor: Supervisor | None = None
        self._links: dict[Server, _Link] = {}

    async def start(self) -> None:
        """Start the server and wait until the model is loaded; raises :class:`ProviderError`. May be cancelled."""
        await self._supervised().ready()

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Send one request, to a server that is started for it if none runs; raises :class:`ProviderError`."""
        request = replace(request, model=self._asked(request.model), messages=[_known(m) for m in request.messages])

        def told(event: StreamEvent) -> None:
            emit(replace(event, provider=NAME) if isinstance(event, RequestSent) else event)

        supervisor = self._supervised()
        server = await supervisor.ready()
        supervisor.trim_log()
        link = self._link(server)
        link.users += 1
        try:
            await self._leave_old_links(server)
            completion = await link.reader.complete(request, told)
        except ProviderError as error:
            if error.kind in ("connect", "stream") and (cause := await supervisor.cause_of_death(server)):
                raise ProviderError(cause, kind=error.kind, retryable=True, usage=error.usage) from error
            raise
        finally:
            link.users -= 1
        supervisor.answered(server)
        return completion

    async def aclose(self) -> None:
        """End the server and close the connections."""
        links, self._links = self._links, {}
        try:
            for link in links.values():
                await link.reader.aclose()
        finally:
            if self._supervisor is not None:
                await self._supervisor.stop()

    def checks(self) -> list[Check]:
        """Whether a server could be started: ``binary``, ``model``, ``memory`` and, if one is set, ``port``."""
        return self._survey().checks()

    def plan(self) -> dict[str, Any]:
        """What would be run, see :meth:`agentwire_llama.plan.LaunchPlan.facts`; raises :class:`ConfigError`."""
        return {**self._survey().plan().facts(), "log_file": str(_log(self._options, self._settings).path)}

    def _survey(self) -> Survey:
        from agentwire_llama.survey import Survey

        return Survey(self._options, self._settings.model, self._settings.environ)

    def _supervised(self) -> Supervisor:
        if self._supervisor is None:
            from agentwire_llama.supervisor import Supervisor

            log = _log(self._options, self._settings)
            self._supervisor = Supervisor(lambda: self._survey().plan(), self._options, log)
        return self._supervisor

    def _link(self, server: Server) -> _Link:
        """What talks to a server."""
        if server not in self._links:
            self._links[server] = _Link(self._reply_reader(f"{server.url}/v1", server.key))
        return self._links[server]

    async def _leave_old_links(self, server: Server) -> None:
        """Nothing is left of links to servers that are no more, once nobody uses them."""
        for old in [other for other, link in self._links.items() if other is not server and not link.users]:
            await self._links.pop(old).reader.aclose()

    def _reply_reader(self, base_url: str, key: str) -> Provider:
        settings = replace(self._settings, base_url=base_url, api_key=key, environ={}, options=self._rest)
        try:
            return self._reader.create(settings)
        except ConfigError as error:
            ours = ", ".join(LlamaOptions.__struct_fields__)
            raise ConfigError(f"options of provider llama are {ours}, and those of {READER}; {error}") from None

    def _asked(self, model: str) -> str:
        """The model by its name. One file is loaded: another would need a server of its own."""
        if model in ("", self.model, self._settings.model):
            return self.model
        if is_path(model):
            raise ProviderError(f"{model} is not loaded: the model file is chosen at the start", kind="config")
        return model


class _Link:
    """A reader of replies, and how many requests use it now."""

    def __init__(self, reader: Provider) -> None:
        self.reader = reader
        self.users = 0


def _reader() -> ProviderPlugin:
    try:
        return load_provider(READER)
    except UnknownName as error:
        raise ConfigError(f"provider llama needs the provider {READER}: {error}") from None


def _known(message: Message) -> Message:
    """Its own replies as the reader knows them: it made them, under our name."""
    if isinstance(message, AssistantMessage) and message.provider == NAME:
        return replace(message, provider=READER)
    return message


def _log(options: LlamaOptions, settings: ProviderSettings) -> ServerLog:
    path = Path(os.path.expanduser(options.log_file)).absolute() if options.log_file else default_path(settings.environ)
    return ServerLog(path, options.log_limit, tidy=not options.log_file)
