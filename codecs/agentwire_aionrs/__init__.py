"""The aionrs JSON stream protocol, 0.2.0: one codec, both sides.

One process is one session; commands arrive and events leave as JSON lines, without ids of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentwire.codec.contract import AgentSide, Codec, HostSide
from agentwire_aionrs.policy import POLICY

if TYPE_CHECKING:
    from agentwire.codec.checking import Checker
    from agentwire.codec.fidelity import Fidelity
    from agentwire.codec.kit import Kit

__all__ = ["codec"]


def _agent() -> AgentSide:
    from agentwire_aionrs.agent_side import AionrsAgent

    return AionrsAgent()


def _host() -> HostSide:
    from agentwire_aionrs.host_side import AionrsHost

    return AionrsHost()


def _fidelity() -> Fidelity:
    from agentwire_aionrs.fidelity import FIDELITY

    return FIDELITY


def _schemas() -> dict[str, Any]:
    from agentwire_aionrs.schema import schemas

    return schemas()


def _recognises(line: dict[str, Any]) -> bool:
    from agentwire_aionrs.shape import fits

    return fits(line)


def _checker() -> Checker:
    from agentwire_aionrs.checker import AionrsChecker

    return AionrsChecker()


def _requirements() -> Kit:
    from agentwire_aionrs.requirements import requirements

    return requirements()


codec = Codec(
    name="aionrs",
    summary="aionrs JSON stream 0.2.0: JSON lines, one session a process",
    agent=_agent,
    host=_host,
    policy=POLICY,
    fidelity=_fidelity,
    max_line=8 * 1024 * 1024,
    schemas=_schemas,
    recognises=_recognises,
    checker=_checker,
    requirements=_requirements,
)
