"""What the codec says of itself: policy, schemas, limits, decisions; and that saying it costs nothing at start."""

from __future__ import annotations

import subprocess
import sys

from jsonschema import Draft202012Validator

from agentwire.codec import AgentSide, HostSide, Policy
from agentwire.registry import load_codec
from agentwire_levpro import codec, wire
from agentwire_levpro.decisions import DECISIONS


def test_it_is_registered() -> None:
    assert load_codec("levpro") is codec


def test_the_limits_and_the_sides() -> None:
    assert codec.max_line == 1024 * 1024
    assert (codec.greets, codec.sessions, codec.outlives_output) == (False, "many", "ERROR_STACKTRACE")
    agent: AgentSide = codec.agent()
    host: HostSide = codec.host()
    assert agent is not codec.agent()
    assert host is not codec.host()


def test_the_policy() -> None:
    assert codec.policy == Policy(
        name="levpro", calls="sequential", can_ask=False, free=frozenset({"info"}), always_covers="none",
        empty_answer="end", step_limit="abort", when_busy="queue", on_eof="cancel", damaged_journal="reset",
        bad_calls=2,
    )  # fmt: skip


def test_the_schemas() -> None:
    """One for each direction; every event, every error code and every method has its entry."""
    assert codec.schemas is not None
    schemas = codec.schemas()
    assert list(schemas) == ["levpro.events.json", "levpro.commands.json"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    events, commands = schemas.values()
    assert len(events["oneOf"]) == 9 + 2
    assert {entry["properties"]["method"]["const"] for entry in commands["oneOf"]} == set(wire.PARAMS)


def test_every_open_point_is_decided_once() -> None:
    assert [decision.number for decision in DECISIONS] == list(range(1, 32))
    assert [decision.number for decision in DECISIONS if decision.risky] == [7, 9, 18, 20, 25]
    assert all(decision.point and decision.choice for decision in DECISIONS)


def test_serving_imports_only_its_own_half() -> None:
    """Neither the host side nor the fidelity table is needed to serve, nor YAML."""
    program = (
        "import sys; from agentwire_levpro import codec; codec.agent(); "
        "print(sorted(name for name in sys.modules if name.startswith('agentwire_levpro.')), 'yaml' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    half = (
        "agent_side", "answers", "calls", "decisions", "envelope", "facts", "inflight", "policy", "rendering",
        "requests", "wire",
    )  # fmt: skip
    assert out.stdout.strip() == f"{[f'agentwire_levpro.{name}' for name in half]} False"
