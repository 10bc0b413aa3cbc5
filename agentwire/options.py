"""What a server can be told: the fields behind the flags of ``agentwire serve``."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agentwire.config import Config
from agentwire.logs import Format


class ServeOptions(Struct, omit_defaults=True):
    """What the command line says. Empty means "not said": the configuration files, then defaults, decide."""

    codec: str = "aionrs"
    codec_options: dict[str, Any] = {}
    """Options of the codec's own, given to its agent side as keywords."""
    provider: str = ""
    model: str = ""
    models: dict[str, str] = {}
    """Models that sessions may ask for, and the provider that serves each; empty: any model, from the one provider."""
    max_tokens: int | UnsetType = UNSET
    max_turns: int | UnsetType = UNSET
    """Model calls per turn; 0 is no limit."""
    base_url: str = ""
    api_key: str = ""
    system_prompt: str = ""
    agents: dict[str, str] = {}
    """Agents that a prompt may name: system prompts by name."""
    max_bad_calls: int | UnsetType = UNSET
    """Badly written calls that are put back to the model in one turn before it is given up; unset: as the wire's
    original does."""
    auto_approve: bool = False
    workspace: str = ""
    session_id: str | None = None
    resume: str | None = None
    fork_session: bool = False
    allow: tuple[str, ...] = ()
    confine: bool = False
    ephemeral: bool = False
    trust_workspace: bool = False
    thinking: str = ""
    thinking_budget: int = 0
    effort: str = ""
    compaction: str = ""
    image_input: str = ""
    context_window: int = 0
    """Tokens that the model can read; 0: not known."""
    log_level: str = "warning"
    log_format: Format = "text"
    record: str = ""
    """File to record the wire to, both directions."""
    provider_options: dict[str, Any] = {}
    provider_required: bool = False
    """A provider must be named by option or configuration; there is no default."""
    config_fault: str = ""
    """Why there is no configuration to name one, where a file of the original's was looked for."""
    extra: Config | None = None
    """Settings of the originals' own configuration files, under those of ``agentwire.toml``."""
    notices: tuple[str, ...] = ()
    """What the person at the host should know of how these options came to be."""
