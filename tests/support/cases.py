"""The failure cases of ``tests/cases.jsonl``: real bugs of others, as data (its input kinds are explained there).

Inputs come from the file. What a case expects is taken from it where it is a list of events, and written in the
test where it is prose.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from .agent_process import AgentProcess
from .patterns import matches
from .replies import Gate, JsonObject, Part, Reply, Text, ToolCall, raw

CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[1] / "cases.jsonl").read_text("ascii").splitlines())
}

_REPEAT = re.compile(r"\{\{repeat:(.):(\d+)\}\}")


def case(case_id: str) -> pytest.MarkDecorator:
    """Give a test the case of that id as ``case``, and its id as the test's."""
    return pytest.mark.parametrize("case", [pytest.param(CASES[case_id], id=case_id)])


def lines(given: list[str], size: int = 0) -> bytes:
    """Input lines as a host writes them, placeholders filled in."""
    text = "".join(line.replace("SIZE", str(size)) + "\n" for line in given)
    return _REPEAT.sub(lambda found: found[1] * int(found[2]), text).encode()


def stdin(case: JsonObject) -> bytes:
    """The bytes of a case of kind ``stdin_bytes``."""
    given = case["input"]
    return base64.b64decode(given["bytes"]) if given["encoding"] == "base64" else str(given["bytes"]).encode()


def replies(script: list[JsonObject], gate: Gate | None = None) -> list[Reply]:
    """A ``provider_script`` as replies. Where it says "slow", the stream waits at ``gate`` after its first piece."""
    return [_reply(entry, gate or Gate()) for entry in script]


def _reply(entry: JsonObject, gate: Gate) -> Reply:
    parts: list[Part] = []
    if "sse_data" in entry:
        return raw(*(f"data: {data}\n\n".encode() for data in [*entry["sse_data"], "[DONE]"]))
    if entry.get("hang_before_first_chunk"):
        parts.append(Gate())
    if "text_slow" in entry:
        first, *others = entry["text_slow"]
        parts += [Text(first), gate, *map(Text, others)]
    if "text" in entry:
        parts.append(Text(entry["text"]))
    parts += [ToolCall(call["id"], call["name"], call["arguments"]) for call in entry.get("tool_calls", [])]
    return Reply(*parts)


async def play(agent: AgentProcess, steps: list[JsonObject], gate: Gate | None = None) -> list[JsonObject]:
    """Do the steps of a case of kind ``dialog``; the events that came meanwhile.

    What waits at ``gate`` goes on when the dialog has come to the end of a turn, or to its own end.
    """
    seen: list[JsonObject] = []
    for step in steps:
        if "send" in step:
            await agent.send(step["send"])
        elif "send_together" in step:
            await agent.send(*step["send_together"])
        elif "close_stdin" in step:
            await agent.close_stdin()
        elif "await" in step:
            if gate and step["await"].get("type") == "stream_end":
                gate.open()
            while not seen or not matches(seen[-1], step["await"]):
                seen.append(await agent.next_event())
        else:
            raise AssertionError(f"a step of a kind that is not played here: {step}")
    if gate:
        gate.open()
    return seen


async def expect_each(agent: AgentProcess, patterns: list[Any]) -> list[JsonObject]:
    """The next events must match the patterns, one each."""
    events = []
    for pattern in patterns:
        events.append(await agent.next_event())
        assert matches(events[-1], pattern), f"got {events[-1]}\nwanted {pattern}\n{agent.story()}"
    return events
