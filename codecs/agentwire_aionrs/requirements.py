"""What this wire asks of both roles."""

from __future__ import annotations

from agentwire.codec.kit import Kit
from agentwire_aionrs import agent_requirements, host_requirements
from agentwire_aionrs.approval_requirements import APPROVALS
from agentwire_aionrs.mcp_requirements import SERVERS
from agentwire_aionrs.session_requirements import SESSIONS


def requirements() -> Kit:
    """Everything that this wire asks."""
    return Kit(
        agent_requirements.BASICS,
        host_requirements.BASICS,
        (*agent_requirements.REQUIREMENTS, *APPROVALS, *SESSIONS, *SERVERS, *host_requirements.REQUIREMENTS),
    )
