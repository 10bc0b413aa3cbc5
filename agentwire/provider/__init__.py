"""Model services: the contract, and what a provider package is built from.

Everything a provider needs is imported from here. What is heavy or needs trio is loaded when first asked for, so
that finding and naming providers stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentwire.provider.contract import (
    Completion,
    ConfigError,
    Emit,
    ModelRequest,
    Provider,
    ProviderError,
    ProviderPlugin,
    ProviderSettings,
    StreamEvent,
)

if TYPE_CHECKING:
    from agentwire.provider import lenient
    from agentwire.provider.address import endpoint, find_key, host
    from agentwire.provider.conversation import (
        legal_id,
        legal_name,
        load_images,
        merge_runs,
        paired,
        prompt_parts,
    )
    from agentwire.provider.http import HttpClient
    from agentwire.provider.quirks import HttpQuirks, auth, read_quirks
    from agentwire.provider.reader import CLOSED, CLOSING, EventStreamReader, ReplyReader
    from agentwire.provider.schema import acceptable
    from agentwire.provider.sse import EventParser, ServerSentEvent, SseError
    from agentwire.provider.think_tags import ThinkSplitter

_HOMES = {
    "conversation": ("legal_id", "legal_name", "load_images", "merge_runs", "paired", "prompt_parts"),
    "address": ("endpoint", "find_key", "host"),
    "http": ("HttpClient",),
    "quirks": ("HttpQuirks", "auth", "read_quirks"),
    "reader": ("CLOSED", "CLOSING", "EventStreamReader", "ReplyReader"),
    "schema": ("acceptable",),
    "sse": ("EventParser", "ServerSentEvent", "SseError"),
    "think_tags": ("ThinkSplitter",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CLOSED",
    "CLOSING",
    "Completion",
    "ConfigError",
    "Emit",
    "EventParser",
    "EventStreamReader",
    "HttpClient",
    "HttpQuirks",
    "ModelRequest",
    "Provider",
    "ProviderError",
    "ProviderPlugin",
    "ProviderSettings",
    "ReplyReader",
    "ServerSentEvent",
    "SseError",
    "StreamEvent",
    "ThinkSplitter",
    "acceptable",
    "auth",
    "endpoint",
    "find_key",
    "host",
    "legal_id",
    "legal_name",
    "lenient",
    "load_images",
    "merge_runs",
    "paired",
    "prompt_parts",
    "read_quirks",
]


def __getattr__(name: str) -> Any:
    if name == "lenient":
        return import_module(f"{__name__}.lenient")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
