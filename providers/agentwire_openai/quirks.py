"""Which of OpenAI's two interfaces a service is spoken to through, and what services do differently."""

from __future__ import annotations

from typing import Literal

from agentwire.provider import HttpQuirks

EFFORT_LEVELS = ("low", "medium", "high")


class OpenAIQuirks(HttpQuirks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the ``openai`` provider."""

    api: Literal["chat", "responses"] = "chat"
    """Chat Completions, which everybody speaks, or Responses. What one of the two has no use for is ignored there."""
    auth_header: str = "authorization"
    max_tokens_field: str = ""
    """``max_tokens`` or ``max_completion_tokens``; empty: the latter for OpenAI's own service only."""
    stream_usage: bool = True
    """Ask for usage (``stream_options``)."""
    effort_levels: tuple[str, ...] = EFFORT_LEVELS
    thinking_tags: bool = True
    """``<think>...</think>`` at the start of the text is reasoning."""
    reasoning_field: str = "auto"
    """Name under which reasoning goes back with the calls that it led to. ``auto``: ``reasoning_content``, to the
    model that sent it so; empty: never."""
    merge_messages: bool = False
    """Join neighbouring user messages, for chat templates that insist on taking turns."""
    system_role: Literal["system", "developer"] = "system"
    make_call_ids: bool = False
    """Give calls without an id one, instead of letting them count as malformed."""
    encrypted_reasoning: bool | None = None
    """Responses: ask for reasoning that can be sent back although the service keeps nothing. None: unless the model's
    name says that it does not reason, as such models refuse a request that asks."""
    reasoning_summary: str = ""
    """Responses: ``auto``, ``concise`` or ``detailed``. Empty: ``auto`` where thinking is asked for, else none; not
    every account may have them."""
