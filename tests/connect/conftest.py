"""The stand-ins, each in a workspace of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins import HELLO, StandIn


@pytest.fixture
def aionrs(tmp_path: Path) -> StandIn:
    """A real aionrs, that says hello."""
    stand_in = StandIn("real_aionrs.py", "aionrs", tmp_path)
    stand_in.play(HELLO)
    return stand_in


@pytest.fixture
def jan(tmp_path: Path) -> StandIn:
    """A real Jan, that says hello."""
    stand_in = StandIn("real_jan.py", "jan", tmp_path)
    stand_in.play(HELLO)
    return stand_in
