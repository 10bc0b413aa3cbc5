"""What an agent was given, for a recording: each reply of a model and each result of a tool, as they came.

With these beside the wire a recording can be done again without a model and without running anything (``agentwire
replay --verify``). A reply is kept twice: as the service sent it (:mod:`agentwire.agent.replies`), if it came over
HTTP, and in the bus's own words, as the provider read it. Of the request nothing is kept, no header and no key.
"""

from __future__ import annotations

import base64
import copy
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import UNSET, Raw

from agentwire.agent.host_tools import HostToolCall
from agentwire.agent.replies import Replies
from agentwire.events import Diff
from agentwire.log.errors import StoreError
from agentwire.provider.contract import Completion, Emit, ModelRequest, Provider, ProviderError, StreamEvent
from agentwire.provider.hearing import LISTENER
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult

if TYPE_CHECKING:
    from agentwire.commands import SessionState
    from agentwire.recording import Recorder
    from agentwire.store import SessionStore

logger = logging.getLogger("agentwire.recording")

FACTS: Final = ("name", "category", "overlaps", "output_limit", "gate")
"""What planning a call asks its tool, beside what depends on the arguments."""

PIECE: Final = 1 << 20
"""Bytes of a journal that an entry holds, about."""


def stands_in(tool: Tool | None) -> bool:
    """Whether a recording can stand in for a tool: not for the host's own, which it answers itself, nor for those that
    start subagents, which are turns like any."""
    return tool is None or not (isinstance(tool, HostToolCall) or tool.starts_subagents)


class Witness:
    """Records what passes between an agent and what it works with."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._requests = count(1)
        self._providers: set[str] = set()
        self._sessions: set[str] = set()
        """Those that need not be recorded any more."""

    def begins(self, about: dict[str, Any]) -> None:
        """Record what the server was told, without its secrets."""
        self._recorder.aside("note", {"setup": about})

    def provider(self, provider: Provider, asked: str, model: str) -> Provider:
        """The provider, its replies recorded; ``asked``: the model that a host wanted, ``model``: its name there."""
        about = {
            "asked": asked, "serves": model, "name": provider.name, "model": provider.model,
            "thinking": provider.thinking, "effort_levels": list(provider.effort_levels),
        }  # fmt: skip
        if repr(about) not in self._providers:
            self._providers.add(repr(about))
            self._recorder.aside("note", {"provider": about})
        return cast(Provider, _Provider(provider, self))

    def tool(self, name: str, found: Tool | None) -> Tool | None:
        """The tool of a call, its answers recorded."""
        return _Called(found, self) if found is not None and stands_in(found) else found

    def opened(self, session: str) -> None:
        """A session was opened: from now on the recording tells of it."""
        self._sessions.add(session)

    def takes_up(self, store: SessionStore, session: str, *, latest_of: str = "", whole: bool = True) -> None:
        """Record a stored session (or the newest one of the workspace ``latest_of``) as it is, before it is taken up,
        unless the recording has told of it already; if it is not ``whole``, then that it is there.

        A journal that is not there, or cannot be read, is not recorded: whoever takes it up is told.
        """
        try:
            session = store.latest(latest_of).id if latest_of else session
            if session in self._sessions:
                return
            with open(store.path(session), "rb") as journal:
                self._sessions.add(session)
                while lines := journal.readlines(PIECE) if whole else [journal.readline()]:
                    for piece in _pieces(lines):
                        self._recorder.aside("note", {"journal": session, **piece})
                    if not whole:
                        return
        except (OSError, StoreError) as error:
            logger.info("the session %s is not recorded: %s", session, error)

    def stored(self, sessions: Sequence[SessionState]) -> None:
        """Record which sessions were stored when a host asked."""
        self._recorder.aside("note", {"stored": sessions})

    def number(self) -> int:
        """The number of a model request: they count from 1."""
        return next(self._requests)

    def told(self, who: Any, about: dict[str, Any]) -> None:
        """Record something, unless the recording has ended."""
        self._recorder.aside(who, about)


class _Provider:
    """A provider whose replies are recorded."""

    def __init__(self, inner: Provider, witness: Witness) -> None:
        self._inner = inner
        self._witness = witness

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Send one request; see :class:`agentwire.provider.Provider`."""
        began = time.monotonic_ns()
        events: list[list[Any]] = []
        about: dict[str, Any] = {
            "request": self._witness.number(), "session": request.session, "provider": self._inner.name,
            "model": request.model,
        }  # fmt: skip

        def heard(event: StreamEvent) -> None:
            name = str(type(event).__struct_config__.tag or "usage")
            events.append([_since(began), name, Raw(msgspec.json.encode(event))])  # now: ids in it may yet change
            emit(event)

        replies = Replies(began)
        before = LISTENER.set(replies)
        try:
            completion = await self._inner.complete(request, heard)
            about["completion"] = completion
            return completion
        except ProviderError as error:
            about["error"] = {
                "message": error.message, "kind": error.kind, "retryable": error.retryable, "status": error.status,
                "retry_after_ms": error.retry_after_ms, "usage": error.usage,
                "config_kind": getattr(error.__cause__, "kind", ""),
            }  # fmt: skip
            if error.usage is UNSET:
                del about["error"]["usage"]
            raise
        except Exception as error:
            about["crashed"] = [type(error).__name__, str(error)]
            raise
        finally:  # also when it was stopped: what was heard until then is what the agent was given
            LISTENER.reset(before)
            if http := replies.told():
                about["http"] = http
            self._witness.told("model", {**about, "took": _since(began), "events": events})


