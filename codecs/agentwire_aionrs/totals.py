"""Usage as the real binary reports it: a running total of the session, where the protocol says the turn's own."""

from __future__ import annotations

import re
from typing import Final

from msgspec import UNSET, UnsetType

from agentwire.events import Usage

_CRATE_VERSION: Final = re.compile(r"0\.2\.[1-9]\d*")
"""The binary reports its own version where the protocol's, 0.2.0, belongs; that gives it away."""


def counts_sessions(version: str) -> bool:
    """Whether an agent that reports ``version`` in ``ready`` sends running totals."""
    return _CRATE_VERSION.fullmatch(version) is not None


class RunningTotal:
    """Turns running totals back into turns.

    The first turn of a resumed session cannot be told from the turns before it and is reported with them. After an
    error the binary reports zeros, which say nothing.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = Usage()

    def turn(self, total: Usage) -> Usage:
        """What was used since the last turn that said so."""
        if not total.input_tokens and not total.output_tokens:
            return Usage()
        before, self._seen = self._seen, total
        return Usage(
            _since(total.input_tokens, before.input_tokens),
            _since(total.output_tokens, before.output_tokens),
            _since(total.cache_read_tokens, before.cache_read_tokens),
            _since(total.cache_write_tokens, before.cache_write_tokens),
        )


def _since(total: int | UnsetType, before: int | UnsetType) -> int | UnsetType:
    if total is UNSET or before is UNSET:
        return total
    return total - before if total >= before else total
