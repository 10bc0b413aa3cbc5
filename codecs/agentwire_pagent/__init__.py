"""The pagent wire: one JSON-RPC 2.0 notification a line, in its two dialects.

``codec`` is the classic wire of ``pagent.Agent.arun_wire``: nine methods, told while a run goes on. ``codec_v4`` is
what ``pagent --wire`` speaks: the same envelope, other shapes, questions about tool calls and answers to commands.
Both read the command lines of ``pagent --wire``.
"""

from __future__ import annotations

from agentwire.codec.contract import AgentSide, Codec
from agentwire.codec.lazy import Lazily
from agentwire_pagent.policy import POLICY, POLICY_V4

__all__ = ["codec", "codec_v4"]

MAX_LINE = 8 * 1024 * 1024


def _agent_v4() -> AgentSide:
    """It has no options: that a run failed is always told."""
    from agentwire_pagent.agent_side import PagentAgent

    return PagentAgent("v4")


codec = Codec(
    name="pagent",
    summary="pagent wire: JSON-RPC notifications, one run after the other",
    agent=Lazily("agentwire_pagent.agent_side:PagentAgent", "classic"),
    host=Lazily("agentwire_pagent.host_side:PagentHost", "classic"),
    policy=POLICY,
    fidelity=Lazily("agentwire_pagent.fidelity:FIDELITY"),
    max_line=MAX_LINE,
    greets=False,
    schemas=Lazily("agentwire_pagent.schema:schemas", "classic"),
    recognises=Lazily("agentwire_pagent.shape:fits", "classic"),
    checker=Lazily("agentwire_pagent.checker:PagentChecker", "classic"),
    requirements=Lazily("agentwire_pagent.requirements:requirements", "classic"),
)

codec_v4 = Codec(
    name="pagent-v4",
    summary="pagent --wire (v4): JSON-RPC notifications with questions and threads",
    agent=_agent_v4,
    host=Lazily("agentwire_pagent.host_side:PagentHost", "v4"),
    policy=POLICY_V4,
    fidelity=Lazily("agentwire_pagent.fidelity:FIDELITY_V4"),
    max_line=MAX_LINE,
    greets=False,
    feeds="session",
    schemas=Lazily("agentwire_pagent.schema:schemas", "v4"),
    recognises=Lazily("agentwire_pagent.shape:fits", "v4"),
    checker=Lazily("agentwire_pagent.checker:PagentChecker", "v4"),
    requirements=Lazily("agentwire_pagent.requirements:requirements", "v4"),
)
