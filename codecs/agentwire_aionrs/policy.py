"""How an aionrs engine behaves, as data."""

from __future__ import annotations

from typing import Final

from agentwire.policy import Policy

POLICY: Final = Policy(
    name="aionrs",
    calls="parallel",
    can_ask=True,
    free=frozenset(),
    always_covers="category",
    empty_answer="retry_then_error",
    step_limit="error",
    when_busy="refuse",
    on_eof="run_on",
    failing_calls="guard",
    shows_subagents=False,
)
"""Sections 2.3 and 2.4 of the aionrs protocol and its lifecycle: nothing is free in mode default, all calls of a step
are asked about at once, "always" frees a category, a prompt while a turn runs is refused, and a turn outlives the end
of standard input."""
