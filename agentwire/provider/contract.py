"""The provider contract: how a model service is reached.

A provider does one request at a time and never retries: it reports, the agent loop decides. It pushes what it
hears through ``emit``, a plain function, as it hears it, and returns the whole as a :class:`Completion`. Being
cancelled (a trio cancel scope) must close the connection.

Before each request that it sends it emits one :class:`~agentwire.events.RequestSent`, which is the record of what
was sent (:func:`agentwire.provider.provenance` makes it).

A third party registers a :class:`ProviderPlugin` under the entry point group ``agentwire.providers``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire.events import (
    CallArgumentsDelta,
    CallRef,
    CallStarted,
    ReasoningDelta,
    RequestSent,
    TextDelta,
    ToolSpec,
    Usage,
)
from agentwire.messages import Message

StreamEvent = TextDelta | ReasoningDelta | CallStarted | CallArgumentsDelta | Usage | RequestSent
"""What ``emit`` takes. Call ids are the service's own here; the loop makes them unique. A :class:`Usage` is what
the service has reported of this request so far: it is what a stopped or broken request is accounted with."""

Emit = Callable[[StreamEvent], None]


class ModelRequest(Struct, omit_defaults=True):
    """One request to a model service, in no service's words."""

    model: str
    messages: list[Message]
    system: str = ""
    tools: list[ToolSpec] = []
    max_tokens: int | UnsetType = UNSET
    thinking: Literal["", "enabled", "disabled"] = ""
    """Empty: the service's default."""
    thinking_budget: int = 10_000
    effort: str = ""
    session: str = ""
    headers: dict[str, str] = {}
    """Added to the HTTP request: trace context and the like."""


class Completion(Struct, omit_defaults=True):
    """A whole reply."""

    text: str = ""
    reasoning: str = ""
    calls: list[CallRef] = []
    """In the model's order. ``name`` or ``call_id`` may be empty if the service sent none."""
    usage: Usage | UnsetType = UNSET
    finish_reason: str = "stop"
    """``stop``, ``tool_calls``, ``length``, ``refusal``, ``content_filter`` or the service's own word."""
    items: list[Raw] = []
    """Blocks to be sent back verbatim in the next request, signatures included (each one line of JSON)."""


class ProviderError(Exception):
    """A request failed. The message is for people: it names what happened and holds no key."""

    def __init__(
        self,
        message: str,
        *,
        kind: Literal["connect", "status", "rate_limit", "stream", "timeout", "auth", "context", "bad_reply", "config"],
        retryable: bool = False,
        status: int = 0,
        retry_after_ms: int | None = None,
        usage: Usage | UnsetType = UNSET,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        """``connect``: there was no reply at all; ``status``: refused before the stream; ``stream``: broke off or
        reported an error after it began; ``context``: the prompt is too long; ``bad_reply``: cannot be understood."""
        self.retryable = retryable
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.usage = usage
        """What the service had reported before it failed."""


class ConfigError(Exception):
    """The set-up is wrong (no key, unknown name, bad value): what is wrong and what to do, in one line."""

    def __init__(self, message: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        """For wires that tell set-up faults apart: ``config_missing`` (no provider was named anywhere),
        ``binary_missing``, ``model_missing``, ``model_plan_error`` (it does not fit this machine), ``model`` (nobody
        serves it), or ``""``."""


class ProviderSettings(Struct, omit_defaults=True):
    """What the command line, the environment and the configuration files say about a provider."""

    model: str = ""
    base_url: str = ""
    api_key: str = ""
    environ: Mapping[str, str] = {}
    options: dict[str, Any] = {}
    """Quirks: ``[providers.NAME]`` in ``agentwire.toml`` and ``--provider-option``."""
    connect_timeout: float = 10.0
    """Seconds."""
    silence_timeout: float = 300.0
    """Seconds without a byte, comments included."""


class Provider(Protocol):
    """A model service, ready to use. Constructing one opens nothing and imports no HTTP library."""

    name: str
    model: str
    """The default model."""
    thinking: bool
    """Takes a thinking request with a budget."""
    effort_levels: tuple[str, ...]
    """Reasoning effort levels; empty if there are none."""

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Send one request and stream the reply through ``emit``; raises :class:`ProviderError`."""
        ...

    async def aclose(self) -> None:
        """Close connections. The provider is not used again."""
        ...


class Check(Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at in a provider's set-up, for people and for doctors."""

    name: str
    """A short word that stays the same: ``binary``, ``model``, ``memory``."""
    ok: bool
    """Whether requests can be served as far as this goes."""
    detail: str
    """What was found, in one line."""
    fix: str = ""
    """What to do about it; beside ``ok`` it is advice."""

    @property
    def status(self) -> Literal["ok", "warn", "fail"]:
        """``fail`` if this must be mended, ``warn`` if it works but there is advice."""
        if not self.ok:
            return "fail"
        return "warn" if self.fix else "ok"


@runtime_checkable
class Diagnosable(Protocol):
    """A provider that runs something on this machine, and can say what and whether it would work.

    Optional: look with ``isinstance(provider, Diagnosable)``. Both methods start nothing, but read files and may
    take a moment: call them on a worker thread.
    """

    def checks(self) -> list[Check]:
        """Look at the set-up, in the order in which a start needs it; a fault is a result and is never raised."""
        ...

    def plan(self) -> dict[str, Any]:
        """What would be run, as JSON values; raises :class:`ConfigError` for the first check that fails."""
        ...


class ProviderPlugin(Struct, frozen=True):
    """What an entry point in the group ``agentwire.providers`` names."""

    name: str
    create: Callable[[ProviderSettings], Provider]
    """Raises :class:`ConfigError`."""
    summary: str = ""
    default_model: str = ""
    secrets: tuple[str, ...] = ()
    """Environment variables that hold its keys: no program that a model runs, and no MCP server, inherits them."""
