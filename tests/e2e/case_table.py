"""Which failure cases are played on which wire, where, and why some are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]

PLAYED: Final[set[tuple[str, str]]] = set()
"""Pairs of case and wire that :func:`on_wires` gave to a test."""

ELSEWHERE: Final = {
    "aionrs": "e2e/test_serve_cases_*.py",
    "pagent": "pagent/test_pagent_cases_*.py",
    "pagent-v4": "pagent/test_pagent_cases_*.py",
    "levpro": "levpro/test_levpro_served.py",
}
"""Modules that play cases on one wire. Those of pagent let one dialect stand for both where they read alike."""

NO_IDS: Final = "its lines carry no request ids"
NEVER_ASKS: Final = "the wire has no question: what is not allowed from the start is refused at once"
NO_FORK: Final = "the wire has no word for a copy of a session"
OWN_PROCESS: Final = "sessions belong to their process: `session/resume` loads nothing from disk, so there is no"

REASONS: Final = {
    ("S-b06", "aionrs"): NO_IDS,
    ("S-b06", "pagent"): NO_IDS,
    ("S-b06", "pagent-v4"): NO_IDS,
    ("S-b06", "jan-stream"): NO_IDS,
    ("S-c01", "pagent"): NEVER_ASKS,
    ("S-c02", "pagent"): NEVER_ASKS,
    ("S-c03", "pagent"): NEVER_ASKS,
    ("S-c01", "levpro"): NEVER_ASKS,
    ("S-c02", "levpro"): NEVER_ASKS,
    ("S-c03", "levpro"): NEVER_ASKS,
    ("S-d01", "jan"): f"{OWN_PROCESS} life after a crash",
    ("S-d02", "jan"): f"{OWN_PROCESS} reading of a torn journal",
    ("S-d03", "jan"): f"{OWN_PROCESS} second owner, and ids are the server's to make",
    ("S-d04", "levpro"): NO_FORK,
}
"""Why a case has no meaning on a wire."""


def on_wires(case: str, *wires: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Give a test the wires, as ``wire``, that it plays the case on; may be given again for other cases.

    All cases of one test are played on the same wires.
    """

    def mark(test: Callable[..., object]) -> Callable[..., object]:
        PLAYED.update((case, wire) for wire in wires)
        marks = getattr(test, "pytestmark", [])
        given = [found.args[1] for found in marks if found.name == "parametrize" and found.args[0] == "wire"]
        if not given:
            return pytest.mark.parametrize("wire", wires)(test)
        assert given == [wires], f"{case} is played on other wires than the rest of this test"
        return test

    return mark


def elsewhere(case: str, wire: str) -> bool:
    """Whether a module of that wire alone plays the case."""
    if wire not in ELSEWHERE:
        return False
    wanted = re.compile(rf'^@case\("{case}"\)$', re.MULTILINE)
    return any(wanted.search(path.read_text("utf-8")) for path in TESTS.glob(ELSEWHERE[wire]))
