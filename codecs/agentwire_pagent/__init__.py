"""The pagent wire: one JSON-RPC 2.0 notification a line, in its two dialects.

``codec`` is the classic wire of ``pagent.Agent.arun_wire``: nine methods, told while a run goes on. ``codec_v4`` is
what ``pagent --wire`` speaks: the same envelope, other shapes, questions about tool calls and answers to commands.
Both read the command lines of ``pagent --wire``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentwire.codec.contract import AgentSide, Codec, HostSide
from agentwire_pagent.policy import POLICY, POLICY_V4

if TYPE_CHECKING:
    from agentwire.codec.checking import Checker
    from agentwire.codec.fidelity import Fidelity
    from agentwire.codec.kit import Kit

__all__ = ["codec", "codec_v4"]

MAX_LINE = 8 * 1024 * 1024


def _agent(*, errors: bool = False) -> AgentSide:
    """``errors``: a failed run is told by v4's ``Error``, which a strict classic reader does not know."""
    from agentwire_pagent.agent_side import PagentAgent

    return PagentAgent(errors=errors)


def _agent_v4() -> AgentSide:
    from agentwire_pagent.agent_side import PagentAgent

    return PagentAgent("v4")


def _host() -> HostSide:
    from agentwire_pagent.host_side import PagentHost

    return PagentHost()


def _host_v4() -> HostSide:
    from agentwire_pagent.host_side import PagentHost

    return PagentHost("v4")


def _fidelity() -> Fidelity:
    from agentwire_pagent.fidelity import FIDELITY

    return FIDELITY


def _fidelity_v4() -> Fidelity:
    from agentwire_pagent.fidelity import FIDELITY_V4

    return FIDELITY_V4


def _schemas() -> dict[str, Any]:
    from agentwire_pagent.schema import schemas

    return schemas("classic")


def _schemas_v4() -> dict[str, Any]:
    from agentwire_pagent.schema import schemas

    return schemas("v4")


def _recognises(line: dict[str, Any]) -> bool:
    from agentwire_pagent.shape import fits

    return fits(line, "classic")


def _recognises_v4(line: dict[str, Any]) -> bool:
    from agentwire_pagent.shape import fits

    return fits(line, "v4")


def _checker() -> Checker:
    from agentwire_pagent.checker import PagentChecker

    return PagentChecker()


def _checker_v4() -> Checker:
    from agentwire_pagent.checker import PagentChecker

    return PagentChecker("v4")


def _requirements() -> Kit:
    from agentwire_pagent.requirements import requirements

    return requirements("classic")


def _requirements_v4() -> Kit:
    from agentwire_pagent.requirements import requirements

    return requirements("v4")


codec = Codec(
    name="pagent",
    summary="pagent wire: JSON-RPC notifications, one run after the other",
    agent=_agent,
    host=_host,
    policy=POLICY,
    fidelity=_fidelity,
    max_line=MAX_LINE,
    greets=False,
    schemas=_schemas,
    recognises=_recognises,
    checker=_checker,
    requirements=_requirements,
)

codec_v4 = Codec(
    name="pagent-v4",
    summary="pagent --wire (v4): JSON-RPC notifications with questions and threads",
    agent=_agent_v4,
    host=_host_v4,
    policy=POLICY_V4,
    fidelity=_fidelity_v4,
    max_line=MAX_LINE,
    greets=False,
    feeds="session",
    schemas=_schemas_v4,
    recognises=_recognises_v4,
    checker=_checker_v4,
    requirements=_requirements_v4,
)
