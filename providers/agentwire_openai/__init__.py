"""OpenAI Chat Completions, and every service that speaks it: DeepSeek, Ollama, llama.cpp, vLLM, OpenRouter, ...

With the option ``api = "responses"`` it is OpenAI's other interface, Responses, used so that the service keeps nothing.

``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` are read from the environment; a service other than OpenAI's needs no key.
What services do differently is set by options, see :class:`agentwire_openai.quirks.OpenAIQuirks`.
"""

from __future__ import annotations

from agentwire.provider import Provider, ProviderPlugin, ProviderSettings

DEFAULT_MODEL = "gpt-4o"


def _create(settings: ProviderSettings) -> Provider:
    from agentwire_openai.service import OpenAI

    return OpenAI(settings)


provider = ProviderPlugin(
    name="openai",
    create=_create,
    summary="OpenAI Chat Completions or Responses, and compatible services",
    default_model=DEFAULT_MODEL,
    secrets=("OPENAI_API_KEY",),
)
