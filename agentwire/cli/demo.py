"""``agentwire demo``: an offline agent and a host, each a process of its own, and the pipe between them.

The agent is ``agentwire serve`` on a scripted model; the host is :func:`agentwire.connect`. Nothing is simulated but
the model: the tool runs, the approval is asked and given over the wire.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from agentwire.events import ApprovalRequested
    from agentwire.host.wire_view import WireView

SCRIPT = Path(__file__).with_name("demo.jsonl")
QUESTION = "What is in notes.txt? Please add 'try agentwire' to it."
NOTES = "- call the dentist\n- water the plants\n"


@click.command()
@click.option("--codec", default="aionrs", show_default=True, help="The wire between the two.")
@click.option("--ask", is_flag=True, help="Let me answer the approvals; else the demo says yes.")
@click.option("--wire/--no-wire", default=True, help="Show afterwards what stood on the wire.")
def demo(codec: str, ask: bool, wire: bool) -> int:
    """Watch an offline agent and a host talk: no key, no network.

    First as a person at the host sees it, then the same conversation as it stood on the wire.
    """
    import trio
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="agentwire-demo-") as directory:
        notes = Path(directory, "notes.txt")
        notes.write_text(NOTES, encoding="utf-8")
        view = trio.run(_talk, console, directory, codec, ask)
        console.print("\nnotes.txt now:", style="bold")
        console.print(notes.read_text(encoding="utf-8"), markup=False, end="")
    if wire:
        console.print(f"\nThe same on the wire ({codec}), line by line:", style="bold")
        view.print(console)
    return 0


async def _talk(console: Console, workspace: str, codec: str, ask: bool) -> WireView:
    from agentwire.host.connect import connect
    from agentwire.host.screen import Screen
    from agentwire.host.wire_view import WireView

    screen, view = Screen(console), WireView()
    argv = [
        sys.executable, "-m", "agentwire", "serve", "--codec", codec, "--provider", "script",
        "--provider-option", f"script={SCRIPT}", "--workspace", workspace, "--ephemeral", "--allow", "info",
    ]  # fmt: skip

    def answer(question: ApprovalRequested) -> bool:
        allowed = click.confirm("Let it run?", default=True) if ask else True
        screen.answered(question, allowed)
        return allowed

    console.print(f"The host starts `agentwire {' '.join(argv[3:8])} ...`", style="dim", markup=False)
    async with connect(argv, codec=codec, on_approval=answer, tap=view.take) as peer:
        screen.say("you", QUESTION)
        async for event in peer.prompt(QUESTION):
            screen.event(event)
    return view
