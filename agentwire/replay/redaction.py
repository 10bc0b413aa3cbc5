"""Secrets out of recordings: what is taken out leaves as many characters and bytes behind, and JSON that still reads.

A text is looked through for what secrets look like, and JSON (a line of the wire, an object that stands in a string)
for the names under which they stand. Each character that is taken out is replaced by one that is as long in UTF-8;
escapes, ids and the words that say what a message is stay.

A secret that a model streams in pieces, each in a line of its own, looks like none: name its field. The replies of a
model service as they came (:mod:`agentwire.replay.bodies`) name things in words of their own: when any field is named,
all that was said in them is taken out.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from agentwire.recording import Entry, HttpReply, Recording, RecordingError
from agentwire.replay.bodies import filled, pieces, replies_of
from agentwire.replay.ids import NAMED

SECRET_KEY: Final = re.compile(
    r"(?i).*(?:api[-_]?key|authorization|secret|passw(?:or)?d|credential|private[-_]?key|access[-_]?key|cookie|bearer)"
    r".*|(?:.*[-_])?token|auth"
)
"""Names under which secrets stand."""

SECRET_TEXT: Final = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+((?=[\w.~+/-]*[\d=])[\w.~+/=-]{8,})"),
    re.compile(
        r"\b((?:sk|pk|rk)-[\w-]{12,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,})"
    ),
    re.compile(r"\b((?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|hf_\w{20,}|ya29\.[\w-]{20,})"),
    re.compile(r"\b(eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----([\s\S]*?)(?:-----END|\Z)"),
    re.compile(r"://[^\s/:@]+:([^\s/@]+)@"),
    re.compile(
        r"(?i)(?:api[-_]?key|authorization|secret|passw(?:or)?d|access[-_]?key|[-_]token)[\"']?\s*[:=]\s*[\"']?"
        r"([^\s\"',;&}]{6,})"
    ),
    re.compile(r"(?i)--(?:[\w-]*-)?(?:key|token|secret|password)\s+([^\s\"']{6,})"),
)
"""What secrets look like; the group is what is taken out."""

SECRET_FLAG: Final = re.compile(r"(?i)--(?:[\w-]*-)?(?:key|token|secret|password)")
"""A word of a command line after which a secret stands as a word of its own."""

STAYS: Final = re.compile(
    NAMED.decode() + r"|type|role|status|category|kind|scope|decision|outcome|cause|mime_?[tT]ype|prompt_kind"
    r"|finish_reason|capability"
)
"""Keys inside a chosen field whose values stay: without them a line could not be read."""

STAYS_IN_REPLIES: Final = re.compile(
    STAYS.pattern + r"|object|model|name|code|event|stop_reason|service_tier|system_fingerprint|encoding"
)
"""Keys of a service's reply whose values stay when all else that was said in it goes."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|[{}\[\],:]')
_UNIT: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[\s\S]")
_KEPT_ESCAPES: Final = frozenset({"\\n", "\\r", "\\t"})


