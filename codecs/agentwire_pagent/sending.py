"""Commands into lines, and the ledger of those that still wait for their outcome: the host side's one half."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from agentwire import commands as bus
from agentwire.codec.heard import Answered
from agentwire.commands import Command, Done, Refusal
from agentwire.events import File, Text
from agentwire_pagent import wire
from agentwire_pagent.replay import data_url

DONE: Final = Done()


class Sent(Struct):
    """A command that was written and has no outcome yet. ``key`` is what the wire's answer will name."""

    number: int
    command: Command
    key: str = ""


class Ledger:
    """Commands that wait for their outcome, oldest first."""

    def __init__(self) -> None:
        self.waiting: list[Sent] = []
        self._last = 0

    def add(self, command: Command, key: str = "") -> int:
        """Note a command that was written."""
        self._last += 1
        self.waiting.append(Sent(self._last, command, key))
        return self._last

    def find(self, *kinds: type[Command], key: str | None = None) -> Sent | None:
        """The oldest command of one of ``kinds``, with that key if one is given."""
        for sent in self.waiting:
            if isinstance(sent.command, kinds) and (key is None or sent.key == key):
                return sent
        return None

    def settle(self, *kinds: type[Command], key: str | None = None, result: Done | Refusal = DONE) -> list[Answered]:
        """Give the oldest such command its outcome."""
        sent = self.find(*kinds, key=key)
        if sent is None:
            return []
        self.waiting.remove(sent)
        return [Answered(sent.number, result)]

    def settle_all(
        self, *kinds: type[Command], key: str | None = None, result: Done | Refusal = DONE
    ) -> list[Answered]:
        """Give every such command its outcome."""
        answered: list[Answered] = []
        while found := self.settle(*kinds, key=key, result=result):
            answered += found
        return answered


def user(command: bus.Prompt) -> wire.User | Refusal:
    """A prompt. Images travel as data URLs; files and saved turns do not travel at all."""
    if command.resume:
        return Refusal("unsupported", "pagent cannot resume a turn")
    if command.files:
        return Refusal("unsupported", "pagent carries no files")
    texts: list[str] = [] if command.parts else [command.text]
    images: list[Any] = []
    for part in command.parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, File) or not part.data:
            return Refusal("unsupported", "pagent carries images by content, not by path")
        else:
            images.append(data_url(part))
    text = "\n".join(texts)
    if not text.strip() and not images:
        return Refusal("bad_params", "pagent ignores a blank input")
    return wire.User(text, images or None)


def as_line(command: Struct) -> dict[str, Any]:
    """A command as its line holds it: what is not said is left out."""
    fields = {name: getattr(command, name) for name in command.__struct_fields__}
    return {
        "cmd": command.__struct_config__.tag,
        **{name: value for name, value in fields.items() if value is not None},
    }
