"""The RPC's own messages: parameters, results, errors and what surrounds them (section 1).

Names are camelCase. Parameters are read as strictly as the original: a key that is not known is refused.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire_jan.wire import CAPS, InputCaps, ToolSpec

PROTOCOL_VERSION: Final = 1

SERVER_VERSION: Final = "0.8.4"
"""The version of Jan whose protocol this is."""

MAX_LINE: Final = CAPS.max_line_bytes - 1
"""Longest line in bytes, without its line feed (section 1.1)."""

# --- parameters (sections 1.3 and 1.6) -----------------------------------------------------------------------


class _Params(Struct, gc=False, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Base of every request's parameters."""


class ClientInfo(_Params):
    """Who the host is."""

    name: str
    version: str


class Initialize(_Params):
    """``initialize``."""

    protocol_version: int
    client_info: ClientInfo
    capabilities: Any = None


class SessionStart(_Params):
    """``session/start``."""

    cwd: str
    model: str | None = None
    ephemeral: bool = False
    tools: list[Any] = []
    builtins: bool = True
    subagents: bool | None = None
    system_prompt: str | None = None
    permissions: Literal["jan", "host"] = "jan"


class SessionId(_Params):
    """Everything that is asked of a session and takes nothing else."""

    session_id: str


class ToolsSet(_Params):
    """``session/tools/set``."""

    session_id: str
    tools: list[Any]


class ModelSet(_Params):
    """``session/model/set``."""

    session_id: str
    model: str


class TurnStart(_Params):
    """``turn/start``; ``input`` is text or content parts."""

    session_id: str
    input: Any


class TurnSteer(_Params):
    """``turn/steer``."""

    session_id: str
    input: str


class PermissionRespond(_Params):
    """``permission/respond``."""

    request_id: str
    decision: str


class ToolRespond(_Params):
    """``tool/respond``; ``content`` is text or content parts."""

    request_id: str
    content: str | list[Any]
    is_error: bool = False
    details: dict[str, Any] | None = None


class Nothing(_Params):
    """``session/list`` and ``initialized`` take nothing."""


METHODS: Final[dict[str, type[Struct]]] = {
    "initialize": Initialize,
    "session/start": SessionStart,
    "session/tools/get": SessionId,
    "session/tools/set": ToolsSet,
    "session/model/set": ModelSet,
    "session/reset": SessionId,
    "session/list": Nothing,
    "session/resume": SessionId,
    "session/fork": SessionId,
    "session/archive": SessionId,
    "turn/start": TurnStart,
    "turn/steer": TurnSteer,
    "turn/interrupt": SessionId,
    "permission/respond": PermissionRespond,
    "tool/respond": ToolRespond,
}
"""Every method and its parameters."""

# --- results -------------------------------------------------------------------------------------------------


class _Result(Struct, gc=False, rename="camel"):
    """Base of every result."""


class ServerInfo(Struct, frozen=True, gc=False):
    """Who the agent is."""

    name: str = "jan"
    version: str = SERVER_VERSION


class Serves(Struct, frozen=True, gc=False):
    """What the agent can do."""

    session: bool = True
    turn: bool = True


class Initialized(Struct, gc=False):
    """Result of ``initialize``; the caps are in snake_case among names in camelCase."""

    protocolVersion: int = PROTOCOL_VERSION  # noqa: N815
    serverInfo: ServerInfo = ServerInfo()  # noqa: N815
    capabilities: Serves = Serves()
    input_content_parts: InputCaps = CAPS


class View(_Result):
    """Which tools the next turn offers; result of ``session/tools/*`` and ``session/reset``."""

    tools: list[str]
    tool_specs: list[ToolSpec]


class Started(View):
    """Result of ``session/start``."""

    session_id: str
    model: str


class ModelIs(_Result):
    """Result of ``session/model/set``."""

    model: str


class Listed(_Result):
    """One session of ``session/list``."""

    id: str
    model: str
    turns: int
    host_tools: int


class Sessions(_Result):
    """Result of ``session/list``."""

    sessions: list[Listed]


class Resumed(_Result):
    """Result of ``session/resume``."""

    session_id: str
    model: str
    turns: int


class Forked(_Result):
    """Result of ``session/fork``."""

    session_id: str


class TurnStarted(_Result):
    """Result of ``turn/start``."""

    turn_id: str


class Empty(_Result):
    """Result of everything that has nothing to say."""


RESULTS: Final[dict[str, type[Struct]]] = {
    "initialize": Initialized,
    "session/start": Started,
    "session/tools/get": View,
    "session/tools/set": View,
    "session/model/set": ModelIs,
    "session/reset": View,
    "session/list": Sessions,
    "session/resume": Resumed,
    "session/fork": Forked,
    "session/archive": Empty,
    "turn/start": TurnStarted,
    "turn/steer": Empty,
    "turn/interrupt": Empty,
    "permission/respond": Empty,
    "tool/respond": Empty,
}
"""Every method and its result."""

# --- frames --------------------------------------------------------------------------------------------------


class Error(Struct, gc=False):
    """What is wrong; all three keys, always (section 1.5)."""

    code: int
    message: str
    data: Any = None


class Call(Struct, gc=False, kw_only=True):
    """A request, or without ``id`` a notification of the host's."""

    jsonrpc: str = "2.0"
    id: Any | UnsetType = UNSET
    method: str
    params: Any


class Result(Struct, gc=False, kw_only=True):
    """The answer to a request that was carried out."""

    jsonrpc: str = "2.0"
    id: Any
    result: Any


class Failure(Struct, gc=False, kw_only=True):
    """The answer to a line that was not."""

    jsonrpc: str = "2.0"
    id: Any = None
    error: Error


class Completed(Struct, gc=False, rename="camel"):
    """Parameters of ``turn/completed``; ``error`` is text exactly if ``stop_reason`` is ``error``."""

    session_id: str
    turn_id: str
    stop_reason: str
    error: str | None = None


class ItemParams(Struct, gc=False, rename="camel"):
    """Parameters of ``item/<tag>``."""

    session_id: str
    turn_id: str
    event: Raw
