"""Collects what services answer, for a recording: each HTTP reply as it came, without what nobody may read there."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from agentwire.provider.errors import redact
from agentwire.provider.hearing import Reading
from agentwire.provider.masking import masked
from agentwire.recording.replies import chunk
from agentwire.text import scrub

KEPT_HEADERS: Final = re.compile(
    r"content-type|content-length|date|server|cf-ray"
    r"|retry-after(?:-ms)?|x-ms-retry-after-ms|x-should-retry"
    r"|(?:[a-z]+-)*request-?id"
    r"|(?:x-|anthropic-)?ratelimit(?:-(?:limit|remaining|reset|used|after|policy|requests?|tokens?|input|output))*"
    r"|openai-(?:version|processing-ms)|anthropic-version"
    r"|x-amzn-(?:errortype|bedrock-[a-z]+(?:-[a-z]+)*)"
)
"""Headers of a reply that say nothing about who asked."""

_COMPRESSED: Final = frozenset({"gzip", "x-gzip", "deflate"})
_EITHER: Final = 47
"""zlib's word for: find out yourself which of the two it is."""


class Replies:
    """The replies to one request of an agent; a :class:`agentwire.provider.hearing.Listener`."""

    def __init__(self, began: int) -> None:
        """``began``: ``time.monotonic_ns()`` when the agent asked."""
        self._began = began
        self._reading: dict[str, Any] | None = None
        self._replies: list[_Reply] = []

    def reads(self, reading: Reading) -> None:
        """Who is going to read what comes."""
        self._reading = msgspec.to_builtins(reading)

    def asks(self, service: str, method: str, path: str, secrets: Sequence[str]) -> _Reply:
        """A request is sent."""
        reply = _Reply(self._began, service, method, path, self._reading, secrets)
        self._replies.append(reply)
        return reply

    def told(self) -> list[dict[str, Any]]:
        """What is to be kept, in the form of :class:`agentwire.recording.HttpReply`."""
        return [reply.told() for reply in self._replies]


class _Reply:
    """One reply as it comes; a :class:`agentwire.provider.hearing.Exchange`."""

    def __init__(
        self, began: int, service: str, method: str, path: str, reading: dict[str, Any] | None, secrets: Sequence[str]
    ) -> None:
        self._began = began
        self._secrets = tuple(secrets)
        self._times: list[int] = []
        self._chunks: list[bytes] = []
        self._coding = ""
        self._refused = False
        self._about: dict[str, Any] = {
            "service": self._clean(service), "method": method, "path": self._clean(path), "reader": reading,
            "asked": self._now(),
        }  # fmt: skip

    def answered(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """The service answers."""
        kept = []
        for name, value in headers:
            name = name.lower()
            if name == "content-encoding":
                self._coding = value.strip().lower()
            elif KEPT_HEADERS.fullmatch(name):
                kept.append((name, self._clean(value)))
        self._refused = status >= 400
        self._about |= {"status": status, "answered": self._now(), "headers": kept}

    def heard(self, chunk: bytes) -> None:
        """The next bytes of the body."""
        self._times.append(time.monotonic_ns())
        self._chunks.append(chunk)

    def ended(self) -> None:
        """The body is whole."""
        self._about |= {"whole": True, "ended": self._now()}

    def broke(self, kind: str, message: str, cause: str) -> None:
        """There is no connection, or it broke."""
        broke = {"kind": kind, "message": self._clean(message), "cause": cause}
        self._about |= {"broke": broke, "ended": self._now()}

    def told(self) -> dict[str, Any]:
        """What is to be kept of it."""
        if self._coding not in ("", "identity", *_COMPRESSED):  # what cannot be looked through is not kept
            return {**self._about, "reader": None}
        plain = _decompressed(self._chunks) if self._coding in _COMPRESSED else self._chunks
        kept = masked(plain, self._secrets, keys=self._refused)
        times = [(at - self._began) // 1000 for at in self._times]
        return {**self._about, "body": [chunk(at, data) for at, data in zip(times, kept, strict=False) if data]}

    def _clean(self, text: str) -> str:
        return scrub(redact(text, self._secrets))

    def _now(self) -> int:
        return (time.monotonic_ns() - self._began) // 1000


def _decompressed(chunks: Sequence[bytes]) -> list[bytes]:
    """A body without its compression, piece for piece, as far as it can be read."""
    decoder = zlib.decompressobj(_EITHER)
    plain: list[bytes] = []
    try:
        for data in chunks:
            plain.append(decoder.decompress(data))
    except zlib.error:
        pass  # whoever read it was told so, and that is kept: it is how the reply broke off
    return plain
