"""What differs between Jan's two surfaces in the events that they share (section 4.5)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Surface(Struct, frozen=True):
    """One way to be told of a run."""

    stopped: str
    """The reason of a host tool request that was withdrawn because the run was stopped."""
    tells_gone: bool
    """Calls that nobody could be asked about any more have a result: the run goes on without its host."""
    ends_stopped: bool
    """A stopped run has a ``done`` of its own."""


RPC: Final = Surface("interrupted", tells_gone=False, ends_stopped=False)
STREAM: Final = Surface("aborted", tells_gone=True, ends_stopped=True)
