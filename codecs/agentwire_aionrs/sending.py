"""Commands into lines, and the ledger of those that still wait for their outcome: the host side's one half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import UNSET, Struct

from agentwire import commands as bus
from agentwire.codec.heard import Answered
from agentwire.commands import Command, Done, JsonId, Refusal
from agentwire.events import File, Part, Text
from agentwire_aionrs import texts, wire

DONE: Final = Done()


class Sent(Struct):
    """A command that was written and has no outcome yet. ``key`` is what the wire's answer will name."""

    number: int
    command: Command
    key: str = ""


class Ledger:
    """Commands that wait for their outcome, oldest first.

    The wire answers few commands by name. The others are settled by what can only come after them: the pong of a
    later ping, or the end of the turn they were for.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Sent] = {}
        self._last = 0

    @property
    def next_number(self) -> int:
        """The number that the next command will have."""
        return self._last + 1

    def add(self, command: Command, key: str = "") -> int:
        """Note a command that was written."""
        self._last += 1
        self._waiting[self._last] = Sent(self._last, command, key)
        return self._last

    def find(self, *kinds: type[Command], key: str | None = None) -> Sent | None:
        """The oldest command of one of ``kinds``, with that key if one is given."""
        return next((sent for sent in self._waiting.values() if _fits(sent, kinds, key)), None)

    def settle(self, *kinds: type[Command], key: str | None = None, result: Done | Refusal = DONE) -> list[Answered]:
        """Give the oldest such command its outcome."""
        sent = self.find(*kinds, key=key)
        if sent is None:
            return []
        del self._waiting[sent.number]
        return [Answered(sent.number, result)]

    def settle_all(
        self, *kinds: type[Command], key: str | None = None, before: int | None = None, result: Done | Refusal = DONE
    ) -> list[Answered]:
        """Give every such command its outcome, or every one older than number ``before``."""
        numbers = [
            sent.number
            for sent in self._waiting.values()
            if _fits(sent, kinds, key) and (before is None or sent.number < before)
        ]
        for number in numbers:
            del self._waiting[number]
        return [Answered(number, result) for number in numbers]

    def settle_refused(self, message: str, result: Refusal) -> list[Answered]:
        """Give the oldest command that is refused in these words its outcome."""
        for sent in self._waiting.values():
            words = _REFUSED_AS.get(type(sent.command))
            if words is not None and words(sent.key) == message:
                del self._waiting[sent.number]
                return [Answered(sent.number, result)]
        return []


_REFUSED_AS: Final[dict[type[Command], Callable[[str], str]]] = {
    bus.Approve: lambda key: texts.unknown_call("tool_approve", key),
    bus.Deny: lambda key: texts.unknown_call("tool_deny", key),
    bus.InitHistory: lambda key: texts.HISTORY_TOO_LATE,
}
"""How our own agent side refuses commands that its error names by nothing but its text."""


def _fits(sent: Sent, kinds: Sequence[type[Command]], key: str | None) -> bool:
    return isinstance(sent.command, tuple(kinds)) and (key is None or sent.key == key)


# --- bus to wire ---------------------------------------------------------------------------------------------


def msg_id(ref: JsonId, number: int) -> str:
    """The id of a message on the wire: the driver's own as text, or one made from the command's number."""
    return f"m{number}" if ref is None else str(ref)


def message(command: bus.Prompt, identifier: str) -> wire.Message | Refusal:
    """A prompt; images travel by path only, and a saved turn cannot be taken up again."""
    if command.resume:
        return Refusal("unsupported", "aionrs cannot resume a turn")
    if not command.parts:
        return wire.Message(identifier, command.text, command.files)
    text, files = [], list(command.files)
    for part in command.parts:
        if isinstance(part, Text):
            text.append(part.text)
        elif part.path:
            files.append(part.path)
        else:
            return Refusal("unsupported", "aionrs carries images by path, not by content")
    return wire.Message(identifier, "\n".join(text), files)


def prompt_parts(command: bus.Prompt) -> list[Part]:
    """What the turn's input was, as the host sent it."""
    text: list[Part] = [Text(command.text)] if command.text else []
    return [*(command.parts or text), *(File(path) for path in command.files)]


def approve(command: bus.Approve, call_id: str) -> wire.ToolApprove:
    """``always`` frees a category here; a narrower wish is granted for this once."""
    return wire.ToolApprove(call_id, "always" if command.scope in ("always", "category") else "once")


def set_config(command: bus.SetConfig) -> wire.SetConfig | Refusal:
    """Only what is set. A budget must fit the wire's 32 bits."""
    budget = command.thinking_budget
    if budget is not UNSET and not 0 <= budget < 2**32:
        return Refusal("bad_params", "thinking_budget must be from 0 to 4294967295")
    return wire.SetConfig(
        None if command.model is UNSET else command.model,
        None if command.image_input is UNSET else command.image_input,
        None if command.thinking is UNSET else command.thinking,
        None if budget is UNSET else budget,
        None if command.effort is UNSET else command.effort,
        None if command.compaction is UNSET else command.compaction,
    )


def add_mcp_server(command: bus.AddMcpServer) -> wire.AddMcpServer:
    """What is empty is left out."""
    return wire.AddMcpServer(
        command.name,
        command.transport,
        command.command or None,
        command.args or None,
        command.env or None,
        command.url or None,
        command.headers or None,
    )
