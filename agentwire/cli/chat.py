"""``agentwire chat``: a person in a terminal as the host of an agent."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from agentwire.cli import DEFAULT_CODEC

if TYPE_CHECKING:
    from agentwire.host.screen import Screen

FAILED = 1


@click.command(context_settings={"ignore_unknown_options": False})
@click.option("--codec", default=DEFAULT_CODEC, help=f"The wire that the agent speaks. [{DEFAULT_CODEC}]")
@click.option("--prompt", "said", help="Say this one thing, show the turn, and leave.")
@click.option("--yes", is_flag=True, help="Approve whatever the agent asks.")
@click.option("--record", metavar="FILE", help="Record the wire, both directions; see `agentwire replay`.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Where the agent is started. [here]")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
def chat(codec: str, said: str | None, yes: bool, record: str | None, cwd: str | None, command: tuple[str, ...]) -> int:
    """Talk with an agent process: COMMAND is started and spoken to as its host.

    Ctrl-C stops the running turn; Ctrl-C without one, or the end of input, leaves.
    """
    import trio
    from rich.console import Console

    from agentwire.host.process import AgentDied
    from agentwire.host.screen import Screen
    from agentwire.recording import RecordingError
    from agentwire.registry import UnknownName

    screen = Screen(Console(highlight=False, soft_wrap=True))
    try:
        return trio.run(_talk, screen, codec, command, said, yes, record, cwd)
    except UnknownName as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{shlex.join(command)} cannot be started: {error.strerror}") from None
    except (RecordingError, AgentDied, trio.TooSlowError) as error:
        text = "the agent did not get ready in time" if isinstance(error, trio.TooSlowError) else str(error)
        raise click.ClickException(text) from None


async def _talk(
    screen: Screen, codec: str, command: tuple[str, ...], said: str | None, yes: bool, record: str | None,
    cwd: str | None,
) -> int:  # fmt: skip
    from agentwire.host.chat import Chat
    from agentwire.host.connect import connect

    async with connect(command, codec=codec, record=record, cwd=cwd) as peer:
        chat = Chat(peer, screen, input, yes=yes)
        if said is None:
            await chat.run()
            return 0
        return 0 if await chat.turn(said) == "completed" else FAILED
