"""Codecs: one wire protocol each, sans-IO.

Everything that a codec package needs is imported from here; the contract is :mod:`agentwire.codec.contract`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentwire.codec.checking import Checker, Violation
    from agentwire.codec.contract import AgentSide, Codec, Directive, Driver, HostSide, Request, View
    from agentwire.codec.fidelity import Fidelity
    from agentwire.codec.framing import Framer, LineFault
    from agentwire.codec.heard import Answered, Heard
    from agentwire.codec.lazy import Lazily
    from agentwire.log.record import Record
    from agentwire.policy import Policy

_HOMES = {
    "AgentSide": "agentwire.codec.contract",
    "Answered": "agentwire.codec.heard",
    "Checker": "agentwire.codec.checking",
    "Codec": "agentwire.codec.contract",
    "Directive": "agentwire.codec.contract",
    "Driver": "agentwire.codec.contract",
    "Fidelity": "agentwire.codec.fidelity",
    "Framer": "agentwire.codec.framing",
    "Heard": "agentwire.codec.heard",
    "HostSide": "agentwire.codec.contract",
    "Lazily": "agentwire.codec.lazy",
    "LineFault": "agentwire.codec.framing",
    "Policy": "agentwire.policy",
    "Record": "agentwire.log.record",
    "Request": "agentwire.codec.contract",
    "View": "agentwire.codec.contract",
    "Violation": "agentwire.codec.checking",
}

__all__ = [
    "AgentSide",
    "Answered",
    "Checker",
    "Codec",
    "Directive",
    "Driver",
    "Fidelity",
    "Framer",
    "Heard",
    "HostSide",
    "Lazily",
    "LineFault",
    "Policy",
    "Record",
    "Request",
    "View",
    "Violation",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
