"""What Jan's configuration and command line mean for a server of ours.

A service keeps the user's own id for it; how it is spoken to follows from its ``api_type``, or from the id where it
is a provider's name. The order of keys is the command line, ``JAN_API_KEY``, ``ID_API_KEY`` for a service named on
the command line, then the configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct

from agentwire.config import Config
from agentwire.options import ServeOptions
from agentwire.provider.contract import ConfigError
from agentwire.store import SessionStore
from agentwire_jan.configuration import KEY_VARIABLE, Configuration, Service

LATEST: Final = "latest"

_CHAT: Final[dict[str, Any]] = {"provider": "openai"}
_RESPONSES: Final[dict[str, Any]] = {"provider": "openai", "api": "responses"}
_MESSAGES: Final[dict[str, Any]] = {"provider": "anthropic"}

API_TYPES: Final[Mapping[str, dict[str, Any]]] = {
    "openai": _CHAT,
    "openai-compatible": _CHAT,
    "openai-chat": _CHAT,
    "openai-completions": _CHAT,
    "chat": _CHAT,
    "chat-completions": _CHAT,
    "openai-responses": _RESPONSES,
    "responses": _RESPONSES,
    "anthropic": _MESSAGES,
    "anthropic-messages": _MESSAGES,
    "messages": _MESSAGES,
}
"""What an ``api_type`` says, in the words of our providers."""

_BY_ID: Final = {"anthropic": _MESSAGES, "openai": _CHAT}
"""Services that need no address: their provider knows it."""

NO_MODEL: Final = (
    "no model is configured: run `config set --provider ID --base-url URL --api-key KEY --model MODEL`, "
    "or pass --model and --provider"
)


class Wanted(Struct, frozen=True):
    """What the command line says of the model service. Empty: the configuration decides."""

    provider: str = ""
    model: str = ""
    api_key: str = ""


class Chosen(Struct, frozen=True):
    """The service and the model of a run."""

    service: str
    model: str


def choose(configuration: Configuration, wanted: Wanted) -> Chosen:
    """Which service serves which model. Raises :class:`ConfigError` with what to do if there is none."""
    if wanted.provider:
        _known(configuration, wanted.provider)
        model = wanted.model.removeprefix(f"{wanted.provider}/")
        listed = configuration.providers.get(wanted.provider, Service()).models
        fits = configuration.default_model if configuration.default_model in listed else ""
        if not (model or fits or listed):
            raise ConfigError(f"provider '{wanted.provider}' has no model: pass --model")
        return Chosen(wanted.provider, model or fits or listed[0])
    model = wanted.model or configuration.default()
    if not model:
        raise ConfigError(NO_MODEL)
    prefix, slash, rest = model.partition("/")
    if slash and rest and prefix in configuration.providers:
        return Chosen(prefix, rest)
    for name, service in sorted(configuration.providers.items()):
        if model in service.models:
            return Chosen(name, model)
    raise ConfigError(f"no configured provider serves the model '{model}'; name one with --provider")


def _known(configuration: Configuration, service: str) -> None:
    if service not in configuration.providers and service not in _BY_ID:
        known = ", ".join(sorted({*configuration.providers, *_BY_ID}))
        raise ConfigError(f"unknown provider '{service}' (known: {known}); add it with `config set`")


def serve_options(
    configuration: Configuration,
    wanted: Wanted,
    environ: Mapping[str, str] = os.environ,
    *,
    needs_model: bool = True,
    **fields: Any,
) -> ServeOptions:
    """The options of a server that offers every configured service. ``fields`` are :class:`ServeOptions`'s own.

    Raises :class:`ConfigError` if there is no model to begin with, or its service cannot be reached as it is
    described. Without ``needs_model`` that is told when a session asks for it.
    """
    notices = []
    chosen = Chosen("", "")
    try:
        chosen = choose(configuration, wanted)
    except ConfigError as error:
        if needs_model:
            raise
        notices.append(str(error))
    services = {**({chosen.service: Service()} if chosen.service else {}), **configuration.providers}
    tables = {}
    for name, service in services.items():
        try:
            tables[name] = _table(name, service)
        except ConfigError as error:
            if name == chosen.service and needs_model:
                raise
            notices.append(str(error))
    if configuration.dead:
        notices.append(f"Settings of Jan that have no effect here: {', '.join(configuration.dead)}.")
    return ServeOptions(
        provider=chosen.service,
        provider_required=True,
        model=chosen.model,
        api_key=_key(wanted, environ),
        extra=Config(providers=tables),
        notices=tuple(notices),
        **fields,
    )


def _key(wanted: Wanted, environ: Mapping[str, str]) -> str:
    """The key that goes before the configured one."""
    named = f"{wanted.provider.upper().replace('-', '_')}_API_KEY" if wanted.provider else ""
    return wanted.api_key or environ.get(KEY_VARIABLE, "") or environ.get(named, "")


def _table(name: str, service: Service) -> dict[str, Any]:
    """A service as an entry of ``agentwire.toml``."""
    kind = api_kind(name, service.api_type)
    if not service.base_url and kind["provider"] != name:
        raise ConfigError(f"provider '{name}' has no base_url: set one with `config set --provider {name} --base-url`")
    table: dict[str, Any] = {**kind, "models": list(service.models)}
    for key in ("base_url", "api_key", "headers"):
        if value := getattr(service, key):
            table[key] = value
    return table


def api_kind(service: str, api_type: str) -> dict[str, Any]:
    """How a service is spoken to, in the words of our providers. Raises :class:`ConfigError`."""
    if not api_type:
        return _BY_ID.get(service, _CHAT)
    kind = API_TYPES.get(api_type.lower().replace("_", "-"))
    if kind is None:
        raise ConfigError(f"provider '{service}': unknown api type '{api_type}' (known: {', '.join(API_TYPES)})")
    return kind


# --- sessions ------------------------------------------------------------------------------------------------


def session_to_resume(asked: str, workspace: Path, *, fork: bool, store: SessionStore | None = None) -> str:
    """The id of the session that ``asked`` means: ``latest`` of the workspace, an id, or the beginning of one.

    With ``fork`` it is a copy, made here; the other is not touched. Raises :class:`ConfigError` or
    :class:`~agentwire.store.StoreError`.
    """
    store = store or SessionStore.default(os.environ)
    if asked == LATEST:
        found = store.latest(str(workspace)).id
    else:
        names = [info.id for info in store.list()]
        fitting = [asked] if asked in names else [name for name in names if name.startswith(asked)]
        if len(fitting) != 1:
            problem = f"'{asked}' is the beginning of {len(fitting)} of them" if fitting else "there is none of that id"
            raise ConfigError(f"cannot resume session '{asked}': {problem}")
        found = fitting[0]
    if not fork:
        return found
    copy = str(uuid4())
    store.fork(found, copy).close()
    return copy
