"""The stream-json wire of ``jan cli agent run``: one process, one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentwire.codec.contract import AgentSide, Codec, HostSide, Request
from agentwire_jan import MAX_LINE
from agentwire_jan.policy import POLICY

if TYPE_CHECKING:
    from agentwire.codec.checking import Checker
    from agentwire.codec.fidelity import Fidelity

STREAM_POLICY: Final = msgspec.structs.replace(POLICY, name="jan-stream", step_limit="abort", on_eof="run_on")
"""As the RPC's, but that a run goes on without its host, and may have a limit."""


def _agent(**options: Any) -> AgentSide:
    """``options``: see :class:`agentwire_jan.stream_agent.JanStreamAgent`."""
    from agentwire_jan.stream_agent import JanStreamAgent

    return JanStreamAgent(**options)


def _begin(side: Any) -> Sequence[Request]:
    opening: Sequence[Request] = side.opening()
    return opening


def _host() -> HostSide:
    from agentwire_jan.stream_host import JanStreamHost

    return JanStreamHost()


def _fidelity() -> Fidelity:
    from agentwire_jan.stream_fidelity import FIDELITY

    return FIDELITY


def _schemas() -> dict[str, Any]:
    from agentwire_jan.stream_schema import schemas

    return schemas()


def _recognises(line: dict[str, Any]) -> bool:
    from agentwire_jan.shape import fits_stream

    return fits_stream(line)


def _checker() -> Checker:
    from agentwire_jan.stream_checker import JanStreamChecker

    return JanStreamChecker()


codec_stream = Codec(
    name="jan-stream",
    summary="Jan's stream-json: one run, told in JSON lines, with a result at its end",
    agent=_agent,
    host=_host,
    policy=STREAM_POLICY,
    fidelity=_fidelity,
    sessions="many",
    begin=_begin,
    feeds="session",
    max_line=MAX_LINE,
    schemas=_schemas,
    recognises=_recognises,
    checker=_checker,
)
