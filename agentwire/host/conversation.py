"""What every conversation with an agent offers, be it in this process or another."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from agentwire.events import AnyEvent, ApprovalRequested, Part, TurnFinished

OnApproval = Callable[[ApprovalRequested], "bool | Awaitable[bool]"]
"""Answers the agent's questions: True lets the call run."""


async def decide(question: ApprovalRequested, on_approval: OnApproval) -> bool:
    """Ask a plain or an async function."""
    answer = on_approval(question)
    return bool(await answer if inspect.isawaitable(answer) else answer)


class Conversation(ABC):
    """One session with an agent, as its host drives it."""

    @abstractmethod
    def prompt(
        self, text: str, *, files: Sequence[str] = (), parts: Sequence[Part] = (), timeout: float = float("inf")
    ) -> AsyncGenerator[AnyEvent, None]:
        """Send a user input and yield the events of its turn, its end included."""

    async def ask(
        self, text: str, *, files: Sequence[str] = (), parts: Sequence[Part] = (), timeout: float = float("inf")
    ) -> str:
        """Send a user input and wait for the answer's text."""
        answer = ""
        async with aclosing(self.prompt(text, files=files, parts=parts, timeout=timeout)) as events:
            async for event in events:
                if isinstance(event, TurnFinished):
                    answer = event.text
        return answer
