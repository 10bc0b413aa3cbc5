"""We drive an agent that speaks aionrs: ours, a real binary, or one of its forks.

What is here is the wire's: a command becomes its line, a line what it says. What a live agent needs beyond that is in
:mod:`agentwire_aionrs.driving`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from agentwire import commands
from agentwire.codec.jsontext import append_line
from agentwire.commands import Command, Refusal
from agentwire_aionrs import sending, wire
from agentwire_aionrs.hearing import Hearing

ENCODER: Final = msgspec.json.Encoder()


class AionrsHost(Hearing):
    """The host side of one agent process; see :class:`agentwire.codec.contract.HostSide`."""

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``."""
        made = self.made(command)
        if isinstance(made, Refusal):
            return made
        message, key = made
        append_line(ENCODER, message, out)
        return self._ledger.add(command, key)

    def made(self, command: Command) -> tuple[Struct, str] | Refusal:
        """The message for ``command``, and what the wire's answer will name."""
        make = _SENDERS.get(type(command))
        if make is None:
            return Refusal("unsupported", f"aionrs has no word for {type(command).__struct_config__.tag}")
        return make(self, command)

    def _prompt(self, command: commands.Prompt) -> tuple[Struct, str] | Refusal:
        if self._turn is not None:
            # A real agent would lose the message without a word.
            return Refusal("busy", "a turn is running; send the next message after its end", retryable=True)
        msg_id = sending.msg_id(command.ref, self._ledger.next_number)
        message = sending.message(command, msg_id)
        return message if isinstance(message, Refusal) else (message, msg_id)

    def _stop(self, command: commands.Stop) -> tuple[Struct, str] | Refusal:
        turn = self._turn
        if command.ref is not UNSET and (turn is None or turn.ref != command.ref):
            return Refusal("not_found", "that turn is not running")
        if turn is not None:
            turn.stopping = True
        return wire.Stop(), ""

    def _approve(self, command: commands.Approve) -> tuple[Struct, str] | Refusal:
        call_id = self._asked(command)
        return call_id if isinstance(call_id, Refusal) else (sending.approve(command, call_id), call_id)

    def _deny(self, command: commands.Deny) -> tuple[Struct, str] | Refusal:
        call_id = self._asked(command)
        return call_id if isinstance(call_id, Refusal) else (wire.ToolDeny(call_id, command.reason), call_id)

    def _asked(self, command: commands.Approve | commands.Deny) -> str | Refusal:
        """The wire's id of the call that an answer is for."""
        call_id = command.call_id or command.approval_id
        open_calls = self._turn.calls if self._turn is not None else {}
        for wire_id, call in open_calls.items():
            if call.call_id == call_id and call.asked and not call.running:
                return wire_id
        if call_id in self._call_ids:
            return Refusal("not_pending", "that call does not wait for an answer")
        return Refusal("not_found", "no such call")

    def _set_config(self, command: commands.SetConfig) -> tuple[Struct, str] | Refusal:
        message = sending.set_config(command)
        return message if isinstance(message, Refusal) else (message, "")


_SENDERS: Final[dict[type[Command], Callable[[AionrsHost, Any], tuple[Struct, str] | Refusal]]] = {
    commands.Prompt: AionrsHost._prompt,
    commands.Stop: AionrsHost._stop,
    commands.Approve: AionrsHost._approve,
    commands.Deny: AionrsHost._deny,
    commands.InitHistory: lambda host, command: (wire.InitHistory(command.text), ""),
    commands.SetMode: lambda host, command: (wire.SetMode(command.mode), command.mode),
    commands.SetConfig: AionrsHost._set_config,
    commands.AddMcpServer: lambda host, command: (sending.add_mcp_server(command), command.name),
    commands.Ping: lambda host, command: (wire.Ping(), ""),
}
