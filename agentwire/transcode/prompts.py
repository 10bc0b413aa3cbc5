"""Prompts on their way to another wire: which turn answers which, and what of each can be said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from agentwire import events as bus
from agentwire.codec.contract import Codec
from agentwire.codec.everything import Everything
from agentwire.commands import Command, Prompt, Refusal

UNRECORDED: Final = "(not recorded)"
"""What a host says in place of an input that is not known, on wires that want one."""

_IDS: Final = frozenset({"ref", "session", "id", "call_id", "approval_id", "request_id", "open", "when_busy", "wait"})
"""Fields that are this wire's own affair."""


class Prompts:
    """Prompts of a session whose turns have not begun, oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[int, Prompt] = {}
        self._tried: set[int] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, command: Prompt, number: int) -> None:
        """Take a prompt."""
        self._waiting[number] = command

    def try_now(self, number: int) -> None:
        """It is said before its turn begins, or cannot be said at all."""
        self._tried.add(number)

    def tried(self, number: int) -> bool:
        """Whether it was; it is asked once."""
        if number not in self._tried:
            return False
        self._tried.remove(number)
        return True

    def remove(self, number: int) -> bool:
        """A prompt's turn will never begin. Whether it waited."""
        return self._waiting.pop(number, None) is not None

    def meant(self, turn: bus.TurnStarted) -> tuple[int, Prompt] | None:
        """The prompt that a turn answers, which waits no longer; None: nobody gave it."""
        waiting = list(self._waiting.items())
        found = next((one for one in waiting if turn.ref is not None and one[1].ref == turn.ref), None)
        found = found or next((one for one in waiting if _text(one[1]) == _said(turn.input)), None)
        found = found or (waiting[0] if waiting else None)
        if found is not None:
            del self._waiting[found[0]]
        return found


def fitting(command: Prompt, codec: Codec) -> tuple[Prompt, list[str]]:
    """A prompt as a wire can carry it, and what of it that leaves out."""
    command = replace(command, open=False, when_busy="")
    unsaid: list[str] = []
    for name, empty in _LEFT_OUT:
        if _carried(command, codec):
            return command, unsaid
        if getattr(command, name) != empty:
            command = replace(command, **{name: empty})
            unsaid.append(f"prompt.{name}")
    if not _carried(command, codec):
        told = _text(command)
        command = replace(command, text=told if told.strip() else UNRECORDED, parts=[])
        unsaid.append("prompt.parts" if told.strip() else "prompt.text")
    return command, unsaid


_LEFT_OUT: Final[tuple[tuple[str, object], ...]] = (("approve", []), ("resume", False), ("files", []))


def said_otherwise(told: Command, read: Command | None) -> Iterator[str]:
    """What the agent reads of a command is another thing than was to be told."""
    tag = told.__struct_config__.tag
    if read is None:
        return
    if type(told) is not type(read):
        yield f"{tag} as {read.__struct_config__.tag}"
        return
    for name in told.__struct_fields__:
        if name in _IDS:
            continue
        before, after = getattr(told, name), getattr(read, name)
        if isinstance(told, Prompt) and name in ("text", "parts"):
            before, after = (_text(told), _text(read)) if name == "text" else (_others(told), _others(read))  # type: ignore[arg-type]
        if before != after:
            yield f"{tag}.{name}"


def _carried(command: Prompt, codec: Codec) -> bool:
    """Whether a host of the wire can say it, and an agent takes it."""
    said = bytearray()
    if isinstance(codec.host().send(replace(command, session=command.session or "s"), said), Refusal):
        return False
    agent = codec.agent()
    requests = [agent.receive(line, Everything()) for line in bytes(said).split(b"\n")[:-1]]
    return bool(requests) and requests[-1] is not None and requests[-1].refusal is None


def _text(command: Prompt) -> str:
    return _said(command.parts) if command.parts else command.text


def _said(parts: list[bus.Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, bus.Text))


def _others(command: Prompt) -> list[bus.Part]:
    return [part for part in command.parts if not isinstance(part, bus.Text)]
