"""What the codecs say of themselves: policies, schemas, limits; and that saying it costs nothing at start."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from pagentlines import CODECS, rows, split, streams

from agentwire.codec import AgentSide, Codec, HostSide, Policy
from agentwire_pagent import codec, codec_v4, wire


@pytest.mark.parametrize("dialect", CODECS.values(), ids=CODECS)
def test_the_limits_and_the_sides(dialect: Codec) -> None:
    assert dialect.max_line == 8 * 1024 * 1024
    agent: AgentSide = dialect.agent()
    host: HostSide = dialect.host()
    assert agent is not dialect.agent()
    assert host is not dialect.host()


def test_the_names() -> None:
    assert (codec.name, codec_v4.name) == ("pagent", "pagent-v4") == tuple(wire.NAMES.values())


def test_the_policies() -> None:
    assert codec.policy == Policy(
        name="pagent", calls="sequential", can_ask=False, free=frozenset({"info"}), always_covers="tool",
        empty_answer="end", step_limit="end", when_busy="ignore", on_eof="cancel",
    )  # fmt: skip
    assert codec_v4.policy == replace(codec.policy, name="pagent-v4", can_ask=True, step_limit="one_more")


@pytest.mark.parametrize("dialect", CODECS.values(), ids=CODECS)
def test_the_schemas(dialect: Codec) -> None:
    """One for each direction; every method and every command has its entry."""
    assert dialect.schemas is not None
    schemas = dialect.schemas()
    assert list(schemas) == [f"{dialect.name}.events.json", f"{dialect.name}.commands.json"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    events, commands = schemas.values()
    methods = {entry["properties"]["method"]["const"] for entry in events["oneOf"]}
    assert methods == (set(wire.EVENTS["classic"]) if dialect is codec else {*wire.EVENTS["v4"], *wire.CONTROL})
    assert set(commands["discriminator"]["mapping"]) == {
        "user", "cancel", "permit", "deny", "reset", "resume", "history", "list_threads", "delete_thread",
        "thread_meta", "commands", "capabilities", "get_config",
    }  # fmt: skip


def test_what_the_peer_recorded_fits_the_schemas() -> None:
    kept = {"ThreadTitle", "ProviderState", "HistoryReplay"}  # not ours to write, or with more keys than ours has
    for dialect, stream in streams().values():
        assert dialect.schemas is not None
        validator = Draft202012Validator(dialect.schemas()[f"{dialect.name}.events.json"])
        for line in split(stream):
            message = json.loads(line)
            if message["method"] not in kept:
                validator.validate(message)


def test_the_probes_are_not_a_stream() -> None:
    assert "decode_probes" not in streams()
    assert {"note", "line"} <= set(rows("decode_probes.jsonl")[0])


@pytest.mark.parametrize("name", ["codec", "codec_v4"])
def test_serving_imports_only_its_own_half(name: str) -> None:
    """Neither the host side nor the fidelity table is needed to serve."""
    program = (
        f"import sys; from agentwire_pagent import {name} as codec; codec.agent(); "
        "print(sorted(name for name in sys.modules if name.startswith('agentwire_pagent.')))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    half = (
        "agent_side", "answers", "calls", "envelope", "facts", "policy", "rendering", "replay", "requests", "splices",
        "usage", "wire",
    )  # fmt: skip
    assert out.stdout.strip() == str([f"agentwire_pagent.{name}" for name in half])
