"""Who may run what: modes, allow list, standing permissions, and the questions that are open.

A small state machine without I/O. :meth:`Approvals.judge` says whether a call is free, must be asked about or is
refused; :meth:`Approvals.ask` registers a question and :meth:`Approvals.settle` answers it, once: the first answer
wins, whoever gives it. A question is registered before the host can read it, so a fast host finds it open.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from agentwire.allowing import allow_list
from agentwire.events import Category, Mode
from agentwire.policy import Policy

if TYPE_CHECKING:
    from agentwire.tools.contract import Gate

Verdict = Literal["free", "ask", "refuse"]
Settled = Literal["settled", "already", "unknown"]

FREED_BY_MODE: dict[Mode, frozenset[Category]] = {
    "default": frozenset(),
    "auto_edit": frozenset({"info", "edit"}),
    "yolo": frozenset({"info", "edit", "exec", "mcp"}),
}


CATEGORIES: frozenset[str] = FREED_BY_MODE["yolo"]

_NUMBERS = itertools.count(1)


def new_approval_id() -> str:
    """An id for a question, never used twice in a process, whichever session asks."""
    return f"perm-{next(_NUMBERS)}"


class Decision(Struct, frozen=True):
    """How a question was settled."""

    allowed: bool
    scope: Literal["", "call", "tool", "category"] = "call"
    by: str = "host"
    reason: str = ""
    cancelled: bool = False
    """Nobody answered: the turn was stopped or the host went away."""


class Question(Struct):
    """An open question. ``settle`` is called once, with the decision."""

    approval_id: str
    call_id: str
    name: str
    category: Category
    settle: Callable[[Decision], None]
    origin: str = ""
    """The subagent whose call it is."""


class Approvals:
    """The permissions of one session."""

    # A process may hold very many sessions at rest; an empty dict is a fraction of an empty set.
    __slots__ = (
        "_open", "_past", "_rules", "absent", "allow", "always_categories", "always_tools", "confine", "mode", "policy",
    )  # fmt: skip

    def __init__(self, policy: Policy, *, mode: Mode = "default", allow: frozenset[str] = frozenset(),
                 confine: bool = False) -> None:  # fmt: skip
        self.policy = policy
        self.mode: Mode = mode
        self._rules = allow_list(allow)
        self.allow = self._rules.names | policy.free_tools if policy.free_tools else self._rules.names
        """Tool names and categories that need no question."""
        self.confine = confine
        """Refuse whatever leaves the workspace, in every mode."""
        self.always_tools: dict[str, None] = {}
        self.always_categories: dict[Category, None] = {}
        """What the host freed for the rest of the session; outlives changes of mode."""
        self.absent: Decision | None = None
        """Set when there is nobody left to ask: every question gets this at once."""
        self._open: dict[str, Question] = {}
        self._past: dict[str, None] = {}

    def judge(
        self,
        name: str,
        category: Category,
        *,
        outside: bool = False,
        also: frozenset[str] = frozenset(),
        gate: Gate = "judged",
        command: Callable[[], str] | None = None,
    ) -> Verdict:
        """Whether a call is free, is asked about or refused. ``outside``: a path of it leaves the workspace.

        ``command`` gives the command line that would be run; it is asked only where a rule is about commands.
        """
        if outside and self.confine:
            return "refuse"
        if gate == "always":
            return "free" if name in self.always_tools and not outside else self._ask_or_refuse()
        if self.mode == "yolo" or (gate == "free" and not outside):
            return "free"
        if not outside:
            # A foreign tool may be called as a category is; that does not make it one.
            named = {category} if name in CATEGORIES else {name, category}
            if named & self.allow or named & also:
                return "free"
            if name in self.always_tools or category in self.always_categories:
                return "free"
            if category in self.policy.free or category in FREED_BY_MODE[self.mode]:
                return "free"
            if command is not None and name in self._rules.commands and self._rules.frees(name, command()):
                return "free"
        return self._ask_or_refuse()

    def _ask_or_refuse(self) -> Verdict:
        return "ask" if self.policy.can_ask else "refuse"

    def ask(self, question: Question) -> None:
        """Register a question; it may be settled before this returns, if there is nobody to ask."""
        self._open[question.approval_id] = question
        if self.absent is not None:
            self.settle(question.approval_id, self.absent)

    def find(self, *, approval_id: str = "", call_id: str = "") -> str | None:
        """The id of the question, open or past, that an answer names; None if there never was one."""
        if approval_id:
            return approval_id if approval_id in self._open or approval_id in self._past else None
        for question in self._open.values():
            if question.call_id == call_id:
                return question.approval_id
        return call_id if call_id in self._past else None

    def settle(self, approval_id: str, decision: Decision) -> Settled:
        """Answer a question. Only the first answer counts."""
        question = self._open.pop(approval_id, None)
        if question is None:
            return "already" if approval_id in self._past else "unknown"
        self._past.update(dict.fromkeys((approval_id, question.call_id)))
        if decision.allowed and decision.scope == "tool":
            self.always_tools[question.name] = None
        elif decision.allowed and decision.scope == "category":
            self.always_categories[question.category] = None
        question.settle(decision)
        return "settled"

    def settle_all(self, decision: Decision, origin: str | None = None) -> None:
        """Answer every open question, or those of one subagent, oldest first."""
        for question in self.open:
            if origin is None or question.origin == origin:
                self.settle(question.approval_id, decision)

    def forget(self, approval_id: str) -> None:
        """Close a question without an answer (its turn is over)."""
        question = self._open.pop(approval_id, None)
        if question is not None:
            self._past.update(dict.fromkeys((approval_id, question.call_id)))

    @property
    def open(self) -> list[Question]:
        """The open questions, oldest first."""
        return list(self._open.values())

    def scope_of_always(self) -> Literal["call", "tool", "category"]:
        """What "always" covers on this session's wire."""
        covers = self.policy.always_covers
        return "call" if covers == "none" else covers
