"""Lines of a host into commands: the command lines of ``pagent --wire`` (section 8), in both dialects.

What cannot be read is logged in the peer's words and ignored, as the peer does; there is no answer to it. A line that
is not JSON is not repeated: it may hold a key. What the wire asks of the process alone (``commands``, ``get_config``)
rides on a ping, so that it is answered like everything else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec import DecodeError
from msgspec.structs import fields

from agentwire import commands as bus
from agentwire.codec.contract import Request, View
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, BadShape, LineDecoder, clip
from agentwire.commands import Command, Refusal
from agentwire.events import Image, Part, Text
from agentwire_pagent import wire
from agentwire_pagent.replay import image

logger: Final = logging.getLogger("agentwire.pagent")

_DECODER: Final[LineDecoder[wire.HostCommand]] = LineDecoder(wire.HostCommand)
_decode: Final = _DECODER.decode

BUSY: Final = "A run is under way; another thread can be shown after its end."
_BETWEEN_RUNS: Final = frozenset((wire.Resume, wire.Reset))


def read(line: bytes | LineFault, view: View) -> Request | None:
    """Read one line of a host. None for what is ignored."""
    if type(line) is LineFault:
        _ignore(line.message)
        return None
    try:
        command: wire.HostCommand | None = _decode(line)
    except (DecodeError, RecursionError):
        command = _read_again(line)
    made = None if command is None else _TO_BUS[type(command)](command)
    if made is None:
        return None
    # The token is the line itself: it tells what an answer is about.
    if type(command) in _BETWEEN_RUNS and view.turn_active():
        return Request(None, Refusal("busy", BUSY, retryable=True), command)
    return Request(made, None, command)


def _read_again(line: bytes) -> wire.HostCommand | None:
    """The slow way, for a line that is not a command as it stands: accept it after all, or say what is wrong."""
    if not line.strip():
        return None
    try:
        return _DECODER.recover(line)
    except BadJson as fault:
        _ignore(f"skip non-json line: {fault}")
    except BadShape as fault:
        _ignore(_wrong(fault))
    return None


def _wrong(fault: BadShape) -> str:
    """What is wrong with a line of JSON."""
    if not isinstance(fault.value, dict):
        return "skip non-object command"
    name = fault.value.get("cmd")
    if not isinstance(name, str) or name not in _NEEDS:
        return f"unknown command: {clip(repr(name))}"
    needed = _NEEDS[name]
    if needed and not isinstance(fault.value.get(needed), str):
        return f"{name} missing {needed}"
    return f"{name}: {fault}"


def _ignore(why: str) -> None:
    logger.warning("[wire] %s", why)


def _user(command: wire.User) -> Command | None:
    images = [found for given in command.images or () if (found := _image(given)) is not None]
    if not command.text.strip() and not images:
        _ignore("user command missing text")
        return None
    if not images:
        return bus.Prompt(command.text)
    parts: list[Part] = [Text(command.text)] if command.text else []
    return bus.Prompt("", None, [*parts, *images])


def _image(given: Any) -> Image | None:
    """An image of a prompt: what the model is meant to see of it."""
    found = image(given.get("model_url") if isinstance(given, dict) else given)
    if found is None:
        _ignore("skip an image: only base64 data URLs are read")
    return found


_PING: Final = bus.Ping()  # it has no fields: one will do

_TO_BUS: Final[dict[type[Any], Callable[[Any], Command | None]]] = {
    wire.User: _user,
    wire.Cancel: lambda command: bus.Stop(),
    wire.Permit: lambda command: bus.Approve(command.tool_call_id),
    wire.Deny: lambda command: bus.Deny(command.tool_call_id, "", command.reason or ""),
    wire.Reset: lambda command: bus.OpenSession(),
    wire.Resume: lambda command: bus.ResumeSession(command.thread_id),
    wire.History: lambda command: bus.GetHistory(),
    wire.ListThreads: lambda command: bus.ListSessions(stored=True),
    wire.DeleteThread: lambda command: bus.ArchiveSession(command.thread_id, remove=True),
    wire.GetThreadMeta: lambda command: bus.ListSessions(stored=True),
    wire.Commands: lambda command: _PING,
    wire.GetCapabilities: lambda command: bus.GetHostTools(""),
    wire.GetConfig: lambda command: _PING,
}

_NEEDS: Final = {
    str(kind.__struct_config__.tag): next((field.name for field in fields(kind) if field.required), "")
    for kind in _TO_BUS
}
"""What a command cannot do without, if there is something."""
