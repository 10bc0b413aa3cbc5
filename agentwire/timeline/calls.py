"""Calls, questions about them, and subagents."""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType

from agentwire import events as bus
from agentwire.log.record import Record
from agentwire.timeline.asides import aside
from agentwire.timeline.items import Place
from agentwire.timeline.story import Call, Question, Scribe, Story, Voice, count
from agentwire.timeline.titles import of_usage, one_line
from agentwire.timeline.turns import end_voice


def call_ready(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """A call is known; how long it takes counts from when it runs."""
    event: Any = record.event
    title = event.description or event.name or event.call_id
    if event.description and event.name and event.name not in event.description:
        title = f"{event.name}: {event.description}"
    item = scribe.begin(story, voice, "call", "tools", one_line(title), place, record)
    item.note = one_line(event.arguments_text)
    story.calls[event.call_id] = Call(item, asked=event.barred)


def running(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The tool starts."""
    call = _call(scribe, story, voice, record, place)
    scribe.told(call.item, place, record)
    if not call.ran:
        call.ran = True
        call.item.start, call.item.first = place.at, place.order


def output(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """A piece of what the tool says meanwhile."""
    event: Any = record.event
    scribe.joined(_call(scribe, story, voice, record, place).item, event.delta, record, place)


def call_ended(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The call is over, well or badly. One that never ran took no time."""
    event: Any = record.event
    call = _call(scribe, story, voice, record, place)
    del story.calls[event.call_id]
    item = call.item
    scribe.told(item, place, record)
    for approval_id in [name for name, asked in story.approvals.items() if asked.call_id == event.call_id]:
        question = story.approvals.pop(approval_id)  # nobody waits for its answer any more
        scribe.end(question.item, place, "cancelled")
        count(scribe.timeline.totals.questions, "cancelled")
        story.busy.setdefault("person", []).append((question.item.start, place.at))
    if not call.ran and (call.asked or isinstance(event, bus.CallCancelled)):
        item.start, item.first = place.at, place.order
    elif call.item.start < place.at:
        story.busy.setdefault("tools", []).append((item.start, place.at))
    if isinstance(event, bus.CallCancelled):
        scribe.end(item, place, event.cause, one_line(event.reason or event.output) or item.note)
    else:
        if not isinstance(event.duration_ms, UnsetType):
            item.told_ms = event.duration_ms
        bad = event.status == "error"
        scribe.end(item, place, "error" if bad else "", one_line(event.output) if bad else item.note)
    count(scribe.timeline.totals.calls, item.status or "ok")
    voice.ready = place


def approval_requested(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """Somebody is asked."""
    event: Any = record.event
    call = story.calls.get(event.call_id)
    title = call.item.title if call is not None else event.name
    if call is not None:
        call.asked = True
    item = scribe.begin(story, voice, "approval", "approvals", one_line(title), place, record)
    item.note = one_line(event.command or event.path)
    story.approvals[event.approval_id] = Question(item, event.call_id)


def approval_resolved(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The question is settled."""
    event: Any = record.event
    question = story.approvals.pop(event.approval_id, None)
    if question is not None:
        item = question.item
    else:
        item = scribe.begin(story, voice, "approval", "approvals", "a question", place, None)
    scribe.told(item, place, record)
    call = story.calls.get(event.call_id)
    if call is not None and not call.ran and event.decision == "allowed":
        call.asked = False  # from now on it runs, on wires that do not tell when it does
        call.item.start, call.item.first = place.at, place.order
    note = " ".join(part for part in (event.by and f"by {event.by}", event.scope, event.reason) if part)
    scribe.end(item, place, "" if event.decision == "allowed" else event.decision, one_line(note) or item.note)
    story.busy.setdefault("person", []).append((item.start, place.at))
    count(scribe.timeline.totals.questions, event.decision)


def host_tool(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The host runs a tool of its own."""
    event: Any = record.event
    item = scribe.begin(story, voice, "host_tool", "host", one_line(f"host runs {event.name}"), place, record)
    story.host_tools[event.request_id] = item


def host_tool_cancelled(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """The host need not answer any more."""
    event: Any = record.event
    item = story.host_tools.pop(event.request_id, None)
    if item is None:
        aside(scribe, story, voice, record, place)
        return
    scribe.told(item, place, record)
    scribe.end(item, place, event.reason)


def subagent(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """A subagent waits, begins or ends."""
    event: Any = record.event
    item = story.subagents.get(event.run_id)
    if item is None:
        title = one_line(f"{event.name}: {getattr(event, 'task', '')}".rstrip(": "))
        item = scribe.begin(story, voice, "subagent", "subagents", title, place, None)
        item.origin = event.run_id
        story.subagents[event.run_id] = item
        scribe.timeline.totals.subagents += 1
    scribe.told(item, place, record)
    if isinstance(event, bus.SubagentFinished):
        del story.subagents[event.run_id]
        inner = story.voices.pop(event.run_id, None)
        if inner is not None:
            end_voice(scribe, inner, place)
        scribe.end(item, place, "error" if event.error else "", one_line(event.error) or of_usage(event.usage))
    elif isinstance(event, bus.SubagentStarted):
        item.note = ""
        story.voice(event.run_id).ready = place
    else:
        item.note = f"waits for a free place, number {event.waiting}"


def _call(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> Call:
    """The call that an event is about; a call that was never told of begins with it."""
    event: Any = record.event
    call = story.calls.get(event.call_id)
    if call is None:
        name = getattr(event, "name", "") or event.call_id
        call = Call(scribe.begin(story, voice, "call", "tools", one_line(name), place, None))
        story.calls[event.call_id] = call
    return call
