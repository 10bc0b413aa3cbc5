"""Lines of an agent into notifications, as strict as the peer's decoder (section 6), and in value types stricter.

What is refused is refused for the first reason that applies, in the order of the peer's own checks. ``lenient``
leaves the values' types unchecked, as the peer does: the parameters then hold whatever the line held.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct

from agentwire.codec.jsontext import BadJson, BadShape, LineDecoder, clip, parse
from agentwire_pagent import wire

Reason = Literal[
    "json",       # not JSON, or more than one value
    "object",     # not an object
    "jsonrpc",    # not version 2.0
    "id",         # a request or an answer
    "method",     # no method
    "unknown",    # a method that the dialect does not have
    "params",     # parameters that are not an object
    "missing",    # a required parameter is not there
    "type",       # a parameter of another type
]  # fmt: skip


class WireError(ValueError):
    """A line is not a notification of this wire. ``reason`` says why, ``method`` what it calls itself, if it does."""

    def __init__(self, reason: Reason, message: str, method: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.method = method


_READ: Final[dict[wire.Dialect, dict[str, type[Struct]]]] = {
    "classic": {**wire.EVENTS["classic"], "Error": wire.Error},
    "v4": {**wire.EVENTS["v4"], **wire.CONTROL},
}
"""What a host understands: the dialect's methods, and the ones that may be among them."""


def _envelope(method: str, params: type[Struct]) -> Any:
    """A whole notification, told by its method. ``id`` is there to be refused, null included."""
    return msgspec.defstruct(
        f"Notification{method}",
        [("jsonrpc", Literal["2.0"]), ("params", params | None, None), ("id", Any, UNSET)],
        tag_field="method",
        tag=method,
        gc=False,
    )


_DECODERS: Final[dict[wire.Dialect, LineDecoder[Any]]] = {
    dialect: LineDecoder(reduce(or_, (_envelope(*entry) for entry in methods.items())))
    for dialect, methods in _READ.items()
}
DECODE: Final = {dialect: decoder.decode for dialect, decoder in _DECODERS.items()}
"""The fast way to a whole notification, by dialect. Raises ``msgspec.DecodeError`` or ``RecursionError``. Of what it
gives, only that has passed every check whose ``id`` is ``UNSET`` and whose ``params`` are not None."""


def decode(line: bytes | str, dialect: wire.Dialect = "classic", *, lenient: bool = False) -> Any:
    """The parameters of a line's notification: a struct of :mod:`agentwire_pagent.wire`. Raises :class:`WireError`."""
    data = line.encode() if isinstance(line, str) else line
    try:
        message = DECODE[dialect](data)
    except (msgspec.DecodeError, RecursionError):
        return _decode_again(data, dialect, lenient)
    if message.id is not UNSET or message.params is None:
        return _decode_again(data, dialect, lenient)
    return message.params


def _decode_again(line: bytes, dialect: wire.Dialect, lenient: bool) -> Any:
    """The slow way: accept the line after all, or find out what is wrong with it."""
    try:
        value = parse(line)
    except BadJson as fault:
        raise WireError("json", str(fault)) from None
    method, given = check(value, dialect)
    kind = _READ[dialect][method]
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in given:
            raise WireError("missing", f"{method} without {field.name}", method)
    if lenient:
        return kind(**{name: given[name] for name in kind.__struct_fields__ if name in given})
    try:
        message = _DECODERS[dialect].recover(msgspec.json.encode({**value, "params": given}))
    except (BadShape, BadJson, RecursionError) as fault:
        raise WireError("type", f"{method}: {fault}", method) from None
    return message.params


def check(value: Any, dialect: wire.Dialect) -> tuple[str, dict[str, Any]]:
    """Method and parameters of a decoded line, after every check but the parameters' own. Raises :class:`WireError`."""
    if not isinstance(value, dict):
        raise WireError("object", "not a JSON object")
    method = value.get("method")
    name = method if isinstance(method, str) else ""
    if value.get("jsonrpc") != "2.0":
        raise WireError("jsonrpc", f"jsonrpc is {clip(str(value.get('jsonrpc')))}, not 2.0", name)
    if "id" in value:
        raise WireError("id", "a notification has no id", name)
    if not name:
        raise WireError("method", "no method")
    given = value.get("params")
    if name not in _READ[dialect]:
        raise WireError("unknown", f"unknown method {clip(name)}", name)
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise WireError("params", "params is not an object", name)
    return name, given
