"""Checking arguments against a JSON Schema, with one short reason for a model to mend its call by.

Only the keywords of :data:`REASONS` count (Jan protocol, section 3.4); whatever else a schema says, and a keyword
whose value makes no sense, is ignored: a schema that a host wrote badly is no reason to refuse its tool.

Importing this module takes a moment (the library behind it): do it on a worker thread.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import UnknownType
from jsonschema.validators import create

logger = logging.getLogger("agentwire.schema")

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]

LONGEST_VALUE = 200
"""Characters of a value that a reason shows."""


def checker(schema: dict[str, Any]) -> Callable[[Any], str]:
    """A function that gives the first thing wrong with a value, outermost first: ``POINTER: REASON``; ``""`` if none.

    The pointer is a JSON pointer; the value itself is ``/``.
    """
    validator = _Validator(schema)

    def problem(value: Any) -> str:
        if value is None:
            return "/: expected object, got text that is none"
        errors = validator.iter_errors(value)
        worst = min(errors, key=lambda error: (len(error.absolute_path), _ORDER.get(error.validator, 0)), default=None)
        return "" if worst is None else f"{_pointer(worst)}: {_reason(worst)}"

    return problem


def _pointer(error: Any) -> str:
    return "/" + "/".join(str(key).replace("~", "~0").replace("/", "~1") for key in error.absolute_path)


def _reason(error: Any) -> str:
    reason = REASONS.get(error.validator)
    return reason(error) if reason else "is not allowed"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "..."


def _kind(value: Any) -> str:
    """The JSON Schema type of a value."""
    if isinstance(value, bool):
        return "boolean"
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "null")


_KINDS: dict[type, str] = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}


def _expected_type(error: Any) -> str:
    wanted = error.validator_value
    names = [wanted] if isinstance(wanted, str) else wanted
    return f"expected {' or '.join(names)}, got {_kind(error.instance)}"


def _missing(error: Any) -> str:
    return f"missing required property '{next(name for name in error.validator_value if name not in error.instance)}'"


def _unexpected(error: Any) -> str:
    known = error.schema.get("properties", {})
    return f"unexpected property '{next(name for name in error.instance if name not in known)}'"


def _counted(what: str, bound: str) -> Callable[[Any], str]:
    return lambda error: f"expected {bound} {error.validator_value} {what}, got {len(error.instance)}"


def _bounded(bound: str) -> Callable[[Any], str]:
    return lambda error: f"expected {bound} {_shown(error.validator_value)}, got {_shown(error.instance)}"


def _one_of(error: Any) -> str:
    return f"expected one of {_shown(error.validator_value)}, got {_shown(error.instance)}"


REASONS: dict[Any, Callable[[Any], str]] = {
    "type": _expected_type,
    "required": _missing,
    "additionalProperties": _unexpected,
    "minItems": _counted("items", "at least"),
    "maxItems": _counted("items", "at most"),
    "enum": _one_of,
    "const": _bounded("exactly"),
    "minLength": _counted("characters", "at least"),
    "maxLength": _counted("characters", "at most"),
    "minimum": _bounded("at least"),
    "maximum": _bounded("at most"),
    "exclusiveMinimum": _bounded("more than"),
    "exclusiveMaximum": _bounded("less than"),
    "pattern": lambda error: f"does not match the pattern {error.validator_value}",
}
"""What is said when a keyword is not satisfied, in the order in which it is said."""

_ORDER = {keyword: index for index, keyword in enumerate(REASONS)}


def _required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """``required``; older drafts had a flag of that name, and a string is no list of names."""
    if isinstance(names, list) and isinstance(instance, dict) and not all(name in instance for name in names):
        yield ValidationError("missing property")


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """``additionalProperties``; with ``patternProperties`` beside it, which is ignored, there is nothing to go by."""
    if not isinstance(instance, dict) or "patternProperties" in schema:
        return
    known = schema.get("properties", {})
    for name in instance:
        if name in known:
            continue
        if allowed is False:
            yield ValidationError("unexpected property")
            return
        yield from validator.descend(instance[name], allowed, path=name)


def _lenient(keyword: str, check: Keyword) -> Keyword:
    """A keyword that is ignored where its value cannot be used."""

    def lenient(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        try:
            yield from check(validator, value, instance, schema)
        except (TypeError, AttributeError, ValueError, UnknownType, re.error) as error:
            logger.warning("'%s' of a tool's schema is ignored: %s", keyword, str(error).partition("\n")[0])

    return lenient


_CHECKS: dict[str, Keyword] = {
    **{name: Draft202012Validator.VALIDATORS[name] for name in (*REASONS, "properties", "items")},
    "required": _required,
    "additionalProperties": _additional,
}
_Validator = create(
    meta_schema={},
    validators={name: _lenient(name, check) for name, check in _CHECKS.items()},
    type_checker=Draft202012Validator.TYPE_CHECKER,
    id_of=lambda schema: "",
)
