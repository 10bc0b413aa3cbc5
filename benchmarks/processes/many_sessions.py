"""How much a session takes of the memory of the process that has it: many are opened and resident memory is read.

Arguments: ``rest`` or ``asked`` (a turn runs, and one call of it waits for an approval); how many sessions at the
first reading; how many at the second. Says the growth between the two, in bytes per session.
"""

import gc
import os
import subprocess
import sys
import tempfile
from typing import Any

import trio

from agentwire import Agent
from agentwire.commands import Prompt
from agentwire.events import CallRef, Usage
from agentwire.opening import open_session
from agentwire.provider.contract import Completion, Emit, ModelRequest
from agentwire.server.runtime import make_runner
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire_aionrs import codec


class Asking:
    """A model that wants to run a program, whatever it is told."""

    name = "asking"
    model = "test-model"
    thinking = False
    effort_levels: tuple[str, ...] = ()

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """One call."""
        await trio.lowlevel.checkpoint()
        call = CallRef("call_1", "ExecCommand", '{"cmd":"make test"}')
        return Completion(calls=[call], usage=Usage(900, 20), finish_reason="tool_calls")

    async def aclose(self) -> None:
        """Nothing is open."""


def resident() -> int:
    """Resident memory of this process in bytes."""
    gc.collect()
    listed = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], check=True, capture_output=True, text=True)
    return int(listed.stdout) * 1024


def opened(workspace: str) -> Session:
    """A new session without a journal."""
    return open_session(None, SessionSettings(workspace=workspace, model="test-model"), codec.policy, Asking())


async def grow(asked: bool, first: int, second: int) -> float:
    """Bytes per session."""
    sessions: list[Any] = []
    found = {}
    with tempfile.TemporaryDirectory() as workspace:
        async with trio.open_nursery() as nursery:
            agent = Agent()
            for count in (first, second):
                while len(sessions) < count:
                    session = opened(workspace)
                    if asked:
                        runner = make_runner(session, agent, nursery)
                        runner.prompt(Prompt("Run the tests", "m1"), "host")
                        sessions.append(runner)
                        if len(sessions) % 64 == 0 or len(sessions) == count:
                            while session.active is not None and not session.approvals.open:
                                await trio.lowlevel.checkpoint()
                    else:
                        sessions.append(session)
                found[count] = resident()
            if asked and not all(len(runner.session.approvals.open) == 1 for runner in sessions):
                raise AssertionError("a session does not wait for an approval")
            nursery.cancel_scope.cancel()
    return (found[second] - found[first]) / (second - first)


if __name__ == "__main__":
    state, first, second = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(trio.run(grow, state == "asked", first, second))
