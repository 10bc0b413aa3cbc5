"""What the codec ``jan-stream`` says of itself; and that saying it costs nothing at start."""

from __future__ import annotations

import json
import subprocess
import sys

from jsonschema import Draft202012Validator
from msgspec.structs import replace
from strategies import complete_log
from test_stream_agent import STATE, opened
from test_stream_laws import INPUTS, render, split

from agentwire.registry import load_codec
from agentwire_jan import codec as rpc
from agentwire_jan.stream import codec_stream as codec
from agentwire_jan.stream_agent import JanStreamAgent
from agentwire_jan.stream_schema import document


def test_the_codec() -> None:
    assert load_codec("jan-stream") is codec
    assert (codec.name, codec.sessions, codec.feeds, codec.greets) == ("jan-stream", "many", "session", True)
    assert codec.max_line == 16 * 1024 * 1024 - 1
    assert codec.agent() is not codec.agent()
    assert codec.host() is not codec.host()


def test_the_policy() -> None:
    assert codec.policy == replace(rpc.policy, name="jan-stream", step_limit="abort", on_eof="run_on")


def test_the_schemas() -> None:
    """One for each direction, and both in one document; what is written and read fits them."""
    assert codec.schemas is not None
    events, commands = (Draft202012Validator(schema) for schema in codec.schemas().values())
    whole = document()
    definitions = {"$defs": whole["$defs"]}
    output = Draft202012Validator({"$ref": "#/$defs/OutputRecord", **definitions})
    given = Draft202012Validator({"$ref": "#/$defs/InputLine", **definitions})
    for validator in (events, commands, output, given):
        validator.check_schema(validator.schema)
    lines = [*opened(JanStreamAgent("go"), STATE), *map(json.loads, split(render(complete_log())[0]))]
    assert len({line["type"] for line in lines}) > 20
    for line in lines:
        events.validate(line)
        output.validate(line)
    for text in INPUTS:
        commands.validate(json.loads(text))
        given.validate(json.loads(text))
    assert not events.is_valid({"type": "nothing"})
    assert not commands.is_valid({"type": "nothing"})


def test_serving_imports_only_its_own_half() -> None:
    """Neither the host side nor the fidelity table is needed to serve, nor the configuration's library."""
    program = (
        "import sys; from agentwire_jan.stream import codec_stream as codec; codec.agent(); "
        "print(*sorted(name for name in sys.modules if name.startswith(('agentwire_jan.', 'tomlkit', 'trio'))))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split())
    assert "agentwire_jan.stream_agent" in loaded
    for name in ("stream_host", "stream_fidelity", "fidelity", "host_side", "configuration", "command"):
        assert f"agentwire_jan.{name}" not in loaded
    assert not {name for name in loaded if not name.startswith("agentwire_jan.")}
