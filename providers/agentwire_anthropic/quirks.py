"""What Messages services do differently."""

from __future__ import annotations

from agentwire.provider import HttpQuirks


class AnthropicQuirks(HttpQuirks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the ``anthropic`` provider."""

    auth_header: str = "x-api-key"
    prompt_caching: bool = True
    """Mark what stays the same between requests, so that the service need not read it anew."""
    anthropic_version: str = "2023-06-01"
