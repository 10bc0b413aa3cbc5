"""What aionrs's configuration means for a server of ours.

The order is aionrs's: the command line, then the profile, then the entry of the provider, then ``[default]``. What a
person chose by name, a profile or an alias, goes before ``agentwire.toml``; everything else goes below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import asdict, replace

from agentwire.config import Config
from agentwire.models import DEFAULT_PROVIDER
from agentwire.options import ServeOptions
from agentwire.provider import ConfigError
from agentwire_aionrs.originals.configuration import Configuration, Profile, Service, Table

BUILT_IN: Final = ("anthropic", "openai", "bedrock", "vertex")
"""Providers that aionrs has by itself; every other name in its configuration is an alias for one."""

_QUIRKS: Final = {
    "openai": {
        "api_path": "api_path",
        "max_tokens_field": "max_tokens_field",
        "include_stream_options": "stream_usage",
        "merge_same_role": "merge_messages",
        "effort_levels": "effort_levels",
        "sanitize_schema": "schema_cleanup",
        "auto_tool_id": "make_call_ids",
    },
    "anthropic": {
        "api_path": "api_path",
        "sanitize_schema": "schema_cleanup",
    },
    "bedrock": {"sanitize_schema": "schema_cleanup"},
    "vertex": {"sanitize_schema": "schema_cleanup"},
}
"""aionrs's names for how services differ, and our providers' options of the same meaning."""

_SERVER_KEYS: Final = frozenset({"transport", "command", "args", "env", "url", "headers", "startup_timeout_ms"})
_OLD_TOOL_NAMES: Final = {"Bash": "ExecCommand"}


def serve_options(
    given: ServeOptions,
    configuration: Configuration,
    *,
    profile_name: str = "",
    preferred: str = "",
) -> ServeOptions:
    """``given``, the command line, completed by ``configuration``.

    ``preferred`` is the provider that ``agentwire.toml`` names, if it does. Raises :class:`ConfigError` for a profile
    or an alias that cannot be followed.
    """
    profile = _profile(configuration, profile_name) if profile_name else Profile()
    default = configuration.default
    chosen = profile.provider or preferred or default.provider or DEFAULT_PROVIDER
    name = given.provider or chosen
    if name != chosen:  # the profile's key is for another service
        profile = replace(profile, model="", api_key="", base_url="", compat={})
    provider, service, is_alias = _service(configuration, name)
    service.compat = {**service.compat, **profile.compat}
    model = profile.model or (service.model if is_alias else "")
    address = profile.base_url or (service.base_url if is_alias else "")
    key = profile.api_key or (service.api_key if is_alias else "")
    max_tokens = given.max_tokens if given.max_tokens is not UNSET else (profile.max_tokens or UNSET)
    return replace(
        given,
        provider=provider,
        model=given.model or model,
        base_url=given.base_url or address,
        api_key=given.api_key or key,
        max_tokens=max_tokens,
        max_turns=given.max_turns if given.max_turns is not UNSET else (profile.max_turns or UNSET),
        extra=Config(
            # A model of the provider that [default] names is of no use to another.
            model=service.model or (default.model if default.provider in ("", name) else ""),
            max_tokens=default.max_tokens or 0,
            max_turns=default.max_turns or 0,
            system_prompt=default.system_prompt,
            mode="yolo" if configuration.tools.auto_approve else "",
            allow=[_OLD_TOOL_NAMES.get(tool, tool) for tool in configuration.tools.allow_list],
            compaction=configuration.compact.compaction,
            providers={provider: _settings(provider, service)},
            mcp_servers=_servers(configuration, profile),
        ),
    )


def _profile(configuration: Configuration, name: str) -> Profile:
    """The profile with what it inherits."""
    line = [name]
    found: list[Profile] = []
    while line[-1]:
        if line[-1] in line[:-1]:
            raise ConfigError(f"Circular profile inheritance detected: {' -> '.join(line)}")
        try:
            found.append(configuration.profiles[line[-1]])
        except KeyError:
            raise ConfigError(f"Profile '{line[-1]}' not found in config") from None
        line.append(found[-1].extends)
    result = Profile()
    for profile in reversed(found):
        result = replace(
            result, **{key: value for key, value in asdict(profile).items() if value not in ("", None, {})}
        )
    return result


def _service(configuration: Configuration, name: str) -> tuple[str, Service, bool]:
    """The provider that ``name`` stands for, its entry, and whether ``name`` is an alias of it."""
    entry = configuration.providers.get(name, Service())
    if name in BUILT_IN or name not in configuration.providers:
        return name, replace(entry), False
    if not entry.provider:
        raise ConfigError(
            f"Provider alias '{name}' requires a 'provider' field in [providers.{name}] that maps to a built-in type "
            f"({', '.join(BUILT_IN)})."
        )
    under = configuration.providers.get(entry.provider, Service())
    over = {key: value for key, value in asdict(entry).items() if value not in ("", None)}
    over["compat"] = {**under.compat, **entry.compat}
    return entry.provider, replace(under, **over), True


def _settings(provider: str, service: Service) -> dict[str, Any]:
    """A provider's entry in our words."""
    quirks: Mapping[str, str] = _QUIRKS.get(provider, {})
    result: Table = {ours: service.compat[theirs] for theirs, ours in quirks.items() if theirs in service.compat}
    if "effort_levels" in quirks and service.compat.get("supports_effort") is False:
        result["effort_levels"] = []
    if provider in ("anthropic", "bedrock", "vertex") and service.prompt_caching is not None:
        result["prompt_caching"] = service.prompt_caching
    for key in ("base_url", "api_key"):
        if value := getattr(service, key):
            result[key] = value
    return result


def _servers(configuration: Configuration, profile: Profile) -> dict[str, Table]:
    """The MCP servers to start; what aionrs does not know about a server is left out."""
    wanted = configuration.mcp.servers if profile.mcp_servers is None else profile.mcp_servers
    return {
        name: {key: value for key, value in table.items() if key in _SERVER_KEYS}
        for name, table in configuration.mcp.servers.items()
        if name in wanted
    }
