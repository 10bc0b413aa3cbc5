"""Reasoning that a model writes into its answer: ``<think>...</think>`` at the start of the text.

Servers that do not know a model's template (llama.cpp, Ollama, older gateways) pass the tags on as text. Only tags
before the first visible character count: an answer may well talk about ``<think>``, and hiding it would be worse
than showing one tag too many.
"""

from __future__ import annotations

OPEN = "<think>"
CLOSE = "</think>"


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``tag``."""
    for size in range(min(len(text), len(tag) - 1), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0


class ThinkSplitter:
    """Tells reasoning and answer apart while they stream; a tag may be cut anywhere."""

    __slots__ = ("_held", "_inside", "open")

    def __init__(self) -> None:
        self.open = True
        """False: everything that follows is answer and need not be fed."""
        self._inside = False
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Take a piece of text; gives the reasoning and then the answer that it completes, either may be empty."""
        reasoning = ""
        text = self._held + text
        self._held = ""
        while self.open:
            if self._inside:
                inner, found, rest = text.partition(CLOSE)
                if not found:
                    keep = len(inner) - _overlap(inner, CLOSE)
                    self._held = inner[keep:]
                    return reasoning + inner[:keep], ""
                reasoning += inner
                self._inside, text = False, rest
            start = text.lstrip()
            if start.startswith(OPEN):
                self._inside, text = True, start[len(OPEN) :]
            elif OPEN.startswith(start):
                self._held = text
                return reasoning, ""
            else:
                self.open = False
        return reasoning, text

    def close(self) -> tuple[str, str]:
        """The text ended: what was held back, as reasoning and answer."""
        held, self._held, self.open = self._held, "", False
        return (held, "") if self._inside else ("", held)
