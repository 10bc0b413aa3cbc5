"""The script file, read and checked before the first request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from agentwire.events import Usage
from agentwire.provider import ConfigError, lenient

ARGUMENTS_PIECE = 24
"""Characters of a call's arguments that are streamed at once."""

_WORDS = re.compile(r"\s*\S+|\s+")


class Strict(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is misspelt in a script is an error."""


class ScriptedCall(Strict):
    """A tool call."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""

    @property
    def arguments_text(self) -> str:
        """As the model writes it."""
        return self.arguments if isinstance(self.arguments, str) else lenient.encode(self.arguments).decode()


class ScriptedError(Strict):
    """How a request fails."""

    message: str
    kind: Literal["connect", "status", "rate_limit", "stream", "timeout", "auth", "context", "bad_reply", "config"] = (
        "status"
    )
    status: int = 0
    retryable: bool = False
    retry_after_ms: int | None = None


class ScriptedUsage(Strict):
    """What the model is said to have used."""

    input_tokens: int | UnsetType = UNSET
    output_tokens: int | UnsetType = UNSET
    cache_read_tokens: int | UnsetType = UNSET
    cache_write_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET
    extra: dict[str, Any] | UnsetType = UNSET
    """The service's own object; by default the counts."""

    @property
    def reported(self) -> Usage:
        """The same as the bus has it."""
        counts = {name: value for name, value in asdict(self).items() if value is not UNSET}
        return Usage(**{"extra": dict(counts), **counts})


class Step(Strict):
    """One piece of a reply: exactly one of the fields."""

    text: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    tool_call: ScriptedCall | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET

    def __post_init__(self) -> None:
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not UNSET]
        if len(given) != 1:
            raise ValueError(f"a step has one of {', '.join(self.__struct_fields__)}; this one has {len(given)}")
        if self.delay_ms is not UNSET and self.delay_ms < 0:
            raise ValueError("delay_ms cannot be negative")


class ScriptedReply(Strict):
    """One line of the script."""

    text: str = ""
    chunks: list[str] = []
    reasoning: str = ""
    tool_calls: list[ScriptedCall] = []
    steps: list[Step] = []
    delay_ms: int = 0
    usage: ScriptedUsage | None = None
    finish_reason: str = ""
    error: ScriptedError | None = None
    match: str = ""

    def __post_init__(self) -> None:
        if self.text and self.chunks:
            raise ValueError("a reply has text or chunks, not both")
        if self.steps and (self.text or self.chunks or self.reasoning or self.tool_calls):
            raise ValueError("steps stand instead of text, chunks, reasoning and tool_calls")
        if self.delay_ms < 0:
            raise ValueError("delay_ms cannot be negative")
        if not self.steps:
            self.steps = [
                *(Step(reasoning=word) for word in _WORDS.findall(self.reasoning)),
                *(Step(text=piece) for piece in self.chunks or _WORDS.findall(self.text)),
                *(Step(tool_call=call) for call in self.tool_calls),
            ]


def read_script(path: Path) -> list[ScriptedReply]:
    """The replies in the file; raises :class:`ConfigError` that names the line."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"script {path} cannot be read: {error.strerror or error}") from None
    decoder = msgspec.json.Decoder(ScriptedReply)
    replies = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            replies.append(decoder.decode(line))
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(f"script {path}, line {number}: {error}") from None
    return replies


def pieces(text: str) -> list[str]:
    """A call's arguments as they are streamed."""
    return [text[start : start + ARGUMENTS_PIECE] for start in range(0, len(text), ARGUMENTS_PIECE)]
