"""The turn under way, as a host follows it."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.codec.heard import Answered, Heard
from agentwire.commands import JsonId

Said = list[Heard | Answered]
"""What a host makes of a line."""


class Ending:
    """How a turn will have ended, as far as the wire tells: it says only that it ended.

    An error after which nothing more was done is taken for the cause of the end; so is a call that was cancelled
    because the user stopped the turn.
    """

    __slots__ = ("error", "stopped")

    def __init__(self) -> None:
        self.error: bus.ErrorInfo | UnsetType = UNSET
        self.stopped = False

    def went_on(self) -> None:
        """The turn did something: whatever was wrong before did not end it."""
        self.error = UNSET
        self.stopped = False

    @property
    def outcome(self) -> bus.Outcome:
        """The turn's outcome if it ended now."""
        if self.error is not UNSET:
            return "failed"
        return "cancelled" if self.stopped else "completed"


class OpenCall:
    """A call that was shown and is neither finished nor cancelled."""

    __slots__ = ("asked", "call_id", "name", "running")

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        """The call's id on the bus, where ids do not repeat."""
        self.name = name
        self.asked = False
        self.running = False


class OpenTurn:
    """A turn that began and has not ended."""

    __slots__ = ("calls", "ending", "msg_id", "ref", "stopping")

    def __init__(self, msg_id: str, ref: JsonId) -> None:
        self.msg_id = msg_id
        self.ref = ref
        """The driver's own id for it, with its JSON type, where the driver is ours."""
        self.calls: dict[str, OpenCall] = {}
        """Its open calls by their id on the wire."""
        self.ending = Ending()
        self.stopping = False
        """We asked for its end."""

    def say(self, event: bus.Event) -> Heard:
        """An event of this turn."""
        return Heard(event, "", self.ref)

    def show(self, wire_id: str, name: str, taken: set[str]) -> OpenCall:
        """A new call. Model services repeat ids from round to round; on the bus each is unique in the session."""
        call_id, n = wire_id, 1
        while call_id in taken:
            n += 1
            call_id = f"{wire_id}-{n}"
        taken.add(call_id)
        call = self.calls[wire_id] = OpenCall(call_id, name)
        return call

    def known(self, wire_id: str, name: str, taken: set[str], said: Said) -> OpenCall:
        """The call that a line is about. One that nobody asked about is shown by its name alone."""
        call = self.calls.get(wire_id)
        if call is None:
            call = self.show(wire_id, name, taken)
            said.append(self.say(bus.CallReady(call.call_id, name)))
        return call
