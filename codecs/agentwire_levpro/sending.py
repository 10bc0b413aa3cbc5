"""Commands into requests, and the ledger of those that still wait for their answer: the host side's one half."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, UnsetType

from agentwire import commands as bus
from agentwire.commands import Command, JsonId, Refusal
from agentwire.events import Text
from agentwire_levpro import wire
from agentwire_levpro.decisions import VERSIONS, usable_id

INITIALIZE = "agentwire-init"
"""The id of the handshake, which is the first thing that is sent."""


class Sent(Struct):
    """A request that was written and has no answer yet."""

    number: int
    command: Command
    request: JsonId
    ref: JsonId = None
    """Of a chat: under which its events are heard."""
    session: str = ""
    """Of a chat."""


class Ledger:
    """Requests that wait for their answer, by id."""

    def __init__(self) -> None:
        self._waiting: dict[JsonId, Sent] = {}
        self._last = 0

    def add(self, command: Command, wanted: JsonId = None, session: str = "") -> Sent:
        """Note a request; its id is ``wanted`` if that is one and not in use."""
        self._last += 1
        request = wanted if usable_id(wanted) and self._is_free(wanted) else self._new_id()
        sent = self._waiting[request] = Sent(
            self._last, command, request, request if wanted is None else wanted, session
        )
        return sent

    def find(self, request: JsonId) -> Sent | None:
        """The request of that id, if it waits for its answer."""
        return None if request is None else self._waiting.get(request)

    def settle(self, request: JsonId) -> None:
        """The request of that id has its answer."""
        self._waiting.pop(request, None)

    def waiting(self) -> list[Sent]:
        """All that wait, oldest first."""
        return list(self._waiting.values())

    def chats(self) -> list[Sent]:
        """The chats among them."""
        return [sent for sent in self._waiting.values() if isinstance(sent.command, bus.Prompt)]

    def _is_free(self, request: JsonId) -> bool:
        return request not in self._waiting and request != INITIALIZE

    def _new_id(self) -> str:
        name = f"agentwire-{self._last}"
        while not self._is_free(name):
            name += "-"
        return name


def chat(command: bus.Prompt, session: str) -> wire.Chat | Refusal:
    """The parameters of a chat. Text alone travels on this wire."""
    if command.files:
        return Refusal("unsupported", "levpro carries no files")
    texts: list[str] = [] if command.parts else [command.text]
    for part in command.parts:
        if not isinstance(part, Text):
            return Refusal("unsupported", "levpro carries text alone")
        texts.append(part.text)
    chat = wire.Chat(session_id=session, agent=command.agent, input="\n".join(texts), resume=command.resume)
    chat.user_id = command.user or chat.user_id
    chat.approve_execution = bool(command.approve)
    return chat


def cancel(chats: list[Sent], command: bus.Stop) -> Sent | Refusal | None:
    """The chat that a stop means; None if there is none that it could mean."""
    meant = [sent for sent in chats if not command.session or sent.session == command.session]
    if not isinstance(command.ref, UnsetType):
        ref = command.ref
        named = [sent for sent in meant if sent.ref == ref]
        return named[0] if named else Refusal("not_found", "that turn is not running")
    if len(meant) > 1 and not command.session:
        return Refusal("bad_params", "several chats run: say which one to stop")
    return meant[0] if meant else None


def line(request: JsonId, method: str, params: Any = None) -> bytes:
    """A request."""
    given = {} if params is None else msgspec.to_builtins(params)
    from agentwire_levpro.envelope import encode

    return encode(wire.Request(request, method, given)) + b"\n"  # type: ignore[arg-type]  # an id of ours is no null


def handshake() -> bytes:
    """The line that comes before all others."""
    return line(INITIALIZE, "initialize", wire.Initialize(list(VERSIONS)))
