"""Jan's agent wires: the RPC (JSON-RPC 2.0 over standard input and output, many sessions a process)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentwire.codec.contract import AgentSide, Codec, HostSide
from agentwire_jan.policy import POLICY

if TYPE_CHECKING:
    from agentwire.codec.checking import Checker
    from agentwire.codec.fidelity import Fidelity
    from agentwire.codec.kit import Kit

__all__ = ["codec"]

MAX_LINE = 16 * 1024 * 1024 - 1
"""Longest line of a host in bytes, without its line feed."""


def _agent() -> AgentSide:
    from agentwire_jan.agent_side import JanAgent

    return JanAgent()


def _host() -> HostSide:
    from agentwire_jan.host_side import JanHost

    return JanHost()


def _fidelity() -> Fidelity:
    from agentwire_jan.fidelity import FIDELITY

    return FIDELITY


def _schemas() -> dict[str, Any]:
    from agentwire_jan.schema import schemas

    return schemas()


def _recognises(line: dict[str, Any]) -> bool:
    from agentwire_jan.shape import fits

    return fits(line)


def _checker() -> Checker:
    from agentwire_jan.checker import JanChecker

    return JanChecker()


def _requirements() -> Kit:
    from agentwire_jan.requirements import requirements

    return requirements()


codec = Codec(
    name="jan",
    summary="Jan agent RPC: JSON-RPC 2.0, many sessions, host tools and questions",
    agent=_agent,
    host=_host,
    policy=POLICY,
    fidelity=_fidelity,
    greets=False,
    sessions="many",
    feeds="session",
    max_line=MAX_LINE,
    schemas=_schemas,
    recognises=_recognises,
    checker=_checker,
    requirements=_requirements,
)
