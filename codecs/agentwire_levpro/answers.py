"""What an outcome says on the wire (sections 4 and 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from agentwire.commands import Check, Done, Refusal, RefusalCode
from agentwire_levpro import wire
from agentwire_levpro.decisions import SHUTDOWN_RESULT, cancel_result, initialized
from agentwire_levpro.envelope import error_line, result_line
from agentwire_levpro.inflight import Asked


def answer(asked: Asked, result: Done | Refusal) -> bytes:
    """The line that answers a request; nothing for a chat that begins, whose end is its answer."""
    if isinstance(result, Refusal) and not (asked.method == "cancel" and result.code == "not_found"):
        return error_line(asked.id, code(result), result.message)
    if asked.method == "chat":
        return b""
    value = result.value if isinstance(result, Done) else None  # a cancel that found nothing is no error
    return result_line(asked.id, _RESULTS[asked.method](asked, value))


def code(refusal: Refusal) -> wire.Code:
    """The wire's word for a refusal: for a fault of the set-up which one it is, if the wire tells it."""
    if refusal.code == "config":
        return _SETUP.get(refusal.data, "internal_error")
    return _CODES.get(refusal.code, "internal_error")


_CODES: Final[dict[RefusalCode, wire.Code]] = {
    "bad_line": "invalid_json",
    "bad_request": "invalid_request",
    "bad_params": "invalid_request",
    "unknown_command": "unknown_method",
    "cancelled": "cancelled",
}

_SETUP: Final[dict[Any, wire.Code]] = {
    "config_missing": "config_missing",
    "binary_missing": "binary_missing",
    "model_missing": "model_missing",
    "model_plan_error": "model_plan_error",
    "model": "model_missing",
}
"""Kinds of set-up faults, see :class:`agentwire.provider.ConfigError`."""

_SEVERITY: Final = ("ok", "warn", "fail")


def _initialize(asked: Asked, value: Any) -> dict[str, Any]:
    from importlib.metadata import version

    events = [name for name in wire.EVENT_NAMES if name != "memory_start"]
    return initialized(asked.value, events, version("agentwire"))


def _doctor(asked: Asked, value: list[Check]) -> wire.DoctorResult:
    checks = [wire.CheckResult(check.name, check.status, check.message) for check in value]
    return wire.DoctorResult(max((check.status for check in value), key=_SEVERITY.index, default="ok"), checks)


def _plan(asked: Asked, value: dict[str, Any]) -> wire.PlanResult:
    """What the wire tells of a plan; whoever made it may know more."""
    return wire.PlanResult(**{name: value[name] for name in wire.PlanResult.__struct_fields__ if name in value})


_RESULTS: Final[dict[str, Callable[[Asked, Any], Any]]] = {
    "initialize": _initialize,
    "ping": lambda asked, value: {"status": "ok"},
    "doctor": _doctor,
    "plan": _plan,
    "cancel": lambda asked, value: cancel_result(value is True, asked.value),
    "shutdown": lambda asked, value: SHUTDOWN_RESULT,
}
