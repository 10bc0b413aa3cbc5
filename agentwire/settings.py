"""What a session is opened with, and how its model settings change while it lives.

Pure data and one pure function per command: no I/O, so that the first line of a server can be written before
anything heavy is imported.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from agentwire.commands import SetConfig
from agentwire.events import ConfigChange, ImageInput, Mode

COMPACTION_LEVELS = ("off", "safe", "full")
DEFAULT_THINKING_BUDGET = 10_000

Compaction = Literal["off", "safe", "full"]
Thinking = Literal["", "enabled", "disabled"]


class SessionSettings(Struct, omit_defaults=True):
    """Everything a session starts with. Empty means "the default of whoever is asked"."""

    workspace: str = ""
    model: str = ""
    max_tokens: int | UnsetType = UNSET
    max_steps: int | UnsetType = UNSET
    """Model calls per turn; 0 is no limit; unset: as the agent says."""
    system_prompt: str = ""
    mode: Mode = "default"
    allow: frozenset[str] = frozenset()
    confine: bool = False
    image_input: ImageInput = "unknown"
    thinking: Thinking = ""
    thinking_budget: int = DEFAULT_THINKING_BUDGET
    effort: str = ""
    compaction: Compaction = "safe"
    builtins: bool = True
    """Offer the built-in tools."""
    subagents: bool | UnsetType = UNSET
    """Offer the tools that start subagents; absent: as ``builtins``."""
    host_permissions: bool = False
    """The host itself decides about calls of its tools: nobody is asked."""
    agents: dict[str, str] = {}
    """Agents that a prompt may name: instructions by name. The first is the default."""
    max_bad_calls: int | UnsetType = UNSET
    """Badly written calls put back to the model in one turn before it is given up; unset: as the agent says."""
    context_window: int = 0
    """Tokens that the model can read; 0: not known."""


class ModelSettings(Struct, frozen=True):
    """The part of the settings that set-config changes."""

    model: str
    image_input: ImageInput = "unknown"
    thinking: Thinking = ""
    thinking_budget: int = DEFAULT_THINKING_BUDGET
    effort: str = ""
    compaction: Compaction = "safe"


def merged(held: SetConfig | None, command: SetConfig) -> SetConfig:
    """Two commands as one: field by field, the later wins."""
    if held is None:
        return command
    given = {name: value for name, value in asdict(command).items() if value is not UNSET}
    return replace(held, **given)


def apply_config(
    settings: ModelSettings, command: SetConfig, effort_levels: tuple[str, ...]
) -> tuple[ModelSettings, list[ConfigChange]]:
    """What ``command`` makes of ``settings``, and what became of each field, in the order hosts are told.

    A refused value changes nothing and is listed with its ``problem``; thinking is an intention and is accepted
    for every provider.
    """
    changes: list[ConfigChange] = []

    if command.model is not UNSET:
        changes.append(ConfigChange("model", settings.model, command.model))
        settings = replace(settings, model=command.model)

    if command.image_input is not UNSET:
        changes.append(ConfigChange("image_input", settings.image_input, command.image_input))
        settings = replace(settings, image_input=command.image_input)
    elif command.model is not UNSET and settings.image_input != "unknown":
        # What one model can see says nothing about another.
        changes.append(ConfigChange("image_input", settings.image_input, "unknown"))
        settings = replace(settings, image_input="unknown")

    settings, change = _thinking(settings, command)
    if change is not None:
        changes.append(change)

    settings, change = _effort(settings, command.effort, effort_levels)
    if change is not None:
        changes.append(change)

    settings, change = _compaction(settings, command.compaction)
    if change is not None:
        changes.append(change)
    return settings, changes


def _thinking(settings: ModelSettings, command: SetConfig) -> tuple[ModelSettings, ConfigChange | None]:
    wanted, budget = command.thinking, command.thinking_budget
    if wanted is UNSET:
        if budget is UNSET or settings.thinking != "enabled":
            return settings, None
        old = str(settings.thinking_budget)
        return replace(settings, thinking_budget=budget), ConfigChange("thinking_budget", old, str(budget), budget)
    if wanted == "enabled":
        tokens = DEFAULT_THINKING_BUDGET if budget is UNSET else budget
        change = ConfigChange("thinking", settings.thinking, "enabled", tokens)
        return replace(settings, thinking="enabled", thinking_budget=tokens), change
    if wanted == "disabled":
        return replace(settings, thinking="disabled"), ConfigChange("thinking", settings.thinking, "disabled")
    allowed = ("enabled", "disabled")
    return settings, ConfigChange("thinking", settings.thinking, wanted, problem="invalid", allowed=allowed)


def _effort(
    settings: ModelSettings, wanted: str | UnsetType, levels: tuple[str, ...]
) -> tuple[ModelSettings, ConfigChange | None]:
    if wanted is UNSET:
        return settings, None
    if wanted == "":
        return replace(settings, effort=""), ConfigChange("effort", settings.effort, "")
    if not levels:
        return settings, ConfigChange("effort", settings.effort, wanted, problem="unsupported")
    if wanted not in levels:
        return settings, ConfigChange("effort", settings.effort, wanted, problem="invalid", allowed=levels)
    return replace(settings, effort=wanted), ConfigChange("effort", settings.effort, wanted)


def _compaction(settings: ModelSettings, wanted: str | UnsetType) -> tuple[ModelSettings, ConfigChange | None]:
    if wanted is UNSET:
        return settings, None
    level = wanted.lower()
    if level not in COMPACTION_LEVELS:
        change = ConfigChange("compaction", settings.compaction, wanted, problem="invalid", allowed=COMPACTION_LEVELS)
        return settings, change
    change = ConfigChange("compaction", settings.compaction, level)
    return replace(settings, compaction=level), change
