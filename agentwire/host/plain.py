"""What drives a live agent whose wire asks nothing of its host beyond its words."""

from __future__ import annotations

from collections.abc import Sequence

from agentwire.codec.contract import Answered, Codec, Driver, Heard
from agentwire.codec.framing import LineFault
from agentwire.commands import Command, Refusal
from agentwire.events import SessionOpened


class PlainDriver:
    """A host side as it is, as a :class:`agentwire.codec.contract.Driver`."""

    def __init__(self, codec: Codec) -> None:
        self._side = codec.host()
        self._ready = not codec.greets

    def begin(self, argv: Sequence[str]) -> list[str]:
        """The command as it is."""
        return list(argv)

    def ready(self) -> bool | Refusal:
        """At once, or when the agent has greeted."""
        return self._ready

    def due(self, out: bytearray) -> list[Heard | Answered]:
        """Nothing, ever."""
        return []

    def resumable(self) -> bool:
        """An agent that ended has ended."""
        return False

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``."""
        return self._side.send(command, out)

    def receive(self, line: bytes | LineFault) -> list[Heard | Answered]:
        """Read one line of the agent."""
        said = self._side.receive(line)
        if not self._ready:
            self._ready = any(isinstance(item, Heard) and isinstance(item.event, SessionOpened) for item in said)
        return said

    def close(self) -> list[Heard | Answered]:
        """The agent's output ended."""
        return self._side.close()


def driver_of(codec: Codec) -> Driver:
    """What drives a live agent of a wire."""
    return PlainDriver(codec) if codec.driver is None else codec.driver()
