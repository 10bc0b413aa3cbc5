"""Amazon Bedrock: Anthropic's models in their own words, and every model through Converse.

Needs ``pip install 'agentwire[bedrock]'``, and an account as every AWS program finds it: ``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY`` and ``AWS_SESSION_TOKEN``, or ``AWS_PROFILE``, or a role of the machine; or a key of Bedrock's
own in ``AWS_BEARER_TOKEN_BEDROCK``. The region is ``AWS_REGION``, ``AWS_DEFAULT_REGION`` or the profile's. Options:
:class:`agentwire_bedrock.quirks.BedrockQuirks`.
"""

from __future__ import annotations

from agentwire.provider import Provider, ProviderPlugin, ProviderSettings

DEFAULT_MODEL = "anthropic.claude-sonnet-4-20250514-v1:0"


def _create(settings: ProviderSettings) -> Provider:
    from agentwire_bedrock.service import Bedrock

    return Bedrock(settings)


provider = ProviderPlugin(
    name="bedrock",
    create=_create,
    summary="Amazon Bedrock",
    default_model=DEFAULT_MODEL,
    secrets=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
)
