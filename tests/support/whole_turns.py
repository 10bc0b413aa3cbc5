"""What a host may rely on, whatever an agent writes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

import agentwire.events as bus
from agentwire.codec import Answered, Heard


def assert_whole_turns(heard: Iterable[Heard | Answered], *, side_by_side: bool = False) -> None:
    """One end for each beginning and nothing of a turn outside it; every call is shown once and closed in its turn.

    ``side_by_side``: the wire may have several turns at once.
    """
    running: dict[object, set[str]] = {}
    """The calls that are open in a turn, by what started it."""
    shown: set[str] = set()
    for said in heard:
        assert isinstance(said, Heard)  # nothing was sent, so nothing is answered
        event = said.event
        msgspec.json.encode(event)
        if isinstance(event, bus.TurnStarted):
            assert event.ref not in running
            assert side_by_side or not running
            running[event.ref] = set()
        elif isinstance(event, bus.TURN_EVENTS):
            assert said.ref in running
        if isinstance(event, bus.CallReady):
            assert event.call_id not in shown
            shown.add(event.call_id)
            running[said.ref].add(event.call_id)
        elif isinstance(event, bus.ApprovalRequested | bus.CallRunning):
            assert event.call_id in running[said.ref]
        elif isinstance(event, bus.CallFinished | bus.CallCancelled):
            running[said.ref].remove(event.call_id)
        elif isinstance(event, bus.TurnFinished):
            assert running.pop(said.ref) == set()
    assert not running
