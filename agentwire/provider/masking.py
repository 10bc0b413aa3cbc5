"""Taking keys out of bytes that are kept: a reply's body, as it came in pieces.

What is put in their place is what messages have there (:func:`agentwire.provider.errors.redact`): whoever reads the
masked body reports the same of it as of the body itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agentwire.provider.errors import KEYS, MIN_SECRET

_LOOKS_LIKE_KEYS: Final = re.compile(KEYS.pattern.encode())

Span = tuple[int, int, bytes]
"""From where to where, and what stands there instead."""


def masked(chunks: Sequence[bytes], secrets: Iterable[str], *, keys: bool = False) -> list[bytes]:
    """The pieces of a body without ``secrets``, also where one lies across several pieces, or is written with the
    escapes of JSON or of an address. ``keys``: without whatever looks like a key, too, as messages are.

    There are as many pieces as before.
    """
    body = b"".join(chunks)
    spans = sorted(_spans(body, secrets, keys))
    return _cut(body, spans, [len(chunk) for chunk in chunks]) if spans else list(chunks)


def _spans(body: bytes, secrets: Iterable[str], keys: bool) -> Iterator[Span]:
    taken: list[tuple[int, int]] = []
    for secret in sorted({secret for secret in secrets if len(secret) >= MIN_SECRET}, key=len, reverse=True):
        for found in re.finditer(b"".join(map(_written, secret)), body):
            if _free(found.span(), taken):
                taken.append(found.span())
                yield *found.span(), b"***"
    for found in _LOOKS_LIKE_KEYS.finditer(body) if keys else ():
        if _free(found.span(), taken):
            yield *found.span(), (found[1] or found[2]) + b" ***"


def _free(span: tuple[int, int], taken: Iterable[tuple[int, int]]) -> bool:
    return all(span[1] <= start or end <= span[0] for start, end in taken)


def _written(character: str) -> bytes:
    """A pattern for a character, however JSON or an address may write it."""
    plain = re.escape(character.encode())
    if character.isascii() and character.isalnum():
        return plain
    code = f"{ord(character):04x}"
    escape = rb"\\" + plain if character in '"\\/' else b""
    percent = b"".join(b"%%%02x" % byte for byte in character.encode())
    ways = [plain, escape, rb"(?i:\\u" + code.encode() + b")", b"(?i:" + percent + b")"]
    return b"(?:" + b"|".join(filter(None, reversed(ways))) + b")"


def _cut(body: bytes, spans: Iterable[Span], lengths: Sequence[int]) -> list[bytes]:
    """The body with its spans replaced, cut where it was cut; a replacement stands where its span began."""
    pieces: list[Span] = []
    done = 0
    for start, end, instead in spans:
        pieces += (done, start, body[done:start]), (start, end, instead)
        done = end
    pieces.append((done, len(body), body[done:]))
    out: list[bytes] = []
    begin = 0
    for length in lengths:
        end = begin + length
        out.append(b"".join(_part(body, piece, begin, end) for piece in pieces if piece[0] < end and piece[1] > begin))
        begin = end
    return out


def _part(body: bytes, piece: Span, begin: int, end: int) -> bytes:
    """What of a piece falls between two borders."""
    start, stop, instead = piece
    if instead == body[start:stop]:
        return body[max(start, begin) : min(stop, end)]
    return instead if start >= begin else b""
