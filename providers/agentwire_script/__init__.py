"""Replies from a file: a model service for demos, tests and benchmarks that needs no network.

The file is named by the option ``script`` or by the base URL (a path or a ``file:`` address). It holds JSON Lines,
one reply a line; blank lines and lines beginning with ``#`` are skipped. Every request takes the first reply that is
left and fits; when none is left the request fails with an error that says so. A reply is an object of:

``text``
    the answer; streamed word by word, so that a demo looks alive
``chunks``
    the answer as a list of pieces, streamed as they are (instead of ``text``)
``reasoning``
    what the model thinks before it answers; streamed word by word
``tool_calls``
    a list of ``{"id", "name", "arguments"}``; ``arguments`` is an object, or a string that is streamed as it is,
    JSON or not; an ``id`` that is missing is made
``steps``
    instead of all those: an ordered list of objects with one of ``text`` (one piece), ``reasoning`` (one piece),
    ``tool_call`` (as above) or ``delay_ms``
``delay_ms``
    milliseconds to wait before every piece
``usage``
    tokens: ``input_tokens``, ``output_tokens``, ``cache_read_tokens``, ``cache_write_tokens``, ``reasoning_tokens``
``finish_reason``
    why the reply ended; by default ``tool_calls`` if there are any, else ``stop``
``error``
    the request fails after what comes before: ``{"message", "kind", "status", "retryable", "retry_after_ms"}``, of
    which only the first is needed; the kinds are those of :class:`agentwire.provider.ProviderError`
``match``
    the reply fits only a request whose last message from the user or a tool contains this

Example::

    {"reasoning": "I should look.", "tool_calls": [{"name": "Read", "arguments": {"file_path": "a.txt"}}]}
    {"text": "It says hello.", "usage": {"input_tokens": 20, "output_tokens": 4}}

Other options: ``repeat`` (begin anew when the script is used up), ``effort_levels`` (those on offer; default low,
medium, high).
"""

from __future__ import annotations

from agentwire.provider import Provider, ProviderPlugin, ProviderSettings

DEFAULT_MODEL = "script"


def _create(settings: ProviderSettings) -> Provider:
    from agentwire_script.player import Script

    return Script(settings)


provider = ProviderPlugin(
    name="script",
    create=_create,
    summary="Replies from a file, without a network",
    default_model=DEFAULT_MODEL,
)
