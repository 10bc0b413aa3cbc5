"""A folder with a model, a stand-in for the server, and providers that use both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_world import World
from support.serving import launch, model

__all__ = ["launch", "model"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "llama")
    yield made
    assert made.left() == []
