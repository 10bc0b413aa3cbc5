"""How a LevPRO engine behaves, as data."""

from __future__ import annotations

from typing import Final

from agentwire.policy import Policy

POLICY: Final = Policy(
    name="levpro",
    calls="sequential",
    can_ask=False,
    free=frozenset({"info"}),
    always_covers="none",
    empty_answer="end",
    step_limit="abort",
    when_busy="queue",
    on_eof="cancel",
    shows_subagents=False,
    damaged_journal="reset",
    bad_calls=2,
)
"""The wire cannot ask: what is not free runs if the chat says ``approve_execution``, else it is refused at once. Chats
of one session wait for each other; the end of standard input cancels those that run; a history that cannot be read is
put aside with a warning."""
