"""The turn under way, as a host follows it."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.codec.heard import Answered, Heard
from agentwire.commands import JsonId

Said = list[Heard | Answered]
"""What a host makes of a line."""


class Course:
    """The course of a turn as far as its end can be told from it: the wire only says that it ended.

    The answer is what was said after the last call. An error after which nothing more was done is taken for the
    cause of the end; so is a call that was cancelled because the user stopped the turn.
    """

    __slots__ = ("_text", "error", "stopped")

    def __init__(self) -> None:
        self._text: list[str] = []
        self.error: bus.ErrorInfo | UnsetType = UNSET
        self.stopped = False

    def said(self, text: str) -> None:
        """A piece of the answer."""
        self._text.append(text)
        self.error = UNSET
        self.stopped = False

    def called(self) -> None:
        """A call was asked about, started or finished: what was said before was not the answer yet."""
        self._text.clear()
        self.went_on()

    def went_on(self) -> None:
        """The turn did something: whatever was wrong before did not end it."""
        self.error = UNSET
        self.stopped = False

    @property
    def text(self) -> str:
        """The answer, if the turn ended now."""
        return "".join(self._text)

    @property
    def outcome(self) -> bus.Outcome:
        """The turn's outcome, if it ended now."""
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

    __slots__ = ("calls", "course", "msg_id", "ref", "stopping")

    def __init__(self, msg_id: str, ref: JsonId) -> None:
        self.msg_id = msg_id
        self.ref = ref
        """The driver's own id for it, with its JSON type, where the driver is ours."""
        self.calls: dict[str, OpenCall] = {}
        """Its open calls by their id on the wire."""
        self.course = Course()
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
