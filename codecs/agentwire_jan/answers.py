"""Outcomes into answers: what each method's result says (sections 1.3 and 1.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from agentwire.commands import Done, Refusal, SessionState
from agentwire_jan import errors, rpc
from agentwire_jan.declarations import tool_specs
from agentwire_jan.requests import Token


def answer(token: Token, result: Done | Refusal) -> Struct | None:
    """The frame that answers a line; None if it has none."""
    if token.error is not None:
        return rpc.Failure(id=token.id, error=token.error)
    if token.silent:
        return None
    if isinstance(result, Refusal):
        return rpc.Failure(id=token.id, error=errors.from_refusal(result, token.method, token.request_id))
    if token.method == "turn/interrupt" and result.value is False:
        return rpc.Failure(id=token.id, error=errors.malformed(token.method))
    return rpc.Result(id=token.id, result=_RESULTS[token.method](result.value))


def _started(state: SessionState) -> Struct:
    return rpc.Started(state.tools, tool_specs(state.host_tools), state.id, state.model)


def _view(state: SessionState) -> Struct:
    return rpc.View(state.tools, tool_specs(state.host_tools))


def _sessions(states: list[SessionState]) -> Struct:
    return rpc.Sessions([
        rpc.Listed(state.id, state.model, state.turns, len(state.host_tools)) for state in states
    ])  # fmt: skip


def _empty(value: Any) -> Struct:
    return rpc.Empty()


_RESULTS: Final[dict[str, Callable[[Any], Struct]]] = {
    "initialize": lambda value: rpc.Initialized(),
    "session/start": _started,
    "session/tools/get": _view,
    "session/tools/set": _view,
    "session/model/set": lambda state: rpc.ModelIs(state.model),
    "session/reset": _view,
    "session/list": _sessions,
    "session/resume": lambda state: rpc.Resumed(state.id, state.model, state.turns),
    "session/fork": lambda state: rpc.Forked(state.id),
    "session/archive": _empty,
    "turn/start": lambda turn_id: rpc.TurnStarted(turn_id),
    "turn/steer": _empty,
    "turn/interrupt": _empty,
    "permission/respond": _empty,
    "tool/respond": _empty,
}
