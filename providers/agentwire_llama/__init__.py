"""A model on this machine: a ``llama-server`` (llama.cpp) that is started, watched and ended with us.

The server is started by the first request, or by :meth:`agentwire_llama.service.Llama.start`; its replies are read by
whatever is registered as provider ``openai``, for it speaks Chat Completions. Options are those of
:class:`agentwire_llama.options.LlamaOptions`; any other is given to that provider.
"""

from __future__ import annotations

from agentwire.provider import Provider, ProviderPlugin, ProviderSettings

NAME = "llama"


def _create(settings: ProviderSettings) -> Provider:
    from agentwire_llama.service import Llama

    return Llama(settings)


provider = ProviderPlugin(
    name=NAME,
    create=_create,
    summary="A GGUF model on this machine, through a llama-server of our own",
)
