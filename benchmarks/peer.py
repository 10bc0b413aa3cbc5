"""Models for pagent's agent loop that cost next to nothing, in place of its LLM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any

LINES_BEFORE, LINES_AFTER = 2, 3
"""Lines that ``arun_wire`` gives around the deltas: the beginnings of run and turn; the ends of step, turn and run."""


class ReadyModel:
    """Has every chunk ready, in the shape of the SDK's."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.chunks = [
            SimpleNamespace(
                choices=[SimpleNamespace(delta=SimpleNamespace(content=text, reasoning_content=None, tool_calls=None))],
                usage=None,
            )
            for text in texts
        ]

    async def invoke_stream(self, messages: Any, tools: Any = None) -> AsyncIterator[Any]:
        """All chunks, as fast as they are taken."""
        for chunk in self.chunks:
            yield chunk


class PacedModel(ReadyModel):
    """Pauses before every chunk, in seconds, and calls ``saying`` when it goes on."""

    def __init__(self, texts: Sequence[str], pause: float, saying: Callable[[], None]) -> None:
        super().__init__(texts)
        self._pause = pause
        self._saying = saying

    async def invoke_stream(self, messages: Any, tools: Any = None) -> AsyncIterator[Any]:
        """All chunks, one a pause."""
        for chunk in self.chunks:
            await asyncio.sleep(self._pause)
            self._saying()
            yield chunk
