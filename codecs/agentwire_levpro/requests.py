"""Lines of a host into commands (sections 2 and 4), in the order of checks that the protocol has.

What the wire asks of this codec alone (``initialize``, the ``cancel`` of a chat that is not there) rides on a ping, so
that it is answered in its place like everything else.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agentwire import commands as bus
from agentwire.codec.contract import Request
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, clip, parse
from agentwire.commands import JsonId, Refusal, RefusalCode
from agentwire_levpro import wire
from agentwire_levpro.decisions import ID_IN_USE, NO_COMMON_VERSION, TARGET_NEEDED, VERSIONS, usable_id
from agentwire_levpro.inflight import Asked, InFlight

logger: Final = logging.getLogger("agentwire.levpro")

APPROVED: Final = ("edit", "exec", "mcp")
"""Categories that ``approve_execution`` frees; the others are free anyway."""

_PING: Final = bus.Ping()  # it has no fields: one will do

_FAULTS: Final[dict[str, RefusalCode]] = {"too_long": "bad_request", "not_utf8": "bad_line"}


class Requests:
    """Reads the lines of one host."""

    __slots__ = ("_in_flight", "_stopped")

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._stopped = False
        """``shutdown`` was read: later lines are ignored."""

    def read(self, line: bytes | LineFault) -> Request | None:
        """Read one line. None for what is ignored."""
        if self._stopped:
            return None
        if type(line) is LineFault:
            return _refused(None, _FAULTS[line.kind], line.message)
        if not line or line.isspace():
            return None
        try:
            value = parse(line)
        except BadJson as fault:
            return _refused(None, "bad_line", f"not JSON: {fault}")
        return self._request(value)

    def _request(self, value: Any) -> Request:
        if not isinstance(value, dict):
            return _refused(None, "bad_request", "a request is a JSON object")
        asked_id = value.get("id")
        if not usable_id(asked_id):
            return _refused(None, "bad_request", "a request needs an id: a string or a number")
        method = value.get("method")
        if not isinstance(method, str):
            return _refused(asked_id, "bad_request", "method must be a string")
        params = value.get("params")
        if not isinstance(params, dict | None):
            return _refused(asked_id, "bad_request", "params must be an object")
        if method not in wire.PARAMS:
            return _refused(asked_id, "unknown_command", f"unknown method: {clip(method)}")
        if asked_id in self._in_flight:
            return _refused(asked_id, "bad_request", ID_IN_USE)
        try:
            given = msgspec.convert(params or {}, wire.PARAMS[method])
        except msgspec.ValidationError as fault:
            return _refused(asked_id, "bad_params", f"{method}: {fault}")
        request = _METHODS[method](self, asked_id, given)
        if request.refusal is None:
            self._in_flight.add(request.token)
        return request

    # --- methods ---

    def _initialize(self, asked_id: JsonId, given: wire.Initialize) -> Request:
        spoken = list(VERSIONS) if isinstance(given.protocol_versions, UnsetType) else given.protocol_versions
        if not spoken:
            return _refused(asked_id, "bad_params", "initialize: protocol_versions is empty")
        common = [version for version in VERSIONS if version in spoken]
        if not common:
            return _refused(asked_id, "bad_params", NO_COMMON_VERSION)
        logger.info("host: client %s, capabilities %s", given.client, given.capabilities)
        return Request(_PING, None, Asked(asked_id, "initialize", value=common[0]))

    def _chat(self, asked_id: JsonId, given: wire.Chat) -> Request:
        session = given.session_id or secrets.token_hex(4)
        prompt = bus.Prompt(
            given.input,
            asked_id,
            session=session,
            agent=given.agent,
            user=given.user_id,
            resume=given.resume,
            approve=list(APPROVED) if given.approve_execution else [],
            when_busy="queue",
            open=True,
        )
        return Request(prompt, None, Asked(asked_id, "chat", session), session)

    def _cancel(self, asked_id: JsonId, given: wire.Cancel) -> Request:
        target = given.request_id
        if target is UNSET:
            active = list(self._in_flight.chats())
            if len(active) > 1:
                return _refused(asked_id, "bad_params", TARGET_NEEDED)
            chat = active[0] if active else None
            named: JsonId = None if chat is None else chat.id
        else:
            named = target
            chat = self._in_flight.chat(named)
        asked = Asked(asked_id, "cancel", value=named)
        if chat is None:
            return Request(_PING, None, asked)
        return Request(bus.Stop(chat.session, chat.id), None, asked, chat.session)

    def _shutdown(self, asked_id: JsonId, given: Struct) -> Request:
        self._stopped = True
        return Request(bus.Shutdown(), None, Asked(asked_id, "shutdown"))


def _plain(method: str, command: bus.Command) -> Callable[[Requests, JsonId, Any], Request]:
    """A method that is a command without anything else."""
    return lambda requests, asked_id, given: Request(command, None, Asked(asked_id, method))


_METHODS: Final[dict[str, Callable[[Requests, JsonId, Any], Request]]] = {
    "initialize": Requests._initialize,
    "ping": _plain("ping", _PING),
    "doctor": _plain("doctor", bus.Doctor()),
    "plan": _plain("plan", bus.Plan()),
    "chat": Requests._chat,
    "cancel": Requests._cancel,
    "shutdown": Requests._shutdown,
}


def _refused(asked_id: JsonId, code: RefusalCode, message: str) -> Request:
    return Request(None, Refusal(code, message), Asked(asked_id))
