"""The stream-json wire of ``jan cli agent run``: one process, one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agentwire.codec.contract import Codec, Request
from agentwire.codec.lazy import Lazily
from agentwire_jan import MAX_LINE
from agentwire_jan.policy import POLICY

STREAM_POLICY: Final = msgspec.structs.replace(POLICY, name="jan-stream", step_limit="abort", on_eof="run_on")
"""As the RPC's, but that a run goes on without its host, and may have a limit."""


def _begin(side: Any) -> Sequence[Request]:
    opening: Sequence[Request] = side.opening()
    return opening


def _end(side: Any) -> Sequence[Request]:
    closing: Sequence[Request] = side.closing()
    return closing


codec_stream = Codec(
    name="jan-stream",
    summary="Jan's stream-json: one run, told in JSON lines, with a result at its end",
    agent=Lazily("agentwire_jan.stream_agent:JanStreamAgent"),
    host=Lazily("agentwire_jan.stream_host:JanStreamHost"),
    policy=STREAM_POLICY,
    fidelity=Lazily("agentwire_jan.stream_fidelity:FIDELITY"),
    sessions="many",
    begin=_begin,
    end=_end,
    feeds="session",
    max_line=MAX_LINE,
    schemas=Lazily("agentwire_jan.stream_schema:schemas"),
    recognises=Lazily("agentwire_jan.shape:fits_stream"),
    checker=Lazily("agentwire_jan.stream_checker:JanStreamChecker"),
    requirements=Lazily("agentwire_jan.stream_requirements:requirements"),
)
