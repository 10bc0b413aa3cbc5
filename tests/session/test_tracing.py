"""Spans of a turn, from a real SDK's exporter; and nothing at all where there is no SDK."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys, trio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import agentwire

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)


async def main():
    options = {"provider": "script", "model": "m", "provider_options": {"script": sys.argv[1]}, "auto_approve": True}
    async with agentwire.open_session(**options) as session:
        async for event in session.prompt("go"):
            if type(event).__name__ == "CallFinished":
                print(json.dumps({"output": event.output}))
    for span in exporter.get_finished_spans():
        print(json.dumps({
            "name": span.name, "id": span.context.span_id, "parent": span.parent.span_id if span.parent else None,
            "attributes": dict(span.attributes), "ok": span.status.is_ok or span.status.is_unset,
        }))


trio.run(main)
"""

PLAY = (
    '{"text": "Looking.", "tool_calls": [{"name": "ExecCommand", "arguments": {"cmd": "echo $TRACEPARENT"}}], '
    '"usage": {"input_tokens": 7, "output_tokens": 3}}\n{"text": "Done."}\n'
)


def test_a_turn_is_a_tree_of_spans(tmp_path):
    pytest.importorskip("opentelemetry.sdk")
    (tmp_path / "play.jsonl").write_text(PLAY)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "play.jsonl")], capture_output=True, text=True, cwd=tmp_path,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    called, spans = lines[0], {span["name"]: span for span in lines[1:]}
    assert set(spans) == {"invoke_agent", "step 0", "step 1", "chat m", "execute_tool ExecCommand"}
    by_id = {span["id"]: span["name"] for span in lines[1:]}
    assert {(span["name"], by_id.get(span["parent"])) for span in lines[1:]} == {
        ("invoke_agent", None),
        ("step 0", "invoke_agent"),
        ("step 1", "invoke_agent"),
        ("chat m", "step 0"),
        ("chat m", "step 1"),
        ("execute_tool ExecCommand", "step 0"),
    }
    assert all(span["ok"] for span in lines[1:])
    chats = [span["attributes"] for span in lines[1:] if span["name"] == "chat m"]
    assert chats[0]["gen_ai.usage.input_tokens"] == 7
    assert chats[0]["gen_ai.response.finish_reasons"] == ["tool_calls"]
    # The command ran inside the call's span.
    tool = spans["execute_tool ExecCommand"]
    assert called["output"].split("-")[2] == f"{tool['id']:016x}"
    assert not any("Looking" in json.dumps(span["attributes"]) for span in lines[1:])


def test_nothing_is_imported_where_no_sdk_is_at_work(tmp_path):
    (tmp_path / "play.jsonl").write_text(PLAY)
    program = PROGRAM.split("async def main")[1].split("    for span")[0]
    program = f"import json, sys, trio, agentwire\nasync def main{program}\ntrio.run(main)\n"
    program += "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "play.jsonl")], capture_output=True, text=True, cwd=tmp_path,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
