"""Whether a host says what was recorded."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from agentwire.codec.jsontext import BadJson, parse
from agentwire.commands import Command, Refusal
from agentwire.replay.ids import Ids
from agentwire.replay.script import Wait

IDS: Final = frozenset({"ref", "session", "id", "call_id", "approval_id", "request_id"})
"""Fields of commands that are ids."""

PLACES: Final = frozenset({"workspace", "roots"})
"""Fields that say where on this machine the work is: a recording is replayed elsewhere."""

CHOSEN: Final = frozenset({"ref", "id"})
"""Those that a host makes up anew each time."""


class Said(Struct):
    """A line of the host that is here now."""

    line: bytes
    command: Command | None
    refusal: Refusal | None = None


def difference(wait: Wait, said: Said, ids: Ids, *, lenient: bool = False) -> str:
    """How a line of the host differs from the one that is waited for; ``""``: it does not, and its ids are learnt.

    ``lenient``: a command of the same kind is the same.
    """
    if type(wait.command) is not type(said.command):
        return f"{_name(said.command)} where the recording has {_name(wait.command)}"
    if wait.command is None or said.command is None:
        same = lenient or (wait.refusal and wait.refusal.code) == (said.refusal and said.refusal.code)
        return "" if same else f"a line that is wrong otherwise ({said.refusal and said.refusal.code})"
    if not wait.guessed:
        ids.matched(_value(wait.said), _value(said.line))
    found = "" if lenient else _fields(wait, said.command, ids)
    if not found:
        _learn(wait.command, said.command, ids)
    return found


def _fields(wait: Wait, command: Command, ids: Ids) -> str:
    """The fields in which two commands of one kind differ."""
    then, now = msgspec.to_builtins(wait.command), msgspec.to_builtins(command)
    names = IDS - CHOSEN if wait.guessed else {*then, *now} - CHOSEN - PLACES
    different = [
        name
        for name in sorted(names)
        if not (_same_id(then.get(name), now.get(name), ids) if name in IDS else then.get(name) == now.get(name))
    ]
    return f"{_name(command)} with another {' and '.join(different)}" if different else ""


def _same_id(then: Any, now: Any, ids: Ids) -> bool:
    if then is None or now is None:  # a question is named by one id or the other
        return True
    return ids.same(then, now) or not ids.known(then)


def _learn(then: Command, now: Command, ids: Ids) -> None:
    for name in IDS:
        old, new = getattr(then, name, None), getattr(now, name, None)
        if isinstance(old, str | int | float) and isinstance(new, str | int | float) and old and new:
            ids.bind(old, new)


def _value(line: bytes) -> Any:
    try:
        return parse(line)
    except BadJson:
        return None


def _name(command: Command | None) -> str:
    return "a line that is no command" if command is None else str(type(command).__struct_config__.tag)
