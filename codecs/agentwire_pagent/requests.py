"""Lines of a host into commands: the command lines of ``pagent --wire`` (section 8), in both dialects.

What cannot be read is logged and ignored, as the peer does; there is no answer to it. What the wire asks of the
process alone (``commands``, ``get_config``) rides on a ping, so that it is answered like everything else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec import DecodeError

from agentwire import commands as bus
from agentwire.codec.contract import Request, View
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, BadShape, LineDecoder, clip
from agentwire.commands import Command
from agentwire.events import Image, Part, Text
from agentwire_pagent import wire

logger: Final = logging.getLogger("agentwire.pagent")

_DECODER: Final[LineDecoder[wire.HostCommand]] = LineDecoder(wire.HostCommand)


def read(line: bytes | LineFault, view: View) -> Request | None:
    """Read one line of a host. None for what is ignored."""
    if isinstance(line, LineFault):
        _ignore(line.message)
        return None
    try:
        command: wire.HostCommand | None = _DECODER.decode(line)
    except (DecodeError, RecursionError):
        command = _read_again(line)
    made = None if command is None else _TO_BUS[command.__class__](command)
    # The token is the line itself: it tells what an answer is about.
    return None if made is None else Request(made, None, command)


def _read_again(line: bytes) -> wire.HostCommand | None:
    """The slow way, for a line that is not a command as it stands: accept it after all, or say what is wrong."""
    if not line.strip():
        return None
    try:
        return _DECODER.recover(line)
    except BadJson as fault:
        _ignore(f"not JSON: {fault}")
    except BadShape as fault:
        name = fault.value.get("cmd") if isinstance(fault.value, dict) else None
        _ignore(f"command {clip(str(name))!r}: {fault}")
    return None


def _ignore(why: str) -> None:
    logger.warning("ignored a line: %s", why)


def _user(command: wire.User) -> Command | None:
    images = [image for given in command.images or () if (image := _image(given)) is not None]
    if not command.text.strip() and not images:
        _ignore("user command without a text")
        return None
    if not images:
        return bus.Prompt(command.text)
    parts: list[Part] = [Text(command.text)] if command.text else []
    return bus.Prompt("", None, [*parts, *images])


def _image(given: Any) -> Image | None:
    """An image of a prompt: what the model is meant to see of it."""
    url = given.get("model_url") if isinstance(given, dict) else given
    if isinstance(url, str) and url.startswith("data:"):
        kind, found, data = url[5:].partition(";base64,")
        if found and kind.startswith("image/"):
            return Image(kind, data)
    logger.warning("ignored an image: only base64 data URLs are read")
    return None


def _history(command: wire.History) -> None:
    logger.warning("ignored command 'history': messages are not replayed")


_PING: Final = bus.Ping()  # it has no fields: one will do

_TO_BUS: Final[dict[type[Any], Callable[[Any], Command | None]]] = {
    wire.User: _user,
    wire.Cancel: lambda command: bus.Stop(),
    wire.Permit: lambda command: bus.Approve(command.tool_call_id),
    wire.Deny: lambda command: bus.Deny(command.tool_call_id, "", command.reason or ""),
    wire.Reset: lambda command: bus.ResetSession(""),
    wire.Resume: lambda command: bus.ResumeSession(command.thread_id),
    wire.History: _history,
    wire.ListThreads: lambda command: bus.ListSessions(stored=True),
    wire.DeleteThread: lambda command: bus.ArchiveSession(command.thread_id),
    wire.GetThreadMeta: lambda command: bus.ListSessions(stored=True),
    wire.Commands: lambda command: _PING,
    wire.GetCapabilities: lambda command: bus.GetHostTools(""),
    wire.GetConfig: lambda command: _PING,
}
