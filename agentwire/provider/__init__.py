"""Model services: the contract, and what a provider package is built from.

Everything a provider needs is imported from here. What is heavy or needs trio is loaded when first asked for, so
that finding and naming providers stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentwire.provider.contract import (
    Check,
    Completion,
    ConfigError,
    Diagnosable,
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
    from agentwire.provider.address import Address, endpoint, find_key, find_service, host
    from agentwire.provider.children import Child, child_environment, start_child
    from agentwire.provider.conversation import (
        extra_of,
        legal_id,
        legal_name,
        load_images,
        merge_runs,
        paired,
        prompt_parts,
    )
    from agentwire.provider.extras import need_extra
    from agentwire.provider.hashes import provenance
    from agentwire.provider.http import HttpClient
    from agentwire.provider.quirks import HttpQuirks, auth, read_quirks
    from agentwire.provider.reader import CLOSED, CLOSING, EventStreamReader, ReplyReader
    from agentwire.provider.schema import acceptable
    from agentwire.provider.service import HttpService, Target
    from agentwire.provider.sse import EventParser, ServerSentEvent, SseError
    from agentwire.provider.think_tags import ThinkSplitter

_HOMES = {
    "conversation": ("extra_of", "legal_id", "legal_name", "load_images", "merge_runs", "paired", "prompt_parts"),
    "address": ("Address", "endpoint", "find_key", "find_service", "host"),
    "children": ("Child", "child_environment", "start_child"),
    "http": ("HttpClient",),
    "extras": ("need_extra",),
    "hashes": ("provenance",),
    "quirks": ("HttpQuirks", "auth", "read_quirks"),
    "reader": ("CLOSED", "CLOSING", "EventStreamReader", "ReplyReader"),
    "schema": ("acceptable",),
    "service": ("HttpService", "Target"),
    "sse": ("EventParser", "ServerSentEvent", "SseError"),
    "think_tags": ("ThinkSplitter",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CLOSED",
    "CLOSING",
    "Address",
    "Check",
    "Child",
    "Completion",
    "ConfigError",
    "Diagnosable",
    "Emit",
    "EventParser",
    "EventStreamReader",
    "HttpClient",
    "HttpQuirks",
    "HttpService",
    "ModelRequest",
    "Provider",
    "ProviderError",
    "ProviderPlugin",
    "ProviderSettings",
    "ReplyReader",
    "ServerSentEvent",
    "SseError",
    "StreamEvent",
    "Target",
    "ThinkSplitter",
    "acceptable",
    "auth",
    "child_environment",
    "endpoint",
    "extra_of",
    "find_key",
    "find_service",
    "host",
    "legal_id",
    "legal_name",
    "lenient",
    "load_images",
    "merge_runs",
    "need_extra",
    "paired",
    "prompt_parts",
    "provenance",
    "read_quirks",
    "start_child",
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
