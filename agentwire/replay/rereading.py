"""A model's reply read again by its provider, from the bytes that were recorded, and held against what was read then.

Everything that read it is at work again: the HTTP client, the stream parser, the provider's reader. Only the network is
not there, and no key is needed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Protocol, cast

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from agentwire import registry
from agentwire.events import (
    CallArgumentsDelta,
    CallStarted,
    Image,
    Part,
    ReasoningDelta,
    RequestSent,
    Text,
    TextDelta,
    Usage,
)
from agentwire.messages import Message, ToolMessage, UserMessage
from agentwire.provider.contract import (
    Completion,
    ConfigError,
    Emit,
    ModelRequest,
    Provider,
    ProviderError,
    ProviderSettings,
    StreamEvent,
)
from agentwire.provider.hearing import Reading
from agentwire.recording import HttpReply, RecordingError

NOWHERE: Final = "http://recorded.invalid"
"""An address that is none: nobody is asked."""

_CHOICE: Final = re.compile(r"[A-Za-z0-9_.-]{0,64}").fullmatch

_KINDS: Final[dict[str, Any]] = {
    "text_delta": TextDelta,
    "reasoning_delta": ReasoningDelta,
    "call_started": CallStarted,
    "call_arguments_delta": CallArgumentsDelta,
    "request_sent": RequestSent,
    "usage": Usage,
}


class Failure(Struct, omit_defaults=True):
    """Why a request failed."""

    message: str
    kind: Any
    retryable: bool = False
    status: int = 0
    retry_after_ms: int | None = None
    usage: Usage | UnsetType = msgspec.UNSET
    config_kind: str = ""

    def raised(self) -> ProviderError:
        """The failure as an exception again."""
        error = ProviderError(
            self.message, kind=self.kind, retryable=self.retryable, status=self.status,
            retry_after_ms=self.retry_after_ms, usage=self.usage,
        )  # fmt: skip
        if self.config_kind:
            error.__cause__ = ConfigError(self.message, self.config_kind)
        return error


class Reply(Struct):
    """A model's reply as it was recorded."""

    request: int
    took: int
    session: str = ""
    provider: str = ""
    events: list[tuple[int, str, dict[str, Any]]] = []
    http: list[HttpReply] = []
    completion: Completion | None = None
    error: Failure | None = None
    crashed: tuple[str, str] | None = None
    began: int = 0
    """When the request was made, in the recording's time."""
    line: int = 0
    """Of the recording's file."""

    @property
    def reading(self) -> Reading | None:
        """Who read the bytes; None: there are none, or nobody knows. Raises ``msgspec.ValidationError``."""
        readers = [reply.reader for reply in self.http]
        return msgspec.convert(readers[0], Reading) if readers and readers[0] and None not in readers else None

    def heard(self) -> Iterator[tuple[int, StreamEvent]]:
        """What the agent was told, and when."""
        for after, kind, event in self.events:
            fields = {**event, "type": kind} if kind != "usage" else event
            yield after, msgspec.convert(fields, _KINDS[kind])


class Answerable(Protocol):
    """A provider whose service something else can stand in for (:class:`agentwire.provider.HttpService`)."""

    def answered_by(self, transport: Any, service: str) -> None:
        """Let ``transport`` answer."""
        ...


def reader(reading: Reading) -> Provider:
    """A provider that reads as it was read. Raises :class:`RecordingError` if there is none here.

    Options are what a recording keeps of them, switches, numbers and words: no provider is given a path by a file.
    """
    free = [name for name, value in reading.options.items() if not _is_choice(value)]
    if free:
        raise RecordingError(f"replies were read with an option {free[0]!r} that is no switch, number or choice")
    settings = ProviderSettings(
        base_url=NOWHERE, options=reading.options,
        connect_timeout=reading.connect_timeout, silence_timeout=reading.silence_timeout,
    )  # fmt: skip
    try:
        made = registry.load_provider(reading.provider).create(settings)
    except (registry.UnknownName, ConfigError) as error:
        raise RecordingError(f"replies were read by the provider '{reading.provider}': {error}") from None
    if not hasattr(made, "answered_by"):
        raise RecordingError(f"replies were read by the provider '{reading.provider}', which is another one here")
    return made


