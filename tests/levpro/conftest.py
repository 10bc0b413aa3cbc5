"""Fixtures of the tests that run a core."""

from __future__ import annotations

from pathlib import Path

import pytest
from levprocore import Launcher


@pytest.fixture
def launch(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)