class _Called(Tool):
    """A tool as one call finds it; what it says of the call is recorded."""

    def __init__(self, tool: Tool, witness: Witness) -> None:
        for name in (*FACTS, "description", "parameters", "starts_subagents", "mentions"):
            setattr(self, name, getattr(tool, name))
        self._tool = tool
        self._witness = witness
        self._names = {"session": "", "call_id": ""}
        self._facts: dict[str, Any] = {name: getattr(tool, name) for name in FACTS}

    def available(self, context: ToolContext) -> bool:
        """Whether it is offered; this is what a call asks first."""
        self._names = {"session": context.session, "call_id": context.call_id}
        self._facts["available"] = False
        self._facts["available"] = found = self._tool.available(context)
        return found

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """Files that the call touches."""
        self._facts["paths"] = None
        self._facts["paths"] = found = self._tool.paths(arguments)
        return found

    def describe(self, arguments: dict[str, Any]) -> str:
        """One line for a person; this is what a call asks last before it is judged."""
        self._facts["description"] = self.name
        try:
            self._facts["description"] = found = self._tool.describe(arguments)
        finally:
            self._tell(planned=self._facts)
        return found

    async def check(self, arguments: dict[str, Any] | None) -> str:
        """What is wrong with the arguments."""
        if found := await self._tool.check(arguments):
            self._tell(problem=found)
        return found

    def command(self, arguments: dict[str, Any]) -> str:
        """The command line a person is asked about."""
        if found := self._tool.command(arguments):
            self._tell(command=found)
        return found

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Diff | None:
        """The change the call would make."""
        if (found := await self._tool.preview(arguments, context)) is not None:
            self._tell(preview=found)
        return found

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Do it."""
        began = time.monotonic_ns()
        output: list[list[Any]] = []
        about: dict[str, Any] = {}
        live, show = copy.copy(context), context.output

        def heard(delta: str, stream: str) -> None:
            output.append([_since(began), delta, stream])
            show(delta, stream)

        live.output = heard
        try:
            result = await self._tool.run(arguments, live)
            about["result"] = _result(result)
            return result
        except ToolError as error:
            about["error"] = str(error)
            raise
        except (Exception, SystemExit) as error:
            about["crashed"] = [type(error).__name__, str(error)]
            raise
        finally:
            self._tell(**about, took=_since(began), output=output)

    def _tell(self, **about: Any) -> None:
        self._witness.told("tool", {**self._names, "name": self.name, **about})


def _pieces(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    """A journal's lines as they are kept; one that is not UTF-8 (it was torn) by itself."""
    told: list[str] = []
    for line in lines:
        try:
            told.append(line.decode())
        except UnicodeDecodeError:
            yield from filter(None, [{"lines": told} if told else {}, {"base64": base64.b64encode(line).decode()}])
            told = []
    if told:
        yield {"lines": told}


def _result(result: object) -> Any:
    """A result as JSON; of one that is none, what it is instead."""
    try:
        return Raw(msgspec.json.encode(result)) if isinstance(result, ToolResult) else {"output": repr(result)}
    except (TypeError, UnicodeEncodeError, msgspec.MsgspecError):
        return {"output": repr(result)}


def _since(began: int) -> int:
    """Microseconds."""
    return (time.monotonic_ns() - began) // 1000


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a server was told, less what could hold a key."""
    return {name: value for name, value in options.items() if name not in SECRET}


SECRET: Final = frozenset({"api_key", "base_url", "provider_options", "providers", "mcp_servers", "extra", "record"})
"""Options and settings that may hold keys or addresses with keys in them, or say nothing of how an agent behaves."""
