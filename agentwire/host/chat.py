"""A person at a terminal as the host of an agent process."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

import trio

from agentwire.events import ApprovalRequested
from agentwire.host.connect import AgentDied, Peer
from agentwire.host.refused import Refused

if TYPE_CHECKING:
    from agentwire.host.screen import Screen

Ask = Callable[[str], str]
"""Puts a question to the person and gives the answer; raises ``EOFError`` if there is none to be had."""

YES, ALWAYS = {"y", "yes"}, {"a", "always"}
QUESTION = "run it? [y]es, [a]lways, or [n]o with a reason: "


class Chat:
    """A conversation typed by a person. ``yes`` approves whatever is asked."""

    def __init__(self, peer: Peer, screen: Screen, ask: Ask, *, yes: bool = False) -> None:
        self._peer = peer
        self._screen = screen
        self._ask = ask
        self._yes = yes
        self._answering = False
        self._turn = ""
        """Tells one turn from the next."""

    async def run(self) -> None:
        """Talk until the person has no more to say. Raises :class:`AgentDied`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._heed_interrupts, nursery.cancel_scope)
            while (text := await self._typed("\n> ")) is not None:
                if text.strip():
                    await self.turn(text)
            nursery.cancel_scope.cancel()

    async def turn(self, text: str) -> str:
        """Show one turn and answer its questions; how it ended."""
        self._answering, self._turn = True, uuid.uuid4().hex
        outcome = ""
        try:
            async with aclosing(self._peer.prompt(text)) as events:
                async for event in events:
                    self._screen.event(event)
                    outcome = getattr(event, "outcome", outcome)
                    if isinstance(event, ApprovalRequested):
                        await self._decide(event)
        except Refused as refused:
            self._screen.note(f"the agent refuses: {refused}")
            return "failed"
        finally:
            self._answering = False
        return outcome

    async def _decide(self, question: ApprovalRequested) -> None:
        given = "y" if self._yes else await self._typed(QUESTION)
        answer = (given or "").strip()
        try:
            if answer.lower() in YES | ALWAYS:
                await self._peer.approve(question.call_id, "always" if answer.lower() in ALWAYS else "once")
            else:
                reason = answer.partition(" ")[2] if answer.lower().partition(" ")[0] in ("n", "no") else answer
                await self._peer.deny(question.call_id, reason)
        except Refused:  # the question was settled while the person thought
            return

    async def _typed(self, prompt: str) -> str | None:
        try:
            return await trio.to_thread.run_sync(self._ask, prompt, abandon_on_cancel=True)
        except EOFError:
            return None

    async def _heed_interrupts(self, scope: trio.CancelScope) -> None:
        """Ctrl-C stops the turn; a second one, or one while none runs, ends the chat."""
        stopped = ""
        with trio.open_signal_receiver(signal.SIGINT) as interrupts:
            async for _ in interrupts:
                if not self._answering or stopped == self._turn:
                    scope.cancel()
                    return
                stopped = self._turn
                self._screen.note("stopping the turn (Ctrl-C again to leave)")
                try:
                    await self._peer.stop()
                except (AgentDied, Refused) as error:
                    self._screen.note(str(error))
                    scope.cancel()
                    return
