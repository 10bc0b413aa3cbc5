"""From options to sessions: what the command line, the environment and the configuration files come to.

Plain code without an event loop. A server of a wire whose sessions open by command asks for each with
:meth:`Setup.open` and its kin; one that has its session from the start uses :meth:`Setup.at_start`. Configuration is
read anew for each session, for each may have a workspace of its own.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from msgspec import UNSET, Struct, ValidationError, convert, to_builtins

from agentwire.allowing import without_effect
from agentwire.approvals import CATEGORIES
from agentwire.commands import Check, ForkSession, OpenSession, Prompt, ResumeSession, SessionState
from agentwire.config import Config, Loaded, combine, load
from agentwire.events import ImageInput, Mode, Notice
from agentwire.mcp.spec import McpServerSpec, McpSpecError, from_config
from agentwire.models import Models
from agentwire.opening import LATEST, fork_session, open_session
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.provider.contract import ConfigError, Provider
from agentwire.session import Session
from agentwire.settings import Compaction, SessionSettings, Thinking
from agentwire.store import JournalError, SessionNotFound, SessionStore, StoreError, new_session_id

if TYPE_CHECKING:
    from agentwire.agent.witness import Witness

logger = logging.getLogger("agentwire.setup")

RUNS_COMMANDS = "ExecCommand"
BUILTIN_TOOLS = ("Read", "Write", "Edit", RUNS_COMMANDS, "Glob", "Grep", "Spawn", "ViewImage")
DELEGATE_TOOLS = ("dispatch_subagent", "message_subagent", "stop_subagent", "list_subagents")
"""Names of the built-in tools, which are imported later than a session opens."""

DAMAGED = "The stored history of session '{session}' cannot be read ({why}); it was put aside and begins anew."


class Boot(Struct):
    """A session that is open, and what its agent needs to run."""

    session: Session
    agent: Any
    mcp_specs: list[McpServerSpec]


class Place(Struct):
    """A workspace with its configuration."""

    workspace: Path
    config: Config
    notice: str


class Setup:
    """What a server serves with: options, policy, agent; where its sessions and providers come from.

    Every method that opens something raises :class:`~agentwire.provider.contract.ConfigError` or
    :class:`~agentwire.store.StoreError`, with one line for a person. Making one raises ``ConfigError`` for something
    that is no agent.
    """

    def __init__(self, options: ServeOptions, policy: Policy, agent: Any = None) -> None:
        if agent is not None:
            _check_agent(agent)
        self.options = options
        self.policy = policy
        self.agent = agent
        self.store = SessionStore.default(os.environ)
        self.models = Models(options, agent)
        self.witness: Witness | None = None
        """Records what providers and tools give, if that is wanted."""
        self._told: set[str] = set()

    def described(self) -> dict[str, Any]:
        """What decides how sessions behave, without secrets: options, and configuration for the usual workspace."""
        from agentwire.agent.names import name_of
        from agentwire.agent.witness import without_secrets

        about = {
            "options": without_secrets(to_builtins(self.options)),
            "agent": "" if self.agent is None else name_of(self.agent),
            "sessions": self.store.directory,
        }
        try:
            place = self._place("")
        except ConfigError:  # whoever opens a session is told
            return about
        config = without_secrets(to_builtins(place.config))
        return {**about, "config": config, "workspace": str(place.workspace), "notice": place.notice}

    # --- sessions ---

    def at_start(self) -> Boot:
        """Open the session that the options ask for: a new one, a resumed one or a fork."""
        options = self.options
        return self._boot(
            OpenSession(id="" if options.session_id is None else options.session_id),
            given_id=options.session_id,
            resume=options.resume,
            fork=options.fork_session,
        )

    def open(self, command: OpenSession) -> Boot:
        """Open a new session as a command asks for it."""
        return self._boot(command, given_id=command.id or None)

    def resume(self, command: ResumeSession) -> Boot:
        """Take up a stored session; ``latest``: the newest created in the workspace."""
        how = OpenSession(workspace=command.workspace, host_permissions=command.host_permissions)
        return self._boot(how, resume=command.id)

    def take_up(self, prompt: Prompt) -> Boot:
        """Open the session that a prompt names: stored if there is one of that name, else a new one."""
        name = prompt.session or new_session_id()
        if not prompt.session or self.options.ephemeral:
            return self.open(OpenSession(id=name))
        try:
            return self._boot(OpenSession(), resume=name, literal=True)
        except SessionNotFound:
            return self.open(OpenSession(id=name))
        except JournalError as error:
            if self.policy.damaged_journal != "reset":
                raise
            text = DAMAGED.format(session=name, why=error.message)
            self.store.put_aside(name)
        boot = self.open(OpenSession(id=name))
        logger.warning("%s", text)
        boot.session.append(Notice(text, "warning"))
        return boot

    def fork(self, source: Session, command: ForkSession) -> Boot:
        """Open a copy of a session of this process."""
        place = self._place(str(source.workspace))
        session = fork_session(self.store, source, command.id or new_session_id())
        if self.witness is not None:
            self.witness.opened(session.id)
        return Boot(session, self.agent, self._mcp_specs(place.config)[0])

    def stored(self) -> list[SessionState]:
        """The sessions that have a journal, newest first."""
        found = [
            SessionState(
                info.id, info.model, open=False, workspace=info.workspace, created=info.created, modified=info.modified
            )
            for info in self.store.list()
            if not info.problem
        ]
        if self.witness is not None:
            self.witness.stored(found)
        return found

    def remove(self, session: str) -> None:
        """Remove a stored session that is not open. Raises what the store does."""
        if self.witness is not None:
            self.witness.takes_up(self.store, session, whole=False)
        self.store.remove(session)

    # --- models ---

    def provider_for(self, model: str, workspace: Path) -> tuple[Provider | None, str]:
        """The provider that serves ``model`` (``NAME/MODEL`` names it), and the model's name there.

        Raises :class:`ConfigError` (kind ``model``) if models are configured and this is none of them.
        """
        return self._provider(self._place(str(workspace)).config, model)

    # --- checks ---

    def problem(self) -> str:
        """What every session will be refused for as things stand, or ``""``."""
        try:
            self._provider(self._place("").config, "")
        except ConfigError as error:
            return str(error)
        return ""

    def checks(self) -> list[Check]:
        """Look at the set-up: configuration, provider, sessions directory, MCP servers. Starts nothing."""
        found = []
        try:
            place = self._place("")
            found.append(Check("config", "ok", "the configuration files can be read"))
        except ConfigError as error:
            return [Check("config", "fail", str(error))]
        try:
            provider, model = self._provider(place.config, "")
            name = provider.name if provider else "the agent's own"
            found.append(Check("provider", "ok", f"{name}, model {model or 'not named'}"))
            for check in getattr(provider, "checks", list)():
                text = f"{check.detail}; {check.fix}" if check.fix else check.detail
                found.append(Check(check.name, check.status, text))
        except ConfigError as error:
            found.append(Check(error.kind or "provider", "fail", str(error)))
        found.append(self._check_store())
        found += [Check("mcp", "warn", problem) for problem in self._mcp_specs(place.config)[1]]
        return found

    def _check_store(self) -> Check:
        directory = self.store.directory
        try:
            self.store.list()
        except StoreError as error:
            return Check("sessions", "fail", error.message)
        there = next(path for path in (Path(directory), *Path(directory).parents) if path.exists())
        if os.access(there, os.W_OK):
            return Check("sessions", "ok", f"kept in {directory}")
        return Check("sessions", "fail", f"{there} cannot be written to: sessions would not be kept")

    def plan(self) -> dict[str, Any]:
        """How the model would be run: what its provider says, or just which it is. Starts nothing."""
        provider, model = self._provider(self._place("").config, "")
        told: dict[str, Any] = provider.plan() if provider is not None and hasattr(provider, "plan") else {}
        return {"provider": provider.name if provider else "", "model": model, **told}

    # --- how ---

    def _boot(
        self,
        command: OpenSession,
        *,
        given_id: str | None = None,
        resume: str | None = None,
        fork: bool = False,
        literal: bool = False,
    ) -> Boot:
        place = self._place(command.workspace)
        provider, model = self._provider(place.config, command.model)
        specs, problems = self._mcp_specs(place.config)
        if self.witness is not None and resume is not None and given_id is None:
            latest = resume == LATEST and not literal
            self.witness.takes_up(self.store, resume, latest_of=str(place.workspace) if latest else "")
        session = open_session(
            self.store,
            self._settings(place, command, provider, model),
            self.policy,
            provider,
            session_id=given_id,
            resume=resume,
            fork=fork,
            literal=literal,
            mcp=bool(place.config.mcp_servers),
            ephemeral=command.ephemeral or self.options.ephemeral,
        )
        told = [*self.options.notices, *problems, *filter(None, [place.notice]), *self._idle_rules(place, command)]
        for text in told:
            if text not in self._told:
                logger.warning("%s", text)
            self._told.add(text)
            session.append(Notice(text, "warning"))
        return Boot(session, self.agent, specs)

    def _idle_rules(self, place: Place, command: OpenSession) -> list[str]:
        """What is wrong with rules of the allow list that free nothing."""
        rules = (*self.options.allow, *place.config.allow)
        if not rules:
            return []
        names = self.policy.tool_names
        own = [tool.name for tool in getattr(self.agent, "tools", ()) if hasattr(tool, "name")]
        tools = [names.get(name, name) for name in BUILTIN_TOOLS]
        tools += [*(DELEGATE_TOOLS if self.policy.delegates else ()), *own, *(tool.name for tool in command.tools)]
        return without_effect(
            rules,
            tools=[*filter(None, tools)],
            categories=sorted(CATEGORIES),
            runs=[*filter(None, [names.get(RUNS_COMMANDS, RUNS_COMMANDS), *own])],
            more=bool(place.config.mcp_servers),
        )

    def _place(self, given: str) -> Place:
        workspace = _workspace(given or self.options.workspace)
        loaded: Loaded = load(workspace, os.environ, trust=self.options.trust_workspace)
        config = loaded.config if self.options.extra is None else combine(self.options.extra, loaded.config)
        return Place(workspace, config, loaded.notice)

    @staticmethod
    def _mcp_specs(config: Config) -> tuple[list[McpServerSpec], list[str]]:
        """The MCP servers of the configuration files, and what is wrong with those that are left out."""
        specs, problems = [], []
        for name, table in config.mcp_servers.items():
            try:
                specs.append(from_config(name, table))
            except McpSpecError as error:
                problems.append(f"MCP server '{name}' is left out: {error}")
        return specs, problems

    def _provider(self, config: Config, asked: str) -> tuple[Provider | None, str]:
        """The provider for a model that a host asked for, watched if that is wanted, and the model's name."""
        provider, model = self.models.serving(config, asked)
        if provider is not None and self.witness is not None:
            provider = self.witness.provider(provider, asked, model)
        return provider, model

    def _settings(self, place: Place, command: OpenSession, provider: Provider | None, model: str) -> SessionSettings:
        options, config = self.options, place.config
        effort = options.effort or config.effort
        if effort and provider is not None and effort not in provider.effort_levels:
            levels = ", ".join(provider.effort_levels) or "none"
            raise ConfigError(f"Invalid --effort value: {effort}. Provider '{provider.name}' knows: {levels}.")
        max_tokens = options.max_tokens if options.max_tokens is not UNSET else (config.max_tokens or UNSET)
        return SessionSettings(
            workspace=str(place.workspace),
            model=model,
            max_tokens=max_tokens,
            max_steps=(config.max_turns or UNSET) if options.max_turns is UNSET else options.max_turns,
            system_prompt=command.system_prompt or options.system_prompt or config.system_prompt,
            mode=_word("mode", "yolo" if options.auto_approve else config.mode or "default", Mode),
            allow=frozenset((*options.allow, *config.allow)),
            confine=options.confine or config.confine,
            image_input=_word("image_input", options.image_input or config.image_input or "unknown", ImageInput),
            thinking=_word("--thinking value", options.thinking or config.thinking, Thinking),
            thinking_budget=options.thinking_budget or config.thinking_budget or 10_000,
            effort=effort,
            compaction=_word(
                "--compaction value", (options.compaction or config.compaction or "safe").lower(), Compaction
            ),
            builtins=command.builtins,
            subagents=command.subagents,
            host_permissions=command.host_permissions,
            agents=options.agents,
            max_bad_calls=self.policy.bad_calls if options.max_bad_calls is UNSET else options.max_bad_calls,
            context_window=options.context_window or config.context_window,
        )


def _word(name: str, value: str, words: Any) -> Any:
    """``value``, if it is one of a ``Literal``'s words; else raises :class:`ConfigError`."""
    try:
        return convert(value, words)
    except ValidationError:
        known = " or ".join(repr(word) for word in get_args(words) if word)
        raise ConfigError(f"Invalid {name}: {value}. Expected {known}.") from None


def _check_agent(agent: Any) -> None:
    from agentwire.agent.running import as_run

    try:
        as_run(agent)
    except TypeError as error:
        raise ConfigError(str(error)) from None


def _workspace(given: str) -> Path:
    try:
        path = Path(given or os.getcwd())
        if path.is_dir():
            return path.resolve()
    except OSError as error:
        raise ConfigError(f"Workspace '{given[:200]}' cannot be used: {error.strerror}") from None
    raise ConfigError(f"Workspace '{given}' is not a directory")
