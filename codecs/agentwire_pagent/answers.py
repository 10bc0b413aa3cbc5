"""What a command's outcome says, in v4 (section 8); the classic dialect has no answers.

Most commands are answered by what follows from them. A refusal is an ``Error`` that names the command, unless it is
one that the peer only logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from agentwire import commands as bus
from agentwire import events
from agentwire.codec.contract import Request
from agentwire.codec.jsontext import clip
from agentwire.commands import Done, Refusal, SessionState
from agentwire.messages import Message
from agentwire_pagent import wire
from agentwire_pagent.replay import moment, replay, snapshot

logger: Final = logging.getLogger("agentwire.pagent")

Answer = tuple[str, Any]
"""Method and parameters."""


class Thread(NamedTuple):
    """What the connection knows of a session that it was shown."""

    opened: events.SessionOpened | None = None
    """With its later mode and model."""
    messages: Sequence[Message] | None = None
    """Those that were there when the session was taken up, if they have not been told yet."""
    spent: tuple[events.Usage | UnsetType, int] = UNSET, 0
    """What the last model call used, and when."""

    @property
    def id(self) -> str:
        """The session's id, or ``""``."""
        return self.opened.id if self.opened is not None else ""

    @property
    def workspace(self) -> str:
        """Where the session works, or ``""``."""
        return self.opened.workspace if self.opened is not None else ""


def answer(request: Request, result: Done | Refusal, own: Thread, resumed: Thread) -> list[Answer]:
    """The notifications that answer a request.

    ``own`` is the session that the connection was shown last, ``resumed`` the one that a ``resume`` took up.
    """
    asked = request.token
    if isinstance(result, Refusal):
        return _refused(asked, result)
    make = _ANSWERS.get(type(asked))
    if make is not None:
        return make(asked, result.value, own)
    if isinstance(asked, wire.Resume):
        return _resume(result.value, own, resumed)
    if isinstance(request.command, bus.Prompt) and result.value is None and not result.deferred:
        logger.warning("[wire] a run is under way: a second input is ignored (one at a time)")
    elif isinstance(request.command, bus.Stop):
        logger.info("[wire] cancel: %s", "the run is told to stop" if result.value else "no run is under way")
    return []


def _refused(asked: Any, refusal: Refusal) -> list[Answer]:
    where = str(type(asked).__struct_config__.tag) if asked is not None else ""
    if isinstance(asked, wire.Permit | wire.Deny | wire.Cancel):
        logger.info("[wire] %s failed: %s", where, clip(refusal.message))
        return []  # a click that came too late
    logger.warning("[wire] %s failed: %s", where or "a line", clip(refusal.message))
    if isinstance(asked, wire.GetCapabilities) and refusal.code == "unsupported":
        return []
    return [("Error", wire.Error(refusal.message, where))]


def _commands(asked: wire.Commands, value: Any, own: Thread) -> list[Answer]:
    return [("SlashCommands", wire.SlashCommands([]))]


# --- threads -------------------------------------------------------------------------------------------------


def _history(asked: wire.History, value: Any, own: Thread) -> list[Answer]:
    messages: Sequence[Message] = value or ()
    return [("HistoryReplay", replay(own.id, own.workspace, messages, snapshot(*own.spent)))]


def _reset(asked: wire.Reset, value: Any, own: Thread) -> list[Answer]:
    """The new thread, which is empty."""
    return [("HistoryReplay", replay(value.id, value.workspace, ()))] if isinstance(value, SessionState) else []


def _resume(value: Any, own: Thread, resumed: Thread) -> list[Answer]:
    """The messages of the session that was taken up; ``value`` is the session, or its messages if it was there."""
    if not isinstance(value, SessionState):
        return _history(wire.History(), value, own)
    if resumed.messages is None:  # it was about to be left, and is not
        return [("CurrentThread", wire.CurrentThread(value.id, "", value.workspace))]
    return [("HistoryReplay", replay(value.id, value.workspace, resumed.messages, snapshot(*resumed.spent)))]


def _threads(asked: wire.ListThreads, value: Any, own: Thread) -> list[Answer]:
    return [_list(value or ())]


def _list(sessions: Sequence[SessionState]) -> Answer:
    threads = [wire.Thread(session.id, "", session.workspace, "local") for session in sessions]
    return "ThreadList", wire.ThreadList("", "", threads)


def _deleted(asked: wire.DeleteThread, value: Any, own: Thread) -> list[Answer]:
    """What is left; before that an empty screen, if it was the thread that is shown."""
    left = _list([session for session in value or () if session.id != asked.thread_id])
    return [("HistoryReplay", replay("", "", ())), left] if asked.thread_id == own.id else [left]


def _thread_meta(asked: wire.GetThreadMeta, value: Any, own: Thread) -> list[Answer]:
    sessions: Sequence[SessionState] = value or ()
    for session in sessions:
        if session.id == asked.thread_id:
            times = {"created_at": moment(session.created), "updated_at": moment(session.modified)}
            known = {name: time for name, time in times.items() if time}
            meta = {"title": "", "project_path": session.workspace, **known}
            return [("ThreadMeta", wire.ThreadMeta(session.id, meta))]
    return [("Error", wire.Error(f"No such thread: {clip(asked.thread_id)}", "thread_meta"))]


# --- the set-up ----------------------------------------------------------------------------------------------


def _capabilities(asked: wire.GetCapabilities, value: Any, own: Thread) -> list[Answer]:
    """The tools that the next run offers; only a host's own tools are known with their descriptions."""
    state = value if isinstance(value, SessionState) else SessionState("")
    told = {tool.name: tool.description for tool in state.host_tools}
    tools = [wire.NamedThing(name, told.get(name, "")) for name in state.tools]
    return [("Capabilities", wire.Capabilities([], tools))]


def _config(asked: wire.GetConfig, value: Any, own: Thread) -> list[Answer]:
    """The set-up as far as the session tells it. Never a key or an address of a model service."""
    now = own.opened or events.SessionOpened("")
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
    snapshot = wire.ConfigSnapshot(
        provider,
        [provider],
        {"backend": "local", "image": "", "command_policy": ""},
        {"location": "local", "max_turns": None},
        {"mode": "auto" if now.capabilities.current_mode == "yolo" else "prompt"},
        {"path": now.workspace},
    )
    return [("ConfigSnapshot", snapshot)]


_ANSWERS: Final[dict[type[Any], Callable[[Any, Any, Thread], list[Answer]]]] = {
    wire.Commands: _commands,
    wire.History: _history,
    wire.Reset: _reset,
    wire.ListThreads: _threads,
    wire.DeleteThread: _deleted,
    wire.GetThreadMeta: _thread_meta,
    wire.GetCapabilities: _capabilities,
    wire.GetConfig: _config,
}
