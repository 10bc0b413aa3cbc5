"""Server-sent events, sans-IO: bytes in as they arrive, events out as soon as they are whole.

Follows the event stream interpretation of the HTML standard: a line ends at CR, LF or CRLF and nowhere else
(U+2028 and its kin are ordinary characters of a JSON string), one byte order mark at the start is skipped, lines
beginning with a colon are comments, one space after a field's colon is dropped, several ``data`` lines are joined
with LF. Everything stays bytes: a character cut in two by the network is whole again before anybody decodes it.

The fields ``id`` and ``retry`` are for reconnecting, which no model service offers; they are ignored.
"""

from __future__ import annotations

from msgspec import Struct

MAX_EVENT = 16 * 1024 * 1024
"""Default for the size of one event, in bytes."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LF, _CR = b"\n\r"  # as numbers: looking for a number in bytes is much faster than for a byte


class SseError(ValueError):
    """An event is larger than the limit; the parser cannot be used any more."""


class ServerSentEvent(Struct, gc=False, frozen=True):
    """One event. ``name`` is its ``event`` field, empty if it had none."""

    data: bytes
    name: bytes = b""


class EventParser:
    """Cuts one stream into events. Make a new one for every response."""

    __slots__ = (
        "_begun",
        "_data",
        "_fresh",
        "_head",
        "_line",
        "_max",
        "_more",
        "_name",
        "_size",
        "_skip_lf",
        "_started",
    )

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max = max_event
        self._started = False
        self._head = b""
        """What may become a byte order mark."""
        self._skip_lf = False
        """The last line ended with the CR at the end of a chunk; an LF that follows belongs to it."""
        self._line: list[bytes] = []
        """Pieces of a line whose end has not arrived."""
        self._data: bytes | None = None
        self._more: list[bytes] = []
        """Second and further ``data`` lines."""
        self._name = b""
        self._size = 0
        """Bytes held of the whole lines of the event that is being read."""
        self._begun = 0
        """Bytes held of its unfinished line."""
        self._fresh = True
        """Nothing is held: the next byte begins an event."""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and give the events that they complete; raises :class:`SseError`."""
        if self._fresh and chunk.endswith(b"\n\n") and _CR not in chunk and len(chunk) <= self._max:
            # What a model service sends nearly always: whole events of one data line, with or without a name.
            events = []
            for block in chunk[:-2].split(b"\n\n"):
                if block.startswith(b"data: "):
                    name, data = b"", block[6:]
                elif block.startswith(b"event: "):
                    name, _, data = block[7:].partition(b"\ndata: ")
                    if not data or _LF in name:
                        break
                else:
                    break
                if _LF in data:
                    break
                events.append(ServerSentEvent(data, name))
            else:
                self._started = True
                return events
        return self._feed(chunk)

    def close(self) -> list[ServerSentEvent]:
        """The stream ended: an event that only lacks its blank line is given all the same."""
        events: list[ServerSentEvent] = []
        line = self._head + b"".join(self._line)
        self._head, self._line, self._begun = b"", [], 0
        if line:
            self._take(line, events)
        self._dispatch(events)
        return events

    def _feed(self, chunk: bytes) -> list[ServerSentEvent]:
        if not self._started:
            chunk = self._without_mark(chunk)
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == _LF:
                chunk = chunk[1:]
        if _CR in chunk:
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[ServerSentEvent] = []
        if _LF in chunk:
            if self._line:
                # Joined only now, and only the new bytes were searched: long lines in small pieces stay linear.
                self._line.append(chunk)
                chunk = b"".join(self._line)
                self._line, self._begun = [], 0
            lines = chunk.split(b"\n")
            chunk = lines.pop()
            for line in lines:
                self._take(line, events)
        if chunk:
            self._line.append(chunk)
            self._begun += len(chunk)
            self._grow(0)
        self._fresh = self._started and not (self._line or self._name or self._skip_lf or self._data is not None)
        return events

    def _without_mark(self, chunk: bytes) -> bytes:
        head = self._head + chunk
        if len(head) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(head):
            self._head = head
            self._fresh = not head
            return b""
        self._started, self._head = True, b""
        return head.removeprefix(_BYTE_ORDER_MARK)

    def _take(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if not line:
            self._dispatch(events)
            return
        if line.startswith(b"data:"):
            self._add_data(line[6:] if line.startswith(b" ", 5) else line[5:])
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            if field == b"event":
                self._name = value[1:] if value.startswith(b" ") else value
                self._grow(len(value))
            elif field == b"data":
                self._add_data(b"")

    def _add_data(self, value: bytes) -> None:
        if self._data is None:
            self._data = value
        else:
            self._more.append(value)
        self._grow(len(value) + 1)

    def _grow(self, by: int) -> None:
        self._size += by
        if self._size + self._begun > self._max:
            raise SseError(f"one event of the stream is larger than {self._max} bytes")

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        if self._data is not None:
            data = b"\n".join((self._data, *self._more)) if self._more else self._data
            events.append(ServerSentEvent(data, self._name))
            self._data = None
            self._more.clear()
        self._name = b""
        self._size = 0