class Redaction:
    """Takes out secrets, the contents of ``fields``, and every occurrence of ``values``."""

    def __init__(self, fields: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        self._fields = frozenset(fields)
        patterns = [re.compile(f"({re.escape(value)})") for value in values if value]
        self._patterns = (*SECRET_TEXT, *patterns)
        self.taken = 0
        """Strings that something was taken out of."""

    def row(self, text: str) -> str:
        """A line of a recording's file: the line of the wire that stands in it is looked through as one."""
        if replies := replies_of(text):
            text = self._replies(text, replies)
        return self._json(text, _Scan(self._fields, "look", row=True)) if _is_json(text) else self.text(text)

    def text(self, text: str) -> str:
        """A text, or JSON, without its secrets; of the same length."""
        if _is_json(text):
            return self._json(text, _Scan(self._fields, "look"))
        hidden = [span for pattern in self._patterns for found in pattern.finditer(text) for span in [found.span(1)]]
        if not hidden:
            return text
        self.taken += 1
        chars = list(text)
        for start, end in hidden:
            chars[start:end] = map(filled, chars[start:end])
        return "".join(chars)

    def _replies(self, row: str, replies: list[HttpReply]) -> str:
        """A line of a recording's file with the bodies of its replies changed where they stand."""
        out: list[str] = []
        done = 0
        changed = pieces(replies, self._said, emptied=bool(self._fields))
        for (start, end), (chunk, data) in zip(_bodies(row), changed, strict=True):
            if chunk.base64:
                now = f'"{base64.b64encode(data).decode()}"'
            elif data == chunk.data:
                now = row[start:end]
            elif len(said := data.decode("utf-8", "replace")) == len(chunk.text) and said.encode() == data:
                now = _rewritten(row[start:end], lambda _, said=said: said)  # type: ignore[misc]
            else:  # the new checksum of a frame is no text where the old one was
                now = f'"","{base64.b64encode(data).decode()}"'
            out += row[done:start], now
            done = end
        return "".join(out) + row[done:]

    def _said(self, text: str) -> str:
        """Something that a model service said."""
        if self._fields and _is_json(text):
            return self._json(text, _Scan(self._fields, "blank"))
        return self.text(text)

    # --- JSON ---

    def _json(self, text: str, scan: _Scan) -> str:
        """JSON text with the strings changed where they stand, and nothing else."""
        out: list[str] = []
        done = 0
        for token in _TOKEN.finditer(text):
            how = scan.see(token[0], text, token.end())
            if how is None:
                continue
            out += text[done : token.start()], how_to[how](self, token[0])
            done = token.end()
        return "".join(out) + text[done:]

    def _looked_through(self, literal: str) -> str:
        return _rewritten(literal, self.text) if literal[0] == '"' else literal

    def _emptied(self, literal: str) -> str:
        """A string of a chosen field, or a number: white space stays, so that a person sees its shape."""
        if literal[0] != '"':
            return re.sub(r"\d", "1", literal)
        return _rewritten(literal, self._empty)

    def _blanked(self, literal: str) -> str:
        """A string; numbers stay, for they say how a reply is put together."""
        return _rewritten(literal, self._empty) if literal[0] == '"' else literal

    def _empty(self, text: str) -> str:
        if _is_json(text):
            return self._json(text, _Scan(self._fields, "empty", strict=True))
        self.taken += bool(text)
        return "".join(char if char.isspace() else filled(char) for char in text)

    def _hidden(self, literal: str) -> str:
        """The string under a secret's name."""
        if literal[0] != '"':
            return literal
        self.taken += literal != '""'
        return _rewritten(literal, lambda text: "".join(map(filled, text)))


how_to: Final[dict[str, Callable[[Redaction, str], str]]] = {
    "look": Redaction._looked_through,
    "empty": Redaction._emptied,
    "blank": Redaction._blanked,
    "hide": Redaction._hidden,
}


class _Scan:
    """Follows the tokens of a JSON text, and says what is to be done with each value."""

    def __init__(
        self,
        fields: frozenset[str],
        how: str,
        *,
        row: bool = False,
        strict: bool = False,
    ) -> None:
        self._fields = fields
        self._outside = how
        self._row = row
        self._strict = strict
        self._stack: list[tuple[str, str]] = []
        """What is done with the values of each open object or list, and its kind."""
        self._key = ""
        self._flag = False

    def see(self, piece: str, text: str, end: int) -> str | None:
        """What to do with a token; None for one that is no value."""
        inherited = self._stack[-1][0] if self._stack else self._outside
        if piece in "{[":
            self._stack.append((self._of(self._key, inherited), piece))
            self._key = ""
            return None
        if piece in "}]":
            if self._stack:
                self._stack.pop()
            return None
        if piece in ",:":
            return None
        if piece[0] == '"' and self._stack and self._stack[-1][1] == "{" and _is_key(text, end):
            self._key = msgspec.json.decode(piece)
            return None
        key, self._key = self._key, ""
        flag, self._flag = self._flag, SECRET_FLAG.fullmatch(piece[1:-1]) is not None
        return "hide" if flag else self._of(key, inherited)

    def _of(self, key: str, inherited: str) -> str:
        if self._row and len(self._stack) == 1 and key in ("text", "line"):
            return "look"
        if key and SECRET_KEY.fullmatch(key):
            return "hide"
        if key in self._fields:
            return "empty"
        if self._row and self._fields and key == "items":  # blocks of a service's, verbatim
            return "blank"
        if inherited == "blank" and STAYS_IN_REPLIES.fullmatch(key):
            return "look"
        if inherited == "empty" and key and not self._strict and STAYS.fullmatch(key):
            return "look"
        return inherited


_BODY: Final = ["", "about", "http", "", "body", ""]
"""Under which names the lists and objects stand, from the outside in, that a piece of a body is in."""


def _bodies(row: str) -> Iterator[tuple[int, int]]:
    """Where the pieces of the replies' bodies stand in a line of a recording's file: the last string of each."""
    names: list[str] = []
    key = ""
    last: tuple[int, int] | None = None
    for token in _TOKEN.finditer(row):
        piece = token[0]
        if piece in "{[":
            names.append(key)
        elif piece in "}]":
            names.pop()
            if last is not None:
                yield last
                last = None
        elif piece[0] == '"' and _is_key(row, token.end()):
            key = msgspec.json.decode(piece)
            continue
        elif piece[0] == '"' and names == _BODY:
            last = token.span()
        if piece not in ",:":
            key = ""


def _is_key(text: str, end: int) -> bool:
    return text[end : end + 16].lstrip()[:1] == ":"


def _rewritten(literal: str, change: Callable[[str], str]) -> str:
    """A JSON string with its text changed, character for character, as it was written."""
    units = _UNIT.findall(literal[1:-1])
    chars = [unit if len(unit) == 1 else msgspec.json.decode(f'"{unit}"', strict=False) for unit in units]
    changed = change("".join(chars))
    written = [
        unit if old == new else _written(unit, new) for unit, old, new in zip(units, chars, changed, strict=True)
    ]
    return f'"{"".join(written)}"'


def _written(unit: str, new: str) -> str:
    """A new character in the form of an old one: an escape stays as long as it was."""
    if len(unit) == 1:
        return new
    if unit in _KEPT_ESCAPES:
        return unit
    return {2: "\\/", 6: "\\u0078", 12: "\\ud835\\uddd1"}[len(unit)]


def _is_json(text: str) -> bool:
    """Whether a text is an object or a list."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


# --- files ---------------------------------------------------------------------------------------------------


def redact(recording: Recording, redaction: Redaction) -> Iterator[bytes]:
    """Give the lines of a recording's file without what is to be taken out.

    Raises :class:`agentwire.recording.RecordingError`.
    """
    try:
        file = open(recording.path, "rb")  # noqa: SIM115 - closed below; only opening it is guarded
    except OSError as error:
        raise RecordingError(f"The recording {recording.path} cannot be read: {error.strerror}") from None
    with file:
        for line in file:
            yield _redacted(line, redaction, redaction.text if recording.plain else redaction.row)


def _redacted(line: bytes, redaction: Redaction, change: Callable[[str], str]) -> bytes:
    try:
        text = line.decode()
    except UnicodeDecodeError:  # a torn line, or a log that is not UTF-8
        return redaction.text(line.decode("latin-1")).encode("latin-1", "replace")
    body = text.rstrip("\r\n")
    if entry := _unreadable_bytes(body):
        entry.base64 = _unreadable(entry.base64, redaction)
        if kept := entry.about.get("base64"):
            entry.about["base64"] = _unreadable(kept, redaction)
        return msgspec.json.encode(entry) + b"\n"
    return (change(body) + text[len(body) :]).encode()


def _unreadable_bytes(body: str) -> Entry | None:
    """The entry, if it holds bytes that are not UTF-8."""
    if '"base64"' not in body:
        return None
    try:
        entry = msgspec.json.decode(body.encode(), type=Entry)
    except msgspec.MsgspecError:
        return None
    return entry if entry.base64 or isinstance(entry.about.get("base64"), str) else None


def _unreadable(kept: str, redaction: Redaction) -> str:
    try:
        data = base64.b64decode(kept, validate=True)
    except binascii.Error as error:
        raise RecordingError(f"an entry's base64 is damaged: {error}") from None
    return base64.b64encode(redaction.text(data.decode("latin-1")).encode("latin-1", "replace")).decode()
