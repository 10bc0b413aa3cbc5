"""Jan's agent wires: the RPC (JSON-RPC 2.0 over standard input and output, many sessions a process)."""

from __future__ import annotations

from types import MappingProxyType

from agentwire.codec.contract import Codec
from agentwire.codec.lazy import Lazily
from agentwire_jan.policy import POLICY

__all__ = ["codec"]

MAX_LINE = 16 * 1024 * 1024 - 1
"""Longest line of a host in bytes, without its line feed."""

codec = Codec(
    name="jan",
    summary="Jan agent RPC: JSON-RPC 2.0, many sessions, host tools and questions",
    agent=Lazily("agentwire_jan.agent_side:JanAgent"),
    host=Lazily("agentwire_jan.host_side:JanHost"),
    policy=POLICY,
    fidelity=Lazily("agentwire_jan.fidelity:FIDELITY"),
    greets=False,
    sessions="many",
    feeds="session",
    max_line=MAX_LINE,
    schemas=Lazily("agentwire_jan.schema:schemas"),
    recognises=Lazily("agentwire_jan.shape:fits"),
    checker=Lazily("agentwire_jan.checker:JanChecker"),
    requirements=Lazily("agentwire_jan.requirements:requirements"),
    driver=Lazily("agentwire_jan.driving:JanDriver"),
    ready_within=20.0,
    environment=MappingProxyType({"JAN_CLI_NO_UPDATE_CHECK": "1"}),
)
