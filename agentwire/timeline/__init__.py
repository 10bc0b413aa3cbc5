"""What happened in a recording or a session, to be looked at rather than read.

:func:`open_source` finds out what a file is; :func:`timeline_of` makes a :class:`Timeline` of it: turns, steps, calls,
questions and waiting, each with its times and where it stands in the file. :func:`agentwire.timeline.terminal.show`
prints one; :func:`agentwire.timeline.page.write_page` makes a page of it that needs nothing but a browser.
"""

from __future__ import annotations

from agentwire.timeline.building import Builder
from agentwire.timeline.items import LANES, Item, Lane, Timeline, Totals, Turn, Wait
from agentwire.timeline.sources import JournalSource, RecordingSource, Source, open_source, timeline_of

__all__ = [
    "LANES",
    "Builder",
    "Item",
    "JournalSource",
    "Lane",
    "RecordingSource",
    "Source",
    "Timeline",
    "Totals",
    "Turn",
    "Wait",
    "open_source",
    "timeline_of",
]
