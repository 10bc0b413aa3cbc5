"""How a pagent engine behaves, as data."""

from __future__ import annotations

from typing import Final

import msgspec

from agentwire.policy import Policy

POLICY: Final = Policy(
    name="pagent",
    calls="sequential",
    can_ask=False,
    free=frozenset({"info"}),
    always_covers="tool",
    empty_answer="end",
    step_limit="end",
    when_busy="ignore",
    on_eof="cancel",
    shows_subagents=False,
)
"""The classic wire has no word for a question: what is not free, allow-listed or freed by the mode is refused at once.
Tools run one after the other; a second input during a run is ignored; the end of standard input cancels the run."""

POLICY_V4: Final = msgspec.structs.replace(POLICY, name="pagent-v4", can_ask=True, step_limit="one_more")
"""The same, but a call can be asked about (``PermitRequest``), and a run that used up its turns gets one more to sum
up, without tools."""
