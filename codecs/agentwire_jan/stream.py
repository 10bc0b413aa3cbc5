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
    from agentwire.codec.kit import Kit

STREAM_POLICY: Final = msgspec.structs.replace(POLICY, name="jan-stream", step_limit="abort", on_eof="run_on")
"""As the RPC's, but that a run goes on without its host, and may have a limit."""


def _agent(
    task: Any = "",
    *,
    input_format: Any = "stream-json",
    output_format: Any = "stream-json",
    host_tools: Sequence[Any] = (),
    host_gate: bool = False,
    resume: str = "",
    report: Any = None,
) -> AgentSide:
    """The options are those of :class:`agentwire_jan.stream_agent.JanStreamAgent`."""
    from agentwire_jan.stream_agent import JanStreamAgent

    return JanStreamAgent(
        task,
        input_format=input_format,
        output_format=output_format,
        host_tools=host_tools,
        host_gate=host_gate,
        resume=resume,
        report=report,
    )


def _begin(side: Any) -> Sequence[Request]:
    opening: Sequence[Request] = side.opening()
    return opening


def _end(side: Any) -> Sequence[Request]:
    closing: Sequence[Request] = side.closing()
    return closing


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


def _requirements() -> Kit:
    from agentwire_jan.stream_requirements import requirements

    return requirements()


codec_stream = Codec(
    name="jan-stream",
    summary="Jan's stream-json: one run, told in JSON lines, with a result at its end",
    agent=_agent,
    host=_host,
    policy=STREAM_POLICY,
    fidelity=_fidelity,
    sessions="many",
    begin=_begin,
    end=_end,
    feeds="session",
    max_line=MAX_LINE,
    schemas=_schemas,
    recognises=_recognises,
    checker=_checker,
    requirements=_requirements,
)
