"""What a command's outcome says, in v4 (section 8); the classic dialect has no answers.

Most commands are answered by what follows from them. A refusal is an ``Error`` that names the command, unless it is
one that the peer only logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from agentwire import commands as bus
from agentwire import events
from agentwire.codec.contract import Request
from agentwire.codec.jsontext import clip
from agentwire.commands import Done, Refusal
from agentwire_pagent import wire

logger: Final = logging.getLogger("agentwire.pagent")

Answer = tuple[str, Any]
"""Method and parameters."""


class _Stored(Protocol):
    """What is asked of a session in the list that the server gives."""

    id: str
    workspace: Any


def answer(request: Request, result: Done | Refusal, opened: events.SessionOpened | None) -> Answer | None:
    """The notification that answers a request. ``opened``: the connection's own session, if it was shown."""
    asked = request.token
    if isinstance(result, Refusal):
        return _refused(asked, result)
    make = _ANSWERS.get(type(asked))
    if make is not None:
        return make(asked, result.value, opened)
    if isinstance(request.command, bus.Prompt) and result.value is None and not result.deferred:
        logger.info("a run is under way: the input is ignored")
    return None


def _refused(asked: Any, refusal: Refusal) -> Answer | None:
    where = type(asked).__struct_config__.tag if asked is not None else ""
    logger.info("refused %s: %s", where or "a line", clip(refusal.message))
    if isinstance(asked, wire.Permit | wire.Deny | wire.Cancel):
        return None  # a click that came too late
    if isinstance(asked, wire.GetCapabilities) and refusal.code == "unsupported":
        return None
    return "Error", wire.Error(refusal.message, str(where))


def _commands(asked: wire.Commands, value: Any, opened: events.SessionOpened | None) -> Answer:
    return "SlashCommands", wire.SlashCommands([])


def _threads(asked: wire.ListThreads, value: Any, opened: events.SessionOpened | None) -> Answer:
    sessions: list[_Stored] = value or []
    threads = [wire.Thread(session.id, "", str(session.workspace), "local") for session in sessions]
    return "ThreadList", wire.ThreadList("", "", threads)


def _thread_meta(asked: wire.GetThreadMeta, value: Any, opened: events.SessionOpened | None) -> Answer:
    sessions: list[_Stored] = value or []
    for session in sessions:
        if session.id == asked.thread_id:
            return "ThreadMeta", wire.ThreadMeta(session.id, {"title": "", "project_path": str(session.workspace)})
    return "Error", wire.Error(f"No such thread: {clip(asked.thread_id)}", "thread_meta")


def _capabilities(asked: wire.GetCapabilities, value: Any, opened: events.SessionOpened | None) -> Answer:
    tools: list[events.ToolSpec] = value or []
    return "Capabilities", wire.Capabilities([], [wire.NamedThing(tool.name, tool.description) for tool in tools])


def _config(asked: wire.GetConfig, value: Any, opened: events.SessionOpened | None) -> Answer:
    """The set-up as far as the session tells it. Never a key or an address of a model service."""
    now = opened or events.SessionOpened("")
    provider = wire.ProviderConfig(
        name=now.provider,
        kind=now.provider,
        model=now.model,
        base_url="",
        vision=now.capabilities.image_input == "supported",
        api_key_masked="",
        api_key_configured=bool(now.provider),
        api_key_required=False,
    )
    return "ConfigSnapshot", wire.ConfigSnapshot(
        provider,
        [provider],
        {"backend": "local", "image": "", "command_policy": ""},
        {"location": "local", "max_turns": None},
        {"mode": "auto" if now.capabilities.current_mode == "yolo" else "prompt"},
        {"path": now.workspace},
    )


_ANSWERS: Final[dict[type[Any], Callable[[Any, Any, events.SessionOpened | None], Answer]]] = {
    wire.Commands: _commands,
    wire.ListThreads: _threads,
    wire.GetThreadMeta: _thread_meta,
    wire.GetCapabilities: _capabilities,
    wire.GetConfig: _config,
}
