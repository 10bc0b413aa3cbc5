"""What this wire asks of both roles."""

from __future__ import annotations

from agentwire.codec.kit import Kit
from agentwire_jan import agent_requirements, host_requirements
from agentwire_jan.host_tool_requirements import HOST_TOOLS
from agentwire_jan.own_tool_requirements import OWN_TOOLS
from agentwire_jan.permission_requirements import PERMISSIONS
from agentwire_jan.session_requirements import SESSIONS


def requirements() -> Kit:
    """Everything that this wire asks."""
    return Kit(
        agent_requirements.BASICS,
        host_requirements.BASICS,
        (
            *agent_requirements.REQUIREMENTS,
            *PERMISSIONS,
            *SESSIONS,
            *HOST_TOOLS,
            *host_requirements.REQUIREMENTS,
            *OWN_TOOLS,
        ),
    )
