"""What this wire asks of both roles."""

from __future__ import annotations

from agentwire.codec.kit import Kit
from agentwire_levpro import agent_requirements, host_requirements
from agentwire_levpro.chat_requirements import CHATS


def requirements() -> Kit:
    """Everything that this wire asks."""
    return Kit(
        agent_requirements.BASICS,
        host_requirements.BASICS,
        (*agent_requirements.REQUIREMENTS, *CHATS, *host_requirements.REQUIREMENTS),
    )
