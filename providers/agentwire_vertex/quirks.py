"""What can be said about Vertex AI."""

from __future__ import annotations

from agentwire_anthropic.quirks import AnthropicQuirks


class VertexQuirks(AnthropicQuirks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the ``vertex`` provider."""

    auth_header: str = "authorization"
    anthropic_version: str = "vertex-2023-10-16"
    project: str = ""
    """Empty: ``VERTEX_PROJECT_ID``, else the credentials' own."""
    region: str = ""
    """Empty: ``VERTEX_REGION``, else ``us-central1``. Also ``global``, ``us`` and ``eu``."""
