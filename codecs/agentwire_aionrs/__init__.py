"""The aionrs JSON stream protocol, 0.2.0: one codec, both sides.

One process is one session; commands arrive and events leave as JSON lines, without ids of their own.
"""

from __future__ import annotations

from types import MappingProxyType

from agentwire.codec.contract import Codec
from agentwire.codec.lazy import Lazily
from agentwire_aionrs.policy import POLICY

__all__ = ["codec"]

codec = Codec(
    name="aionrs",
    summary="aionrs JSON stream 0.2.0: JSON lines, one session a process",
    agent=Lazily("agentwire_aionrs.agent_side:AionrsAgent"),
    host=Lazily("agentwire_aionrs.host_side:AionrsHost"),
    policy=POLICY,
    fidelity=Lazily("agentwire_aionrs.fidelity:FIDELITY"),
    max_line=8 * 1024 * 1024,
    schemas=Lazily("agentwire_aionrs.schema:schemas"),
    recognises=Lazily("agentwire_aionrs.shape:fits"),
    checker=Lazily("agentwire_aionrs.checker:AionrsChecker"),
    requirements=Lazily("agentwire_aionrs.requirements:requirements"),
    driver=Lazily("agentwire_aionrs.driving:AionrsDriver"),
    environment=MappingProxyType({"PROVIDER": None, "API_KEY": None, "BASE_URL": None, "MODEL": None}),
    resuming=Lazily("agentwire_aionrs.standing:resuming"),
    fences=True,
)
