"""An agent that is a process of another wire: every turn of ours is one of its own."""

from __future__ import annotations

import trio

from agentwire.agent.turn import Turn
from agentwire.bridge.following import Following
from agentwire.bridge.link import Link
from agentwire.commands import Done, Prompt, Refusal, Stop
from agentwire.tools.contract import Tool

STOP_SECONDS = 5.0
"""How long an agent may take to end a turn that it was told to stop."""

EVERYTHING = ("edit", "exec", "mcp")
"""What a host must have allowed for a prompt that says that every call may run."""


class RemoteAgent:
    """The agent of one session. ``silence``: seconds without a word that end a turn; 0: it may be silent for ever."""

    builtins = False
    tools: tuple[Tool, ...] = ()

    def __init__(self, link: Link, nursery: trio.Nursery, *, silence: float = 0) -> None:
        self.link = link
        self._nursery = nursery
        self._silence = silence or float("inf")
        self._prompts: dict[str, Prompt] = {}

    def expect(self, turn: str, prompt: Prompt) -> None:
        """A turn is about to begin with what the host said, by the turn's id."""
        self._prompts[turn] = prompt

    async def run(self, turn: Turn) -> None:
        """Have the agent answer, and tell what it tells."""
        prompt = self._prompts.pop(turn.id, None) or Prompt(parts=turn.input)
        link = self.link
        following = link.hearing = Following(turn, link, self._nursery)
        try:
            self._send(prompt, turn, following)
            await self._end_of(following)
        except trio.Cancelled:
            if not turn.cancelled:
                raise  # the whole bridge ends, and the agent with it
            with trio.CancelScope(shield=True), trio.move_on_after(min(STOP_SECONDS, self._silence)):
                link.post(Stop(link.id))
                await following.ended.wait()
            raise
        finally:
            following.close()
            link.hearing = None

    def _send(self, prompt: Prompt, turn: Turn, following: Following) -> None:
        approvals = turn.session.approvals
        freed = approvals.mode == "yolo" or turn.approved.issuperset(EVERYTHING)  # nothing less frees every path

        def answered(result: Done | Refusal) -> None:
            if isinstance(result, Refusal):
                following.failed(result)

        told = for_agent(prompt, self.link, approve=list(EVERYTHING) if freed else [], ref=turn.id)
        if told.approve:
            self.link.account.approved_ahead += 1
        self.link.post(told, answered)

    async def _end_of(self, following: Following) -> None:
        """Wait for the end of the turn, or for too long a silence."""
        while not following.ended.is_set():
            since = trio.current_time() if following.waits else following.last_heard
            deadline = since + self._silence
            if deadline <= trio.current_time():
                following.silent(self._silence)
                self.link.post(Stop(self.link.id))
                return
            with trio.move_on_at(deadline):
                await following.ended.wait()


def for_agent(prompt: Prompt, link: Link, *, approve: list[str], ref: str) -> Prompt:
    """A prompt as it goes to the agent: under a name of ours, to its session; when to take it was decided here."""
    return Prompt(
        prompt.text,
        ref,
        prompt.parts,
        prompt.files,
        link.id,
        prompt.agent,
        prompt.user,
        prompt.resume,
        approve if link.words.approves_ahead else [],
        open=link.opens,
    )
