"""The provider: plays one scripted reply for each request."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from agentwire.events import (
    CallArgumentsDelta,
    CallRef,
    CallStarted,
    ReasoningDelta,
    Text,
    TextDelta,
    Usage,
)
from agentwire.messages import AssistantMessage, Message, ToolMessage
from agentwire.provider import (
    Completion,
    ConfigError,
    Emit,
    ModelRequest,
    ProviderError,
    ProviderSettings,
    lenient,
    provenance,
    read_quirks,
)
from agentwire_script import DEFAULT_MODEL
from agentwire_script.replies import ScriptedReply, Step, pieces, read_script

BREATH = 64
"""Pieces after which everybody else gets a turn."""


class ScriptOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the ``script`` provider."""

    script: str = ""
    """Path of the file."""
    repeat: bool = False
    """Begin anew when the script is used up."""
    effort_levels: tuple[str, ...] = ("low", "medium", "high")


class Script:
    """A model that says what it was told, see :class:`agentwire.provider.Provider`."""

    name = "script"
    thinking = True

    def __init__(self, settings: ProviderSettings) -> None:
        """Reads the script; raises :class:`ConfigError` if there is none or it is wrong."""
        options = read_quirks(ScriptOptions, settings, self.name)
        given = options.script or _path(settings.base_url)
        if not given:
            raise ConfigError("the script provider needs the option 'script', the path of a file with its replies")
        self.model = settings.model or DEFAULT_MODEL
        self.effort_levels = options.effort_levels
        self._path = Path(given).expanduser()
        self._replies = read_script(self._path)
        if not self._replies:
            raise ConfigError(f"script {self._path} holds no reply")
        self._left = list(self._replies)
        self._repeat = options.repeat
        self._made = 0

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Play the next reply that fits ``request``."""
        import trio  # a provider is made before a server's first line, which does not wait for it

        await trio.lowlevel.checkpoint()
        canonical = lenient.encode(replace(request, session="", headers={}))
        emit(provenance(canonical, provider=self.name, model=request.model, messages=request.messages))
        reply = self._next(request)
        usage = UNSET if reply.usage is None else reply.usage.reported
        if usage is not UNSET:
            emit(usage)
        played = _Played(emit, self)
        for number, step in enumerate(reply.steps, 1):
            if reply.delay_ms:
                await trio.sleep(reply.delay_ms / 1000)
            elif number % BREATH == 0:
                await trio.lowlevel.checkpoint()
            if step.delay_ms is not UNSET:
                await trio.sleep(step.delay_ms / 1000)
            else:
                played.play(step)
        if (error := reply.error) is not None:
            raise ProviderError(
                error.message,
                kind=error.kind,
                retryable=error.retryable,
                status=error.status,
                retry_after_ms=error.retry_after_ms,
                usage=usage,
            )
        return played.completion(usage, reply.finish_reason)

    async def aclose(self) -> None:
        """Nothing is open."""

    def make_id(self) -> str:
        """An id for a call that has none."""
        self._made += 1
        return f"call_{self._made}"

    def _next(self, request: ModelRequest) -> ScriptedReply:
        if not self._left and self._repeat:
            self._left = list(self._replies)
        said = _last_words(request.messages)
        for position, reply in enumerate(self._left):
            if reply.match in said:
                return self._left.pop(position)
        why = f"none of the {len(self._left)} replies left fits the request" if self._left else "no reply is left"
        raise ProviderError(f"The script {self._path} is used up: {why}.", kind="config")


class _Played:
    """What was played of one reply."""

    def __init__(self, emit: Emit, script: Script) -> None:
        self._emit = emit
        self._script = script
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[CallRef] = []

    def play(self, step: Step) -> None:
        if step.text:
            self._text.append(step.text)
            self._emit(TextDelta(step.text))
        elif step.reasoning:
            self._reasoning.append(step.reasoning)
            self._emit(ReasoningDelta(step.reasoning))
        elif (call := step.tool_call) is not UNSET:
            ref = CallRef(call.id or self._script.make_id(), call.name, call.arguments_text)
            self._calls.append(ref)
            if not ref.name:
                return  # a malformed call: known of only when the reply is whole
            self._emit(CallStarted(ref.call_id, ref.name))
            for piece in pieces(ref.arguments_text):
                self._emit(CallArgumentsDelta(ref.call_id, piece))

    def completion(self, usage: Usage | UnsetType, finish_reason: str) -> Completion:
        return Completion(
            "".join(self._text),
            "".join(self._reasoning),
            self._calls,
            usage,
            finish_reason or ("tool_calls" if self._calls else "stop"),
        )


def _last_words(messages: list[Message]) -> str:
    """The text of the last message that is not the model's."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            return message.text
        if not isinstance(message, AssistantMessage):
            return "\n".join(part.text for part in message.parts if isinstance(part, Text))
    return ""


def _path(base_url: str) -> str:
    if base_url.startswith("file:"):
        from urllib.request import url2pathname

        return url2pathname(urlsplit(base_url).path)
    return base_url
