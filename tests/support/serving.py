"""Fixtures for tests that drive a server as a process: import them in a ``conftest``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from .launcher import Launcher
from .model_service import ModelService


@pytest.fixture
async def model(nursery: trio.Nursery) -> AsyncIterator[ModelService]:
    """The scripted model service; that a request was amiss fails the test."""
    service = ModelService()
    await nursery.start(service.serve)
    yield service
    assert service.faults == []


@pytest.fixture
async def launch(nursery: trio.Nursery, tmp_path: Path, model: ModelService) -> AsyncIterator[Launcher]:
    """Starts servers; at the end each must leave in good order (see :meth:`Launcher.close`)."""
    launcher = Launcher(nursery, tmp_path, model)
    try:
        yield launcher
        for agent in launcher.agents:
            await launcher.close(agent)
    finally:
        launcher.kill_all()
