"""Usage as the real binary reports it: a running total of the session, where the protocol says the turn's own."""

from __future__ import annotations

import re
from typing import Final

from msgspec import UNSET, UnsetType

from agentwire.events import Usage
from agentwire_aionrs.wire import PROTOCOL_VERSION

_CRATE_VERSION: Final = re.compile(r"0\.\d+\.\d+")


def is_original(version: str) -> bool:
    """Whether ``version`` in ``ready`` gives away the binary, or a fork of it.

    It reports its own version where the protocol's belongs.
    """
    return version != PROTOCOL_VERSION and _CRATE_VERSION.fullmatch(version) is not None


class RunningTotal:
    """Turns running totals back into turns.

    After an error the binary reports zeros, which say nothing; of a turn that a stop ended it reports nothing. What
    such a turn used counts with the next one.

    ``known``: nothing was used before. Else the first turn cannot be told from those before it: not reported.

    A total never shrinks: an agent whose counts do tells of turns after all, and is taken at its word from there on.
    """

    __slots__ = ("_known", "_seen", "_shrank")

    def __init__(self, *, known: bool = True) -> None:
        self._seen = Usage()
        self._known = known
        self._shrank = False

    def turn(self, total: Usage) -> Usage:
        """What was used since the last turn that said so."""
        if not total.input_tokens and not total.output_tokens:
            return Usage()
        before, self._seen = self._seen, total
        known, self._known = self._known, True
        if not known:
            return Usage()
        self._shrank = self._shrank or _less(total.input_tokens, before.input_tokens)
        if self._shrank:
            return total
        return Usage(
            _since(total.input_tokens, before.input_tokens),
            _since(total.output_tokens, before.output_tokens),
            _since(total.cache_read_tokens, before.cache_read_tokens),
            _since(total.cache_write_tokens, before.cache_write_tokens),
        )


def _less(total: int | UnsetType, before: int | UnsetType) -> bool:
    return total is not UNSET and before is not UNSET and total < before


def _since(total: int | UnsetType, before: int | UnsetType) -> int | UnsetType:
    if total is UNSET or before is UNSET:
        return total
    return total - before if total >= before else total
