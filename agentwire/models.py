"""Which provider serves a model: from options, configuration and what a host asks for.

Plain code without an event loop. Providers are made when they are first needed; sessions with the same settings share
one.
"""

from __future__ import annotations

import os
from typing import Any

from agentwire import registry
from agentwire.children.secret_variables import hide
from agentwire.config import Config
from agentwire.options import ServeOptions
from agentwire.provider.contract import ConfigError, Provider, ProviderPlugin, ProviderSettings

DEFAULT_PROVIDER = "anthropic"

TIME_LIMITS = ("connect_timeout", "silence_timeout")
"""Options that every provider has: seconds to connect, and seconds without a byte."""

NO_PROVIDER = "No provider is configured: pass --provider NAME, or set `provider` in agentwire.toml."


class Models:
    """The models that one process can be asked for. ``agent`` may have a provider or a model of its own."""

    def __init__(self, options: ServeOptions, agent: Any) -> None:
        self.made: dict[str, Provider] = {}
        """The providers that were made so far, by all that they were made of."""
        self._options = options
        self._agent = agent

    def serving(self, config: Config, asked: str) -> tuple[Provider | None, str]:
        """The provider for a model that a host asked for (``""``: the default one), and the model's name.

        Raises :class:`ConfigError`: kind ``model`` if models are configured and this is none of them, kind
        ``config_missing`` if nothing names a provider, and what the provider itself says.
        """
        agent, options = self._agent, self._options
        own = getattr(agent, "provider", None)
        default = options.model or getattr(agent, "model", "") or config.model
        if own is not None and not isinstance(own, str):
            self.made[own.name] = own
            return own, asked or default or own.model
        if agent is not None and not hasattr(agent, "provider"):
            return None, asked or default
        name = options.provider or own or config.provider
        name, model = self._named(config, asked, name or ("" if options.provider_required else DEFAULT_PROVIDER))
        if not name:
            raise ConfigError(options.config_fault or NO_PROVIDER, "config_missing")
        provider = self._make(config, name, model or default)
        return provider, provider.model or model or default

    def _named(self, config: Config, asked: str, default: str) -> tuple[str, str]:
        """Who serves a model that was asked for, and what it is called there."""
        if not asked:
            return default, ""
        prefix, slash, rest = asked.partition("/")
        if (
            slash
            and rest
            and (prefix == default or prefix in config.providers or prefix in self._options.models.values())
        ):
            return prefix, rest
        known = dict(self._options.models)
        for name, table in config.providers.items():
            known.update(dict.fromkeys(map(str, table.get("models", ())), name))
        if known and asked not in known:
            raise ConfigError(f"No configured provider serves the model '{asked}'", "model")
        return known.get(asked, default), asked

    def _make(self, config: Config, name: str, model: str) -> Provider:
        options = self._options
        quirks = dict(config.providers.get(name, {}))
        quirks.pop("models", None)
        kind = str(quirks.pop("provider", "")) or name  # an entry of the user's own may say of which kind it is
        configured_url, configured_key = str(quirks.pop("base_url", "")), str(quirks.pop("api_key", ""))
        main = name == (options.provider or config.provider or name)  # whom the options are meant for
        base_url = (options.base_url if main else "") or configured_url
        api_key = (options.api_key if main else "") or configured_key
        if main:
            quirks.update(options.provider_options)
        limits = {limit: _seconds(limit, quirks.pop(limit)) for limit in TIME_LIMITS if limit in quirks}
        key = repr((name, model, base_url, api_key, sorted(quirks.items(), key=str), limits))
        provider = self.made.get(key)
        if provider is None:
            try:
                plugin = registry.load_provider(kind)
            except registry.UnknownName as error:
                raise ConfigError(str(error)) from None
            hide(plugin.secrets)
            provider = self.made[key] = plugin.create(
                ProviderSettings(
                    model=model,
                    base_url=base_url,
                    api_key=api_key,
                    environ=_environ(plugin, foreign=kind != name and bool(base_url)),
                    options=quirks,
                    **limits,
                )
            )
        return provider


def _environ(plugin: ProviderPlugin, *, foreign: bool) -> dict[str, str]:
    """The environment as a provider sees it; without its keys, if they would go to somebody else's address."""
    hidden = {name.upper() for name in plugin.secrets} if foreign else set()
    return {name: value for name, value in os.environ.items() if name.upper() not in hidden}


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise ConfigError(f"{name} must be a number of seconds above 0, not {value!r}")
