"""What the two dialects ask of both roles."""

from __future__ import annotations

from typing import Literal

from agentwire.codec.kit import Kit
from agentwire_pagent import agent_requirements as agent
from agentwire_pagent import host_requirements as host
from agentwire_pagent.thread_requirements import THREADS
from agentwire_pagent.v4_requirements import RUNS


def requirements(dialect: Literal["classic", "v4"]) -> Kit:
    """Everything that a dialect asks."""
    if dialect == "classic":
        return Kit(agent.BASICS, host.BASICS, (*agent.REQUIREMENTS, *host.REQUIREMENTS))
    return Kit(agent.BASICS_V4, host.BASICS_V4, (*RUNS, *THREADS, *host.REQUIREMENTS_V4))
