"""A recording in the place of an agent of another wire: our own server, whose agent does what was recorded.

The host has a real server before it: sessions, modes, stops, answers to its questions. Only the turns are the
recording's, one after the other, whichever session asks; what the host decides is waited for.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import trio
from msgspec import UNSET
from msgspec.structs import replace

from agentwire import events as bus
from agentwire.agent.turn import Turn
from agentwire.approvals import Decision, Question, new_approval_id
from agentwire.codec.contract import Codec
from agentwire.codec.fidelity import MARKS, tag
from agentwire.options import ServeOptions
from agentwire.recording import Recording
from agentwire.registry import load_codec
from agentwire.replay.pace import Pace
from agentwire.replay.places import placed
from agentwire.replay.standing_in import DIVERGED
from agentwire.serving import serve
from agentwire.tools.contract import ToolError, ToolResult
from agentwire.transcode import Logged, LogReader, Read

NO_MORE: Final = "The recording holds no further turn"

_PASSED_OVER: Final = (bus.TurnStarted, bus.HostToolCancelled)
"""Events of a turn that our server says itself."""

NOT_CARRIED: Final = "the host was asked to run its tool '{name}'; {codec} has no word for that, and it is not carried"


def act(recording: Recording, source: Codec, target: str, pace: Pace, *, lenient: bool = False) -> int:
    """Serve a recording on another wire until the host is gone. The exit status.

    Raises :class:`agentwire.recording.RecordingError`.
    """
    actor = Actor(recording, source, pace, load_codec(target), lenient=lenient)
    status = serve(actor, ServeOptions(codec=target, ephemeral=True, log_level="error"))
    return DIVERGED if actor.diverged else status


class Scene:
    """One event of a turn, and where the recording has it."""

    __slots__ = ("at", "event", "line", "origin")

    def __init__(self, event: bus.AnyEvent, origin: str, at: int, line: int) -> None:
        self.event = event
        self.origin = origin
        self.at = at
        self.line = line


class Actor:
    """An agent that does in each turn what was recorded of the next one."""

    builtins = False

    def __init__(self, recording: Recording, codec: Codec, pace: Pace, target: Codec, *, lenient: bool = False) -> None:
        self._path = recording.path
        self._turns = _turns(recording, codec)
        self._pace = pace
        self._target = target.name
        self._lenient = lenient
        self.asks_host = target.fidelity().matrix()[tag(bus.HostToolRequested)] != MARKS["absent"]
        """The wire has a word for tools that the host runs."""
        self._not_carried: set[str] = set()
        self.diverged = False
        """The host did something else than recorded, and the replay has ended for that."""

    async def run(self, turn: Turn) -> None:
        """Play the next turn."""
        scenes = next(self._turns, None)
        if scenes is None:
            turn.fail(bus.ErrorInfo("config_error", NO_MORE))
            return
        await _Performance(self, turn, self._pace).play(scenes)

    def not_carried(self, scene: Scene, name: str) -> None:
        """Say, once for each tool, that the host is not asked to run it."""
        if name not in self._not_carried:
            self._not_carried.add(name)
            text = NOT_CARRIED.format(name=name, codec=self._target)
            print(f"replay: {self._path}, line {scene.line}: {text}", file=sys.stderr, flush=True)

    def astray(self, scene: Scene, what: str) -> None:
        """The host does something else: said, and (unless lenient) the end."""
        print(f"replay: {self._path}, line {scene.line}: {what}", file=sys.stderr, flush=True)
        if not self._lenient and not self.diverged:
            self.diverged = True
            os.kill(os.getpid(), signal.SIGTERM)  # our own server ends in good order


class _Performance:
    """One turn being played."""

    def __init__(self, actor: Actor, turn: Turn, pace: Pace) -> None:
        self._actor = actor
        self._turns = {"": turn}
        self._turn = turn
        self._pace = pace
        self._calls: dict[str, str] = {}
        """This session's ids of the recorded calls."""
        self._asked: dict[str, _Asked] = {}
        self._ready: dict[str, bus.CallReady] = {}
        """Calls that are under way, by this session's ids."""
        self._hosts: list[_HostTool] = []
        """Tools that the host was asked to run, and whose results have not been told yet."""

    async def play(self, scenes: Iterator[Scene]) -> None:
        """Play all of it; what the host was asked and has not answered is withdrawn at the end."""
        async with trio.open_nursery() as nursery:
            await self._play(scenes, nursery)
            nursery.cancel_scope.cancel()

    async def _play(self, scenes: Iterator[Scene], nursery: trio.Nursery) -> None:
        first = True
        for scene in scenes:
            if first:
                self._begin(scene)
                first = False
            if self._actor.diverged:
                await trio.sleep_forever()  # the server is about to stop this turn
            if delay := self._pace.delay(scene.at):
                await trio.sleep(delay)
            if isinstance(scene.event, bus.HostToolRequested):
                await self._ask_host(scene, scene.event, nursery)
                continue
            for tool in self._hosts:
                await tool.settled.wait()
            if isinstance(scene.event, bus.CallFinished):
                self._compare(scene, scene.event)
            if isinstance(scene.event, bus.TurnFinished) and not scene.origin:
                return await self._end(scene.event)
            if isinstance(scene.event, bus.ApprovalResolved):
                await self._decided(scene, scene.event)
            elif not isinstance(scene.event, _PASSED_OVER):
                turn = self._of(scene.origin)
                _DO.get(type(scene.event), _Performance._say)(self, turn, self._renamed(scene.event))
        return None

    def _begin(self, scene: Scene) -> None:
        self._pace.restart(scene.at)
        event = scene.event
        if not isinstance(event, bus.TurnStarted):
            return
        then = "\n".join(part.text for part in event.input if isinstance(part, bus.Text))
        if then and then != self._turn.prompt:
            self._actor.astray(scene, f"the host said {self._turn.prompt!r} where the recording has {then!r}")

    async def _end(self, event: bus.TurnFinished) -> None:
        turn = self._turn
        if turn.usage == bus.Usage():
            turn.add_usage(event.usage)
        if event.outcome == "cancelled":
            await trio.sleep_forever()  # the host stops it
        elif event.outcome == "limit":
            turn.limit = event.limit or "steps"
        elif event.outcome == "failed":
            turn.fail(event.error if event.error is not UNSET else bus.ErrorInfo("internal_error", "The turn failed"))

    # --- questions ---

    def _ask(self, turn: Turn, event: bus.ApprovalRequested) -> None:
        if not turn.session.policy.can_ask:
            return  # the wire has no word for a question: it goes on as it did
        own = replace(event, approval_id=new_approval_id())
        asked = self._asked[event.approval_id] = _Asked()

        def settled(decision: Decision) -> None:
            verdict: Any = "cancelled" if decision.cancelled else "allowed" if decision.allowed else "denied"
            scope = decision.scope if decision.allowed else ""
            turn.say(bus.ApprovalResolved(own.approval_id, own.call_id, verdict, scope, decision.by, decision.reason))
            asked.verdict = verdict
            asked.settled.set()

        turn.say(own)
        turn.session.approvals.ask(Question(own.approval_id, own.call_id, own.name, own.category, settled, turn.origin))

    async def _decided(self, scene: Scene, event: bus.ApprovalResolved) -> None:
        """Wait for the host to decide."""
        asked = self._asked.pop(event.approval_id, None)
        if asked is None:
            return
        await asked.settled.wait()
        self._pace.restart(scene.at)
        if asked.verdict != event.decision:
            self._actor.astray(scene, f"the host decided {asked.verdict} where the recording has {event.decision}")

    # --- tools of the host ---

    async def _ask_host(self, scene: Scene, event: bus.HostToolRequested, nursery: trio.Nursery) -> None:
        """Have the host run its tool. Several that follow one another run beside each other."""
        if not self._actor.asks_host:
            return self._actor.not_carried(scene, event.name)
        call_id = self._own(event.call_id) if event.call_id else self._call_of(event)
        self._hosts.append(tool := _HostTool(event.name, call_id))
        nursery.start_soon(tool.run, self._of(scene.origin or event.run_id), event)
        return await trio.lowlevel.checkpoint()  # it is asked now, before the next

    def _call_of(self, event: bus.HostToolRequested) -> str:
        """The call that a request is for, where its wire does not say: the first of these arguments."""
        taken = {tool.call_id for tool in self._hosts}
        wanted = _arguments(event)
        return next(
            (call_id for call_id, ready in self._ready.items() if call_id not in taken and _arguments(ready) == wanted),
            "",
        )

    def _compare(self, scene: Scene, event: bus.CallFinished) -> None:
        """Hold the host's result against the recorded one, which is what is told."""
        own = self._own(event.call_id)
        for tool in [tool for tool in self._hosts if tool.call_id in (own, "")][:1]:
            self._hosts.remove(tool)
            if tool.result is not None and tool.result.output != event.output:
                gave = f"the host's tool '{tool.name}' gave {tool.result.output!r}"
                self._actor.astray(scene, f"{gave} where the recording has {event.output!r}")

    # --- saying ---

    def _of(self, origin: str) -> Turn:
        """The turn, or a subagent's within it."""
        if origin not in self._turns:
            self._turns[origin] = self._turn.child(origin, [])
        return self._turns[origin]

    def _renamed(self, event: bus.AnyEvent) -> Any:
        """The event with ids of calls that are this session's own."""
        if isinstance(event, bus.StepFinished):
            return replace(event, calls=[replace(call, call_id=self._own(call.call_id)) for call in event.calls])
        call_id = getattr(event, "call_id", "")
        return replace(event, call_id=self._own(call_id)) if call_id else event

    def _own(self, call_id: str) -> str:
        if call_id not in self._calls:
            self._calls[call_id] = self._turn.unique_call_id(call_id)
        return self._calls[call_id]

    def _say(self, turn: Turn, event: bus.AnyEvent) -> None:
        turn.say(event)

    def _open(self, turn: Turn, event: bus.CallStarted | bus.CallReady) -> None:
        turn.say(event)
        if isinstance(event, bus.CallReady):
            self._ready[event.call_id] = event
        turn.open_calls[event.call_id] = event.name

    def _close(self, turn: Turn, event: bus.CallFinished | bus.CallCancelled) -> None:
        turn.open_calls.pop(event.call_id, None)
        self._ready.pop(event.call_id, None)
        turn.say(event)

    def _text(self, turn: Turn, event: bus.TextDelta) -> None:
        turn.text(event.text)

    def _reasoning(self, turn: Turn, event: bus.ReasoningDelta) -> None:
        turn.reasoning(event.text)

    def _begin_step(self, turn: Turn, event: bus.StepStarted) -> None:
        turn.begin_step(event.max)

    def _finish_step(self, turn: Turn, event: bus.StepFinished) -> None:
        turn.finish_step(
            text=event.text, reasoning=event.reasoning, calls=event.calls, usage=event.usage,
            finish_reason=event.finish_reason, provider=event.provider, items=event.items,
        )  # fmt: skip

    def _retry(self, turn: Turn, event: bus.RetryScheduled) -> None:
        turn.retry(event)

    def _error(self, turn: Turn, event: bus.ErrorRaised) -> None:
        turn.fail(event.error)


