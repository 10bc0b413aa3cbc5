"""Anthropic Messages, and services that speak it.

``ANTHROPIC_API_KEY`` and ``ANTHROPIC_BASE_URL`` are read from the environment; a service other than Anthropic's
needs no key. Options: :class:`agentwire_anthropic.quirks.AnthropicQuirks`.
"""

from __future__ import annotations

from agentwire.provider import Provider, ProviderPlugin, ProviderSettings

DEFAULT_MODEL = "claude-sonnet-4-20250514"


def _create(settings: ProviderSettings) -> Provider:
    from agentwire_anthropic.service import Anthropic

    return Anthropic(settings)


provider = ProviderPlugin(
    name="anthropic",
    create=_create,
    summary="Anthropic Messages",
    default_model=DEFAULT_MODEL,
    secrets=("ANTHROPIC_API_KEY",),
)
