"""Codecs and providers by name, found through entry points.

The built-ins are registered exactly as a third party's are; nothing here, or anywhere in ``agentwire``, names one.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentwire.codec.contract import Codec
    from agentwire.provider.contract import ProviderPlugin

CODECS = "agentwire.codecs"
PROVIDERS = "agentwire.providers"


class UnknownName(LookupError):
    """No codec or provider of that name is installed; the message lists those that are."""


def names(group: str) -> list[str]:
    """The names registered in an entry point group, sorted. Nothing is imported."""
    return sorted({point.name for point in entry_points(group=group)})


def _find(group: str, kind: str, name: str) -> EntryPoint:
    points = list(entry_points(group=group, name=name))
    if not points:
        known = ", ".join(names(group)) or "none"
        raise UnknownName(f"Unknown {kind}: '{name}'. Installed: {known}.")
    return points[0]


def load_codec(name: str) -> Codec:
    """The codec of that name; raises :class:`UnknownName`."""
    found: Codec = _find(CODECS, "codec", name).load()
    return found


def load_provider(name: str) -> ProviderPlugin:
    """The provider plugin of that name; raises :class:`UnknownName`."""
    found: ProviderPlugin = _find(PROVIDERS, "provider", name).load()
    return found
