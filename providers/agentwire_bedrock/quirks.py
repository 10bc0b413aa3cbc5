"""What can be said about Bedrock."""

from __future__ import annotations

from typing import Literal

from agentwire_anthropic.quirks import AnthropicQuirks


class BedrockQuirks(AnthropicQuirks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the ``bedrock`` provider."""

    api: Literal["invoke", "converse"] = "invoke"
    """``invoke`` (InvokeModelWithResponseStream) is for Anthropic's models; ``converse`` (ConverseStream) for all, with
    ``extra_body`` in Converse's words and without prompt caching."""
    auth_header: str = "authorization"
    anthropic_version: str = "bedrock-2023-05-31"
    region: str = ""
    """Empty: ``AWS_REGION``, ``AWS_DEFAULT_REGION``, else the profile's."""
    profile: str = ""
    """Goes before keys in the environment. Empty: these, else ``AWS_PROFILE``."""
