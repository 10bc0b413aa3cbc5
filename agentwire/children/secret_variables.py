"""Which environment variables no program gets that a model runs: those that pay for model services.

Apart from what runs programs, because the names are learned while a provider is loaded, and that waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

SECRET_VARIABLES = frozenset({
    # the plain fallback, and what the built-in providers read
    "API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY",
    # cloud credentials that Bedrock, Vertex AI and Azure providers read
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK",
    "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN",
    # services that speak the same protocols
    "AI21_API_KEY", "CEREBRAS_API_KEY", "CO_API_KEY", "COHERE_API_KEY", "DASHSCOPE_API_KEY", "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "KIMI_API_KEY", "MINIMAX_API_KEY",
    "MISTRAL_API_KEY", "MOONSHOT_API_KEY", "NEBIUS_API_KEY", "NVIDIA_API_KEY", "OLLAMA_API_KEY",
    "OPENROUTER_API_KEY", "PERPLEXITY_API_KEY", "QWEN_API_KEY", "REPLICATE_API_TOKEN", "SAMBANOVA_API_KEY",
    "SILICONFLOW_API_KEY", "TOGETHER_API_KEY", "VOYAGE_API_KEY", "XAI_API_KEY", "ZAI_API_KEY", "ZHIPUAI_API_KEY",
})  # fmt: skip
"""Those that are secret whichever provider is in use. Providers declare further ones (``ProviderPlugin.secrets``).

The cloud credentials are among them although other programs use them too: whoever wants those in commands passes
their names as ``keep``.
"""

_declared: set[str] = set()


def hide(names: Iterable[str]) -> None:
    """From now on, these are secret too: a provider that was loaded says that they hold its keys."""
    _declared.update(name.upper() for name in names)


def hidden() -> frozenset[str]:
    """Every name that is secret, in capitals: :data:`SECRET_VARIABLES` and what providers have declared."""
    return SECRET_VARIABLES | _declared
