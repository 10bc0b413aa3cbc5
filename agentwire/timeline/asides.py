"""What happens at once, beside anything that takes a while."""

from __future__ import annotations

from typing import Any, Final

from agentwire import events as bus
from agentwire.log.record import Record
from agentwire.timeline.items import Lane, Place
from agentwire.timeline.story import Scribe, Story, Voice
from agentwire.timeline.titles import of_event, tag


def aside(scribe: Scribe, story: Story, voice: Voice, record: Record, place: Place) -> None:
    """Something that happens at once."""
    event: Any = record.event
    lane = _LANES.get(type(event), "agent")
    item = scribe.begin(story, voice, tag(event), lane, of_event(event), place, record)
    item.status = _STATUS.get(type(event), "")
    if isinstance(event, bus.Notice) and event.level == "warning":
        item.status = "warning"
    scribe.timeline.totals.errors += item.status == "error"
    if isinstance(event, bus.UserJoined):
        voice.ready = place


_LANES: Final[dict[type[Any], Lane]] = {
    bus.UserJoined: "host",
    bus.ContextAdded: "host",
    bus.HostToolsChanged: "host",
    bus.RequestSent: "model",
    bus.HostToolDetails: "tools",
    bus.McpServerReady: "tools",
    bus.McpServerFailed: "tools",
}

_STATUS: Final[dict[type[Any], str]] = {bus.ErrorRaised: "error", bus.McpServerFailed: "error"}
