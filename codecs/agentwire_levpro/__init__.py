"""The LevPRO wire: ``local-ai serve-stdio``, requests with ids and many chats side by side, one JSON object a line.

References such as "section 4" are to the Stdio JSON Protocol as this project reads it; what the protocol leaves open
and how it is decided here stands in :mod:`agentwire_levpro.decisions`.
"""

from __future__ import annotations

from agentwire.codec.contract import Codec
from agentwire.codec.lazy import Lazily
from agentwire_levpro.policy import POLICY

__all__ = ["codec"]

MAX_LINE = 1024 * 1024

codec = Codec(
    name="levpro",
    summary="LevPRO local-ai serve-stdio: requests with ids, chats side by side",
    agent=Lazily("agentwire_levpro.agent_side:LevproAgent"),
    host=Lazily("agentwire_levpro.host_side:LevproHost"),
    policy=POLICY,
    fidelity=Lazily("agentwire_levpro.fidelity:FIDELITY"),
    greets=False,
    sessions="many",
    outlives_output="ERROR_STACKTRACE",
    max_line=MAX_LINE,
    schemas=Lazily("agentwire_levpro.schema:schemas"),
    recognises=Lazily("agentwire_levpro.shape:fits"),
    checker=Lazily("agentwire_levpro.checker:LevproChecker"),
    requirements=Lazily("agentwire_levpro.requirements:requirements"),
)
