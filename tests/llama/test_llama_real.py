"""The real `llama-server`, if there is one on PATH and `AGENTWIRE_TEST_GGUF` names a model."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from llama_world import ask
from support.agent_process import alive

from agentwire.provider import ProviderError, ProviderSettings
from agentwire_llama.service import Llama

MODEL = os.environ.get("AGENTWIRE_TEST_GGUF", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (MODEL and shutil.which("llama-server")), reason="no llama-server, or no model named"),
]


def real(tmp_path: Path, **options: object) -> Llama:
    given = {"log_file": str(tmp_path / "server.log"), "context_size": 1024, "max_tokens": 16, **options}
    return Llama(ProviderSettings(model=MODEL, environ=os.environ, options=given))


async def test_a_reply(tmp_path: Path) -> None:
    provider = real(tmp_path)
    assert all(check.ok for check in provider.checks())
    try:
        completion, text = await ask(provider, "Say hello.")
        assert completion.text == text != ""
        assert provider._supervisor is not None
        server = provider._supervisor.server
        assert server is not None
    finally:
        await provider.aclose()
    assert not alive(server.child.process.pid)


async def test_what_it_says_when_it_cannot_start(tmp_path: Path) -> None:
    provider = real(tmp_path, extra_args=["--no-such-argument"], restart_limit=0)
    with pytest.raises(ProviderError, match="no-such-argument"):
        await ask(provider)
    await provider.aclose()