class _Asked:
    """A question that waits for the host."""

    def __init__(self) -> None:
        self.settled = trio.Event()
        self.verdict = ""


class _HostTool:
    """A tool that the host was asked to run."""

    def __init__(self, name: str, call_id: str) -> None:
        self.name = name
        self.call_id = call_id
        self.settled = trio.Event()
        self.result: ToolResult | None = None
        """None: it was withdrawn."""

    async def run(self, turn: Turn, event: bus.HostToolRequested) -> None:
        """Ask, and wait for the answer."""
        try:
            self.result = await turn.toolbox.host.request(turn, self.call_id, self.name, _arguments(event) or {})
        except ToolError:
            self.result = None
        self.settled.set()


def _arguments(event: bus.HostToolRequested | bus.CallReady) -> Any:
    return None if event.arguments is UNSET else msgspec.json.decode(event.arguments)


_DO: Final[dict[type[bus.Event], Callable[[_Performance, Turn, Any], None]]] = {
    bus.ApprovalRequested: _Performance._ask,
    bus.CallStarted: _Performance._open,
    bus.CallReady: _Performance._open,
    bus.CallFinished: _Performance._close,
    bus.CallCancelled: _Performance._close,
    bus.TextDelta: _Performance._text,
    bus.ReasoningDelta: _Performance._reasoning,
    bus.StepStarted: _Performance._begin_step,
    bus.StepFinished: _Performance._finish_step,
    bus.RetryScheduled: _Performance._retry,
    bus.ErrorRaised: _Performance._error,
}
"""How an event is said where plainly saying it is not enough."""


def _turns(recording: Recording, codec: Codec) -> Iterator[Iterator[Scene]]:
    """The turns of a recording, each as its events; a turn is held until it is over."""
    reader = LogReader(codec, started=recording.header.started)
    open_: dict[str, list[Scene]] = {}
    at = line = 0

    def over(read: Sequence[Read]) -> Iterator[Iterator[Scene]]:
        for item in read:
            if not isinstance(item, Logged) or not item.record.turn:
                continue
            record = item.record
            scenes = open_.setdefault(item.session, [])
            scenes.append(Scene(record.event, record.origin, at, line))
            if isinstance(record.event, bus.TurnFinished) and not record.origin:
                yield iter(open_.pop(item.session))

    for place in placed(recording):
        at, line = place.entry.at, place.line
        yield from over(reader.feed(place.entry))
    yield from over(reader.close())
