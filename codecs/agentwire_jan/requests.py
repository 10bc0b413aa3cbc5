"""Lines of a host into commands (sections 1.2, 1.3, 1.6): every check in its order, with its text.

What a line is refused for stands ready in its :class:`Token`, so that the answer says exactly that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct

from agentwire import commands as bus
from agentwire.codec.contract import Request, View
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, parse, sorted_json
from agentwire.commands import Command, Refusal
from agentwire.events import HostTool, Part, Text
from agentwire_jan import errors, rpc
from agentwire_jan.declarations import BadTools, read_tools
from agentwire_jan.errors import Refused, bad, malformed, not_pending, unknown_session
from agentwire_jan.parts import BadContent, Label, read_parts

P = TypeVar("P", bound=Struct)

_PING: Final = bus.Ping()
"""What the codec answers by itself rides on it, so that it is answered in its turn like everything else."""


class Token(Struct, gc=False):
    """What the answer to a line needs to know of it."""

    method: str = ""
    id: Any = None
    silent: bool = False
    """A line without an id that was carried out has no answer."""
    error: rpc.Error | None = None
    """The answer, if the line is refused."""
    request_id: str = ""
    """Of a host tool request or a question: what the line answers."""


class Reader:
    """Reads the lines of one host. It remembers how far the handshake is."""

    __slots__ = ("_accepted", "_ready")

    def __init__(self) -> None:
        self._accepted = False
        self._ready = False

    def read(self, line: bytes | LineFault, view: View) -> Request | None:
        """Read one line. None for what is silently ignored."""
        if type(line) is LineFault:
            return _refuse(errors.TOO_LONG if line.kind == "too_long" else errors.PARSE, Token())
        try:
            frame = parse(line)
        except BadJson:
            return _refuse(errors.PARSE, Token())
        if not isinstance(frame, dict):
            return _refuse(errors.INVALID, Token())
        method = frame.get("method")
        token = Token(method if isinstance(method, str) else "", frame.get("id"), "id" not in frame)
        if frame.get("jsonrpc") != "2.0" or not token.method:
            return _refuse(errors.INVALID, token)
        params = frame.get("params")
        if method == "initialize":
            return self._initialize(params, token)
        if method == "initialized" and token.silent and self._accepted:
            self._ready = True
            return None
        if not self._ready:
            return _refuse(errors.NOT_READY, token)
        read = _METHODS.get(token.method)
        if read is None:
            return None if token.silent else _refuse(errors.NO_METHOD, token)
        try:
            command = read(params, view, token)
        except Refused as refused:
            return _refuse(refused.error, token)
        return Request(command, None, token, getattr(command, "session", ""))

    def _initialize(self, params: Any, token: Token) -> Request:
        """Section 1.3: a new handshake takes the old one away, whether it is accepted or not."""
        self._accepted = self._ready = False
        token.silent = False
        try:
            given = _params(rpc.Initialize, params, "initialize")
        except Refused as refused:
            return _refuse(refused.error, token)
        client = given.client_info
        if given.protocol_version != rpc.PROTOCOL_VERSION or not client.name or not client.version:
            return _refuse(malformed("initialize"), token)
        self._accepted = True
        return Request(_PING, None, token)


def _refuse(error: rpc.Error, token: Token) -> Request:
    token.error = error
    return Request(None, Refusal("bad_request", error.message), token)


def _params(kind: type[P], params: Any, method: str) -> P:
    try:
        return msgspec.convert(params, kind)
    except (msgspec.ValidationError, RecursionError):
        raise Refused(malformed(method)) from None


def _need_session(view: View, session: str, method: str) -> None:
    if not view.has_session(session):
        raise Refused(unknown_session(method))


def _need_rest(view: View, session: str, method: str) -> None:
    if view.turn_active(session):
        raise Refused(errors.busy(method))


def _tools(given: list[Any]) -> list[HostTool]:
    try:
        return read_tools(given)
    except BadTools as problem:
        raise Refused(bad(str(problem), "invalid_tools")) from None


def _parts(given: list[Any], label: Label) -> list[Part]:
    try:
        return read_parts(given, label)
    except BadContent as problem:
        raise Refused(bad(str(problem))) from None


# --- sessions ------------------------------------------------------------------------------------------------


def _session_start(params: Any, view: View, token: Token) -> Command:
    given = _params(rpc.SessionStart, params, token.method)
    if not view.is_directory(given.cwd):
        raise Refused(bad("cwd is not a directory"))
    if given.system_prompt is not None and not given.system_prompt.strip():
        raise Refused(bad("systemPrompt must not be blank; omit it to use Jan's"))
    return bus.OpenSession(
        id=str(uuid4()),
        workspace=given.cwd,
        model=given.model or "",
        ephemeral=given.ephemeral,
        system_prompt=given.system_prompt or "",
        builtins=given.builtins,
        subagents=UNSET if given.subagents is None else given.subagents,
        tools=_tools(given.tools),
        host_permissions=given.permissions == "host",
    )


def _of_session(make: Callable[[str], Command], *, at_rest: bool = False) -> Callable[[Any, View, Token], Command]:
    """For a method that takes a session alone; ``at_rest``: not while its turn runs."""

    def read(params: Any, view: View, token: Token) -> Command:
        given = _params(rpc.SessionId, params, token.method)
        _need_session(view, given.session_id, token.method)
        if at_rest:
            _need_rest(view, given.session_id, token.method)
        return make(given.session_id)

    return read


def _tools_set(params: Any, view: View, token: Token) -> Command:
    given = _params(rpc.ToolsSet, params, token.method)
    _need_session(view, given.session_id, token.method)
    _need_rest(view, given.session_id, token.method)
    return bus.SetHostTools(given.session_id, _tools(given.tools))


def _model_set(params: Any, view: View, token: Token) -> Command:
    given = _params(rpc.ModelSet, params, token.method)
    _need_session(view, given.session_id, token.method)
    _need_rest(view, given.session_id, token.method)
    if not given.model.strip():
        raise Refused(bad("model must not be empty"))
    return bus.SetModel(given.session_id, given.model)


def _session_list(params: Any, view: View, token: Token) -> Command:
    if params is not None and not isinstance(params, dict):
        raise Refused(malformed(token.method))
    return bus.ListSessions()


# --- turns ---------------------------------------------------------------------------------------------------


def _turn_start(params: Any, view: View, token: Token) -> Command:
    if view.turn_active():
        raise Refused(errors.ANOTHER_TURN)
    given = _params(rpc.TurnStart, params, token.method)
    _need_session(view, given.session_id, token.method)
    if isinstance(given.input, list):
        return bus.Prompt(parts=_parts(given.input, "user"), session=given.session_id)
    if not isinstance(given.input, str):
        raise Refused(bad("input must be text or content parts"))
    if not given.input.strip():
        raise Refused(bad("'user' text is empty"))
    return bus.Prompt(given.input, session=given.session_id)


def _turn_steer(params: Any, view: View, token: Token) -> Command:
    given = _params(rpc.TurnSteer, params, token.method)
    if not given.input.strip() or not _runs(view, given.session_id):
        raise Refused(malformed(token.method))
    return bus.Steer(given.input, given.session_id)


def _turn_interrupt(params: Any, view: View, token: Token) -> Command:
    given = _params(rpc.SessionId, params, token.method)
    if not _runs(view, given.session_id):
        raise Refused(malformed(token.method))
    return bus.Stop(given.session_id, wait=True)


def _runs(view: View, session: str) -> bool:
    """Whether a turn runs in that session; an empty name is none."""
    return bool(session) and view.turn_active(session)


def _permission_respond(params: Any, view: View, token: Token) -> Command:
    session = view.active_session()
    if not session:
        raise Refused(malformed(token.method))
    given = _params(rpc.PermissionRespond, params, token.method)
    if given.decision not in _DECISIONS:
        raise Refused(bad("invalid permission decision"))
    token.request_id = given.request_id
    if not view.pending(given.request_id, session):
        raise Refused(not_pending(token.method, given.request_id))
    return _DECISIONS[given.decision](given.request_id, session)


_DECISIONS: Final[dict[str, Callable[[str, str], Command]]] = {
    "allow_once": lambda request, session: bus.Approve(approval_id=request, session=session),
    "allow_always": lambda request, session: bus.Approve(approval_id=request, scope="always", session=session),
    "deny": lambda request, session: bus.Deny(approval_id=request, session=session),
}


def _tool_respond(params: Any, view: View, token: Token) -> Command:
    given = _params(rpc.ToolRespond, params, token.method)
    content: list[Part] = (
        [Text(given.content)] if isinstance(given.content, str) else _parts(given.content, "tool_result")
    )
    token.request_id = given.request_id
    session = view.active_session()
    if not session or not view.pending(given.request_id, session):
        raise Refused(not_pending(token.method, given.request_id))
    details = UNSET if given.details is None else sorted_json(given.details)
    return bus.AnswerHostTool(given.request_id, content, given.is_error, details, session)


_METHODS: Final[dict[str, Callable[[Any, View, Token], Command]]] = {
    "session/start": _session_start,
    "session/tools/get": _of_session(bus.GetHostTools),
    "session/tools/set": _tools_set,
    "session/model/set": _model_set,
    "session/reset": _of_session(bus.ResetSession, at_rest=True),
    "session/list": _session_list,
    "session/resume": _of_session(bus.ResumeSession),
    "session/fork": _of_session(lambda session: bus.ForkSession(session, str(uuid4())), at_rest=True),
    "session/archive": _of_session(bus.ArchiveSession, at_rest=True),
    "turn/start": _turn_start,
    "turn/steer": _turn_steer,
    "turn/interrupt": _turn_interrupt,
    "permission/respond": _permission_respond,
    "tool/respond": _tool_respond,
}
