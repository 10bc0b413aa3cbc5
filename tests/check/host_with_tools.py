"""Our own host with a tool of its own: a program that opens a session, says one thing and leaves."""

from __future__ import annotations

import sys

import trio

from agentwire import connect
from agentwire.events import HostTool, TurnFinished


async def main(argv: list[str]) -> int:
    """The status is 0 if the turn was completed."""
    tool = HostTool("agentwire_probe", "Repeats a text.", {"type": "object", "properties": {}}, capability="read")
    outcome = ""
    async with connect(argv, codec="jan", on_approval=lambda question: True) as peer:
        session = await peer.open(tools=[(tool, lambda arguments: "ok")])
        async for event in session.prompt("hi"):
            if isinstance(event, TurnFinished):
                outcome = event.outcome
    return 0 if outcome == "completed" else 1


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1:]))
