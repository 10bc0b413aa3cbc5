"""Fixtures of the tests that serve the pagent wire to a host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from pagentserved import PagentLauncher
from support.model_service import ModelService
from support.serving import model

__all__ = ["model"]


@pytest.fixture
async def serve(nursery: trio.Nursery, tmp_path: Path, model: ModelService) -> AsyncIterator[PagentLauncher]:
    """Starts servers; at the end each must leave in good order."""
    launcher = PagentLauncher(nursery, tmp_path, model)
    try:
        yield launcher
        for agent in launcher.agents:
            await launcher.close(agent)
    finally:
        launcher.kill_all()
