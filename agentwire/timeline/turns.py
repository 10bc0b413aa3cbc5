"""Turns, steps, and what streams in them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from agentwire import events as bus
from agentwire.log.record import Record
from agentwire.timeline.asides import aside
from agentwire.timeline.items import Item, Place, Turn
from agentwire.timeline.story import Scribe, Story, Voice, count
from agentwire.timeline.titles import LONGEST, of_parts, of_usage, one_line
from agentwire.timeline.waiting import shares


def turn_started(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """A turn begins; of a subagent it is told only."""
    event: Any = record.event
    if voice.origin:
        aside(scribe, story, voice, record, place)
        return
    if story.turn is not None:
        end_turn(scribe, story, place, "", "")
    story.number = record.turn or story.number + 1
    said = of_parts(event.input)
    title = said or story.prompt or f"turn {story.number}"
    if said and not scribe.heard_host:
        asked = Item("input", "host", title, place.at, place.at, place.order, place.order)
        scribe.told(scribe.add(story, asked, place), place, record)
    item = Item("turn", "agent", title, place.at, place.at, place.order, place.order)
    scribe.told(scribe.add(story, item, place), place, record)
    story.prompt = ""
    story.turn = Turn(item)
    story.busy = {}
    voice.ready = place
    scribe.timeline.turns.append(story.turn)


def turn_finished(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The turn ends, and what it waited for is known."""
    event: Any = record.event
    if voice.origin or story.turn is None:
        aside(scribe, story, voice, record, place)
        return
    turn = story.turn
    scribe.told(turn.item, place, record)
    if event.usage == bus.Usage():
        event = bus.TurnFinished(event.outcome, usage=turn.usage, error=event.error)
    turn.usage = event.usage
    note = event.error.message if event.error is not UNSET else of_usage(event.usage)
    end_turn(scribe, story, place, event.outcome, one_line(note))


def end_turn(scribe: Scribe, story: Story, place: Place, outcome: Any, note: str) -> None:
    """End the turn under way and everything in it; ``outcome`` empty: nobody said how it ended."""
    turn = story.turn
    if turn is None:
        return
    for voice in story.voices.values():
        end_voice(scribe, voice, place)
        unpark(story, voice, place)
    for question in story.approvals.values():
        scribe.end(question.item, place)
        story.busy.setdefault("person", []).append((question.item.start, place.at))
    for call in story.calls.values():
        scribe.end(call.item, place)
        if call.ran:
            story.busy.setdefault("tools", []).append((call.item.start, place.at))
    for items in (story.host_tools, story.subagents):
        for item in items.values():
            scribe.end(item, place)
        items.clear()
    story.approvals.clear()
    story.calls.clear()
    scribe.end(turn.item, place, "" if outcome == "completed" else outcome or "failed", note)
    turn.outcome = outcome
    if scribe.timeline.timed:
        turn.waits = shares(turn.item.start, turn.item.end, story.busy)
    totals = scribe.timeline.totals
    count(totals.turns, outcome or "unfinished")
    totals.usage += turn.usage
    for wait, spent in turn.waits.items():
        totals.waits[wait] = totals.waits.get(wait, 0) + spent
    story.turn = None


