"""Replies of a model on this machine: read through another provider, by a server that is not there again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import trio
from replaying import asides, kept, verified

from agentwire import connect
from agentwire.events import TurnFinished

pytestmark = pytest.mark.slow


async def test_a_server_of_our_own_is_not_started_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "llama"))
    from llama_world import World

    world = World(tmp_path / "llama")
    world.behave({"die_after": 0}, {})
    options = [f"--provider-option={name}={json.dumps(value)}" for name, value in world.options.items()]
    argv = [
        sys.executable, "-m", "agentwire", "serve", "--codec", "aionrs", "--provider", "llama", "--ephemeral",
        "--workspace", str(tmp_path), "--record", str(tmp_path / "r"), *options,
    ]  # fmt: skip
    with trio.fail_after(60):
        async with connect(argv, codec="aionrs", env={**os.environ, "PATH": world.environ["PATH"]}) as peer:
            events = [event async for event in peer.prompt("hi")]
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].text == "Hello there"
    starts = len(world.starts)
    died, answered = asides(tmp_path / "r", "model")
    assert died["error"]["message"].startswith("llama-server was ended by signal 9")
    assert kept(died)["broke"]["kind"]
    assert (answered["provider"], kept(answered)["reader"]["provider"]) == ("llama", "openai")
    await verified(tmp_path / "r")
    assert len(world.starts) == starts
    assert world.left() == []
