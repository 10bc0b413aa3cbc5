"""What the codec says of itself: policy, schemas, limits; and that saying it costs nothing at start."""

from __future__ import annotations

import subprocess
import sys

from jsonschema import Draft202012Validator

from agentwire.codec.contract import AgentSide, HostSide
from agentwire.policy import Policy
from agentwire_aionrs import codec


def test_names_and_limits() -> None:
    assert codec.name == "aionrs"
    assert codec.max_line == 8 * 1024 * 1024
    agent: AgentSide = codec.agent()
    host: HostSide = codec.host()
    assert agent is not codec.agent()
    assert host is not codec.host()


def test_the_policy() -> None:
    assert codec.policy == Policy(
        name="aionrs", calls="parallel", can_ask=True, free=frozenset(), always_covers="category",
        empty_answer="retry_then_error", step_limit="error", when_busy="refuse", on_eof="run_on",
        failing_calls="guard",
    )  # fmt: skip


def test_the_schemas() -> None:
    """One for each direction; every event and command of sections 1 and 2 has its entry."""
    assert codec.schemas is not None
    schemas = codec.schemas()
    assert list(schemas) == ["aionrs.events.json", "aionrs.commands.json"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    events, commands = (set(schema["discriminator"]["mapping"]) for schema in schemas.values())
    assert events == {
        "ready", "stream_start", "text_delta", "thinking", "tool_request", "tool_running", "tool_result",
        "tool_cancelled", "stream_end", "error", "info", "config_changed", "mcp_ready", "pong",
    }  # fmt: skip
    assert commands == {
        "message", "stop", "tool_approve", "tool_deny", "init_history", "set_mode", "set_config", "add_mcp_server",
        "ping",
    }  # fmt: skip


def test_serving_imports_only_its_own_half() -> None:
    """Neither the host side nor the fidelity table is needed to serve."""
    program = (
        "import sys; from agentwire_aionrs import codec; codec.agent(); "
        "print(sorted(name for name in sys.modules if name.startswith('agentwire_aionrs.')))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = [f"agentwire_aionrs.{name}" for name in ("agent_side", "policy", "rendering", "requests", "texts", "wire")]
    assert out.stdout.strip() == str(names)
