"""What this wire asks of both roles."""

from __future__ import annotations

from agentwire.codec.kit import Kit
from agentwire_aionrs import agent_requirements, host_requirements


def requirements() -> Kit:
    """Everything that this wire asks."""
    return Kit(
        agent_requirements.BASICS,
        host_requirements.BASICS,
        (*agent_requirements.REQUIREMENTS, *host_requirements.REQUIREMENTS),
    )
