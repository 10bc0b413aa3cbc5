"""What a host can say on a wire, found out by having it said."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from agentwire.codec.contract import Codec
from agentwire.commands import Command, Prompt, Refusal


class Words:
    """Asks host sides that are connected to nothing; what they write is thrown away."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        ahead = Prompt("p", session="s", approve=["exec"])
        self.approves_ahead = self.refusal(ahead) is None and not self.unsaid(ahead, ["approve"])
        """A prompt can say beforehand that calls need no question."""
        self.tells_escapes = any(
            (row.event, row.field, row.verdict) == ("approval_requested", "prompt_kind", "exact")
            for row in codec.fidelity().declarations()
        )
        """A question says whether its call leaves the workspace."""

    def refusal(self, command: Command) -> Refusal | None:
        """Why the wire cannot carry a command as it is; None if it can."""
        said = self._say(command)
        return said if isinstance(said, Refusal) else None

    def can(self, command: Command) -> bool:
        """Whether the wire has a word for a command, be the time for it right or not."""
        refusal = self.refusal(command)
        return refusal is None or refusal.code != "unsupported"

    def unsaid(self, command: Command, fields: Iterable[str]) -> list[str]:
        """Those of the fields that have a value and make no difference to what is written."""
        whole = self._say(command)
        defaults = {field.name: field for field in msgspec.structs.fields(command)}
        found = []
        for name in fields:
            field = defaults[name]
            empty = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            if (
                getattr(command, name) != empty
                and self._say(msgspec.structs.replace(command, **{name: empty})) == whole
            ):
                found.append(name)
        return found

    def _say(self, command: Command) -> bytes | Refusal:
        out = bytearray()
        said = self.codec.host().send(command, out)
        return said if isinstance(said, Refusal) else bytes(out)
