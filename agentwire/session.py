"""A session: one conversation, with its log, its history, its permissions and its settings.

At rest it is a plain object: no task, no channel, and nothing here needs an event loop. Whoever changes a session
goes through :meth:`Session.append`, so that every fact has a place in the log before anyone acts on it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentwire.approvals import Approvals
from agentwire.commands import SetConfig
from agentwire.events import AnyEvent, Capabilities, ConfigChanged, Mode, ModeChanged, SessionOpened
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.policy import Policy
from agentwire.provider.contract import Provider
from agentwire.settings import ModelSettings, SessionSettings, apply_config, merged


class Session:
    """One conversation. Made by :mod:`agentwire.opening`; run by :mod:`agentwire.server`."""

    __slots__ = (
        "_effort_levels", "_held", "_mcp", "active", "approvals", "call_ids", "closed", "ephemeral", "history", "id",
        "log", "model", "on_idle", "opened", "policy", "prompted", "provider", "settings", "tracer", "turns",
        "workspace",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        log: SessionLog,
        history: History,
        *,
        settings: SessionSettings,
        policy: Policy,
        provider: Provider | None = None,
        mcp: bool = False,
        ephemeral: bool = False,
        turns: int = 0,
    ) -> None:
        self.id = id
        self.log = log
        self.history = history
        self.settings = settings
        self.policy = policy
        self.workspace = Path(settings.workspace or ".").resolve()
        self.approvals = Approvals(policy, mode=settings.mode, allow=settings.allow, confine=settings.confine)
        self.model = ModelSettings(
            model=settings.model,
            image_input=settings.image_input,
            thinking=settings.thinking,
            thinking_budget=settings.thinking_budget,
            effort=settings.effort,
            compaction=settings.compaction,
        )
        self.provider = provider
        """None for an agent that brings its own model, or needs none."""
        self.ephemeral = ephemeral
        self.turns = turns
        """Turns so far, over all processes; the next turn's number is one more."""
        self.prompted = False
        """A prompt was accepted in this process: the window for MCP servers and prior context is closed."""
        self.active: Any = None
        """The running turn (:class:`agentwire.agent.turn.Turn`), or None."""
        self.closed = False
        self.opened: Record | None = None
        self.call_ids: dict[str, None] = {}
        """Every call id ever shown, so that a service that repeats them does no harm."""
        self.tracer: Any = None
        """Makes spans of what its turns do (:class:`agentwire.agent.tracing.Tracer`), or None."""
        self.on_idle: list[Callable[[], None]] = []
        """Called, and emptied, when the running turn has ended."""
        self._effort_levels = provider.effort_levels if provider else ()
        self._mcp = mcp
        self._held: SetConfig | None = None

    # --- the log ---

    def append(self, event: AnyEvent, turn: int = 0, origin: str = "") -> Record:
        """Give an event its place; the only way anything enters the log."""
        record = self.log.append(event, turn, origin)
        if not origin:
            self.history.feed(record)
        return record

    @property
    def provider_name(self) -> str:
        """The provider's name, or ``""``."""
        return self.provider.name if self.provider else ""

    @property
    def read_only(self) -> bool:
        """The journal could not be written: no new turn is accepted."""
        return self.log.broken is not None

    # --- what hosts are told ---

    def capabilities(self) -> Capabilities:
        """What the session can do now."""
        return Capabilities(
            image_input=self.model.image_input,
            thinking=bool(self.provider and self.provider.thinking),
            effort=bool(self._effort_levels),
            effort_levels=self._effort_levels,
            current_mode=self.approvals.mode,
            mcp=self._mcp,
        )

    def opening(self) -> Record:
        """The record a late joiner is greeted with: how the session opened, with what it can do now."""
        if self.opened is None or not isinstance(self.opened.event, SessionOpened):
            raise RuntimeError("the session was not opened")
        event = replace(self.opened.event, capabilities=self.capabilities(), model=self.model.model)
        return replace(self.opened, event=event)

    # --- settings ---

    def set_mode(self, mode: Mode) -> None:
        """Change the approval mode at once; open questions stay open."""
        old, self.approvals.mode = self.approvals.mode, mode
        self.append(ModeChanged(mode, old, self.capabilities()))

    def set_config(self, command: SetConfig) -> bool:
        """Carry out a set-config, or hold it while a turn runs. True: carried out now."""
        if self.active is not None:
            self._held = merged(self._held, command)
            return False
        self._configure(command, deferred=False)
        return True

    def apply_held_config(self) -> None:
        """Carry out what was held during the turn that just ended."""
        held, self._held = self._held, None
        if held is not None:
            self._configure(held, deferred=True)

    def set_mcp(self) -> None:
        """An MCP server was added: capabilities say so from the next time they are told."""
        self._mcp = True

    def _configure(self, command: SetConfig, *, deferred: bool) -> None:
        self.model, changes = apply_config(self.model, command, self._effort_levels)
        self.append(ConfigChanged(changes, self.capabilities(), deferred))
