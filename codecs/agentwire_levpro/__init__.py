"""The LevPRO wire: ``local-ai serve-stdio``, requests with ids and many chats side by side, one JSON object a line.

References such as "section 4" are to the Stdio JSON Protocol as this project reads it; what the protocol leaves open
and how it is decided here stands in :mod:`agentwire_levpro.decisions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentwire.codec.contract import AgentSide, Codec, HostSide
from agentwire_levpro.policy import POLICY

if TYPE_CHECKING:
    from agentwire.codec.checking import Checker
    from agentwire.codec.fidelity import Fidelity
    from agentwire.codec.kit import Kit

__all__ = ["codec"]

MAX_LINE = 1024 * 1024


def _agent() -> AgentSide:
    from agentwire_levpro.agent_side import LevproAgent

    return LevproAgent()


def _host() -> HostSide:
    from agentwire_levpro.host_side import LevproHost

    return LevproHost()


def _fidelity() -> Fidelity:
    from agentwire_levpro.fidelity import FIDELITY

    return FIDELITY


def _schemas() -> dict[str, Any]:
    from agentwire_levpro.schema import schemas

    return schemas()


def _recognises(line: dict[str, Any]) -> bool:
    from agentwire_levpro.shape import fits

    return fits(line)


def _checker() -> Checker:
    from agentwire_levpro.checker import LevproChecker

    return LevproChecker()


def _requirements() -> Kit:
    from agentwire_levpro.requirements import requirements

    return requirements()


codec = Codec(
    name="levpro",
    summary="LevPRO local-ai serve-stdio: requests with ids, chats side by side",
    agent=_agent,
    host=_host,
    policy=POLICY,
    fidelity=_fidelity,
    greets=False,
    sessions="many",
    outlives_output="ERROR_STACKTRACE",
    max_line=MAX_LINE,
    schemas=_schemas,
    recognises=_recognises,
    checker=_checker,
    requirements=_requirements,
)
