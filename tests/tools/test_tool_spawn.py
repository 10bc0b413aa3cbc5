"""The Spawn tool (aionrs protocol, section 4.7)."""

from __future__ import annotations

from typing import Any

import pytest

from agentwire.events import SubagentTask, Usage
from agentwire.tools.contract import SubagentReport

GOOD = {"name": "n", "prompt": "p"}


@pytest.mark.parametrize(
    ("arguments", "failure"),
    [
        ({}, "Missing or invalid 'tasks' array"),
        ({"tasks": "x"}, "Missing or invalid 'tasks' array"),
        ({"tasks": {"name": "n"}}, "Missing or invalid 'tasks' array"),
        ({"tasks": []}, "No tasks provided"),
        ({"tasks": [{"prompt": "p"}]}, "Each task must have a 'name' string"),
        ({"tasks": ["x"]}, "Each task must have a 'name' string"),
        ({"tasks": [GOOD, {"name": "n", "prompt": 3}]}, "Each task must have a 'prompt' string"),
        ({"tasks": [GOOD] * 6}, "Too many sub-agents: 6 (max 5)"),
        ({"tasks": [GOOD] * 6 + [{}]}, "Each task must have a 'name' string"),
        ({"tasks": [GOOD]}, "Sub-agents are not available in this session"),
    ],
)
async def test_failures(bench: Any, arguments: dict[str, Any], failure: str) -> None:
    assert await bench.fails("Spawn", **arguments) == failure


@pytest.mark.parametrize(("second", "is_error"), [(True, False), (False, True)])
async def test_reports(bench: Any, second: bool, is_error: bool) -> None:
    asked: list[SubagentTask] = []

    async def spawn(tasks: list[SubagentTask]) -> list[SubagentReport]:
        asked.extend(tasks)
        return [
            SubagentReport("left", False, "it broke", 3, Usage()),
            SubagentReport("right", second, "fine\nindeed", 1, Usage(input_tokens=10, output_tokens=5)),
        ]

    bench.spawn = spawn
    result = await bench("Spawn", tasks=[{"name": "left", "prompt": "do l"}, {"name": "right", "prompt": "do r"}])
    assert asked == [SubagentTask("left", "do l"), SubagentTask("right", "do r")]
    assert result.is_error is is_error
    assert result.output == (
        "## left [ERROR]\nit broke\n[turns: 3 | tokens: ? in / ? out]\n\n---\n\n"
        f"## right [{'OK' if second else 'ERROR'}]\nfine\nindeed\n[turns: 1 | tokens: 10 in / 5 out]"
    )