def step_started(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The model is asked."""
    event: Any = record.event
    scribe.end(voice.step, place)
    title = f"step {event.index + 1}" + (f" of at most {event.max}" if event.max else "")
    voice.step = scribe.begin(story, voice, "step", "model", title, place, record)


def step_finished(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The model's reply is complete."""
    event: Any = record.event
    step = voice.step or scribe.begin(story, voice, "step", "model", f"step {event.index + 1}", place, None)
    voice.step = None
    scribe.told(step, place, record)
    scribe.timeline.totals.steps += not voice.origin
    if event.usage is not UNSET and story.turn is not None and not voice.origin:
        story.turn.usage += event.usage
    usage = of_usage(event.usage) if event.usage is not UNSET else ""
    note = ", ".join(part for part in (step.note, usage, event.finish_reason) if part)
    scribe.end(step, place, "limit" if event.finish_reason == "length" else "", note)


def request(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """What was asked of the model belongs to its step."""
    if voice.step is None:
        aside(scribe, story, voice, record, place)
    else:
        scribe.told(voice.step, place, record)


def text(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """A piece of the answer or of the reasoning."""
    event: Any = record.event
    kind = "text" if isinstance(event, bus.TextDelta) else "reasoning"
    stream(scribe, story, voice, kind, kind, event.text, record, place)


def call_started(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The model begins to write a call."""
    event: Any = record.event
    from_waiting(scribe, voice, place)
    item = scribe.begin(story, voice, "arguments", "model", f"writes {event.name} ", place, record)
    voice.streams[f"call {event.call_id}"] = item


def arguments(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """A piece of a call's arguments."""
    event: Any = record.event
    stream(scribe, story, voice, f"call {event.call_id}", "arguments", event.delta, record, place)


def retry(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """A pause before the model is asked again: until anything else is told."""
    event: Any = record.event
    title = one_line(f"retry {event.attempt} of {event.of}: {event.reason}")
    voice.retry = scribe.begin(story, voice, "retry", "model", title, place, record)
    voice.retry.status = "retry"
    voice.retry.note = f"waits {event.delay_ms} ms"
    scribe.timeline.totals.retries += 1


def compaction(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """A summary is being made, or is there."""
    event: Any = record.event
    if isinstance(event, bus.CompactionStarted):
        scribe.end(voice.compaction, place)
        title = one_line(f"compaction: {event.reason}")
        voice.compaction = scribe.begin(story, voice, "compaction", "model", title, place, record)
        return
    item = voice.compaction or scribe.begin(story, voice, "compaction", "model", "compaction", place, None)
    voice.compaction = None
    scribe.told(item, place, record)
    failed = isinstance(event, bus.CompactionFailed)
    scribe.end(item, place, "failed" if failed else "", one_line(event.error if failed else event.summary))
    voice.ready = place


def parked(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The turn waits for its subagents."""
    voice.parked = place
    aside(scribe, story, voice, record, place)


def unpark(story: Story, voice: Voice, place: Place) -> None:
    """The turn goes on."""
    if voice.parked is not None:
        story.busy.setdefault("subagents", []).append((voice.parked.at, place.at))
        voice.ready, voice.parked = place, None


def end_voice(scribe: Scribe, voice: Voice, place: Place) -> None:
    """Whatever an agent was about is over."""
    for item in (voice.step, voice.retry, voice.compaction):
        scribe.end(item, place)
    voice.step = voice.retry = voice.compaction = None
    voice.streams = {}


def stream(
    scribe: Scribe, story: Story, voice: Voice, key: str, kind: str, piece: str, record: Record, place: Place
) -> None:
    """A piece of something that streams: one item for all that follow one another."""
    item = voice.streams.get(key)
    if item is None:
        from_waiting(scribe, voice, place)
        item = scribe.begin(story, voice, kind, "model", "", place, None)
        voice.streams[key] = item
    scribe.joined(item, piece, record, place)
    if len(item.title) < LONGEST:
        item.title += piece[:LONGEST]
    scribe.end(item, place)


def from_waiting(scribe: Scribe, voice: Voice, place: Place) -> None:
    """The first sign of a reply whose step the wire does not tell: it was waited for since there was nothing else."""
    step = voice.step
    if step is None or step.pieces or (voice.ready.source < 0 and not voice.ready.order):
        return
    step.pieces = 1
    if step.sources[-1:] == [place.source] and voice.ready.at < step.start:
        step.start, step.first = voice.ready.at, voice.ready.order
    if scribe.timeline.timed and place.at > step.start:
        step.note = f"first piece after {(place.at - step.start) / 1e6:.2f} s"
