"""Making a recording while bytes pass.

What is recorded never holds up or disturbs what it records: a file that can no longer be written is said once, and the
recording ends there.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from agentwire.recording.entries import Entry, Header, RecordingError, Who, entry

logger = logging.getLogger("agentwire.recording")

_encode = msgspec.json.Encoder().encode

_TELLING: Final = r"(?i:key|token|secret|passw(?:or)?d|credentials?|authorization|auth|cookie)"
_SECRET_FLAG: Final = re.compile(rf"-[\w-]*{_TELLING}").fullmatch
_SECRET_VALUE: Final = re.compile(rf"([\w.-]*{_TELLING}\s*[=:]).+", re.DOTALL).fullmatch
_USER: Final = re.compile(r"(://)[^/\s]*@")


class Recorder:
    """Writes a recording to a file, after what the file holds already.

    Bytes are given as they come, in pieces of any size; every whole line is an entry, with the time of its end. Of a
    command line in ``about`` (``argv``) the words are left out that a flag or a name calls secret. Raises
    :class:`RecordingError` if the file cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        codec: str,
        *,
        role: str = "",
        about: dict[str, Any] | None = None,
        monotonic: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        from importlib.metadata import version

        self.path = os.fspath(path)
        self._monotonic, self._wall = monotonic, wall
        self._began = monotonic()
        self._partial: dict[Who, bytearray] = {}
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise RecordingError(f"The recording {self.path} cannot be written: {error.strerror}") from None
        self.broken = False
        """The file can no longer be written; what passes is not recorded any more."""
        about = dict(about or {})
        if "argv" in about:
            about["argv"] = _harmless(about["argv"])
        header = Header(
            codec=codec, made_by=f"agentwire {version('agentwire')}", role=role, started=self._ms(), about=about
        )
        self._write(b"\n" * self._torn() + _encode(header) + b"\n")

    def host(self, data: bytes | bytearray | memoryview) -> None:
        """Record bytes that the host wrote."""
        self._pass("host", data)

    def agent(self, data: bytes | bytearray | memoryview) -> None:
        """Record bytes that the agent wrote."""
        self._pass("agent", data)

    def log(self, data: bytes | bytearray | memoryview) -> None:
        """Record bytes of the agent's standard error."""
        self._pass("log", data)

    def aside(self, who: Who, about: dict[str, Any]) -> None:
        """Record something beside the wire."""
        self._write(_encode(Entry(self._now(), who, wall=self._ms(), about=about)) + b"\n")

    def close(self) -> None:
        """Record what has no line end yet, and close the file. Closing twice is closing once."""
        for who, partial in self._partial.items():
            if partial:
                self._write(_encode(entry(self._now(), who, bytes(partial), self._ms())) + b"\n")
        self._partial.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pass(self, who: Who, data: bytes | bytearray | memoryview) -> None:
        if self.broken:
            return
        partial = self._partial.setdefault(who, bytearray())
        begin = len(partial)  # what waits for its line end has none
        partial += data
        end = partial.rfind(b"\n", begin) + 1
        if not end:
            return
        at, wall = self._now(), self._ms()
        lines = bytes(partial[:end]).split(b"\n")[:-1]
        del partial[:end]
        self._write(b"".join(_encode(entry(at, who, line + b"\n", wall)) + b"\n" for line in lines))

    def _write(self, data: bytes) -> None:
        if self.broken or self._fd < 0:
            return
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self.broken = True
            logger.warning("the recording %s ends here: %s", self.path, error.strerror)

    def _torn(self) -> bool:
        """The file ends in the middle of a line that a crash tore: the next must not be joined to it."""
        size = os.fstat(self._fd).st_size
        if not size:
            return False
        try:
            with open(self.path, "rb") as file:
                file.seek(size - 1)
                return file.read(1) != b"\n"
        except OSError:  # a pipe or a device: there is nothing before us
            return False

    def _now(self) -> int:
        return (self._monotonic() - self._began) // 1000

    def _ms(self) -> int:
        return int(self._wall() * 1000)


def _harmless(argv: Iterable[str]) -> list[str]:
    """A command line without what stands behind the names of secrets, and without the users of addresses."""
    words: list[str] = []
    hidden = False
    for word in argv:
        if hidden:
            words.append("***")
        elif found := _SECRET_VALUE(word):
            words.append(f"{found[1]}***")
        else:
            words.append(_USER.sub(r"\1***@", word))
        hidden = not hidden and _SECRET_FLAG(word) is not None
    return words
