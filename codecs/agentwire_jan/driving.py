"""Driving a live Jan: what is said first, and what would be lost if it were sent (sections 1.1, 1.3 and 6.4).

A host shakes hands and waits for the answer before it says anything else: a build with another protocol version
refuses every method. And a line that is too long is answered under no id, so that whoever asked would wait for ever:
it is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agentwire import commands
from agentwire.codec.jsontext import append_line
from agentwire.commands import Command, Refusal
from agentwire_jan import hearing, rpc
from agentwire_jan.host_side import INITIALIZE, JanHost, Said

_ENCODER: Final = msgspec.json.Encoder()

MAX_LINE: Final = 16 * 1024 * 1024
"""Longest line that an agent reads, with its line feed, where it does not say otherwise."""


class JanDriver(JanHost):
    """The host side of a live agent; see :class:`agentwire.codec.contract.Driver`."""

    def __init__(self) -> None:
        super().__init__()
        self._due = bytearray()
        self._ready: bool | Refusal = False
        self._max_line = MAX_LINE

    def begin(self, argv: Sequence[str]) -> list[str]:
        """The command as it is; the handshake is due."""
        self._write("initialize", INITIALIZE, commands.Ping(), self._due)
        return list(argv)

    def ready(self) -> bool | Refusal:
        """The handshake is done, or was refused."""
        return self._ready

    def due(self, out: bytearray) -> Said:
        """The handshake."""
        out += self._due
        self._due.clear()
        return []

    def resumable(self) -> bool:
        """Sessions die with their process."""
        return False

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``, if the agent can read it."""
        start = len(out)
        number = super().send(command, out)
        if isinstance(number, Refusal) or len(out) - start <= self._max_line:
            return number
        size = len(out) - start
        del out[start:]
        del self._waiting[number]
        return Refusal("bad_params", f"the line is {size} bytes long, and the agent reads {self._max_line} at most")

    def _shaken(self, result: Any, refusal: Refusal | None) -> Said:
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        if refusal is not None:
            self._ready = refusal
        elif version != rpc.PROTOCOL_VERSION:
            told = f"the agent speaks version {version} of the protocol, not {rpc.PROTOCOL_VERSION}"
            self._ready = Refusal("unsupported", told)
        else:
            self._max_line = hearing.longest_line(result) or MAX_LINE
            append_line(_ENCODER, rpc.Call(method="initialized", params={}), self._due)
            self._ready = True
        return super()._shaken(result, refusal)