def _is_choice(value: Any) -> bool:
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and _CHOICE(value) is not None)


class Reread(Struct, frozen=True):
    """Something that was read otherwise: as JSON values, None where one of the two read nothing."""

    then: Any
    now: Any


class Rereading:
    """One reply being read again. ``differs`` is told, once, of the first thing that is read otherwise."""

    def __init__(
        self, reply: Reply, until: Callable[[int], Awaitable[None]], differs: Callable[[Reread], None]
    ) -> None:
        self._reply = reply
        self._until = until
        self._differs = differs
        self._sent: RequestSent | None = None
        self._expected: list[StreamEvent] = []
        for _, event in reply.heard():
            if isinstance(event, RequestSent):
                self._sent = self._sent or event
            else:
                self._expected.append(event)
        self._expected.reverse()
        self._same = True

    async def complete(self, reading: Reading, request: ModelRequest, emit: Emit) -> Completion:
        """Have ``request`` answered. Raises what the provider raises."""
        from agentwire.replay.service import RecordedService

        reply = self._reply
        request = replace(request, messages=[_without_files(message) for message in request.messages])

        async def until(at: int) -> None:
            await self._until(reply.began + at)

        provider = reader(reading)
        wait_ms = reply.error.retry_after_ms if reply.error is not None else None
        cast(Answerable, provider).answered_by(RecordedService(reply.http, until, wait_ms), reply.http[0].service)

        def heard(event: StreamEvent) -> None:
            emit(self._checked(event))

        try:
            completion = await provider.complete(request, heard)
        except ProviderError as error:
            self._ended(_failure(error))
            if reply.provider != reading.provider and reply.error is not None:
                raise reply.error.raised() from error  # whoever reads through another may say better what happened
            raise
        finally:
            await provider.aclose()
        self._ended(completion)
        return completion

    def _checked(self, event: StreamEvent) -> StreamEvent:
        """The event. What is sent now is not what was sent (the instructions are others): that is as it was."""
        if isinstance(event, RequestSent):
            return self._sent or event
        then = self._expected.pop() if self._expected else None
        if then != event:
            self._differ(then, event)
        return event

    def _ended(self, outcome: Completion | Failure) -> None:
        reply = self._reply
        if self._expected:
            return self._differ(self._expected[-1], None)
        then = reply.completion or reply.error
        both_failed = isinstance(then, Failure) and isinstance(outcome, Failure)
        if (both_failed and reply.provider != self._read_by) or _plain(then) == _plain(outcome):
            return None
        return self._differ(then or reply.crashed, outcome)

    @property
    def _read_by(self) -> str:
        reading = self._reply.reading
        return reading.provider if reading else ""

    def _differ(self, then: Any, now: Any) -> None:
        if self._same:
            self._same = False
            self._differs(Reread(_plain(then), _plain(now)))


def _without_files(message: Message) -> Message:
    """A message without the images that would be read from files: nobody looks at it, and a recording names them."""
    if isinstance(message, UserMessage):
        return replace(message, parts=[Text("") if _is_file(part) else part for part in message.parts])
    if isinstance(message, ToolMessage):
        return replace(message, images=[image for image in message.images if not _is_file(image)])
    return message


def _is_file(part: Part) -> bool:
    return isinstance(part, Image) and not part.data


def _failure(error: ProviderError) -> Failure:
    return Failure(
        error.message, error.kind, error.retryable, error.status, error.retry_after_ms, error.usage,
        getattr(error.__cause__, "kind", ""),
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """As JSON has it: what is kept as text (``Raw``) becomes values."""
    return None if value is None else msgspec.json.decode(msgspec.json.encode(value))
