"""A timeline out of what a recording or a journal tells, one thing after another."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final

from agentwire import commands
from agentwire import events as bus
from agentwire.commands import Done, Refusal
from agentwire.log.record import Record
from agentwire.timeline import calls, turns
from agentwire.timeline.asides import aside
from agentwire.timeline.items import ORDERS, Item, Place, Timeline
from agentwire.timeline.story import Scribe, Story, Voice
from agentwire.timeline.titles import of_command, one_line
from agentwire.timeline.waiting import union


class Builder:
    """Makes ``timeline`` of what it is given; :meth:`close` ends it. ``keep``: items keep what was told of them.

    It never fails on a log, however odd: what ends without having begun happened at once, and what began without an
    end lasts until its turn, or the source, ends.
    """

    def __init__(self, timeline: Timeline, *, keep: bool = False) -> None:
        self.timeline = timeline
        self._scribe = Scribe(timeline, keep=keep)
        self._told = array("b")
        """How many things each entry told so far."""
        self._stories: dict[str, Story] = {}
        self._commands: dict[int, Item] = {}
        self._at = self._began = 0
        self._some = False

    def passed(self, who: str, at: int) -> None:
        """An entry of the recording, before what it tells."""
        lines = self.timeline.totals.lines
        lines[who] = lines.get(who, 0) + 1
        if not self._some:
            self._began, self._some = at, True
        if at:
            self.timeline.timed = True
            self._at = max(self._at, at)

    def record(self, session: str, record: Record, at: int, source: int) -> None:
        """A record of a session's log."""
        place = self._place(at, source)
        story = self._story(session)
        event = record.event
        voice = story.voice(record.origin)
        if voice.streams or voice.retry is not None or voice.parked is not None:
            self._settle(story, voice, event, place)
        handler = _HANDLERS.get(type(event), aside)
        handler(self._scribe, story, voice, record, place)

    def asked(
        self, command: commands.Command | None, refusal: Refusal | None, number: int, at: int, source: int
    ) -> None:
        """A command of the host; ``number`` 0: its outcome will not be told."""
        self._scribe.heard_host = True
        place = self._place(at, source)
        session = getattr(command, "session", "")
        title = of_command(command)
        item = self._scribe.add(None, Item("command", "host", title, at, at, place.order, place.order, session), place)
        self._scribe.told(item, place, command if command is not None else refusal)
        if refusal is not None:
            item.status, item.note = "refused", one_line(refusal.message)
        elif number:
            self._commands[number] = item
        if isinstance(command, commands.Prompt):
            self._story(session).prompt = title.partition(": ")[2]
        elif isinstance(command, commands.AnswerHostTool):
            for story in self._stories.values():
                self._scribe.end(story.host_tools.pop(command.request_id, None), place)

    def settled(self, number: int, result: Done | Refusal, at: int, source: int) -> None:
        """The outcome of a command."""
        place = self._place(at, source)
        item = self._commands.pop(number, None)
        if item is None:
            return
        self._scribe.told(item, place, result)
        if isinstance(result, Refusal):
            item.status, item.note = "refused", one_line(result.message)

    def close(self) -> Timeline:
        """Nothing more is told."""
        place = self._place(self._at, -1)
        for story in self._stories.values():
            if story.turn is not None:
                turns.end_turn(self._scribe, story, place, "", "")
            for voice in story.voices.values():
                turns.end_voice(self._scribe, voice, place)
        found = self.timeline
        found.items.sort(key=_first)
        for turn in found.turns:
            turn.items.sort(key=_first)
        for item in found.items:
            if item.pieces:
                item.title = one_line(item.title)
        totals = found.totals
        totals.duration = self._at - self._began
        ran = union((turn.item.start, turn.item.end) for turn in found.turns)
        totals.idle = max(0, totals.duration - sum(end - start for start, end in ran))
        found.sessions = [key for key in self._stories if key]
        return found

    def _settle(self, story: Story, voice: Voice, event: bus.Event, place: Place) -> None:
        """What an event shows to be over."""
        if voice.streams:
            keep = _GOES_ON.get(type(event))
            key = f"call {event.call_id}" if keep == "call" else keep  # type: ignore[attr-defined]
            if type(event) not in _BESIDE and list(voice.streams) != [key]:
                voice.streams = {name: item for name, item in voice.streams.items() if name == key}
        if voice.retry is not None and type(event) not in _BESIDE:
            self._scribe.end(voice.retry, place)
            story.busy.setdefault("retry", []).append((voice.retry.start, place.at))
            voice.retry = None
        if voice.parked is not None and isinstance(event, bus.StepStarted):
            turns.unpark(story, voice, place)

    def _story(self, session: str) -> Story:
        story = self._stories.get(session)
        if story is None:
            story = self._stories[session] = Story(session)
        return story

    def _place(self, at: int, source: int) -> Place:
        """The place of the next thing that an entry tells; ``source`` -1: that there are no more entries."""
        told = self._told
        if source < 0:
            return Place(at, ORDERS * len(told), source)
        while len(told) <= source:
            told.append(0)
        number = told[source]
        if number < ORDERS - 1:
            told[source] = number + 1
        return Place(at, ORDERS * source + number, source)


def _first(item: Item) -> int:
    return item.first


_GOES_ON: Final[dict[type[Any], str]] = {
    bus.TextDelta: "text",
    bus.ReasoningDelta: "reasoning",
    bus.CallArgumentsDelta: "call",
}
"""Which stream an event is a piece of."""

_BESIDE: Final = frozenset({bus.RequestSent, bus.Notice, bus.Unknown, bus.CapabilitiesChanged, bus.CallOutputDelta})
"""Events that may come in between and end nothing."""

_Handler = Callable[[Scribe, Story, Voice, Record, Place], None]

_HANDLERS: Final[dict[type[Any], _Handler]] = {
    bus.TurnStarted: turns.turn_started,
    bus.TurnFinished: turns.turn_finished,
    bus.StepStarted: turns.step_started,
    bus.StepFinished: turns.step_finished,
    bus.RequestSent: turns.request,
    bus.TextDelta: turns.text,
    bus.ReasoningDelta: turns.text,
    bus.CallStarted: turns.call_started,
    bus.CallArgumentsDelta: turns.arguments,
    bus.CallReady: calls.call_ready,
    bus.CallRunning: calls.running,
    bus.CallOutputDelta: calls.output,
    bus.CallFinished: calls.call_ended,
    bus.CallCancelled: calls.call_ended,
    bus.ApprovalRequested: calls.approval_requested,
    bus.ApprovalResolved: calls.approval_resolved,
    bus.HostToolRequested: calls.host_tool,
    bus.HostToolCancelled: calls.host_tool_cancelled,
    bus.RetryScheduled: turns.retry,
    bus.CompactionStarted: turns.compaction,
    bus.CompactionFinished: turns.compaction,
    bus.CompactionFailed: turns.compaction,
    bus.SubagentQueued: calls.subagent,
    bus.SubagentStarted: calls.subagent,
    bus.SubagentFinished: calls.subagent,
    bus.Parked: turns.parked,
}
