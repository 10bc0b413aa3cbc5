"""The names under which MCP tools are offered to a model.

A model service refuses a whole request over one bad name, so every name offered matches :data:`LEGAL_NAME` and is
the only one of its kind. A tool keeps the name its server gave it where that is possible; on a collision it is
called ``mcp__SERVER_TOOL`` (aionrs protocol, tool naming).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import Struct

MAX_NAME = 64
LEGAL_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")
"""What OpenAI, Anthropic and the services that copy them accept, matched in full."""

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


class Offer(Struct, frozen=True):
    """What one server brings: its tools by their own names, and whether the host added it by command."""

    server: str
    tools: Sequence[str]
    dynamic: bool = False


def register_names(offers: Sequence[Offer], taken: Collection[str]) -> list[dict[str, str]]:
    """For each offer, in the order given, its tools' own names and the names they are registered under.

    ``taken`` names (the built-in tools, the host's) are never given out. Servers of the configuration are treated
    alike, whatever order they connected in: where two of them want a name, neither gets it. Servers that a host
    added come after them and in their own order: the first to want a name has it.
    """
    registry = _Registry(taken)
    names: list[dict[str, str]] = [{} for _ in offers]
    configured = sorted((i for i, offer in enumerate(offers) if not offer.dynamic), key=lambda i: offers[i].server)
    registry.add_alike([(offers[i], names[i]) for i in configured])
    for offer, given in zip(offers, names, strict=True):
        if offer.dynamic:
            registry.add(offer, given)
    return names


class _Registry:
    """Names given out so far."""

    def __init__(self, taken: Collection[str]) -> None:
        self._used = set(taken)

    def add_alike(self, offers: list[tuple[Offer, dict[str, str]]]) -> None:
        """Name the tools of several servers so that their order makes no difference."""
        wanted = [(offer, given, tool) for offer, given in offers for tool in offer.tools]
        exact = Counter(tool for _, _, tool in wanted if LEGAL_NAME.fullmatch(tool))
        plain = Counter(_plain(tool) for _, _, tool in wanted)
        free = frozenset(self._used)

        def contested(tool: str) -> bool:
            if tool in exact:
                return exact[tool] > 1
            return plain[_plain(tool)] > 1

        prefixed: list[tuple[Offer, dict[str, str], str]] = []
        for offer, given, tool in wanted:
            name = _plain(tool)
            if len(name) > MAX_NAME or not name or name in free or contested(tool):
                prefixed.append((offer, given, tool))
            else:
                self._give(given, tool, name)
        for offer, given, tool in sorted(prefixed, key=lambda entry: (entry[0].server, entry[2])):
            self._prefix(offer, given, tool)

    def add(self, offer: Offer, given: dict[str, str]) -> None:
        """Name the tools of one server; what is used already stays as it is."""
        exact_first = sorted(offer.tools, key=lambda tool: not LEGAL_NAME.fullmatch(tool))
        for tool in exact_first:
            name = _plain(tool)
            if 0 < len(name) <= MAX_NAME and name not in self._used:
                self._give(given, tool, name)
            else:
                self._prefix(offer, given, tool)

    def _prefix(self, offer: Offer, given: dict[str, str], tool: str) -> None:
        name = _plain(f"mcp__{offer.server}_{tool}")
        if len(name) > MAX_NAME or name in self._used:
            name = _cut(name, hashlib.sha256(f"{offer.server}\0{tool}".encode(errors="replace")).hexdigest()[:8])
        base, number = name, 1
        while name in self._used:  # two servers of one name with one tool name
            number += 1
            name = _cut(base, str(number))
        self._give(given, tool, name)

    def _give(self, given: dict[str, str], tool: str, name: str) -> None:
        self._used.add(name)
        given[tool] = name


def _plain(name: str) -> str:
    return _ILLEGAL.sub("_", name)


def _cut(name: str, suffix: str) -> str:
    return f"{name[: MAX_NAME - 1 - len(suffix)]}_{suffix}"
