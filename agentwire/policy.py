"""What the originals' engines do differently, as data.

The engine knows no wire. A codec declares one :class:`Policy`; the session gets it when it opens. A new wire that
needs a new difference adds a field here, with the built-in behaviour as its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

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
    failing_calls: Literal["go_on", "guard"] = "go_on"
    """``guard``: a model whose calls fail again and again is warned, then gets no more tools in that turn."""
    step_limit: Literal["error", "end", "abort", "one_more"] = "error"
    """At the step limit: an error and the end; just the end; the end with what there is (outcome ``limit``); one
    more step without tools, then the end."""
    when_busy: Literal["refuse", "queue", "ignore"] = "refuse"
    busy_scope: Literal["session", "process"] = "session"
    """What a running turn keeps busy: its session, or every session of the process."""
    on_eof: Literal["run_on", "cancel"] = "run_on"
    """Standard input closed while a turn runs: it runs on and its questions are settled as cancelled, or it is
    stopped."""
    shows_subagents: bool = False
    """The wire shows a subagent's own approvals; else the yes to Spawn covers its calls inside the workspace."""
    free_tools: frozenset[str] = frozenset()
    """Tools that need no question by name, before ``--allow``."""
    tool_names: Mapping[str, str] = MappingProxyType({})
    """What models are told that built-in tools are called, where it is not their own name; ``""``: not offered."""
    delegates: bool = False
    """Subagents are started, steered, stopped and listed by four tools of their own and work beside the turn, instead
    of by one that waits for them."""
    bad_calls: int | UnsetType = UNSET
    """Badly written calls put back to the model in one turn before it is given up, where nobody says otherwise."""
    damaged_journal: Literal["refuse", "reset"] = "refuse"
    """A prompt that opens a session whose journal cannot be read: it is refused, or the journal is put aside, a new
    one begun, and a notice says so."""
