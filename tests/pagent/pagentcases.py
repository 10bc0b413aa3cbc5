"""The failure cases in this wire's lines: what their input is, and short ways to play them."""

from __future__ import annotations

import json

import pytest
from pagentserved import PagentProcess, text
from support.model_service import ModelService
from support.replies import JsonObject

both = pytest.mark.parametrize("codec", ["pagent", "pagent-v4"])
classic = pytest.mark.parametrize("codec", ["pagent"])
v4 = pytest.mark.parametrize("codec", ["pagent-v4"])
COMMANDS = b'{"cmd": "commands"}'


def translated(line: str) -> str:
    """A case's line for this wire; what is no JSON object stays as it is. Escapes stay escapes."""
    try:
        given = json.loads(line)
    except ValueError:
        return line
    return json.dumps(_command(given)) if isinstance(given, dict) else line


def _command(given: JsonObject) -> JsonObject:
    kind = given.get("type")
    call = {"tool_call_id": given.get("call_id")}
    return {
        "message": {"cmd": "user", "text": given.get("content")},
        "ping": {"cmd": "commands"},
        "stop": {"cmd": "cancel"},
        "tool_approve": {"cmd": "permit", **call},
        "tool_deny": {"cmd": "deny", **call, "reason": given.get("reason")},
    }.get(str(kind), {"cmd": kind})


def commands(step: JsonObject) -> list[JsonObject]:
    """What a step of a dialog sends."""
    given = step.get("send_together") or [step["send"]]
    return [_command(command) for command in given]


async def say(agent: PagentProcess, words: str = "go") -> list[JsonObject]:
    """An input and everything up to the end of its run."""
    await agent.user(words)
    return await agent.run()


async def still_there(agent: PagentProcess, model: ModelService, codec: str) -> None:
    """Prove that all earlier lines were read and none was answered: the next thing said is in answer to this."""
    if codec == "pagent-v4":
        return await agent.fence()
    model.script("still there")
    await agent.user("are you")
    await agent.expect("RunBegin", user_input="are you")
    assert text(await agent.run()) == "still there"
