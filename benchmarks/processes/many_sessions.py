"""How much a session takes of the memory of the process that has it: many are opened and resident memory is read.

Arguments: ``rest`` or ``asked`` (a turn runs, and one call of it waits for an approval); how many sessions at the
first reading; how many at the second. Says the growth between the two, in bytes per session.
"""

import gc
import os
import subprocess
import sys
import tempfile

import trio

from agentwire import Agent
from agentwire.commands import Prompt
from agentwire.events import CallRef, Usage
from agentwire.opening import open_session
from agentwire.provider.contract import Completion, Emit, ModelRequest
from agentwire.server.runner import SessionRunner
from agentwire.server.runtime import make_runner
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.store import SessionStore
from agentwire_aionrs import codec

AT_ONCE = 64
"""Turns that are under way at the same time while sessions are being opened."""


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


def opened(store: SessionStore, workspace: str) -> Session:
    """A new session without a journal."""
    settings = SessionSettings(workspace=workspace, model="test-model")
    return open_session(store, settings, codec.policy, Asking(), ephemeral=True)


def asked(session: Session, agent: Agent, nursery: trio.Nursery) -> SessionRunner:
    """The session at work on a prompt."""
    runner = make_runner(session, agent, nursery)
    runner.prompt(Prompt("Run the tests", "m1"), lambda outcome: None)
    return runner


async def all_asked(runners: list[SessionRunner]) -> None:
    """Wait until every session waits for its host's answer."""
    for runner in runners:
        while not runner.session.approvals.open:
            if runner.session.active is None:
                raise AssertionError("a turn ended before its call was asked about")
            await trio.sleep(0.001)


async def grow(state: str, first: int, second: int) -> float:
    """Bytes per session."""
    agent = Agent()
    sessions: list[Session] = []
    runners: list[SessionRunner] = []
    found: list[int] = []
    with tempfile.TemporaryDirectory() as workspace:
        store = SessionStore(workspace)
        async with trio.open_nursery() as nursery:
            for count in (first, second):
                while len(sessions) < count:
                    sessions.append(opened(store, workspace))
                    if state == "asked":
                        runners.append(asked(sessions[-1], agent, nursery))
                    if len(sessions) % AT_ONCE == 0:
                        await all_asked(runners[-AT_ONCE:])
                await all_asked(runners)
                found.append(resident())
            nursery.cancel_scope.cancel()
    return (found[1] - found[0]) / (second - first)


if __name__ == "__main__":
    print(trio.run(grow, sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
