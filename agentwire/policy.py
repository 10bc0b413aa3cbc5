"""What the originals' engines do differently, as data.

The engine knows no wire. A codec declares one :class:`Policy`; the session gets it when it opens. A new wire that
needs a new difference adds a field here, with the built-in behaviour as its default.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from agentwire.events import Category


class Policy(Struct, frozen=True):
    """How one session's engine behaves."""

    name: str = "default"
    calls: Literal["parallel", "sequential", "reads_together"] = "parallel"
    """``parallel``: all of a step's calls are asked about at once, each starts on its own approval.
    ``sequential``: one after the other, asked when reached. ``reads_together``: reads overlap, others in order,
    results shown after the batch."""
    can_ask: bool = True
    """False: a call that is not free is refused at once."""
    free: frozenset[Category] = frozenset()
    """Categories that need no question in mode ``default``."""
    always_covers: Literal["category", "tool", "none"] = "category"
    empty_answer: Literal["end", "retry_then_error"] = "end"
    step_limit: Literal["error", "end", "abort"] = "error"
    """At the step limit: an error and the end; just the end; the end with what there is (outcome ``limit``)."""
    when_busy: Literal["refuse", "queue", "ignore"] = "refuse"
    on_eof: Literal["run_on", "cancel"] = "run_on"
    """Standard input closed while a turn runs: it runs on and its questions are settled as cancelled, or it is
    stopped."""
    shows_subagents: bool = False
    """The wire shows a subagent's own approvals; else the yes to Spawn covers its calls inside the workspace."""
    free_tools: frozenset[str] = frozenset()
    """Tools that need no question by name, before ``--allow``."""
