"""Every failure case of framing, turns and sessions is played on every wire, or it is said why it has no meaning."""

from __future__ import annotations

import test_cases_framing_every_wire
import test_cases_sessions_every_wire
import test_cases_turns_every_wire
from case_table import ELSEWHERE, PLAYED, REASONS, elsewhere
from support.cases import CASES

from agentwire import registry

MODULES = (test_cases_framing_every_wire, test_cases_sessions_every_wire, test_cases_turns_every_wire)
"""Being imported, they enter what they play."""

AREAS = {"b-stdio-framing", "c-turn-control", "d-sessions"}
PAIRS = {
    (case, wire)
    for case, content in CASES.items()
    if content["area"] in AREAS
    for wire in registry.names(registry.CODECS)
}


def test_every_pair_of_case_and_wire_is_played_or_has_its_reason() -> None:
    assert all(module.__doc__ for module in MODULES)
    found = PLAYED | REASONS.keys() | {pair for pair in PAIRS if elsewhere(*pair)}
    assert sorted(PAIRS - found) == []
    assert sorted(found - PAIRS) == [], "no such case, or no such wire"


def test_what_is_played_is_not_excused() -> None:
    """The module of pagent's two dialects is one, so that what it plays may be about the other."""
    own = {(case, wire) for case, wire in REASONS if not wire.startswith("pagent") and elsewhere(case, wire)}
    assert sorted(own | (PLAYED & REASONS.keys())) == []
    assert all(wire in ELSEWHERE or any(pair[1] == wire for pair in PLAYED) for _, wire in PAIRS)
